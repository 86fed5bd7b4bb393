"""A grid without Flower's processes: messages go through Flower's own serialisation to the
ClientApp.

Faults can be told: a node that is dead (never answers), one that answers with what a test wants,
and nodes that come and go.
"""

from __future__ import annotations

from types import SimpleNamespace
from uuid import uuid4

from flwr.app import Context, Error, Message, RecordDict
from flwr.common.serde import message_from_proto, message_to_proto
from flwr.supercore.task_identity import TaskIdentity

from fedback.flower.client_app import app

# Flower fills in who sends from the process it runs an app in.
TaskIdentity.run_id = TaskIdentity.node_id = TaskIdentity.task_id = 1


class Loopback:
    """What the transport uses of a grid."""

    def __init__(self, run_config: dict, nodes: dict[int, dict]):
        self.run_config = run_config
        self.nodes = {node: dict(config) for node, config in nodes.items()}
        self.activated = {node: "1" for node in nodes}
        self.keys: dict[int, bytes] = {}
        self.dead: set[int] = set()
        self.answers: dict[int, object] = {}
        self.seen: list[Message] = []
        self.replies: dict[str, Message] = {}
        self.held_back: dict[str, Message] = {}

    def get_nodes(self):
        return [
            SimpleNamespace(
                node_id=node,
                name=f"site-{node}",
                last_activated_at=self.activated[node],
                public_key=self.keys.get(node, b""),
            )
            for node in self.nodes
        ]

    def push_messages(self, messages):
        identities = []
        for message in messages:
            identity = str(uuid4())
            message.metadata.__dict__["_message_id"] = identity
            message = message_from_proto(message_to_proto(message))
            self.seen.append(message)
            identities.append(identity)
            node = message.metadata.dst_node_id
            if node in self.nodes and node not in self.dead:
                self.reply(identity, node, message)
        return identities

    def reply(self, identity: str, node: int, message: Message) -> None:
        answer = self.answers.get(node, app)
        context = Context(
            run_id=1,
            node_id=node,
            node_config=self.nodes[node],
            state=RecordDict(),
            run_config=self.run_config,
        )
        reply = answer(message, context)
        if isinstance(reply, str):
            reply = Message(Error(code=0, reason=reply), reply_to=message)
        if reply is not None:
            reply = message_from_proto(message_to_proto(reply))
            self.seen.append(reply)
            self.replies[identity] = reply

    def pull_messages(self, identities):
        return [self.replies.pop(identity) for identity in identities if identity in self.replies]
