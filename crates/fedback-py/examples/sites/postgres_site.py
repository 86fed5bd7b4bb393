"""A site that keeps its observations in a PostgreSQL of its own.

`schema.sql` has two tables. `deployment` gets a row when a model is deployed: whatever serves the
model reads its newest. `outcome` gets a row when something is observed: whatever sees the world
writes them. A round's order comes with the model to deploy; the observations of that round are
those made since.

SITE_DATABASE is the database as libpq wants it, SITE_PATIENCE the seconds to wait until enough
has been observed (an hour where it is not set; the round's deadline has to be longer).

    flower-supernode … --node-config 'clients="1" observe="/srv/postgres_site.py:observe"'
"""

import os
import time

import numpy as np
import psycopg


def observe(theta, n, rng):
    """Deploys the model theta here, and returns n of the observations made under it."""
    patience = time.monotonic() + float(os.environ.get("SITE_PATIENCE", "3600"))
    with psycopg.connect(os.environ["SITE_DATABASE"]) as database:
        deploy(database, theta)
        while len(rows := collected(database)) < n:
            if time.monotonic() > patience:
                raise TimeoutError(f"{len(rows)} observations, {n} are needed")
            time.sleep(1)
    chosen = rows[rng.permutation(len(rows))[:n]]
    return chosen[:, :-1], chosen[:, -1]


def deploy(database, theta):
    """Makes theta the model that is served, unless it is already: a round may be asked twice."""
    newest = "select theta from deployment order by id desc limit 1"
    database.execute(
        f"insert into deployment (theta) select %(theta)s::float8[] "
        f"where %(theta)s::float8[] is distinct from ({newest})",
        {"theta": theta.tolist()},
    )
    database.commit()


def collected(database):
    """What has been observed since the model was last deployed."""
    rows = database.execute(
        "select utilisation, lines, defaulted::int from outcome "
        "where seen >= (select since from deployment order by id desc limit 1) order by id"
    )
    return np.array(rows.fetchall(), dtype=float).reshape(-1, 3)
