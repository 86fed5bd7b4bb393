"""Who holds whom: the server's picture of the federation, without I/O."""

from __future__ import annotations

from .holders import Holders
from .messages import Answer


class Refused(Exception):
    """A node, or a federation, that this run cannot work with; the text is the reason."""


class Roster:
    """The clients that nodes have claimed, in the order in which they claimed them.

    A client belongs to the first claimant that answers. A node that missed a deadline is
    *silent*; it keeps its claim, and is asked again, but another node's claim goes before it.
    Thus a site that was killed and started again under a new node id takes its clients back, and
    a second claimant of a client whose holder is well changes nothing.

    Where the operator has a list of sites, `holders`, a claim counts only by it.
    """

    def __init__(
        self, plan_hash: str, holders: Holders | None = None, federation: int | None = None
    ):
        self.plan_hash = plan_hash
        self.holders = holders
        self.federation = federation
        self.refused: dict[int, str] = {}
        self._claims: dict[int, list[int]] = {}
        self._silent: set[int] = set()

    def admit(self, node: int, answer: Answer, key: bytes = b"") -> list[int]:
        """Takes a node's claims, or raises [`Refused`] with the reason; the clients that are not
        its to hold."""
        reason = self._objection(answer)
        if reason is not None:
            raise Refused(reason)
        self.refused.pop(node, None)
        self.federation = answer.federation
        clients, others = rightful(self.holders, key, answer.clients.tolist())
        for client in clients:
            self._claims.setdefault(client, []).append(node)
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
        for claimants in self._claims.values():
            if node in claimants:
                claimants.remove(node)

    def missed(self, node: int) -> None:
        """The node did not answer in time."""
        self._silent.add(node)

    def heard(self, node: int) -> None:
        """The node answered."""
        self._silent.discard(node)

    def holder(self, client: int) -> int | None:
        """The node to ask for a client's work."""
        claimants = self._claims.get(client, [])
        return next((node for node in claimants if node not in self._silent), None) or next(
            iter(claimants), None
        )

    def sure(self, client: int) -> bool:
        """Whether a client has a holder that is not silent."""
        return any(node not in self._silent for node in self._claims.get(client, []))

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
        held: dict[int, list[int]] = {}
        for client in sorted(self._claims):
            for node in self._claims[client]:
                held.setdefault(node, []).append(client)
        return held


def rightful(holders: Holders | None, key: bytes, clients: list[int]):
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
