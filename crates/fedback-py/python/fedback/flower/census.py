"""The census: what a run must know of tables that only their sites can read.

Two questions to every node: counts of rows and sums of features; then, once the mean is known, sums
of squared distances to it. Folded in client order they are to the bit what one table with all
rows has.
"""

from __future__ import annotations

import time

import numpy as np
from flwr.app import Message, MessageType
from flwr.serverapp import Grid

import fedback

from .gathered import Gathered
from .harmless import harmless
from .holders import Holders
from .inflation import guard
from .journal import warn
from .mailbox import Mailbox, Sent
from .messages import BadMessage, Census, Count, Refusal, decode
from .node import Node
from .roster import Refused, listed, rightful

Told = tuple[int, np.ndarray]
"""A client's count of rows, and its sums."""

PAUSE = 0.1
"""Seconds between two looks for replies."""


def needed(spec: fedback.Spec) -> bool:
    """Whether a spec's rows lie at sites, and nobody has counted them."""
    base = spec.table.get("problem", {}).get("base", {})
    return base.get("kind") == "sites" and "rows" not in base


def gather(
    grid: Grid, version: str, spec: fedback.Spec, wait: float, holders: Holders | None = None
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
    grid: Grid, question: Census, clients: int, features: int, wait: float, holders: Holders | None
) -> dict[int, Told]:
    """Every client's count and sums, from whichever node holds it."""
    until = time.monotonic() + wait
    mail = Mailbox(grid)
    nodes: dict[int, Node] = {}
    done: set[int] = set()
    told: dict[int, Told] = {}
    failed: dict[Node, str] = {}
    guard.asked = 8 * clients * (features + 2)
    while len(told) < clients:
        for node in map(Node.of, grid.get_nodes()):
            if node.number in done or node == nodes.get(node.number):
                continue
            if holders is not None and holders.site(node.key) is None:
                continue
            if mail.send(question, MessageType.QUERY, Sent(node.number), wait):
                nodes[node.number] = node
        for sent, reply in mail.replies():
            node = nodes[sent.node]
            if reply.has_error():
                # It may come back, and is asked again then.
                failed[node] = harmless(f"Flower: {reply.error.reason or reply.error.code}")
                warn("failed", f"{node} failed: {failed[node]}", reason=failed[node], **node.fields)
                continue
            count = counted(node, reply, clients, features)
            own, others = rightful(holders, node.key, count.clients.tolist())
            if others:
                text = f"{node} counts client {listed(others)}, of others: refused"
                warn("claim", text, clients=others, **node.fields)
            take(node, count, set(own), clients, told)
            done.add(node.number)
        if len(told) < clients and time.monotonic() > until:
            missing = [client for client in range(clients) if client not in told]
            text = f"client {listed(missing)}: no node counts its rows (waited {wait:g} s)"
            raise Refused("; ".join([text, *(f"{node}: {why}" for node, why in failed.items())]))
        time.sleep(PAUSE)
    return told


def counted(node: Node, reply: Message, clients: int, features: int) -> Count:
    """One node's counts, or why the census cannot go on."""
    try:
        most = {"clients": clients, "rows": clients, "sums": clients * features}
        count: Count | Refusal = decode(reply.content, Count, Refusal, most=most)
    except BadMessage as reason:
        raise Refused(f"{node}: {harmless(str(reason))}") from None
    if isinstance(count, Refusal):
        raise Refused(f"{node}: {harmless(count.reason)}")
    if count.sums.shape[1] != features:
        raise Refused(f"{node}: sums of {count.sums.shape[1]} features, not {features}")
    return count


def take(node: Node, count: Count, own: set[int], clients: int, told: dict[int, Told]) -> None:
    """Takes the counts of the clients that are a node's own."""
    for client, rows, sums in zip(count.clients.tolist(), count.rows.tolist(), count.sums):
        if client not in own:
            continue
        if client >= clients or client in told:
            why = "held twice" if client in told else f"not one of 0 to {clients - 1}"
            raise Refused(f"client {client}: {why} ({node})")
        told[client] = (rows, sums)
