"""Who holds whom: the server's picture of the federation, without I/O."""

from __future__ import annotations

from .holders import Holders
from .messages import Answer


class Refused(Exception):
    """A node, or a federation, that this run cannot work with; the text is the reason."""


class Roster:
    """The clients that nodes have claimed, in the order in which they claimed them.

    A client belongs to the first claimant that answers. A node that missed a deadline is
    *silent*: it keeps its claim, but no round waits for it until it is heard of, and another node's
    claim goes before it. Thus a site that was killed and started again under a new node id takes
    its clients back, and a second claimant of a client whose holder is well changes nothing. A node
    that answers, and misses one deadline after the other, is left alone for 2, 4, 8, … rounds.

    Where the operator has a list of sites, `holders`, a claim counts only by it.
    """

    def __init__(
        self, plan_hash: str, holders: Holders | None = None, federation: int | None = None
    ):
        self.plan_hash = plan_hash
        self.holders = holders
        self.federation = federation
        self.refused: dict[int, str] = {}
        # The same twice, so that a node that comes or goes costs what it holds, not all there is.
        self._claims: dict[int, dict[int, None]] = {}
        self._held: dict[int, set[int]] = {}
        self.round = 0
        self._silent: set[int] = set()
        self._misses: dict[int, int] = {}
        self._rests: dict[int, int] = {}

    def admit(self, node: int, answer: Answer, key: bytes = b"") -> list[int]:
        """Takes a node's claims, or raises [`Refused`] with the reason; the clients that are not
        its to hold."""
        reason = self._objection(answer)
        if reason is not None:
            raise Refused(reason)
        self.refused.pop(node, None)
        self.federation = answer.federation
        clients, others = rightful(self.holders, key, answer.clients.tolist())
        for client in self._held.get(node, set()) - set(clients):
            del self._claims[client][node]
        for client in clients:
            self._claims.setdefault(client, {}).setdefault(node)
        self._held[node] = set(clients)
        return others

    def _objection(self, answer: Answer) -> str | None:
        if answer.plan_hash != self.plan_hash:
            return (
                f"its plan is {answer.plan_hash[:12]}, the server's {self.plan_hash[:12]}; "
                "the spec, an override or the data file differs"
            )
        if self.federation not in (None, answer.federation):
            return f"it knows {answer.federation} clients, the run {self.federation}"
        return None

    def drop(self, node: int) -> None:
        """Forgets a node."""
        self.refused.pop(node, None)
        self._silent.discard(node)
        self._misses.pop(node, None)
        self._rests.pop(node, None)
        for client in self._held.pop(node, set()):
            del self._claims[client][node]

    def missed(self, node: int) -> None:
        """The node did not answer in time."""
        if node in self._silent:
            return
        self._silent.add(node)
        misses = self._misses[node] = self._misses.get(node, 0) + 1
        if misses > 1:
            self._rests[node] = self.round + 2 ** (misses - 1)

    def heard(self, node: int) -> bool:
        """The node said something; whether it was silent before."""
        was = node in self._silent
        self._silent.discard(node)
        return was

    def worked(self, node: int) -> None:
        """The node did in time what it was asked."""
        self._misses.pop(node, None)
        self._rests.pop(node, None)

    def well(self, node: int) -> bool:
        """Whether a node can be expected to answer in this round."""
        return node not in self._silent and self.round >= self._rests.get(node, 0)

    def silent(self) -> list[int]:
        """The nodes that have missed a deadline, and said nothing since."""
        return sorted(self._silent)

    def holder(self, client: int) -> int | None:
        """The node to ask for a client's work, if one can be expected to answer."""
        return next((node for node in self._claims.get(client, {}) if self.well(node)), None)

    def claimant(self, client: int) -> int | None:
        """The node that a client belongs to, whether it can be expected to answer or not."""
        return self.holder(client) or next(iter(self._claims.get(client, {})), None)

    def missing(self) -> list[int] | None:
        """The clients nobody holds; `None` while nobody has said how many there are."""
        if self.federation is None:
            return None
        return [client for client in range(self.federation) if not self._claims.get(client)]

    def twice(self) -> dict[int, list[int]]:
        """The clients that several nodes hold, with the nodes."""
        return {client: list(nodes) for client, nodes in self._claims.items() if len(nodes) > 1}

    def held(self) -> dict[int, list[int]]:
        """The clients each node holds."""
        return {node: sorted(clients) for node, clients in self._held.items() if clients}


def rightful(
    holders: Holders | None, key: bytes, clients: list[int]
) -> tuple[list[int], list[int]]:
    """A node's clients in two: those that are its to hold, and the others."""
    if holders is None:
        return clients, []
    site = holders.site(key)
    own = site.clients if site else frozenset()
    return [one for one in clients if one in own], [one for one in clients if one not in own]


def listed(clients: list[int], most: int = 8) -> str:
    """Clients for a message: the first few, and how many more."""
    text = ", ".join(str(client) for client in clients[:most])
    more = len(clients) - most
    return text if more <= 0 else f"{text} and {more} more"
