"""The way to a site's own process: a local socket, and nothing else.

A node that names a `site` in its node config has no way to the rows. What Flower starts there
passes questions on, and brings back what the site's service (`fedback site serve`) says; the
policy, the ledger and the rows are on the other side. A frame is a length, a header in JSON and the
arrays' bytes.
"""

from __future__ import annotations

import json
import socket
import struct
from dataclasses import fields

import numpy as np

from .messages import ARRAYS, COUNTS, KINDS, TEXTS, BadMessage, wire

PATIENCE = 600.0
"""Seconds that the site may work on a question."""

LONGEST = 1 << 30
"""Bytes of a reply that a node reads."""


def ask(path: str, message, set: list[str]):
    """What the site's service says to a message; `set` is what the operator sets in the spec."""
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as service:
            service.settimeout(PATIENCE)
            service.connect(path)
            service.sendall(pack(message, set))
            return unpack(service.makefile("rb"))
    except OSError as error:
        reason = f"the site's service does not answer ({type(error).__name__})"
        raise BadMessage(reason) from None


def pack(message, set: list[str]) -> bytes:
    """The frame of a message."""
    values = {wire(field.name): getattr(message, field.name) for field in fields(message)}
    values = {name: value for name, value in values.items() if value is not None}
    texts = {name: value for name, value in values.items() if not isinstance(value, np.ndarray)}
    texts |= {"kind": type(message).__name__.lower(), "set": set}
    listed, parts = [], []
    for name, value in values.items():
        if isinstance(value, np.ndarray):
            dtype = ARRAYS[name.replace("-", "_")][0]
            array = np.ascontiguousarray(value, dtype=dtype)
            listed.append((name, dtype, array.shape))
            parts.append(array.tobytes())
    header = json.dumps({"fields": texts, "arrays": listed}).encode()
    return b"".join([struct.pack("<I", len(header)), header, *parts])


def unpack(stream):
    """The message in a frame, or [`BadMessage`] where it is none."""
    (length,) = struct.unpack("<I", exactly(stream, 4))
    try:
        header = json.loads(exactly(stream, length))
        values = {key: plain(key, value) for key, value in dict(header["fields"]).items()}
        kind = KINDS[values.pop("kind")]
        listed = [(str(name), str(dtype), list(shape)) for name, dtype, shape in header["arrays"]]
        for name, dtype, shape in listed:
            values[name] = array_of(stream, name, dtype, shape)
        return kind(**{name.replace("-", "_"): value for name, value in values.items()})
    except (AttributeError, KeyError, RecursionError, TypeError, ValueError) as error:
        if isinstance(error, BadMessage):
            raise
        reason = f"the site's service sent no message ({type(error).__name__})"
        raise BadMessage(reason) from None


def plain(key: str, value):
    """A text or a count of a header."""
    name = key.replace("-", "_")
    if not (name in TEXTS and type(value) is str or name in COUNTS and type(value) is int):
        raise BadMessage(f"the site's service sent {key[:60]!r} as {type(value).__name__}")
    return value


def array_of(stream, name: str, dtype: str, shape: list[int]) -> np.ndarray:
    """The next array of a frame."""
    known, axes = ARRAYS[name.replace("-", "_")]
    right = len(shape) == axes and all(type(size) is int and size >= 0 for size in shape)
    if dtype != known or not right:
        raise BadMessage(f"the site's service sent {name} as {dtype[:20]!r}, {len(shape)} axes")
    data = exactly(stream, np.dtype(dtype).itemsize * int(np.prod(shape, dtype=object)))
    return np.frombuffer(data, dtype=dtype).reshape(shape)


def exactly(stream, count: int) -> bytes:
    """So many bytes, or an error."""
    if count > LONGEST:
        raise OSError(f"{count} bytes")
    data = stream.read(count)
    if len(data) != count:
        raise OSError("the service hung up")
    return data
