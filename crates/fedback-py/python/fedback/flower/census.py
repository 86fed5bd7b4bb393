"""The census: what a run must know of tables that only their sites can read.

Two questions to every node: counts of rows and sums of features; then, once the mean is known, sums
of squared distances to it. Folded in client order they are to the bit what one table with all
rows has.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np
from flwr.app import Message, MessageType

import fedback

from .harmless import harmless
from .holders import Holders
from .inflation import guard
from .journal import warn
from .messages import BadMessage, Census, Count, Refusal, decode, encode
from .roster import Refused, listed, rightful

PAUSE = 0.1
"""Seconds between two looks for replies."""


@dataclass(frozen=True)
class Gathered:
    """What a census came to: every client's count of rows and, where features are standardised,
    their means and standard deviations."""

    rows: tuple[int, ...]
    sums: tuple[tuple[float, ...], ...] = ()

    @staticmethod
    def of(rows: np.ndarray, sums: np.ndarray | None) -> Gathered:
        """From the fields of a message."""
        sums = () if sums is None else tuple(map(tuple, sums.tolist()))
        return Gathered(tuple(rows.tolist()), sums)

    def fields(self) -> dict[str, np.ndarray]:
        """The fields of a message."""
        sums = {"sums": np.array(self.sums)} if self.sums else {}
        return {"rows": np.array(self.rows, dtype=np.uint64), **sums}

    def complete(self, spec: fedback.Spec) -> fedback.Spec:
        """The spec with it."""
        base = {"problem.base.rows": self.rows}
        if self.sums:
            base["problem.base.mean"], base["problem.base.sd"] = self.sums
        return spec.set(base)


def needed(spec: fedback.Spec) -> bool:
    """Whether a spec's rows lie at sites, and nobody has counted them."""
    base = spec.table.get("problem", {}).get("base", {})
    return base.get("kind") == "sites" and "rows" not in base


def gather(
    grid, version: str, spec: fedback.Spec, wait: float, holders: Holders | None = None
) -> Gathered:
    """Asks every site for its sums, and folds them."""
    problem = spec.table["problem"]
    clients = problem.get("clients")
    if not isinstance(clients, int) or clients < 1:
        raise Refused("problem.clients: needed where rows lie at sites")
    features = len(problem["base"].get("features", []))
    told = everyone(grid, Census(version=version), clients, features, wait, holders)
    rows = np.array([told[client][0] for client in range(clients)], dtype=np.uint64)
    if not problem["base"].get("standardize"):
        return Gathered.of(rows, None)
    mean = fedback.census_mean(rows, np.array([told[client][1] for client in range(clients)]))
    question = Census(version=version, sums=mean[None, :])
    told = everyone(grid, question, clients, features, wait, holders)
    squares = np.array([told[client][1] for client in range(clients)])
    base = fedback.census(spec, rows, mean, squares).table["problem"]["base"]
    return Gathered.of(rows, np.array([base["mean"], base["sd"]]))


def everyone(
    grid, question: Census, clients: int, features: int, wait: float, holders: Holders | None
) -> dict:
    """Every client's count and sums, from whichever node holds it."""
    until = time.monotonic() + wait
    asked: dict[str, int] = {}
    keys: dict[int, bytes] = {}
    told: dict[int, tuple[int, np.ndarray]] = {}
    guard.asked = 8 * clients * (features + 2)
    while len(told) < clients:
        for info in grid.get_nodes():
            if info.node_id in keys or (holders and not holders.site(bytes(info.public_key))):
                continue
            message = Message(
                encode(question),
                dst_node_id=info.node_id,
                message_type=MessageType.QUERY,
                ttl=wait + 5.0,
            )
            for identity in filter(None, grid.push_messages([message])):
                asked[identity] = info.node_id
                keys[info.node_id] = bytes(info.public_key)
        for reply in grid.pull_messages(list(asked)):
            node = asked.pop(reply.metadata.reply_to_message_id)
            count = counted(node, reply, clients, features)
            own, others = rightful(holders, keys[node], count.clients.tolist())
            if others:
                text = f"node {node} counts client {listed(others)}, of others: refused"
                warn("claim", text, node=str(node), clients=others)
            take(node, count, set(own), clients, told)
        if len(told) < clients and time.monotonic() > until:
            missing = [client for client in range(clients) if client not in told]
            raise Refused(f"client {listed(missing)}: no node counts its rows (waited {wait:g} s)")
        time.sleep(PAUSE)
    return told


def counted(node: int, reply: Message, clients: int, features: int) -> Count:
    """One node's counts, or why the census cannot go on."""
    if reply.has_error():
        reason = harmless(f"Flower: {reply.error.reason or reply.error.code}")
        raise Refused(f"node {node}: {reason}")
    try:
        most = {"clients": clients, "rows": clients, "sums": clients * features}
        count = decode(reply.content, Count, Refusal, most=most)
    except BadMessage as reason:
        raise Refused(f"node {node}: {harmless(str(reason))}") from None
    if isinstance(count, Refusal):
        raise Refused(f"node {node}: {harmless(count.reason)}")
    if count.sums.shape[1] != features:
        raise Refused(f"node {node}: sums of {count.sums.shape[1]} features, not {features}")
    return count


def take(node: int, count: Count, own: set[int], clients: int, told: dict) -> None:
    """Takes the counts of the clients that are a node's own."""
    for client, rows, sums in zip(count.clients.tolist(), count.rows.tolist(), count.sums):
        if client not in own:
            continue
        if client >= clients or client in told:
            why = "held twice" if client in told else f"not one of 0 to {clients - 1}"
            raise Refused(f"client {client}: {why} (node {node})")
        told[client] = (rows, sums)
