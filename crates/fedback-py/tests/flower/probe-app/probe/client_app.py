"""The ClientApp; with `faults`, the nodes of partitions 0 and 1 spoil their updates, each round
in another way."""

import numpy as np
from flwr.app import Message
from flwr.clientapp import ClientApp

from fedback.flower import client_app
from fedback.flower.messages import Order, Update, decode, encode

app = ClientApp()

SPOIL = {  # by partition and round
    (0, 0): lambda update: {"delta": update.delta * np.nan},
    (0, 1): lambda update: {"delta": np.full_like(update.delta, 1e300)},
    (1, 0): lambda update: {"delta": np.hstack([update.delta, update.delta])},
    (1, 1): lambda update: {"round": 0},
}


@app.query()
def query(message, context):
    return client_app.query(message, context)


@app.train()
def train(message, context):
    reply = client_app.train(message, context)
    spoil = SPOIL.get((context.node_config["partition-id"], decode(message.content, Order).round))
    if context.run_config["faults"] and spoil is not None:
        update = decode(reply.content, Update)
        reply = Message(encode(Update(**(vars(update) | spoil(update)))), reply_to=message)
    return reply
