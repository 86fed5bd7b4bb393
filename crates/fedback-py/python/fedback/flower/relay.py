"""The way to a site's own process: a local socket, and nothing else.

A node that names a `site` in its node config has no way to the rows. What Flower starts there
passes questions on, and brings back what the site's service (`fedback site serve`) says; the
policy, the ledger and the rows are on the other side. `fedback/_frame.py` has the form
in which they talk.
"""

from __future__ import annotations

import socket
import time
from contextlib import suppress
from dataclasses import fields
from typing import Any, BinaryIO

import numpy as np

from fedback import _frame

from .messages import ARRAYS, COUNTS, KINDS, TEXTS, BadMessage, wire

PATIENCE = 600.0
"""Seconds that the site may work on a question."""

RETURN = 30.0
"""Seconds that a service which is not there, or has gone while it was asked, may take to be started
again."""

PAUSE = 0.2
"""Seconds between two looks whether it is back."""

GONE = (BlockingIOError, ConnectionError, FileNotFoundError)
"""What asking a service comes to while it is not running, or others stand in line."""


def ask(path: str, message: Any, set: list[str]) -> Any:
    """What the site's service says to a message; `set` is what the operator sets in the spec.

    Asking again does no harm: the same question gets the same answer, and counts once."""
    frame, limit = pack(message, set), time.monotonic() + RETURN
    while True:
        try:
            return say(path, frame)
        except OSError as error:
            # Only a service that is being started again is worth the wait.
            if not isinstance(error, GONE) or time.monotonic() > limit:
                reason = f"the site's service does not answer ({type(error).__name__})"
                raise BadMessage(reason) from None
        time.sleep(PAUSE)


def say(path: str, frame: bytes) -> Any:
    """Sends a frame to the service; what it says."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as service:
        service.settimeout(PATIENCE)
        service.connect(path)
        # Who hangs up on a question may have said why: it is too large, for one.
        with suppress(BrokenPipeError, ConnectionResetError):
            service.sendall(frame)
        return unpack(service.makefile("rb"))


def pack(message: Any, set: list[str]) -> bytes:
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


def unpack(stream: BinaryIO) -> Any:
    """The message in a frame, or [`BadMessage`] where it is none."""
    try:
        texts, arrays = _frame.unpack(stream)
        values = {key: plain(key, value) for key, value in texts.items()}
        kind = KINDS[values.pop("kind")]
        values |= {name: array_of(name, array) for name, array in arrays.items()}
        return kind(**{name.replace("-", "_"): value for name, value in values.items()})
    except (KeyError, TypeError, ValueError) as error:
        if isinstance(error, BadMessage):
            raise
        reason = f"the site's service sent no message ({type(error).__name__})"
        raise BadMessage(reason) from None


def plain(key: str, value: Any) -> Any:
    """A text or a count of a header."""
    name = key.replace("-", "_")
    if not (name in TEXTS and type(value) is str or name in COUNTS and type(value) is int):
        raise BadMessage(f"the site's service sent {key[:60]!r} as {type(value).__name__}")
    return value


def array_of(name: str, array: np.ndarray) -> np.ndarray:
    """An array as its name says."""
    dtype, axes = ARRAYS[name.replace("-", "_")]
    if array.dtype.str != dtype or array.ndim != axes:
        raise BadMessage(
            f"the site's service sent {name} as {array.dtype.str} of {array.ndim} axes"
        )
    return array
