"""The ClientApp: a node answers whom it holds, and works when told to.

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

from .messages import Answer, BadMessage, Order, Question, Refusal, Update, decode, encode
from .settings import BadSetting, NodeSettings
from .site import load

logger = getLogger("flwr.fedback")
app = ClientApp()


@app.query()
def query(message: Message, context: Context) -> Message:
    """Whom do you hold?"""
    return reply(message, context, Question, answer)


@app.train()
def train(message: Message, context: Context) -> Message:
    """Work for a round."""
    return reply(message, context, Order, work)


def reply(message: Message, context: Context, kind: type, respond) -> Message:
    """What `respond` says to a message of the kind, or why not."""
    started = time.monotonic()
    try:
        asked = decode(message.content, kind)
        site, clients = load(NodeSettings.read(context.node_config, context.run_config))
        content = respond(site, clients, asked)
    except (BadMessage, BadSetting) as reason:
        logger.error("refused: %s", reason)
        content = Refusal(version=fedback.__version__, reason=str(reason))
    except Exception as error:  # nothing of it may travel
        logger.exception("the site failed")
        reason = f"{type(error).__name__} at the site; the node's log has the traceback"
        content = Refusal(version=fedback.__version__, reason=reason)
    logger.info("%s in %.3f s", kind.__name__.lower(), time.monotonic() - started)
    return Message(encode(content), reply_to=message)


def answer(site, clients: tuple[int, ...], _question: Question) -> Answer:
    """Whom the site holds. Whether that is what the run needs is for the server to say."""
    return Answer(
        version=fedback.__version__,
        plan_hash=site.plan_hash,
        federation=site.federation,
        dim=site.dim,
        clients=np.array(clients, dtype=np.uint32),
    )


def work(site, clients: tuple[int, ...], order: Order) -> Update:
    """The clients' work, if they are the site's and the plan is the same."""
    if order.version != fedback.__version__:
        raise BadMessage(f"the order comes from fedback {order.version}, not {fedback.__version__}")
    if order.plan_hash != site.plan_hash:
        raise BadMessage(f"the order is of plan {order.plan_hash[:12]}, not {site.plan_hash[:12]}")
    if order.theta.shape[1] != site.dim:
        raise BadMessage(f"the model has {order.theta.shape[1]} coordinates, not {site.dim}")
    strangers = set(order.clients.tolist()) - set(clients)
    if strangers:
        raise BadMessage(f"client {min(strangers)} is not held here")
    delta = site.work(
        order.round, int(order.stream_key[0]), order.repetitions, order.clients, order.theta
    )
    return Update(
        version=fedback.__version__,
        plan_hash=site.plan_hash,
        round=order.round,
        repetitions=order.repetitions,
        clients=order.clients,
        delta=delta,
    )
