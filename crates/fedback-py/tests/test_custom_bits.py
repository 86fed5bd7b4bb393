"""Runs with functions of one client come to the bits that they always came to."""

import hashlib

import numpy as np
import pytest

import fedback

MEAN, SENSITIVITY = np.array([[1.0, -2.0], [4.0, 0.5], [0.0, 3.0]]), [0.5, 0.9, -0.4]

EXPECTED = {
    "population-step-p-fedavg": "5b12aa30926973d1",
    "population-round-scaffold": "f25e9df2c4573bea",
    "loss-step-fedprox": "f316ce2ba18ca072",
    "loss-round-p-fedavg": "2e93ed789a9da579",
    "both-step-scaffold": "a0d2562ca116b88e",
    "both-round-fedprox": "9a8c729a97c5d389",
    "rows-step-p-fedavg": "9b405b17d11ca925",
    "rows-round-scaffold": "dd4d74fa61a716b9",
}


def draw(client, theta, n, rng):
    return MEAN[client] + SENSITIVITY[client] * theta + rng.standard_normal((n, 2))


def loss(theta, batch):
    away = theta - batch
    return float((away * away).sum()) / (2 * len(batch)), away.sum(axis=0) / len(batch)


def rowwise(theta, batch):
    rows, labels = batch
    away = rows[:, 0] * theta[0] + rows[:, 1] * theta[1] - labels
    gradient = [(away * rows[:, j]).sum() / len(labels) for j in range(2)]
    return float((away * away).sum()) / (2 * len(labels)), np.array(gradient)


BUILT_IN = {
    "base": fedback.gaussian(mean=MEAN.tolist(), dim=2),
    "response": fedback.location(sensitivity=SENSITIVITY),
}
FUNCTION = {"population": draw, "dim": 2, "clients": 3}
TABLE = {
    "base": fedback.table(
        {"a": np.arange(30) % 7 / 4, "b": np.arange(30) % 5 / 8, "y": np.arange(30) % 3 / 2},
        label="y", partition={"equal": 3},
    ),
    "response": fedback.best_response(features=["b"], sensitivity=[0.25, 0.5, 0.125]),
}  # fmt: skip
PARTS = {
    "population": {**FUNCTION, "loss": fedback.mean()},
    "loss": {**BUILT_IN, "loss": loss},
    "both": {**FUNCTION, "loss": loss},
    "rows": {**TABLE, "loss": rowwise},
}
KEYS = {"step_size": 0.125, "local_steps": 3, "batch": 2}
ALGORITHMS = {
    "p-fedavg": fedback.p_fedavg(scheme="full", **KEYS),
    "fedprox": fedback.fedprox(proximal=0.5, scheme="with-replacement", cohort=2, **KEYS),
    "scaffold": fedback.scaffold(scheme="without-replacement", cohort=2, **KEYS),
}


def digest(name):
    parts, deploy, algorithm = name.split("-", 2)
    problem = fedback.Problem(weights=[0.5, 0.25, 0.25], **PARTS[parts])
    spec = fedback.Spec(
        rounds=12, repetitions=3, seed=11, problem=problem, measure={"every": 6, "sample": 8},
        algorithm={**ALGORITHMS[algorithm], "deploy": deploy},
    )  # fmt: skip
    run = fedback.run(spec)
    return hashlib.sha256(run.final_theta.tobytes() + run["risk"].tobytes()).hexdigest()[:16]


@pytest.mark.parametrize("name", EXPECTED)
def test_the_same_bits(name):
    assert digest(name) == EXPECTED[name]
