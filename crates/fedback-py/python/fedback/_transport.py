"""What the compiled half and a transport say to each other."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from ._custom import numbers


@dataclass(frozen=True)
class Order:
    """What the server asks for in one round.

    Pair j is the work of client ``clients[j]`` in repetition ``repetitions[j]``, whose model is a
    row of ``thetas``. ``round`` and ``seed`` are the key of the clients' streams; ``step`` is the
    index of the round's first local step; ``again`` says that the same was asked before and did not
    come.
    """

    round: int
    step: int
    seed: int
    plan_hash: str
    again: bool
    thetas: np.ndarray
    repetitions: np.ndarray
    clients: np.ndarray


class Transport(Protocol):
    """The way to the clients."""

    def ask(self, order: Order) -> None:
        """Sends an order; does not wait for answers."""

    def next(self) -> tuple:
        """Waits for what comes next: ``("update", round, repetition, client, delta)``, ``("absent",
        client, reason)`` or ``("deadline",)``."""

    def refused(self, repetition: int, client: int, reason: str) -> None:
        """An update was refused; the client may send a right one while the round is open."""


def ask(
    transport: Transport,
    key: tuple[int, int, int],
    plan: tuple[str, bool, int],
    thetas: bytes,
    repetitions: bytes,
    clients: bytes,
) -> None:
    """Hands an order over."""
    plan_hash, again, dim = plan
    pairs = (np.frombuffer(one, dtype="<u4").copy() for one in (repetitions, clients))
    transport.ask(Order(*key, plan_hash, again, numbers(thetas).reshape(-1, dim), *pairs))


def arrival(transport: Transport) -> tuple:
    """Takes what came next: four things are an update, two an absence, none a deadline."""
    came: Any = transport.next()
    match came:
        case ("update", round, repetition, client, delta):
            numbers = np.ascontiguousarray(delta, dtype="<f8").ravel()
            return int(round), int(repetition), int(client), numbers.tobytes()
        case ("absent", client, reason):
            return int(client), str(reason)
        case ("deadline",):
            return ()
    raise TypeError(f"the transport returned {came!r}; see fedback.Transport.next")
