"""A site whose people are simulated on its own table.

The table is a CSV file with the columns utilisation, lines and default (0 or 1), named by the
environment variable SITE_TABLE. People see the model that is deployed and lower what it holds
against them: x <- x - 0.3 theta, whatever their row was.

    flower-supernode … --node-config 'clients="0" observe="/srv/table_site.py:observe"'
"""

import csv
import os

import numpy as np

SENSITIVITY = 0.3


def observe(theta, n, rng):
    """The model theta is deployed here: n fresh observations, features and labels."""
    with open(os.environ["SITE_TABLE"], newline="") as table:
        rows = np.array([[float(cell) for cell in row] for row in list(csv.reader(table))[1:]])
    chosen = rows[rng.integers(len(rows), size=n)]
    features, labels = chosen[:, :-1], chosen[:, -1]
    # The last coordinate of theta is the intercept, which no feature answers to.
    return features - SENSITIVITY * theta[: features.shape[1]], labels
