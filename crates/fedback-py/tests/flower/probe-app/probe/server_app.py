"""The ServerApp behind a grid that writes every message down."""

from flwr.common.serde import message_to_proto
from flwr.serverapp import ServerApp

from fedback.flower import server_app

app = ServerApp()


class Probe:
    """A grid that writes down what passes, as Flower serialises it."""

    def __init__(self, grid, path):
        self._grid, self._path = grid, path

    def __getattr__(self, name):
        return getattr(self._grid, name)

    def push_messages(self, messages):
        self._write("down", messages)
        return self._grid.push_messages(messages)

    def pull_messages(self, identities):
        messages = list(self._grid.pull_messages(identities))
        self._write("up", messages)
        return messages

    def _write(self, way, messages):
        with open(self._path, "a", encoding="ascii") as out:
            for message in messages:
                out.write(f"{way} {message_to_proto(message).SerializeToString().hex()}\n")


@app.main()
def main(grid, context):
    server_app.main(Probe(grid, context.run_config["messages"]), context)
