"""Messages on their way: what was sent to whom, and the replies that have come."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from flwr.app import Array, Message
from flwr.serverapp import Grid

from .messages import encode

EXTRA_LIFE = 5.0
"""Seconds that a message outlives the wait for its reply, for clocks that differ a little."""


@dataclass
class Sent:
    """A message on its way: to whom, for which call of `ask` (`None`: a question), for which
    pairs."""

    node: int
    ask: int | None = None
    round: int | None = None
    pairs: tuple[tuple[int, int], ...] = ()

    @property
    def clients(self) -> list[int]:
        """The clients asked for."""
        return sorted({client for _, client in self.pairs})


class Mailbox:
    """Sends through Flower's grid, and knows what is still to be answered."""

    def __init__(self, grid: Grid):
        self._grid = grid
        self._sent: dict[str, Sent] = {}
        # The same by `ask`: a look at one costs nothing for the others.
        self._by_ask: dict[int | None, dict[str, Sent]] = {}

    def send(
        self,
        content: Any,
        kind: str,
        sent: Sent,
        patience: float,
        ready: dict[str, Array] | None = None,
    ) -> bool:
        """Sends a message that lives for some seconds; whether Flower has taken it. `ready` are
        arrays of it that were encoded before."""
        message = Message(
            encode(content, ready),
            dst_node_id=sent.node,
            message_type=kind,
            # Flower knows messages by a hash of what they say, and takes a reply from whoever knows
            # the hash: a random fraction of a second keeps other sites from guessing it.
            ttl=patience + EXTRA_LIFE + secrets.randbelow(1 << 40) / (1 << 40),
            group_id="" if sent.round is None else str(sent.round),
        )
        taken = [identity for identity in self._grid.push_messages([message]) if identity]
        for identity in taken:
            self._sent[identity] = sent
            self._by_ask.setdefault(sent.ask, {})[identity] = sent
        return bool(taken)

    def replies(self) -> Iterator[tuple[Sent, Message]]:
        """The replies that have come, with what they reply to."""
        if not self._sent:
            return
        for reply in self._grid.pull_messages(list(self._sent)):
            sent = self._remove(reply.metadata.reply_to_message_id)
            if sent is not None:
                yield sent, reply

    def _remove(self, identity: str) -> Sent | None:
        sent = self._sent.pop(identity, None)
        if sent is not None:
            rest = self._by_ask[sent.ask]
            del rest[identity]
            if not rest:
                del self._by_ask[sent.ask]
        return sent

    def orders(self, ask: int) -> list[Sent]:
        """The orders of a call of `ask` that have no reply."""
        return list(self._by_ask.get(ask, {}).values())

    def questioned(self) -> list[int]:
        """The nodes that have a question to answer."""
        return [sent.node for sent in self._by_ask.get(None, {}).values()]

    def clear(self) -> None:
        """Waits for nothing any more."""
        self._sent.clear()
        self._by_ask.clear()

    def forget(self, node: int) -> None:
        """Does not wait for the answer to a question any more."""
        questions = self._by_ask.get(None, {})
        for identity in [i for i, sent in questions.items() if sent.node == node]:
            self._remove(identity)
