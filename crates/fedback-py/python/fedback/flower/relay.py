"""The way to a site's own process: a local socket, and nothing else.

A node that names a `site` in its node config has no way to the rows. What Flower starts there
passes questions on, and brings back what the site's service (`fedback site serve`) says; the
policy, the ledger and the rows are on the other side. `fedback/_frame.py` has the form
in which they talk.
"""

from __future__ import annotations

import socket
from dataclasses import fields

import numpy as np

from fedback import _frame

from .messages import ARRAYS, KINDS, BadMessage, wire

PATIENCE = 600.0
"""Seconds that the site may work on a question."""


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
    arrays = {
        name: np.ascontiguousarray(value, dtype=ARRAYS[name.replace("-", "_")][0])
        for name, value in values.items()
        if isinstance(value, np.ndarray)
    }
    return _frame.pack(texts, arrays)


def unpack(stream):
    """The message in a frame."""
    texts, arrays = _frame.unpack(stream)
    kind = KINDS[texts.pop("kind")]
    values = texts | arrays
    return kind(**{name.replace("-", "_"): value for name, value in values.items()})
