"""A site of a real federation: the clients that it holds, and their work."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from . import _native
from ._arguments import function, path, whole, wholes, wrong
from ._custom import numbers
from .results import Floats, Wholes
from .spec import Draw, Loss, Spec, SpecLike, resolve

#: Whole numbers of whatever width.
Integers = npt.NDArray[np.integer[Any]]
#: ``observe(theta, n, rng) -> rows``: θ is deployed here, return n fresh observations.
Observe = Callable[[Floats, int, np.random.Generator], Any]


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
        observe: Observe | Mapping[int, Observe] | None = None,
        loss: Loss | None = None,
        tables: Tables | None = None,
        set: Mapping[str, Any] | None = None,
    ) -> None:
        spec = resolve(spec, set)
        draw = spec.draw if observe is None else _drawing(observe)
        if not isinstance(tables, (Tables, type(None))):
            raise wrong("tables", tables, "a Tables")
        own = None if tables is None else tables._native
        loss = spec.loss if loss is None else function("loss", loss)
        self._native = _native.Site(spec.document(), draw=draw, loss=loss, tables=own)
        last = self._native.clients - 1
        #: The clients of this site.
        self.clients: list[int] = list(range(last + 1))
        if clients is not None:
            self.clients = wholes("clients", clients, most=last)

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
        repetitions: Integers,
        clients: Integers,
        thetas: Floats,
    ) -> Floats:
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
        repetitions: Integers,
        clients: Integers,
        thetas: Floats,
        kept: Floats | None = None,
    ) -> Update:
        """The updates that are asked for, and what the clients keep afterwards: row j is that of
        client ``clients[j]`` in repetition ``repetitions[j]``, whose model is a row of ``thetas``.

        ``kept`` is what the clients kept, a row a pair (zeros before their first round). A site
        remembers nothing: what they keep now is the server's to hold until they are asked again.
        """
        if kept is None:
            kept = np.zeros((len(clients), self.kept))
        delta, now = self._native.work(
            whole("seed", seed, most=2**64 - 1), whole("round", round, most=2**64 - 1),
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
    delta: Floats
    #: What each client keeps now, a row a pair; no columns where the algorithm keeps nothing.
    kept: Floats


class Tables:
    """Tables that only their site can read: a CSV file for every client that it holds.

    All that others need of them are sums: :meth:`sums`, and :meth:`squares` once the mean is known.
    """

    def __init__(
        self,
        spec: SpecLike,
        files: Mapping[int, str | os.PathLike[str]],
        *,
        set: Mapping[str, Any] | None = None,
    ) -> None:
        spec = resolve(spec, set)
        if not isinstance(files, Mapping):
            raise wrong("files", files, "a path for every client, by its number")
        paths = [
            (whole("files: a client", client), path(f"files[{client}]", file))
            for client, file in files.items()
        ]
        self._native = _native.SiteTables(spec.document(), paths)

    def sums(self) -> tuple[Wholes, Wholes, Floats]:
        """The clients held, their counts of rows, and the sum of every feature: a row a client."""
        told = self._native.sums()
        sums = np.array([numbers(sums) for _, _, sums in told])
        return np.array([one[0] for one in told]), np.array([one[1] for one in told]), sums

    def squares(self, mean: Floats) -> Floats:
        """The sum of every feature's squared distance to ``mean``: a row a client."""
        told = self._native.squares(np.ascontiguousarray(mean, dtype="<f8").tobytes())
        return np.array([numbers(squares) for _, squares in told])


def census_mean(rows: Integers, sums: Floats) -> Floats:
    """The mean of every feature over all clients' rows, from their sums in client order."""
    return numbers(_native.census_mean(_whole(rows), np.asarray(sums, float).tolist()))


def census(spec: SpecLike, rows: Integers, mean: Floats, squares: Floats | None) -> Spec:
    """The spec with what was gathered from the sites: every client's count of rows and, where
    features are standardised, their means and standard deviations."""
    spec = resolve(spec)
    base = spec.table["problem"]["base"]
    keys: dict[str, Any] = {"problem.base.rows": _whole(rows)}
    if squares is not None:
        means = np.asarray(mean, float).tolist()
        sums = np.asarray(squares, float).tolist()
        sd = _native.census_sd(_whole(rows), means, sums, base["features"])
        keys |= {"problem.base.mean": means, "problem.base.sd": numbers(sd).tolist()}
    return spec.set(keys)


def _whole(counts: Integers) -> list[int]:
    return [int(count) for count in counts]


def _drawing(observe: Observe | Mapping[int, Observe]) -> Draw:
    for place, one in observe.items() if isinstance(observe, Mapping) else [("", observe)]:
        function(f"observe[{place}]" if place != "" else "observe", one)

    def draw(client: int, theta: Floats, n: int, rng: np.random.Generator) -> Any:
        one = observe[client] if isinstance(observe, Mapping) else observe
        return one(theta, n, rng)

    return draw
