"""The ClientApp; with `faults`, the node of partition 0 spoils its updates, each round in another way."""

import numpy as np
from flwr.app import Message
from flwr.clientapp import ClientApp

from fedback.flower import client_app
from fedback.flower.messages import Update, decode, encode

app = ClientApp()

SPOIL = {
    0: lambda update: {"delta": update.delta * np.nan},
    1: lambda update: {"delta": np.hstack([update.delta, update.delta])},
    2: lambda update: {"delta": np.full_like(update.delta, 1e300)},
    3: lambda update: {"round": 0},
}


@app.query()
def query(message, context):
    return client_app.query(message, context)


@app.train()
def train(message, context):
    reply = client_app.train(message, context)
    if context.run_config["faults"] and context.node_config["partition-id"] == 0:
        update = decode(reply.content, Update)
        reply = Message(
            encode(Update(**(vars(update) | SPOIL[update.round](update)))), reply_to=message
        )
    return reply
