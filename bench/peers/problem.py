"""What the peers share: the problem as fedback wrote it, and the loop that answers jobs.

A peer defines `prepare(problem)`, which returns `run(seed, rounds, repetitions)`, which returns the
final theta of every repetition. `serve` prints one line when ready, then one line a job.

By hand: `workload gaussian --write FOLDER`, then
`echo '{"seed": 1, "rounds": 1000, "repetitions": 64}' | python with_numba.py FOLDER`.
"""

import functools
import json
import os
import sys
import time
from importlib import metadata
from pathlib import Path
from types import SimpleNamespace

import numpy as np


@functools.lru_cache
def load(folder):
    """The problem in a folder: numbers as attributes, lists and files as arrays."""
    folder = Path(folder)
    entries = json.loads((folder / "problem.json").read_text())
    entries |= entries.pop("sizes")
    for name in ("weights", "sensitivity", "pattern", "mean"):
        entries[name] = np.array(entries.get(name, []))
    problem = SimpleNamespace(**entries)
    if problem.loss == "mean":
        problem.mean = problem.mean.reshape(problem.clients, problem.dim)[:, 0]
    else:
        problem.table = np.fromfile(folder / "rows.f64").reshape(-1, problem.dim)
        problem.labels = np.fromfile(folder / "labels.f64")
        problem.counts = np.array(problem.counts)
        problem.starts = np.cumsum(problem.counts) - problem.counts
        problem.penalty = np.full(problem.dim, problem.l2)
        if problem.intercept:
            problem.penalty[-1] = 0.0
    return problem


def step_sizes(problem, rounds):
    """The step sizes beta / (t + gamma), one row a round."""
    steps = np.arange(rounds * problem.local_steps, dtype=float)
    return (problem.beta / (steps + problem.gamma)).reshape(rounds, problem.local_steps)


def work(problem, client, theta, sizes, rng):
    """One client's local steps in NumPy, for frameworks that call a client at a time."""
    local = theta.copy()
    sensitivity = problem.sensitivity[client] * problem.pattern
    if problem.loss == "mean":
        noise = problem.noise / np.sqrt(problem.batch)
        for size, xi in zip(sizes, rng.standard_normal(len(sizes))):
            local -= size * (local - problem.mean[client] - sensitivity * local - noise * xi)
        return local
    picked = rng.integers(problem.counts[client], size=(len(sizes), problem.batch))
    for size, rows in zip(sizes, picked + problem.starts[client]):
        x, shift = problem.table[rows], sensitivity * local
        slope = slopes(problem, x @ local + shift @ local) - problem.labels[rows]
        gradient = (slope @ x + slope.sum() * shift) / problem.batch
        local -= size * (gradient + problem.penalty * local)
    return local


def slopes(problem, margins):
    """The derivative of the loss in the margin, but for the label that is subtracted from it."""
    return margins if problem.loss == "squared" else 1.0 / (1.0 + np.exp(-margins))


def serve(prepare, *packages, clock=time.process_time):
    """Answers jobs from standard input. Whatever else is printed goes to standard error."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    run = prepare(load(sys.argv[1]))
    versions = {package: metadata.version(package) for package in ("numpy", *packages)}
    print(json.dumps(versions), file=answers, flush=True)
    for line in sys.stdin:
        job = json.loads(line)
        wall, cpu = time.perf_counter(), clock()
        thetas = np.asarray(run(job["seed"], job["rounds"], job["repetitions"]))
        seconds = {"cpu": clock() - cpu, "wall": time.perf_counter() - wall}
        thetas = thetas.reshape(job["repetitions"], -1).tolist()
        print(json.dumps(seconds | {"thetas": thetas}), file=answers, flush=True)
