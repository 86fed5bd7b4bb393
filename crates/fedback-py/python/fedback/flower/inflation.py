"""What Flower makes of a site's bytes, looked at first.

Flower puts a reply together inside `grid.pull_messages`, from pieces that the site has sent, before
anybody can look at it. A piece may be named any number of times, so that a megabyte becomes a
terabyte; pieces that do not go together raise an exception in the middle of everybody's run. Behind
[`guard`], both are an error in that one reply, and its clients absent.

No interface of Flower promises that place. A server does not start where it is not found, nor with
a version in which nobody has looked for it.
"""

from __future__ import annotations

import json
from importlib import metadata

TESTED = ((1, 40), (1, 42))
"""Flower's versions, from the first on and before the second; those of pyproject.toml."""


def another_flower(why: str) -> ImportError:
    """Why no server starts with the Flower that is installed."""
    first, end = (".".join(map(str, version)) for version in TESTED)
    return ImportError(
        f"fedback: Flower {metadata.version('flwr')} is installed, and {why}; without looking at "
        "what sites send before Flower puts it together, fedback starts no server: "
        f'pip install "flwr>={first},<{end}"'
    )


try:
    from flwr.app import Array, Error, Message, Metadata
    from flwr.app.message import make_message
    from flwr.common.constant import ErrorCode
    from flwr.proto.message_pb2 import Message as ProtoMessage
    from flwr.supercore.constant import SYSTEM_MESSAGE_TYPE
    from flwr.supercore.inflatable.inflatable_object import (
        get_object_body,
        get_object_head_values_from_object_content,
    )
    from flwr.supercore.inflatable.inflatable_utils import inflate_object_from_contents
    from flwr.superlink.grid import http_grid
except ImportError as error:
    raise another_flower(f"looks different inside ({error})") from None

SPARE = 1 << 20
"""Bytes that a reply may have beside its numbers: names, reasons, lengths."""


class Guard:
    """Flower's function for putting a reply together, with a bound on what it comes to."""

    def __init__(self) -> None:
        #: Bytes of numbers that are asked of one node.
        self.asked = 0

    def __call__(self, object_id: str, contents: dict[str, bytes]) -> Message:
        """The reply; an error in its place where it is too large or cannot be put together."""
        own = contents[object_id]
        try:
            size, most = inflated(contents), self.asked + SPARE
            if size > most:
                return failed(own, f"the reply has {size} bytes, at most {most} were asked for")
            reply = inflate_object_from_contents(object_id, contents)
            return reply if isinstance(reply, Message) else failed(own, "the reply is no message")
        except Exception as error:  # whatever a site has made up
            return failed(own, f"the reply cannot be read ({type(error).__name__})")


def put_in_place(guard: Guard) -> None:
    """Makes Flower call the guard instead of its own function, where it calls that."""
    version = tuple(int(part) for part in metadata.version("flwr").split(".")[:2])
    if not TESTED[0] <= version < TESTED[1]:
        raise another_flower("was not tested")
    name = inflate_object_from_contents.__name__
    reads = http_grid.HttpGrid.pull_messages.__code__.co_names
    if name not in reads or getattr(http_grid, name, None) is not inflate_object_from_contents:
        raise another_flower(f"its grid puts replies together without {name}")
    setattr(http_grid, name, guard)


guard = Guard()
put_in_place(guard)


def inflated(contents: dict[str, bytes]) -> int:
    """How many bytes the arrays among the objects come to, once put together."""
    total = 0
    for content in contents.values():
        kind, children, _ = get_object_head_values_from_object_content(content)
        if kind == "Array":
            sizes = [len(contents[child]) for child in children]
            chunks = json.loads(get_object_body(content, Array))["arraychunk_ids"]
            total += sum(sizes[chunk] for chunk in chunks)
    return total


def failed(own: bytes, reason: str) -> Message:
    """An error in place of a reply, which is known by what it replies to; by nothing, where not
    even that can be read."""
    try:
        body = get_object_body(own, Message)
        replied = ProtoMessage.FromString(body).metadata.reply_to_message_id
    except Exception:  # as above
        replied = ""
    metadata = Metadata(
        run_id=0,
        message_id="",
        src_node_id=0,
        dst_node_id=0,
        reply_to_message_id=replied,
        group_id="",
        created_at=0.0,
        ttl=0.0,
        message_type=SYSTEM_MESSAGE_TYPE,
    )
    error = Error(code=ErrorCode.MESSAGE_UNAVAILABLE, reason=reason)
    return make_message(metadata=metadata, error=error)
