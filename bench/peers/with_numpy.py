"""P-FedAvg in NumPy: all repetitions and clients at once; wide rows one client at a time by BLAS."""

import numpy as np
from problem import serve, slopes, step_sizes


def gaussian(problem):
    pull, mean = 1.0 - problem.sensitivity, problem.mean
    noise = problem.noise / np.sqrt(problem.batch)

    def run(seed, rounds, repetitions):
        rng = np.random.Generator(np.random.SFC64(seed))
        theta = np.zeros(repetitions)
        local = np.empty((repetitions, problem.clients))
        normals = np.empty((problem.local_steps, repetitions, problem.clients))
        for sizes in step_sizes(problem, rounds):
            rng.standard_normal(out=normals)
            local[:] = theta[:, None]
            for size, xi in zip(sizes, normals):
                xi *= size * noise
                xi += size * mean
                local *= 1.0 - size * pull
                local += xi
            theta = local @ problem.weights
        return theta

    return run


def narrow(problem):
    sensitivity = problem.sensitivity[:, None] * problem.pattern

    def run(seed, rounds, repetitions):
        rng = np.random.Generator(np.random.SFC64(seed))
        theta = np.zeros((repetitions, problem.dim))
        draws = (problem.local_steps, repetitions, problem.batch, problem.clients)
        for sizes in step_sizes(problem, rounds):
            picked = rng.integers(problem.counts, size=draws) + problem.starts
            picked = picked.swapaxes(2, 3)
            local = np.repeat(theta[:, None, :], problem.clients, axis=1)
            for size, rows in zip(sizes, picked):
                x, labels = problem.table[rows], problem.labels[rows]
                shift = sensitivity * local
                moved = (shift * local).sum(axis=2, keepdims=True)
                slope = slopes(problem, (x @ local[..., None])[..., 0] + moved) - labels
                gradient = (slope[..., None, :] @ x)[..., 0, :]
                gradient += slope.sum(axis=2, keepdims=True) * shift
                local -= size * (gradient / problem.batch + problem.penalty * local)
            theta = np.einsum("n,rnd->rd", problem.weights, local)
        return theta

    return run


def wide(problem):
    tables = np.split(problem.table, problem.starts[1:])
    labels = np.split(problem.labels, problem.starts[1:])
    rows = np.empty((problem.batch, problem.dim))

    def run(seed, rounds, repetitions):
        rng = np.random.Generator(np.random.SFC64(seed))
        return [one(rng, rounds) for _ in range(repetitions)]

    def one(rng, rounds):
        theta = np.zeros(problem.dim)
        for sizes in step_sizes(problem, rounds):
            after = np.zeros(problem.dim)
            for client, weight in enumerate(problem.weights):
                table, label = tables[client], labels[client]
                sensitivity = problem.sensitivity[client] * problem.pattern
                picked = rng.integers(len(label), size=(problem.local_steps, problem.batch))
                local = theta.copy()
                for size, batch in zip(sizes, picked):
                    np.take(table, batch, axis=0, out=rows, mode="clip")
                    shift = sensitivity * local
                    slope = slopes(problem, rows @ local + shift @ local) - label[batch]
                    gradient = slope @ rows
                    gradient += slope.sum() * shift
                    local -= size * (gradient / problem.batch + problem.penalty * local)
                after += weight * local
            theta = after
        return theta

    return run


def prepare(problem):
    if problem.loss == "mean":
        return gaussian(problem)
    return narrow(problem) if problem.dim < 100 else wide(problem)


serve(prepare)
