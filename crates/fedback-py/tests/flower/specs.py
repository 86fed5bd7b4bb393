"""Specs small enough for a federation whose rounds cost seconds."""

from pathlib import Path

GAUSSIAN = """
format = 1
name = "flower-gaussian"
seed = 7
repetitions = 2
rounds = 2

[problem]
clients = 5
weights = [0.1, 0.15, 0.2, 0.25, 0.3]

[problem.base]
kind = "gaussian"
dim = 3
mean = { average = 2.0, variance = 0.5 }

[problem.response]
kind = "location"
sensitivity = { average = 0.4, variance = 0.02 }

[problem.loss]
kind = "mean"

[algorithm]
kind = "p-fedavg"
scheme = "with-replacement"
cohort = 3
local_steps = 2
batch = 2
step_size = { beta = 2.0, gamma = 10.0 }
"""

LONG = GAUSSIAN.replace("rounds = 2", "rounds = 3")
FULL = GAUSSIAN.replace('scheme = "with-replacement"\ncohort = 3', 'scheme = "full"')

TABLE = """bank,utilisation,lines,income,default
oak,0.31,4,5210.25,0
elm,0.92,7,2101.5,1
oak,0.11,2,8120.75,0
ash,0.53,5,3999.125,1
elm,0.74,6,2750.0625,1
oak,0.45,3,4411.5,0
ash,0.22,8,6050.25,0
elm,0.64,1,3120.75,1
"""

CREDIT = """
format = 1
name = "flower-table"
seed = 11
repetitions = 2
rounds = 2

[problem.base]
kind = "table"
path = "people.csv"
label = "default"
partition = { column = "bank" }
standardize = true
intercept = true

[problem.response]
kind = "best-response"
features = ["utilisation", "lines"]
sensitivity = { low = 0.2, high = 0.4 }

[problem.loss]
kind = "logistic"
l2 = 0.01

[algorithm]
kind = "p-fedavg"
scheme = "without-replacement"
cohort = 3
local_steps = 3
batch = 2
deploy = "round"
step_size = { constant = 0.05 }
clip = 50.0
"""

SITES = (
    CREDIT.replace(
        'kind = "table"\npath = "people.csv"\n',
        'kind = "sites"\nfeatures = ["utilisation", "lines", "income"]\n',
    )
    .replace('partition = { column = "bank" }\n', "")
    .replace("[problem.base]", "[problem]\nclients = 3\n\n[problem.base]")
)  # the same rows, where only their sites can read them

SPECS = {"gaussian": GAUSSIAN, "long": LONG, "full": FULL, "table": CREDIT, "sites": SITES}


def write(folder: Path, name: str) -> Path:
    """Writes a spec, and the table beside it, into a folder; its path."""
    path = folder / f"{name}.toml"
    path.write_text(SPECS[name])
    (folder / "people.csv").write_text(TABLE)
    header, *rows = TABLE.splitlines()
    for client, bank in enumerate(["ash", "elm", "oak"]):
        own = [row for row in rows if row.startswith(bank)]
        (folder / f"rows-{client}.csv").write_text("\n".join([header, *own]))
    return path
