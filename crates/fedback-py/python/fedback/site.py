"""A site of a real federation: the clients that it holds, and their work."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from . import _native
from ._custom import numbers
from .spec import Spec, SpecLike

#: ``observe(theta, n, rng) -> rows``: θ is deployed here, return n fresh observations.
Observe = Callable[[np.ndarray, int, np.random.Generator], Any]


class Site:
    """Does the work of some clients of a spec when a server asks for it.

    A site of a spec that is built in simulates its clients. One of a spec with ``base.kind =
    "custom"`` observes them: ``observe`` is one function for all of its clients, or one for each of
    them by its number.
    """

    def __init__(
        self,
        spec: SpecLike,
        *,
        clients: Sequence[int] | None = None,
        observe: Observe | dict[int, Observe] | None = None,
        set: dict[str, Any] | None = None,
    ) -> None:
        spec = spec if isinstance(spec, Spec) else Spec(spec)
        spec = spec.set(set) if set else spec
        draw = spec.draw if observe is None else _drawing(observe)
        self._native = _native.Site(spec.document(), draw=draw, loss=spec.loss)
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
        ``repetitions[j]``, whose model is a row of ``thetas``."""
        deltas = self._native.work(
            int(seed), int(round),
            np.ascontiguousarray(repetitions, dtype="<u4").tobytes(),
            np.ascontiguousarray(clients, dtype="<u4").tobytes(),
            np.ascontiguousarray(thetas, dtype="<f8").tobytes(),
        )  # fmt: skip
        return numbers(deltas).reshape(-1, self.dim)


def _drawing(observe: Observe | dict[int, Observe]) -> Callable:
    def draw(client: int, theta: np.ndarray, n: int, rng: np.random.Generator) -> Any:
        one = observe[client] if isinstance(observe, dict) else observe
        return one(theta, n, rng)

    return draw
