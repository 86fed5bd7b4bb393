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

LONG = GAUSSIAN.replace("rounds = 2", "rounds = 4").replace("repetitions = 2", "repetitions = 3")
FULL = GAUSSIAN.replace('scheme = "with-replacement"\ncohort = 3', 'scheme = "full"')

SPECS = {"gaussian": GAUSSIAN, "long": LONG, "full": FULL}


def write(folder: Path, name: str) -> Path:
    """Writes a spec into a folder; its path."""
    path = folder / f"{name}.toml"
    path.write_text(SPECS[name])
    return path
