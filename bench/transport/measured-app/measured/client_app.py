"""The ClientApp; for every message a line with the CPU seconds of its process: until fedback is
loaded, to load it, and to answer."""

import json
import os
import time

from flwr.clientapp import ClientApp

before = time.process_time()
from fedback.flower import client_app  # noqa: E402

loaded = time.process_time()
app = ClientApp()


def measured(answer, message, context):
    started = time.thread_time()
    reply = answer(message, context)
    answered = time.thread_time() - started
    spent = {"flower": before, "load": loaded - before, "answer": answered}
    line = {"round": message.metadata.group_id, **spent}
    with open(os.environ["FEDBACK_MEASURED"], "a", encoding="ascii") as out:
        out.write(json.dumps(line) + "\n")
    return reply


@app.query()
def query(message, context):
    return measured(client_app.query, message, context)


@app.train()
def train(message, context):
    return measured(client_app.train, message, context)
