"""A grid of nodes that come, go, lie and repeat, from a seed, on a clock of its own.

What an honest node sends is marked with its site, so that whatever the transport hands on can be
told from what it should have been.
"""

from __future__ import annotations

import random

import numpy as np
from flwr.app import ConfigRecord, Error, Message, MetricRecord, RecordDict
from loopback import Loopback

import fedback
from fedback.flower.holders import Holders, Site
from fedback.flower.messages import Answer, Order, Refusal, Update, decode, encode

PLAN, DIM, SITES = "a" * 64, 3, 4
CLIENTS = {site: (2 * site, 2 * site + 1) for site in range(SITES)}
OWNER = {client: site for site, clients in CLIENTS.items() for client in clients}
HOLDERS = Holders({b"%d" % site: Site(f"s{site}", frozenset(CLIENTS[site])) for site in CLIENTS})
LIES = (
    "plan", "round", "stranger", "more", "fewer", "twice", "shape", "huge", "record", "field",
    "refusal", "answer", "error", "nothing", "bytes",
)  # fmt: skip
"""What a liar does instead of an honest update."""


class Clock:
    """Time passes where somebody sleeps, and a little whenever somebody looks."""

    def __init__(self):
        self.now = 0.0

    def monotonic(self) -> float:
        self.now += 1e-6
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


def honest(site: int, round: int, repetition: int, client: int) -> list[float]:
    """What a site sends for a pair."""
    return [float(site), float(round), repetition + client / 100]


class Crowd(Loopback):
    """Nodes of four sites, and strangers."""

    def __init__(self, seed: int):
        super().__init__({}, {})
        self.random = random.Random(seed)
        self.moods: dict[int, float] = {}
        self.sites: dict[int, int] = {}
        self.late: list[tuple[str, Message]] = []
        #: Right updates that were handed over, and orders that were sent, by (round, pair).
        self.handed: list[tuple[int, int, int]] = []
        self.ordered: dict[tuple[int, int, int], int] = {}
        self.lies: dict[str, int] = {}
        for site in range(SITES):
            self.come(site, mood=0.0)

    def come(self, site: int, mood: float) -> None:
        """A node of a site appears; with the mood 0 it is honest and prompt, with 1 it never is."""
        node = 1 + max(self.nodes, default=0) + self.random.randrange(3)
        self.nodes[node], self.activated[node] = {}, str(self.random.random())
        self.keys[node], self.sites[node], self.moods[node] = b"%d" % site, site, mood

    def stir(self) -> None:
        """Something happens between two rounds."""
        for node in list(self.nodes):
            self.moods[node] = self.random.choice([0.0, 0.0, 0.5, 1.0])
            if self.random.random() < 0.15:
                del self.nodes[node]
            elif self.random.random() < 0.1:
                self.activated[node] = str(self.random.random())
        for site in range(SITES + 1):  # the last is nobody's
            if self.random.random() < (0.2 if site in self.sites.values() else 0.8):
                self.come(site, self.random.choice([0.0, 0.0, 0.5]))

    def reply(self, identity: str, node: int, message: Message) -> None:
        """Now, later or never; the truth or not."""
        asked = decode(message.content)
        if isinstance(asked, Order):
            for pair in zip(asked.repetitions.tolist(), asked.clients.tolist()):
                key = (asked.round, *pair)
                self.ordered[key] = self.ordered.get(key, 0) + 1
        lies = self.random.random() < self.moods[node]
        content = self.lie(node, asked) if lies else self.truth(node, asked)
        if content is None:
            return
        reply = Message(content, reply_to=message)
        right = (node, asked) if not lies and isinstance(asked, Order) else None
        if self.random.random() < self.moods[node] / 2:
            self.late.append((identity, reply, right))
        else:
            self.replies[identity] = (reply, right)

    def pull_messages(self, identities):
        """What has come, in any order, with what was late."""
        for late in list(self.late):
            if self.random.random() < 0.02:
                self.late.remove(late)
                self.replies[late[0]] = late[1:]
        known = [identity for identity in identities if identity in self.replies]
        self.random.shuffle(known)
        found = []
        for reply, right in map(self.replies.pop, known):
            if right is not None and right[0] in self.nodes:
                order = right[1]
                pairs = zip(order.repetitions.tolist(), order.clients.tolist())
                self.handed.extend((order.round, *pair) for pair in pairs)
            found.append(reply)
        return found

    def truth(self, node: int, asked) -> RecordDict:
        site = self.sites[node]
        if not isinstance(asked, Order):
            clients = np.array(CLIENTS.get(site, ()), dtype=np.uint32)
            return encode(
                Answer(version="1", plan_hash=PLAN, federation=8, dim=DIM, clients=clients)
            )
        pairs = zip(asked.repetitions.tolist(), asked.clients.tolist())
        delta = [honest(site, asked.round, *pair) for pair in pairs]
        return encode(self.update(asked, delta=np.array(delta)))

    @staticmethod
    def update(asked: Order, **changes) -> Update:
        usual = {"version": "1", "plan_hash": PLAN, "round": asked.round}
        usual |= {"repetitions": asked.repetitions, "clients": asked.clients}
        return Update(**(usual | changes))

    def lie(self, node: int, asked) -> RecordDict | Error | None:
        """Something wrong; its first number is no site."""
        if not isinstance(asked, Order):
            claims = np.array(self.random.sample(range(8), 4), dtype=np.uint32)
            answer = {"version": "2", "plan_hash": PLAN, "federation": 8, "dim": DIM}
            answer |= self.random.choice([{}, {"federation": 9}, {"plan_hash": "b" * 64}])
            return self.random.choice(
                [encode(Answer(**answer, clients=claims)), self.random_records(), None]
            )
        kind = self.random.choice(LIES)
        self.lies[kind] = self.lies.get(kind, 0) + 1
        pairs, wrong = len(asked.clients), np.full((len(asked.clients), DIM), -1.0)
        one, change = np.ones(1, dtype=np.uint32), None
        if kind == "plan":
            change = {"plan_hash": "c" * 64}
        elif kind == "round":
            change = {"round": asked.round + self.random.choice([1, 1000])}
        elif kind == "stranger":
            change = {"clients": asked.clients + np.uint32(self.random.choice([8, 2**31]))}
        elif kind == "more":
            more = {name: np.append(getattr(asked, name), 7 * one) for name in PAIRS}
            change = more | {"delta": np.full((pairs + 1, DIM), -1.0)}
        elif kind == "shape":
            change = {"delta": wrong[:, :1].repeat(self.random.choice([0, 4, 9]), axis=1)}
        elif kind == "huge":
            change = {"delta": np.full((pairs, 5000), -1.0)}
        if change is not None:
            return encode(self.update(asked, **({"delta": wrong} | change)))
        if kind == "fewer":
            rest = {name: getattr(asked, name)[:0] for name in PAIRS}
            return encode(self.update(asked, **rest, delta=wrong[:0]))
        content = self.truth(node, asked)
        if kind == "twice":
            for name in PAIRS + ("delta",):
                array = content["array"][name]
                array.data, array.shape = 2 * array.data, (2 * array.shape[0], *array.shape[1:])
        elif kind == "field":
            content["array"]["features"] = content["array"]["delta"]
        elif kind == "bytes":
            content["array"]["delta"].data = content["array"]["delta"].data[:-1]
        elif kind == "record":
            content = self.random_records()
        elif kind == "refusal":
            content = encode(Refusal(version="1", reason="\x1b[2J" + "no" * 500))
        elif kind == "answer":
            content = self.truth(node, None)
        elif kind == "error":
            content = Error(code=self.random.randrange(9), reason="gone")
        return None if kind == "nothing" else content

    def random_records(self) -> RecordDict:
        text, count = ConfigRecord({"kind": "update", "x": b"\x00"}), MetricRecord({"round": -1})
        return RecordDict(self.random.choice([{}, {"text": text}, {"count": count}, {"z": text}]))


PAIRS = ("repetitions", "clients")


def order(round: int, pairs: list[tuple[int, int]]):
    """An order as the compiled package hands it over."""
    return fedback.Order(
        round=round,
        step=round,
        seed=7,
        plan_hash=PLAN,
        again=False,
        thetas=np.zeros((2, DIM)),
        repetitions=np.array([pair[0] for pair in pairs], dtype=np.uint32),
        clients=np.array([pair[1] for pair in pairs], dtype=np.uint32),
        kept=np.zeros((len(pairs), 0)),
    )
