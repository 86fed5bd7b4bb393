"""What an operator reads: a line for each round, and one for whatever is out of the ordinary.

Every line is an event with a name and fields. As text it is a sentence; with `log = "json"` an
object, whose fields docs/reference/flower.md lists.
"""

from __future__ import annotations

import json
import sys
import time
from datetime import datetime, timezone
from logging import INFO, WARNING, Formatter, LogRecord, StreamHandler, getLogger
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from fedback import Order

logger = getLogger("flwr.fedback")


def say(event: str, text: str, *, level: int = INFO, **fields: Any) -> None:
    """Logs an event."""
    logger.log(level, "%s", text, extra={"event": event, "fields": fields})


def warn(event: str, text: str, **fields: Any) -> None:
    """Logs an event that an operator should know of."""
    say(event, text, level=WARNING, **fields)


class Lines(Formatter):
    """An object a line: when, how serious, which event, in words, and its fields."""

    def format(self, record: LogRecord) -> str:
        """One line."""
        when = datetime.fromtimestamp(record.created, timezone.utc)
        head = {
            "time": when.isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "event": getattr(record, "event", "note"),
            "text": record.getMessage(),
        }
        return json.dumps(head | getattr(record, "fields", {}), ensure_ascii=False)


def as_json() -> None:
    """From now on, events are objects on the standard output."""
    handler = StreamHandler(sys.stdout)
    handler.setFormatter(Lines())
    logger.handlers = [handler]
    logger.setLevel(INFO)
    logger.propagate = False


class Journal:
    """Keeps account of the open round, and says a line when it is closed."""

    def __init__(self, rounds: int | None = None):
        self._rounds = rounds
        self._open: int | None = None
        self._opened = 0.0
        self._thetas, self._dim = np.zeros((0, 0)), 0
        self._asked: set[int] = set()
        self._answered: set[int] = set()
        self._late: dict[str, None] = {}

    def asked(self, order: Order) -> None:
        """A round is asked, perhaps again; the one before, if another, is closed."""
        if order.round == self._open:
            return
        self.closed(order.thetas)
        self._open, self._opened = order.round, time.monotonic()
        self._thetas = order.thetas
        self._asked = set(order.clients.tolist())
        self._answered, self._late = set(), {}

    def answered(self, round: int, client: int, dim: int) -> None:
        """A client's update has come, with so many coordinates."""
        if round == self._open:
            self._answered.add(client)
            self._dim = dim

    def late(self, name: str) -> None:
        """A node that the round has done without, or will."""
        self._late[name] = None

    def closed(self, thetas: np.ndarray | None) -> None:
        """The open round, if there is one, has led to these models."""
        if self._open is None:
            return
        number, asked, answered = self._open + 1, len(self._asked), len(self._answered)
        fields: dict[str, Any] = {
            "round": number,
            "rounds": self._rounds,
            "asked": asked,
            "answered": answered,
        }
        of = "" if self._rounds is None else f" of {self._rounds}"
        text = f"round {number}{of}: {answered} of {asked} clients answered"
        # Whoever has answered after all is not late.
        late = list(self._late) if answered < asked else []
        if late:
            text += f"; late: {', '.join(late)}"
        moved = self._movement(thetas)
        if moved is not None:
            text += f"; θ moved by {moved:.3g}"
        seconds = time.monotonic() - self._opened
        fields |= {"late": late, "moved": moved, "seconds": round(seconds, 3)}
        say("round", f"{text}; {seconds:.1f} s", **fields)
        self._open = None

    def _movement(self, thetas: np.ndarray | None) -> float | None:
        """The distance between two models, on average over repetitions."""
        if thetas is None or len(thetas) != len(self._thetas):
            return None
        # What is sent with a model comes after it.
        step = thetas[:, : self._dim] - self._thetas[:, : self._dim]
        return float(np.linalg.norm(step, axis=1).mean())
