"""The ClientApp: a node answers whom it holds, and works when told to; or its site's service does,
and the node passes on what is asked and said.

Whatever goes wrong at a site stays there. The reply to a question or an order that cannot be met
is a [`Refusal`] with a sentence of ours; the traceback, which may quote a row, goes to the node's
own log.
"""

from __future__ import annotations

import time
from logging import getLogger
from typing import Any

from flwr.app import Context, Message
from flwr.clientapp import ClientApp

import fedback

from . import relay
from .messages import BadMessage, Census, Order, Question, Refusal, decode, encode
from .settings import BadSetting, NodeSettings

logger = getLogger("flwr.fedback")
app = ClientApp()


@app.query()
def query(message: Message, context: Context) -> Message:
    """Whom do you hold? How many rows have they?"""
    return reply(message, context, Question, Census)


@app.train()
def train(message: Message, context: Context) -> Message:
    """Work for a round."""
    return reply(message, context, Order)


def reply(message: Message, context: Context, *kinds: type) -> Message:
    """What is said to a message of one of the kinds, or why not."""
    started = time.monotonic()
    kind = "message"
    try:
        asked = decode(message.content, *kinds)
        kind = type(asked).__name__.lower()
        settings = NodeSettings.read(context.node_config, context.run_config)
        if settings.site is None:
            # Loaded where it is needed: Flower starts a process for every message.
            from .work import respond

            content: Any = respond(settings, asked)
        else:
            changes = [f"{key}={value}" for key, value in settings.set]
            content = relay.ask(settings.site, asked, changes)
    except (BadMessage, BadSetting) as reason:
        logger.error("refused: %s", reason)
        content = Refusal(version=fedback.__version__, reason=str(reason))
    except Exception as error:  # nothing of it may travel
        logger.exception("the site failed")
        text = f"{type(error).__name__} at the site; the node's log has the traceback"
        content = Refusal(version=fedback.__version__, reason=text)
    logger.info("%s in %.3f s", kind, time.monotonic() - started)
    return Message(encode(content), reply_to=message)
