"""Custom problems beside bare loops of the same batching: the same functions, as many calls.

A bare loop is what somebody writes who has these functions and nothing else: draws of NumPy's own
generator, steps of the local models, a weighted mean a round. It records nothing, and its draws are
not keyed. Run it on one core; prints a table.

    python bench/custom/loops.py [--tries N]
"""

import argparse
import os
import time
from functools import partial

os.environ.setdefault("JAX_PLATFORMS", "cpu")

import numpy as np

import fedback

try:
    import jax
    import jax.numpy as jnp
except ImportError:
    jax = None
try:
    import torch

    torch.set_num_threads(1)
except ImportError:
    torch = None


class Shared:
    """Draws of one generator in the words of fedback.Streams."""

    def __init__(self, rng, members):
        self.rng, self.members = rng, members

    def normal(self, *shape):
        return self.rng.standard_normal((self.members, *shape))

    def integers(self, high, *shape):
        return self.rng.integers(high, size=(self.members, *shape))


class Shape:
    """A problem of some size: functions, and how a loop calls them."""

    def __init__(self, name, clients, steps, repetitions, batch, dim, rounds, size):
        self.name, self.clients, self.steps, self.repetitions = name, clients, steps, repetitions
        self.batch, self.dim, self.rounds, self.size = batch, dim, rounds, size

    def spec(self, draw, loss):
        return fedback.Spec(
            rounds=self.rounds, repetitions=self.repetitions,
            problem=fedback.Problem(population=draw, loss=loss, dim=self.dim, clients=self.clients),
            algorithm=fedback.p_fedavg(
                scheme="full", local_steps=self.steps, batch=self.batch, step_size=self.size,
                start=[0.1] * self.dim,
            ),
            measure={"every": self.rounds, "risk": False, "distance": False},
        )  # fmt: skip

    def all_at_once(self, draw, loss):
        """The bare loop of functions that take everybody."""
        members = self.repetitions * self.clients
        clients = np.tile(np.arange(self.clients), self.repetitions)
        rng = Shared(np.random.default_rng(1), members)
        theta = np.full((self.repetitions, self.dim), 0.1)
        for _ in range(self.rounds):
            local = np.repeat(theta, self.clients, axis=0)
            for _ in range(self.steps):
                _, gradient = loss(local, draw(clients, local, self.batch, rng))
                local -= self.size * np.asarray(gradient)
            theta = local.reshape(self.repetitions, self.clients, self.dim).mean(axis=1)
        return theta

    def one_by_one(self, draw, loss):
        """The bare loop of functions that take one client."""
        rng = np.random.default_rng(1)
        theta = np.full((self.repetitions, self.dim), 0.1)
        for _ in range(self.rounds):
            after = np.zeros_like(theta)
            for repetition in range(self.repetitions):
                for client in range(self.clients):
                    local = theta[repetition].copy()
                    for _ in range(self.steps):
                        _, gradient = loss(local, draw(client, local, self.batch, rng))
                        local -= self.size * gradient
                    after[repetition] += local / self.clients
            theta = after
        return theta


def gaussian():
    mean = np.linspace(0.0, 2.0, 25)[:, None]

    def one_draw(client, theta, n, rng):
        return mean[client] + 0.5 * theta + rng.standard_normal((n, 1))

    def one_loss(theta, batch):
        away = theta - batch
        return 0.5 * (away * away).sum() / len(batch), away.mean(axis=0)

    def draw(clients, theta, n, rng):
        return (mean[clients] + 0.5 * theta)[:, None, :] + rng.normal(n, 1)

    def loss(theta, batch):
        away = theta[:, None, :] - batch
        return 0.5 * (away * away).sum(axis=(1, 2)) / batch.shape[1], away.mean(axis=1)

    def model(theta, batch):
        return 0.5 * ((theta - batch) ** 2).sum(axis=1).mean()

    shape = Shape("gaussian", 25, 5, 64, 1, 1, 40, 0.1)
    return shape, (one_draw, one_loss), (draw, loss), (model, model)


def table(rows, dim, labels):
    rng = np.random.default_rng(3)
    x = rng.normal(size=(10, rows, dim))
    return x, labels(rng, (10, rows))


def draws(x, y):
    """Rows of a table that move against the model's first coordinates."""
    react = np.zeros(x.shape[2])
    react[:3] = 0.2

    def one_draw(client, theta, n, rng):
        picked = rng.integers(x.shape[1], size=n)
        return x[client, picked] - react * theta[: x.shape[2]], y[client, picked]

    def draw(clients, theta, n, rng):
        picked = rng.integers(x.shape[1], n)
        rows = x[clients[:, None], picked] - (react * theta[:, : x.shape[2]])[:, None, :]
        return rows, y[clients[:, None], picked]

    return one_draw, draw


def logistic():
    x, y = table(1000, 11, lambda rng, shape: rng.integers(2, size=shape).astype(float))
    one_draw, draw = draws(x, y)

    def one_loss(theta, batch):
        rows, labels = batch
        margin = rows @ theta
        slope = 1 / (1 + np.exp(-margin)) - labels
        value = (np.logaddexp(0, margin) - labels * margin).mean() + 0.005 * theta @ theta
        return value, slope @ rows / len(labels) + 0.01 * theta

    def loss(theta, batch):
        rows, labels = batch
        margin = (rows @ theta[:, :, None])[:, :, 0]
        slope = 1 / (1 + np.exp(-margin)) - labels
        penalty = 0.005 * (theta * theta).sum(axis=1)
        value = (np.logaddexp(0, margin) - labels * margin).mean(axis=1) + penalty
        gradient = (slope[:, None, :] @ rows)[:, 0, :] / labels.shape[1]
        return value, gradient + 0.01 * theta

    def with_jax(theta, batch):
        rows, labels = batch
        margin = rows @ theta
        value = (jnp.logaddexp(0.0, margin) - labels * margin).mean()
        return value + 0.005 * theta @ theta

    def with_torch(theta, batch):
        rows, labels = batch
        margin = rows @ theta
        value = (torch.nn.functional.softplus(margin) - labels * margin).mean()
        return value + 0.005 * theta @ theta

    shape = Shape("logistic", 10, 5, 32, 16, 11, 40, 0.1)
    return shape, (one_draw, one_loss), (draw, loss), (with_jax, with_torch)


def softmax(features=50, classes=10):
    x, y = table(1000, features, lambda rng, shape: rng.integers(classes, size=shape))
    one_draw, draw = draws(x, y)

    def one_loss(theta, batch):
        rows, labels = batch
        scores = rows @ theta.reshape(features, classes)
        scores -= scores.max(axis=1, keepdims=True)
        shares = np.exp(scores)
        shares /= shares.sum(axis=1, keepdims=True)
        picked = np.arange(len(labels)), labels
        value = -np.log(shares[picked]).mean()
        shares[picked] -= 1
        return value, (rows.T @ shares).ravel() / len(labels)

    def loss(theta, batch):
        rows, labels = batch
        scores = rows @ theta.reshape(-1, features, classes)
        scores -= scores.max(axis=2, keepdims=True)
        shares = np.exp(scores)
        shares /= shares.sum(axis=2, keepdims=True)
        picked = np.arange(len(labels))[:, None], np.arange(labels.shape[1]), labels
        value = -np.log(shares[picked]).mean(axis=1)
        shares[picked] -= 1
        gradient = rows.transpose(0, 2, 1) @ shares
        return value, gradient.reshape(len(theta), -1) / labels.shape[1]

    def with_jax(theta, batch):
        rows, labels = batch
        scores = jax.nn.log_softmax(rows @ theta.reshape(features, classes))
        return -jnp.take_along_axis(scores, labels[:, None], axis=1).mean()

    def with_torch(theta, batch):
        rows, labels = batch
        scores = torch.log_softmax(rows @ theta.reshape(features, classes), 1)
        return -torch.gather(scores, 1, labels[:, None]).mean()

    shape = Shape("softmax", 10, 5, 8, 32, features * classes, 30, 0.1)
    return shape, (one_draw, one_loss), (draw, loss), (with_jax, with_torch)


def network(features=50, hidden=90, classes=5):
    """A network of one hidden layer."""
    x, y = table(1000, features, lambda rng, shape: rng.integers(classes, size=shape))
    one_draw, draw = draws(x, y)
    first = features * hidden
    dim = first + hidden * classes

    def with_jax(theta, batch):
        rows, labels = batch
        inside = jnp.tanh(rows @ theta[:first].reshape(features, hidden))
        scores = jax.nn.log_softmax(inside @ theta[first:].reshape(hidden, classes))
        return -jnp.take_along_axis(scores, labels[:, None], axis=1).mean()

    def with_torch(theta, batch):
        rows, labels = batch
        inside = torch.tanh(rows @ theta[:first].reshape(features, hidden))
        scores = torch.log_softmax(inside @ theta[first:].reshape(hidden, classes), 1)
        return -torch.gather(scores, 1, labels[:, None]).mean()

    shape = Shape("network", 10, 5, 8, 32, dim, 15, 0.1)
    return shape, None, (draw, None), (with_jax, with_torch)


def bare_jax(model):
    function = jax.jit(jax.vmap(jax.value_and_grad(model)))
    return lambda theta, batch: function(theta, batch)


def bare_torch(model):
    mapped = torch.func.vmap(torch.func.grad_and_value(model))

    def loss(theta, batch):
        batch = tuple(map(torch.from_numpy, batch)) if isinstance(batch, tuple) else (
            torch.from_numpy(batch)
        )  # fmt: skip
        gradient, value = mapped(torch.from_numpy(theta), batch)
        return value.numpy(), gradient.numpy()

    return loss


def least(tries, *works):
    """The least CPU time of each, taken in turns."""
    best = [float("inf")] * len(works)
    for attempt in range(tries + 1):
        for place, work in enumerate(works):
            began = time.process_time()
            work()
            if attempt:  # The first is to warm up: functions are compiled in it.
                best[place] = min(best[place], time.process_time() - began)
    return best


def compare(tries, shape, form, spec, bare):
    ours, theirs = least(tries, lambda: fedback.run(spec), bare)
    steps = shape.rounds * shape.steps * shape.clients * shape.repetitions
    each = 1e6 / steps
    print(
        f"| {shape.name}, d = {shape.dim} | {form} | {theirs * each:.2f} | {ours * each:.2f} "
        f"| {ours / theirs:.2f} |",
        flush=True,
    )


def forms(shape, one, draw, loss, with_jax, with_torch):
    """Every form that a problem's functions have: its name, its spec, its bare loop."""
    everybody = fedback.all_clients(draw)
    at_once = partial(shape.all_at_once, draw)
    if one:
        yield "NumPy, one client", shape.spec(*one), partial(shape.one_by_one, *one)
    if loss:
        yield (
            "NumPy, all clients",
            shape.spec(everybody, fedback.all_clients(loss)),
            partial(at_once, loss),
        )
    if jax:
        with jax.enable_x64(True):
            model = fedback.jax_model(with_jax, jnp.zeros(shape.dim))
            yield "JAX", shape.spec(everybody, model), partial(at_once, bare_jax(with_jax))
    if torch:
        start = {"theta": torch.zeros(shape.dim, dtype=torch.float64)}
        model = fedback.torch_model(lambda of, batch: with_torch(of["theta"], batch), start)
        yield "PyTorch", shape.spec(everybody, model), partial(at_once, bare_torch(with_torch))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tries", type=int, default=7)
    tries = parser.parse_args().tries
    print("| problem | functions | bare loop, us | fedback, us | ratio |")
    print("|---|---|---:|---:|---:|")
    for shape, one, (draw, loss), models in gaussian(), logistic(), softmax(), network():
        for form, spec, bare in forms(shape, one, draw, loss, *models):
            compare(tries, shape, form, spec, bare)
    print("\nMicroseconds of CPU a local step of a client, the least of", tries, "tries in turns.")


main()
