"""Sends the intruder to every node, and writes down what it has found."""

import json

from flwr.app import ConfigRecord, Message, RecordDict
from flwr.serverapp import ServerApp

app = ServerApp()


@app.main()
def main(grid, context):
    nodes = list(grid.get_node_ids())
    go = RecordDict({"go": ConfigRecord({"away": True})})
    messages = [Message(go, dst_node_id=node, message_type="query") for node in nodes]
    replies = grid.send_and_receive(messages, timeout=120)
    found = [json.loads(reply.content["found"]["json"]) for reply in replies]
    with open(context.run_config["found"], "w", encoding="utf-8") as out:
        json.dump(found, out)
