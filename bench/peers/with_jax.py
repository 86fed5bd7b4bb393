"""P-FedAvg in JAX: a scan over rounds, vectorised over clients and repetitions, compiled as one.

The second argument is the precision: 64 (the comparison) or 32.
"""

import sys

import jax
import jax.numpy as jnp
import numpy as np
from problem import serve, step_sizes

jax.config.update("jax_enable_x64", sys.argv[2] == "64")
jax.config.update("jax_platforms", "cpu")


def gaussian(problem):
    pull, mean = jnp.array(1.0 - problem.sensitivity), jnp.array(problem.mean)
    weights, noise = jnp.array(problem.weights), problem.noise / np.sqrt(problem.batch)

    def one(key, sizes):
        def round(theta, inputs):
            key, sizes = inputs
            normals = jax.random.normal(key, (problem.local_steps, problem.clients), theta.dtype)
            local = jnp.broadcast_to(theta, (problem.clients,))
            for step in range(problem.local_steps):
                local -= sizes[step] * (pull * local - mean - noise * normals[step])
            return weights @ local, None

        keys = jax.random.split(key, sizes.shape[0])
        return jax.lax.scan(round, sizes[0, 0] * 0.0, (keys, sizes))[0]

    return one


def rows(problem):
    table, labels = jnp.array(problem.table), jnp.array(problem.labels)
    starts, counts = jnp.array(problem.starts), jnp.array(problem.counts)
    sensitivity = jnp.array(problem.sensitivity[:, None] * problem.pattern)
    weights, penalty = jnp.array(problem.weights), jnp.array(problem.penalty)

    def gradient(arguments):
        local, sensitivity, picked = arguments
        x, y = table[picked], labels[picked]
        shift = sensitivity * local
        margins = x @ local + shift @ local
        slopes = (jax.nn.sigmoid(margins) if problem.loss == "logistic" else margins) - y
        return (slopes @ x + slopes.sum() * shift) / problem.batch + penalty * local

    # Wide rows stay in the cache one client at a time; narrow ones are quicker all at once.
    wide = problem.dim >= 100
    of_clients = (lambda arguments: jax.lax.map(gradient, arguments)) if wide else jax.vmap(gradient)

    def one(key, sizes):
        def round(theta, inputs):
            key, sizes = inputs
            shape = (problem.local_steps, problem.batch, problem.clients)
            picked = jnp.swapaxes(starts + jax.random.randint(key, shape, 0, counts), 1, 2)
            local = jnp.broadcast_to(theta, (problem.clients, problem.dim))
            for step in range(problem.local_steps):
                gradients = of_clients((local, sensitivity, picked[step]))
                local -= sizes[step] * gradients
            return weights @ local, None

        keys = jax.random.split(key, sizes.shape[0])
        return jax.lax.scan(round, jnp.zeros(problem.dim, sizes.dtype), (keys, sizes))[0]

    return one


def prepare(problem):
    one = gaussian(problem) if problem.loss == "mean" else rows(problem)
    # The quicker of the two for normal variates, and for indices.
    generator = "threefry2x32" if problem.loss == "mean" else "rbg"
    every = jax.jit(jax.vmap(one, in_axes=(0, None)))

    def run(seed, rounds, repetitions):
        keys = jax.random.split(jax.random.key(seed, impl=generator), repetitions)
        return every(keys, jnp.array(step_sizes(problem, rounds))).block_until_ready()

    return run


serve(prepare, "jax", "jaxlib")
