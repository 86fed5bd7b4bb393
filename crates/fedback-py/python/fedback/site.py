"""A site of a real federation: the clients that it holds, and their work."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from . import _native
from ._custom import numbers
from .spec import Loss, Spec, SpecLike, resolve

#: ``observe(theta, n, rng) -> rows``: θ is deployed here, return n fresh observations.
Observe = Callable[[np.ndarray, int, np.random.Generator], Any]


class Site:
    """Does the work of some clients of a spec when a server asks for it.

    A site of a spec that is built in simulates its clients. One of a spec with ``base.kind =
    "custom"`` observes them: ``observe`` is one function for all of its clients, or one for each of
    them by its number. Where ``loss.kind = "custom"``, ``loss`` is the site's own: all sites of a
    federation must mean the same one, which nobody checks.
    """

    def __init__(
        self,
        spec: SpecLike,
        *,
        clients: Sequence[int] | None = None,
        observe: Observe | dict[int, Observe] | None = None,
        loss: Loss | None = None,
        tables: Tables | None = None,
        set: dict[str, Any] | None = None,
    ) -> None:
        spec = resolve(spec, set)
        draw = spec.draw if observe is None else _drawing(observe)
        own = None if tables is None else tables._native
        loss = spec.loss if loss is None else loss
        self._native = _native.Site(spec.document(), draw=draw, loss=loss, tables=own)
        everyone = range(self._native.clients)
        #: The clients of this site.
        self.clients = list(everyone if clients is None else clients)
        wrong = [client for client in self.clients if client not in everyone]
        if wrong:
            raise _native.InputError(f"clients: found {wrong}; allowed: 0 to {len(everyone) - 1}")

    @property
    def plan_hash(self) -> str:
        """Names everything that decides the bits; a server works with sites of its own plan
        only."""
        return self._native.plan_hash

    @property
    def dim(self) -> int:
        """Coordinates of θ."""
        return self._native.dim

    @property
    def broadcast(self) -> int:
        """Numbers that are broadcast for a repetition: θ, and what is sent with it."""
        return self._native.broadcast

    @property
    def kept(self) -> int:
        """Numbers that a client keeps from one of its rounds to the next."""
        return self._native.kept

    @property
    def federation(self) -> int:
        """How many clients the whole federation has."""
        return self._native.clients

    def work(
        self,
        round: int,
        seed: int,
        repetitions: np.ndarray,
        clients: np.ndarray,
        thetas: np.ndarray,
    ) -> np.ndarray:
        """The updates that are asked for: row j is that of client ``clients[j]`` in repetition
        ``repetitions[j]``, whose model is a row of ``thetas``. For algorithms whose clients keep
        nothing; :meth:`update` serves all of them."""
        if self.kept:
            raise _native.InputError(
                f"work: clients keep {self.kept} numbers from round to round under this "
                "algorithm; call update, which takes and returns them"
            )
        return self.update(round, seed, repetitions, clients, thetas).delta

    def update(
        self,
        round: int,
        seed: int,
        repetitions: np.ndarray,
        clients: np.ndarray,
        thetas: np.ndarray,
        kept: np.ndarray | None = None,
    ) -> Update:
        """The updates that are asked for, and what the clients keep afterwards: row j is that of
        client ``clients[j]`` in repetition ``repetitions[j]``, whose model is a row of ``thetas``.

        ``kept`` is what the clients kept, a row a pair (zeros before their first round). A site
        remembers nothing: what they keep now is the server's to hold until they are asked again.
        """
        if kept is None:
            kept = np.zeros((len(clients), self.kept))
        delta, now = self._native.work(
            int(seed), int(round),
            np.ascontiguousarray(repetitions, dtype="<u4").tobytes(),
            np.ascontiguousarray(clients, dtype="<u4").tobytes(),
            np.ascontiguousarray(thetas, dtype="<f8").tobytes(),
            np.ascontiguousarray(kept, dtype="<f8").tobytes(),
        )  # fmt: skip
        shape = (len(clients), self.kept)
        return Update(numbers(delta).reshape(-1, self.dim), numbers(now).reshape(shape))


class Update(NamedTuple):
    """What clients send after a round."""

    #: Local θ − θ broadcast, a row a pair.
    delta: np.ndarray
    #: What each client keeps now, a row a pair; no columns where the algorithm keeps nothing.
    kept: np.ndarray


class Tables:
    """Tables that only their site can read: a CSV file for every client that it holds.

    All that others need of them are sums: :meth:`sums`, and :meth:`squares` once the mean is known.
    """

    def __init__(
        self,
        spec: SpecLike,
        files: Mapping[int, str | os.PathLike],
        *,
        set: dict[str, Any] | None = None,
    ) -> None:
        spec = resolve(spec, set)
        paths = [(int(client), os.fspath(path)) for client, path in files.items()]
        self._native = _native.SiteTables(spec.document(), paths)

    def sums(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The clients held, their counts of rows, and the sum of every feature: a row a client."""
        told = self._native.sums()
        sums = np.array([numbers(sums) for _, _, sums in told])
        return np.array([one[0] for one in told]), np.array([one[1] for one in told]), sums

    def squares(self, mean: np.ndarray) -> np.ndarray:
        """The sum of every feature's squared distance to ``mean``: a row a client."""
        told = self._native.squares(np.ascontiguousarray(mean, dtype="<f8").tobytes())
        return np.array([numbers(squares) for _, squares in told])


def census_mean(rows: np.ndarray, sums: np.ndarray) -> np.ndarray:
    """The mean of every feature over all clients' rows, from their sums in client order."""
    return numbers(_native.census_mean(_whole(rows), np.asarray(sums, float).tolist()))


def census(spec: SpecLike, rows: np.ndarray, mean: np.ndarray, squares: np.ndarray | None) -> Spec:
    """The spec with what was gathered from the sites: every client's count of rows and, where
    features are standardised, their means and standard deviations."""
    spec = resolve(spec)
    base = spec.table["problem"]["base"]
    keys: dict[str, Any] = {"problem.base.rows": _whole(rows)}
    if squares is not None:
        mean = np.asarray(mean, float).tolist()
        squares = np.asarray(squares, float).tolist()
        sd = _native.census_sd(_whole(rows), mean, squares, base["features"])
        keys |= {"problem.base.mean": mean, "problem.base.sd": numbers(sd).tolist()}
    return spec.set(keys)


def _whole(counts: np.ndarray) -> list[int]:
    return [int(count) for count in counts]


def _drawing(observe: Observe | dict[int, Observe]) -> Callable:
    def draw(client: int, theta: np.ndarray, n: int, rng: np.random.Generator) -> Any:
        one = observe[client] if isinstance(observe, dict) else observe
        return one(theta, n, rng)

    return draw
