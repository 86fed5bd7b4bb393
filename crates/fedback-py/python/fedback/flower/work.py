"""What a node says that has no service: the clients' work, in the process that Flower starts."""

from __future__ import annotations

import numpy as np

import fedback

from .gathered import Gathered
from .messages import Answer, BadMessage, Census, Count, Order, Question, Update
from .settings import NodeSettings
from .site import load, tables


def respond(settings: NodeSettings, asked: Census | Question | Order) -> Count | Answer | Update:
    """What is said to a message."""
    if isinstance(asked, Census):
        return count(settings, asked)
    return answer(settings, asked) if isinstance(asked, Question) else work(settings, asked)


def count(settings: NodeSettings, census: Census) -> Count:
    """The site's counts, and the sums that were asked for."""
    own = tables(settings)
    clients, rows, sums = own.sums()
    if census.sums is not None:
        sums = own.squares(census.sums[0])
    return Count(
        version=fedback.__version__,
        clients=clients.astype(np.uint32),
        rows=rows.astype(np.uint64),
        sums=sums,
    )


def gathered(message: Question | Order) -> Gathered | None:
    """What a census came to, if there was one."""
    return None if message.rows is None else Gathered.of(message.rows, message.sums)


def answer(settings: NodeSettings, question: Question) -> Answer:
    """Whom the site holds. Whether that is what the run needs is for the server to say."""
    site, clients = load(settings, gathered(question), question.point)
    return Answer(
        version=fedback.__version__,
        plan_hash=site.plan_hash,
        federation=site.federation,
        dim=site.dim,
        clients=np.array(clients, dtype=np.uint32),
    )


def work(settings: NodeSettings, order: Order) -> Update:
    """The clients' work, if they are the site's and the plan is the same."""
    site, clients = load(settings, gathered(order), order.point)
    if order.plan_hash != site.plan_hash:
        raise BadMessage(f"the order is of plan {order.plan_hash[:12]}, not {site.plan_hash[:12]}")
    if order.theta.shape[1] != site.broadcast:
        raise BadMessage(f"the model has {order.theta.shape[1]} numbers, not {site.broadcast}")
    kept = 0 if order.kept is None else order.kept.shape[1]
    if kept != site.kept:
        raise BadMessage(f"clients keep {kept} numbers by the order, {site.kept} by the plan")
    strangers = set(order.clients.tolist()) - set(clients)
    if strangers:
        raise BadMessage(f"client {min(strangers)} is not held here")
    delta, keeps = site.update(
        order.round, int(order.stream_key[0]), order.repetitions, order.clients, order.theta,
        order.kept,
    )  # fmt: skip
    return Update(
        version=fedback.__version__,
        plan_hash=site.plan_hash,
        round=order.round,
        repetitions=order.repetitions,
        clients=order.clients,
        delta=delta,
        kept=keeps if site.kept else None,
    )
