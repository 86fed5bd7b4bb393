"""P-FedAvg in FedJAX: `for_each_client` on its compiled backend, `tree_mean` on the server."""

import jax
import jax.numpy as jnp
import numpy as np

jax.tree_map = jax.tree.map  # FedJAX 0.0.17 still calls it by the name that JAX has dropped.

from fedjax.core import tree_util
from fedjax.core.for_each_client import for_each_client
from problem import serve, step_sizes

jax.config.update("jax_enable_x64", True)


def gaussian(problem):
    noise = problem.noise / np.sqrt(problem.batch)
    mean, sensitivity = jnp.array(problem.mean), jnp.array(problem.sensitivity)

    def gradient(local, client, key):
        z = mean[client] + sensitivity[client] * local
        return local - z - noise * jax.random.normal(key, local.shape, local.dtype)

    return gradient


def rows(problem):
    table, labels = jnp.array(problem.table), jnp.array(problem.labels)
    starts, counts = jnp.array(problem.starts), jnp.array(problem.counts)
    sensitivity, pattern = jnp.array(problem.sensitivity), jnp.array(problem.pattern)

    def gradient(local, client, key):
        picked = starts[client] + jax.random.randint(key, (problem.batch,), 0, counts[client])
        x, shift = table[picked], sensitivity[client] * pattern * local
        margins = x @ local + shift @ local
        slopes = jax.nn.sigmoid(margins) if problem.loss == "logistic" else margins
        slopes -= labels[picked]
        return (slopes @ x + slopes.sum() * shift) / problem.batch + problem.penalty * local

    return gradient


def prepare(problem):
    gradient = gaussian(problem) if problem.loss == "mean" else rows(problem)

    def init(theta, entry):
        return {"local": theta, **entry}

    def step(state, size):
        key, used = jax.random.split(state["key"])
        local = state["local"] - size * gradient(state["local"], state["client"], used)
        return {"local": local, "client": state["client"], "key": key}

    def final(theta, state):
        return state["local"] - theta

    work = for_each_client(init, step, final)

    def one(key, rounds):
        theta = jnp.zeros(problem.dim)
        for sizes in step_sizes(problem, rounds):
            key, used = jax.random.split(key)
            keys = jax.random.split(used, problem.clients)
            clients = [(k, sizes, {"client": k, "key": keys[k]}) for k in range(problem.clients)]
            updates = ((delta, problem.weights[k]) for k, delta in work(theta, clients))
            theta = tree_util.tree_add(theta, tree_util.tree_mean(updates))
        return np.asarray(theta)

    def run(seed, rounds, repetitions):
        keys = jax.random.split(jax.random.key(seed), repetitions)
        return [one(key, rounds) for key in keys]

    return run


serve(prepare, "fedjax", "jax")
