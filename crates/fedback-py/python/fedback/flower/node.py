"""A node of the federation, as Flower knows it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from .harmless import harmless

if TYPE_CHECKING:
    from flwr.proto.node_pb2 import NodeInfo


@dataclass(frozen=True)
class Node:
    """Its number, when it came, its name and its key."""

    number: int
    activated: str
    name: str
    key: bytes

    @staticmethod
    def of(info: NodeInfo) -> Node:
        """From what Flower says."""
        name, key = harmless(info.name), bytes(info.public_key)
        return Node(info.node_id, info.last_activated_at, name, key)

    def __str__(self) -> str:
        return f"node {self.number} ({self.name})" if self.name else f"node {self.number}"

    @property
    def fields(self) -> dict[str, str]:
        """The fields of an event about it."""
        return {"node": str(self.number), "site": self.name}
