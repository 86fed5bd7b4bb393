"""The transport: fedback's server talks through Flower's grid.

The loop over rounds is the compiled package's. It calls [`Transport.ask`] with a round's order and
[`Transport.next`] until it has what it needs. A node gets one message a round, with all of the work
asked of it. Flower's own strategies are not used: they sample without a seed and normalise weights.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from typing import Any

import numpy as np
from flwr.app import Array, Message, MessageType
from flwr.serverapp import Grid

import fedback

from .gathered import Gathered
from .harmless import harmless
from .holders import Holders
from .inflation import guard
from .journal import Journal, say, warn
from .mailbox import Mailbox, Sent
from .messages import Answer, BadMessage, Order, Question, Refusal, Update, decode, encode_array
from .node import Node
from .roster import Refused, Roster, listed

SHORTEST_PAUSE, LONGEST_PAUSE = 0.01, 0.5
"""Seconds between two looks for replies; the pause grows while none come."""

GRACE = 3.0
"""Seconds that nodes still have to answer whom they hold once every client is held."""

LOOK_AGAIN = 1.0
"""Seconds between two looks for nodes, while one is waited for."""

FULL = "first updates already"
"""How the server's reason ends where the first arrivals have made a round without this one."""


class Transport:
    """What `fedback.federate` drives.

    `seconds_waiting` is the time spent here, in Flower and in waiting for sites; the rest of a
    run's time is fedback's own.
    """

    def __init__(
        self,
        grid: Grid,
        version: str,
        wait: float = 120.0,
        deadline: float = 600.0,
        holders: Holders | None = None,
        federation: int | None = None,
        first_arrivals: bool = False,
        began: Callable[[fedback.Order], None] = lambda order: None,
    ):
        self._grid = grid
        self._holders = holders
        self.federation = federation
        self._version = version
        self._wait = wait
        self.deadline = deadline
        self._roster = Roster("", holders, federation)
        self._nodes: dict[int, Node] = {}
        self._versions = {version}
        self._unavailable: dict[int, str] = {}
        self._began = began
        self.first_arrivals = first_arrivals
        self._gathering = True
        self._mail = Mailbox(grid)
        self._events: deque[tuple[Any, ...]] = deque()
        self._claims: deque[tuple[Any, ...]] = deque()
        self._order: Any = None
        self._ask = self._handed = 0
        # What all orders of a round have, and the same encoded.
        self._common: dict[str, np.ndarray] = {}
        self._ready: dict[str, Array] = {}
        self._parked: set[int] = set()
        self._lost: set[int] = set()
        self._patient: set[int] = set()
        self._due = self._looked = 0.0
        self._pause = SHORTEST_PAUSE
        self.seconds_waiting = 0.0
        #: Says a line for every round.
        self.journal = Journal()
        #: What a census came to, which travels with every question and order.
        self.gathered: Gathered | None = None

    # What the compiled package calls.

    def ask(self, order: fedback.Order) -> None:
        """Sends a round's order to the nodes that hold its clients.

        A client that no node holds is absent at once. When a round is asked again, clients that
        were lost in this round are waited for: their node may be slow, or come back.
        """
        started = time.monotonic()
        if self._roster.plan_hash != order.plan_hash:
            self._begin(order)
        self.journal.asked(order)
        self._roster.round = order.round
        again = self._order is not None and self._order.round == order.round
        clients = set(order.clients.tolist())
        size = 8 * (order.thetas.shape[1] + order.kept.shape[1] + 1) * len(order.clients)
        # What was asked earlier may still come.
        guard.asked = max(guard.asked, size)
        self._order = order
        self._common = {"theta": order.thetas, **self._gathered()}
        self._ready = {name: encode_array(name, value) for name, value in self._common.items()}
        self._ask += 1
        self._events.clear()
        self._due = time.monotonic() + self.deadline
        self._look()
        self._collect()
        unsure = {client for client in clients if self._roster.holder(client) is None}
        self._patient = unsure - self._lost if again else set()
        self._lost = self._lost if again else unsure
        self._parked = set(range(len(order.clients)))
        self._dispatch()
        self.seconds_waiting += time.monotonic() - started

    def _begin(self, order: fedback.Order) -> None:
        """A run begins, perhaps after another of the same sweep: nodes are asked whom they hold."""
        self.journal.closed(None)
        self.journal = Journal(order.rounds)
        self._began(order)
        self._mail.clear()
        self._nodes, self._unavailable, self._order = {}, {}, order
        self._lost, self._gathering = set(), True
        self._roster = Roster(order.plan_hash, self._holders, self.federation)
        self._gather()
        self._order = None

    def next(self) -> tuple[Any, ...] | None:
        """The next thing that has happened: an update, an absence, a claim, the deadline; `None`
        after a moment without any. Where nothing is on its way any more, the deadline comes at
        once."""
        started = time.monotonic()
        event = self._next()
        if event is not None and event[0] == "update":
            self._handed = event[1]
        self.seconds_waiting += time.monotonic() - started
        return event

    def refused(self, repetition: int, client: int, reason: str) -> None:
        """The server has refused an update. One that is merely late is nothing to worry about."""
        late = self._handed != self._order.round or reason.endswith(FULL)
        tell = say if late else warn
        text = f"refused: client {client}, repetition {repetition}: {reason}"
        tell("refused", text, client=client, repetition=repetition, reason=reason)

    # Messages out.

    def _dispatch(self) -> None:
        """Sends what is parked to those who can do it now. What remains waits for nodes that have
        just come to say whom they hold, or for a node to come back."""
        if self._patient and time.monotonic() > self._looked + LOOK_AGAIN:
            self._look()
        asked = bool(self._questions())
        work: dict[int, list[int]] = {}
        absent = set()
        for place in sorted(self._parked):
            client = int(self._order.clients[place])
            node = self._roster.holder(client)
            if node is None and (asked or client in self._patient):
                continue
            if node is None:
                absent.add(client)
            else:
                work.setdefault(node, []).append(place)
            self._parked.discard(place)
        for node, places in work.items():
            self._send_order(node, np.array(places))
        self._events.extend(("absent", client, self._why(client)) for client in sorted(absent))

    def _why(self, client: int) -> str:
        """Why a client has nobody who could be asked."""
        node = self._roster.claimant(client)
        if node is None:
            return "no node holds it"
        self.journal.late(self._name(node))
        return f"{self._name(node)} missed a deadline, and is not waited for"

    def _send_order(self, node: int, places: np.ndarray) -> None:
        order = self._order
        # Client after client within a repetition is what sites compute fastest.
        places = places[np.lexsort((order.clients[places], order.repetitions[places]))]
        repetitions, clients = order.repetitions[places], order.clients[places]
        content = Order(
            version=self._version,
            plan_hash=order.plan_hash,
            round=order.round,
            step=order.step,
            stream_key=np.array([order.seed], dtype=np.uint64),
            repetitions=repetitions,
            clients=clients,
            kept=order.kept[places] if order.kept.size else None,
            point=order.point,
            **self._common,
        )
        pairs = tuple(zip(repetitions.tolist(), clients.tolist()))
        sent = Sent(node, ask=self._ask, round=order.round, pairs=pairs)
        # What comes too late for this ask may be in time for the next.
        patience = 2 * self.deadline
        if not self._mail.send(content, MessageType.TRAIN, sent, patience, self._ready):
            self._absent(sent, "Flower did not take the message")

    def _gathered(self) -> dict[str, np.ndarray]:
        return {} if self.gathered is None else self.gathered.fields()

    # Nodes that come and go.

    def _gather(self) -> None:
        """The query round: waits until every client has a node, or says why not."""
        until = time.monotonic() + self._wait
        complete = None
        while True:
            self._look()
            self._collect()
            missing, asked = self._roster.missing(), self._questions()
            for client, nodes in self._roster.twice().items():
                raise Refused(
                    f"client {client} is held twice: by {' and by '.join(map(self._name, nodes))}"
                )
            late = time.monotonic() >= until
            if missing == []:
                # A node that is asked and silent may be dead, and Flower not know it yet.
                complete = complete or time.monotonic()
                if not asked or late or time.monotonic() > complete + GRACE:
                    break
                self._rest()
                continue
            # A refused node will not change its mind; who is missing is most likely its clients.
            if late or (self._roster.refused and not asked):
                raise Refused(self._shortage(missing, late))
            self._rest()
        self._gathering = False
        for node, clients in sorted(self._roster.held().items()):
            self._tell("holds", node, f"holds client {listed(clients)}", clients=clients)

    def _shortage(self, missing: list[int] | None, late: bool) -> str:
        who = "every client" if missing is None else f"client {listed(missing)}"
        text = f"{who}: held by no node" + (f" (waited {self._wait:g} s)" if late else "")
        for node, reason in sorted(self._roster.refused.items()):
            text += f"; {self._name(node)} was refused: {reason}"
        for node, reason in sorted(self._unavailable.items()):
            text += f"; {self._name(node)} has not answered: {reason}"
        for node in self._questions():
            text += f"; {self._name(node)} has not answered"
        owners = self._owner
        nobody = [client for client in missing or [] if owners(client) == "nobody"]
        if nobody:
            text += f"; the list gives client {listed(nobody)} to nobody"
        return text

    def _owner(self, client: int) -> str:
        return self._holders.owner(client) if self._holders else ""

    def _look(self) -> None:
        """Notices nodes that have come or gone; a node that was started again counts as both."""
        self._looked = time.monotonic()
        nodes = {info.node_id: Node.of(info) for info in self._grid.get_nodes()}
        for node in [node for node in self._nodes if self._nodes[node] != nodes.get(node)]:
            self._tell("gone", node, "is gone")
            del self._nodes[node]
            self._unavailable.pop(node, None)
            self._roster.drop(node)
            self._mail.forget(node)
        for node in [node for node in nodes if node not in self._nodes]:
            self._nodes[node] = nodes[node]
            if self._holders is None or self._holders.site(nodes[node].key):
                self._question(node, self._wait)
            else:
                self._tell("left-out", node, "is left out: its key is not in the list", warn)
        for node in set(self._roster.silent()) - set(self._mail.questioned()):
            # It waits at Flower until the node comes to look; no round waits for the answer.
            self._question(node, 2 * self.deadline)

    def _question(self, node: int, patience: float) -> None:
        hash, point = self._roster.plan_hash, self._order.point
        question = Question(version=self._version, plan_hash=hash, point=point, **self._gathered())
        self._mail.send(question, MessageType.QUERY, Sent(node), patience)

    def _questions(self) -> list[int]:
        """The nodes that have a question to answer, and can be expected to."""
        return [node for node in self._mail.questioned() if self._roster.well(node)]

    def _name(self, node: int) -> str:
        return str(self._nodes.get(node, f"node {node}"))

    def _tell(
        self, event: str, node: int, text: str, tell: Callable[..., None] = say, **fields: Any
    ) -> None:
        known = self._nodes.get(node)
        fields |= known.fields if known else {"node": str(node), "site": ""}
        tell(event, f"{self._name(node)} {text}", **fields)

    # Messages in.

    def _next(self) -> tuple[Any, ...] | None:
        if self._claims:
            return self._claims.popleft()
        if self._events:
            return self._events.popleft()
        waiting = self._mail.orders(self._ask)
        if not waiting and not self._parked:
            return ("deadline",)
        self._collect()
        self._dispatch()
        if self._events:
            return self._events.popleft()
        if time.monotonic() >= self._due:
            for node in {sent.node for sent in waiting} | set(self._questions()):
                self._miss(node)
            return ("deadline",)
        self._rest()
        return None

    def _miss(self, node: int) -> None:
        """A deadline has passed without a word of a node."""
        number = self._order.round + 1
        self.journal.late(self._name(node))
        # Of first arrivals it is expected that some are late, and everybody is asked every time.
        tell = say if self.first_arrivals else warn
        self._tell("late", node, f"is late in round {number}", tell, round=number)
        if not self.first_arrivals:
            self._roster.missed(node)

    def _rest(self) -> None:
        time.sleep(self._pause)
        self._pause = min(1.5 * self._pause, LONGEST_PAUSE)

    def _collect(self) -> None:
        """Takes the replies that have come."""
        for sent, reply in self._mail.replies():
            self._pause = SHORTEST_PAUSE
            self._take(sent, reply)

    def _take(self, sent: Sent, reply: Message) -> None:
        if reply.has_error():
            reason = f"Flower: {reply.error.reason or reply.error.code}"
            return self._failed(sent, reason, self._unavailable)
        if self._roster.heard(sent.node):
            self._tell("back", sent.node, "is back")
        try:
            message = self._read(sent, reply)
            if isinstance(message, Refusal):
                return self._failed(sent, message.reason)
            if isinstance(message, Answer):
                return self._admit(sent.node, message)
            self._take_update(sent, message)
        except (BadMessage, Refused) as reason:
            self._failed(sent, str(reason))

    def _read(self, sent: Sent, reply: Message) -> Any:
        """The message, if it is one that was asked for, and no larger."""
        if sent.ask is None:
            federation = self.federation
            most = None if federation is None else {"clients": federation}
            return decode(reply.content, Answer, Refusal, most=most)
        pairs, theta, kept = len(sent.pairs), self._order.thetas, self._order.kept
        most = {"repetitions": pairs, "clients": pairs}
        most |= {"delta": pairs * theta.shape[1], "kept": pairs * kept.shape[1]}
        return decode(reply.content, Update, Refusal, most=most)

    def _admit(self, node: int, answer: Answer) -> None:
        version = harmless(answer.version)
        if version not in self._versions:
            self._versions.add(version)
            text = f"runs fedback {version}, the server {self._version}"
            self._tell("version", node, text, version=version)
        others = self._roster.admit(node, answer, self._nodes[node].key)
        if others:
            owners = ", ".join(sorted(set(map(self._owner, others))))
            text = f"claims client {listed(others)}, of {owners}: refused"
            self._tell("claim", node, text, warn, clients=others)
            who = f"by {self._name(node)}"
            self._claims.extend(("claimed", client, who) for client in others)
        own = [client for client in answer.clients.tolist() if client not in others]
        taken = [client for client in own if self._roster.claimant(client) != node]
        if taken:
            text = f"is not asked for client {listed(taken)}, which others hold"
            self._tell("claim", node, text, warn, clients=taken)
        elif not self._gathering:
            self._tell("holds", node, f"holds client {listed(own)}", clients=own)

    def _take_update(self, sent: Sent, update: Update) -> None:
        if update.plan_hash != self._roster.plan_hash:
            raise BadMessage("update: of another plan")
        pairs = list(zip(update.repetitions.tolist(), update.clients.tolist()))
        come = set(pairs)
        if update.round != sent.round or not come <= set(sent.pairs):
            raise BadMessage("update: not what was asked for")
        if update.round == self._order.round:
            self._unpark(come)
        if sent.ask == self._ask:
            self._roster.worked(sent.node)
        rows = (update.delta,) if update.kept is None else (update.delta, update.kept)
        for (repetition, client), *own in zip(pairs, *rows):
            self._events.append(("update", update.round, repetition, client, *own))
            self.journal.answered(update.round, client, update.delta.shape[1])
        rest = tuple(pair for pair in sent.pairs if pair not in come)
        if rest:
            self._absent(Sent(sent.node, sent.ask, sent.round, rest), "its node left it out")

    def _unpark(self, pairs: set[tuple[int, int]]) -> None:
        """A late update has come for work that was to be asked of somebody else."""
        places = sorted(self._parked)
        repetitions = self._order.repetitions[places].tolist()
        parked = zip(places, repetitions, self._order.clients[places].tolist())
        self._parked -= {place for place, *pair in parked if tuple(pair) in pairs}

    def _failed(self, sent: Sent, reason: str, reasons: dict[int, str] | None = None) -> None:
        reason = harmless(reason)
        reasons = self._roster.refused if reasons is None else reasons
        self._tell("failed", sent.node, f"failed: {reason}", warn, reason=reason)
        if sent.ask is None:
            reasons.setdefault(sent.node, reason)
        else:
            self._absent(sent, reason)

    def _absent(self, sent: Sent, reason: str) -> None:
        """The clients of a message will not answer; news of an earlier ask are no news."""
        if sent.ask == self._ask:
            self.journal.late(self._name(sent.node))
            reason = f"{self._name(sent.node)}: {reason}"
            self._events.extend(("absent", client, reason) for client in sent.clients)
