"""Frames, the form in which local processes talk: a length, a header in JSON with the arrays'
names, types and shapes, then the arrays' bytes."""

from __future__ import annotations

import json
import struct
from typing import Any, BinaryIO

import numpy as np

LONGEST = 1 << 30
"""Bytes that are read in one piece."""

TYPES = ("<f8", "<u8", "<u4")
"""What arrays are made of."""


def pack(fields: dict[str, Any], arrays: dict[str, np.ndarray]) -> bytes:
    """The bytes of a frame; the arrays have the types that they travel in."""
    listed = [(name, array.dtype.str, array.shape) for name, array in arrays.items()]
    header = json.dumps({"fields": fields, "arrays": listed}).encode()
    parts = [array.tobytes() for array in arrays.values()]
    return b"".join([struct.pack("<I", len(header)), header, *parts])


def unpack(stream: BinaryIO) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """The fields and arrays of the next frame; a `ValueError` where it is none."""
    (length,) = struct.unpack("<I", exactly(stream, 4))
    try:
        header = json.loads(exactly(stream, length))
        fields = dict(header["fields"])
        listed = [(str(name), str(dtype), list(shape)) for name, dtype, shape in header["arrays"]]
    except (AttributeError, KeyError, RecursionError, TypeError, ValueError) as error:
        raise ValueError(f"a header that is none ({type(error).__name__})") from None
    arrays = {}
    for name, dtype, shape in listed:
        if dtype not in TYPES or not all(type(size) is int and size >= 0 for size in shape):
            raise ValueError(f"an array of {dtype[:20]} in {len(shape)} axes")
        data = exactly(stream, np.dtype(dtype).itemsize * int(np.prod(shape, dtype=object)))
        arrays[name] = np.frombuffer(data, dtype=dtype).reshape(shape)
    return fields, arrays


def exactly(stream: BinaryIO, count: int) -> bytes:
    """So many bytes, or an error."""
    if count > LONGEST:
        raise OSError(f"{count} bytes")
    data = stream.read(count)
    if len(data) != count:
        raise ConnectionResetError("the other side hung up")
    return data
