"""The ClientApp: a node answers whom it holds, and works when told to; or its site's service does,
and the node passes on what is asked and said.

Whatever goes wrong at a site stays there. The reply to a question or an order that cannot be met
is a [`Refusal`] with a sentence of ours; the traceback, which may quote a row, goes to the node's
own log.
"""

from __future__ import annotations

import time
from logging import getLogger

import numpy as np
from flwr.app import Context, Message
from flwr.clientapp import ClientApp

import fedback

from . import relay
from .census import Gathered
from .messages import (
    Answer,
    BadMessage,
    Census,
    Count,
    Order,
    Question,
    Refusal,
    Update,
    decode,
    encode,
)
from .settings import BadSetting, NodeSettings
from .site import load, tables

logger = getLogger("flwr.fedback")
app = ClientApp()


@app.query()
def query(message: Message, context: Context) -> Message:
    """Whom do you hold? How many rows have they?"""
    return reply(message, context, {Question: answer, Census: count})


@app.train()
def train(message: Message, context: Context) -> Message:
    """Work for a round."""
    return reply(message, context, {Order: work})


def reply(message: Message, context: Context, respond: dict) -> Message:
    """What is said to a message of one of the kinds, or why not."""
    started = time.monotonic()
    kind = "message"
    try:
        asked = decode(message.content, *respond)
        kind = type(asked).__name__.lower()
        settings = NodeSettings.read(context.node_config, context.run_config)
        if settings.site is None:
            content = respond[type(asked)](settings, asked)
        else:
            changes = [f"{key}={value}" for key, value in settings.set]
            content = relay.ask(settings.site, asked, changes)
    except (BadMessage, BadSetting) as reason:
        logger.error("refused: %s", reason)
        content = Refusal(version=fedback.__version__, reason=str(reason))
    except Exception as error:  # nothing of it may travel
        logger.exception("the site failed")
        reason = f"{type(error).__name__} at the site; the node's log has the traceback"
        content = Refusal(version=fedback.__version__, reason=reason)
    logger.info("%s in %.3f s", kind, time.monotonic() - started)
    return Message(encode(content), reply_to=message)


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
