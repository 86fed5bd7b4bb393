"""What the compiled half and a transport say to each other."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from ._custom import numbers


@dataclass(frozen=True)
class Order:
    """What the server asks for in one round.

    Pair j is the work of client ``clients[j]`` in repetition ``repetitions[j]``, whose model is a
    row of ``thetas``, followed by what is sent with it (SCAFFOLD's c). ``kept`` has a row a pair:
    what the client keeps from its last round, empty where the algorithm keeps nothing. ``round``
    and ``seed`` are the key of the clients' streams; ``step`` is the index of the round's first
    local step; ``again`` says that the same was asked before and did not come. ``rounds`` are those
    of the run, ``point`` is its place in a sweep, ``run`` its number in the store.
    """

    round: int
    step: int
    seed: int
    plan_hash: str
    again: bool
    thetas: npt.NDArray[Any]
    repetitions: npt.NDArray[Any]
    clients: npt.NDArray[Any]
    kept: npt.NDArray[Any] = field(default_factory=lambda: np.zeros((0, 0)))
    rounds: int | None = None
    point: int | None = None
    run: int | None = None


class Transport(Protocol):
    """The way to the clients."""

    def ask(self, order: Order) -> None:
        """Sends an order; does not wait for answers."""

    def next(self) -> tuple[Any, ...] | None:
        """What comes next: ``("update", round, repetition, client, delta)``, with what the client
        keeps now as a sixth where the algorithm keeps something, ``("absent", client, reason)``,
        ``("claimed", client, reason)`` where somebody claimed a client that is another's, or
        ``("deadline",)``; ``None`` after a moment without any of them, so that a run can be stopped
        meanwhile."""

    def refused(self, repetition: int, client: int, reason: str) -> None:
        """An update was refused; the client may send a right one while the round is open."""


def ask(
    transport: Transport,
    key: tuple[int, int, int],
    plan: tuple[str, bool, int, int],
    thetas: bytes,
    repetitions: bytes,
    clients: bytes,
    kept: bytes,
    about: tuple[int, int | None, int | None],
) -> None:
    """Hands an order over."""
    plan_hash, again, broadcast, each = plan
    models = numbers(thetas).reshape(-1, broadcast)
    which, whose = (np.frombuffer(one, dtype="<u4").copy() for one in (repetitions, clients))
    own = numbers(kept).reshape(len(whose), each)
    (round, step, seed), (rounds, point, run) = key, about
    order = Order(
        round, step, seed, plan_hash, again, models, which, whose, own, rounds, point, run
    )
    transport.ask(order)


def arrival(transport: Transport) -> tuple[Any, ...] | None:
    """Takes what came next: five things are an update, three an absence or a claim, none a
    deadline."""
    came: Any = transport.next()
    match came:
        case None:
            return None
        case ("update", round, repetition, client, delta, *kept):
            own = kept[0] if kept else []
            vectors = [np.ascontiguousarray(one, dtype="<f8").tobytes() for one in (delta, own)]
            return int(round), int(repetition), int(client), *vectors
        case ("absent" | "claimed", client, reason):
            return int(client), str(reason), came[0] == "claimed"
        case ("deadline",):
            return ()
    raise TypeError(f"the transport returned {came!r}; see fedback.Transport.next")
