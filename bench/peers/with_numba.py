"""P-FedAvg as plain loops compiled by Numba, one generator a repetition."""

import numpy as np
from numba import njit
from problem import serve, step_sizes


@njit(fastmath=True)
def gaussian(rng, sizes, weights, mean, sensitivity, noise):
    theta = 0.0
    for round in range(sizes.shape[0]):
        after = 0.0
        for client in range(weights.size):
            local = theta
            for step in range(sizes.shape[1]):
                z = mean[client] + sensitivity[client] * local + noise * rng.standard_normal()
                local -= sizes[round, step] * (local - z)
            after += weights[client] * local
        theta = after
    return theta


@njit(fastmath=True)
def rows(rng, sizes, weights, table, labels, starts, counts, sensitivity, pattern, penalty, batch, logistic):
    dim = table.shape[1]
    theta, after = np.zeros(dim), np.empty(dim)
    local, gradient = np.empty(dim), np.empty(dim)
    for round in range(sizes.shape[0]):
        after[:] = 0.0
        for client in range(weights.size):
            local[:] = theta
            for step in range(sizes.shape[1]):
                moved = 0.0
                for j in range(dim):
                    moved += sensitivity[client] * pattern[j] * local[j] * local[j]
                gradient[:] = 0.0
                slopes = 0.0
                for _ in range(batch):
                    row = starts[client] + int(rng.random() * counts[client])
                    x = table[row]
                    margin = moved
                    for j in range(dim):
                        margin += x[j] * local[j]
                    slope = margin - labels[row]
                    if logistic:
                        slope = 1.0 / (1.0 + np.exp(-margin)) - labels[row]
                    slopes += slope
                    for j in range(dim):
                        gradient[j] += slope * x[j]
                size, share = sizes[round, step], 1.0 / batch
                slopes *= sensitivity[client]
                for j in range(dim):
                    g = (gradient[j] + slopes * pattern[j] * local[j]) * share
                    local[j] -= size * (g + penalty[j] * local[j])
            for j in range(dim):
                after[j] += weights[client] * local[j]
        theta[:] = after
    return theta


def prepare(problem):
    def one(rng, sizes):
        if problem.loss == "mean":
            noise = problem.noise / np.sqrt(problem.batch)
            return gaussian(rng, sizes, problem.weights, problem.mean, problem.sensitivity, noise)
        return rows(
            rng, sizes, problem.weights, problem.table, problem.labels, problem.starts,
            problem.counts, problem.sensitivity, problem.pattern, problem.penalty,
            problem.batch, problem.loss == "logistic",
        )  # fmt: skip

    def run(seed, rounds, repetitions):
        sizes = step_sizes(problem, rounds)
        seeds = np.random.SeedSequence(seed).spawn(repetitions)
        return [one(np.random.Generator(np.random.SFC64(s)), sizes) for s in seeds]

    run(0, 1, 1)  # compiles
    return run


serve(prepare, "numba")
