"""What travels between the server and the sites, and nothing else.

Seven kinds of message, each a set of named fields. A field is a text, a count or an array; it
travels in the Flower record made for it (`ConfigRecord`, `MetricRecord`, `ArrayRecord`), arrays
as raw little-endian bytes beside their dtype and shape. Nothing is pickled. `FIELDS` and `KINDS`
are the whole list: `decode` refuses a record, a field, a dtype or a shape that is not in it, and
both ends decode whatever they receive. Rows of data have no field to travel in.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, MetricRecord, RecordDict

STYPE = "little-endian"
"""How arrays are laid out: C order, little-endian, no header."""

TEXTS = {"kind", "version", "plan_hash", "reason"}
COUNTS = {"round", "step", "federation", "dim", "point"}
ARRAYS = {  # dtype and number of axes
    "stream_key": ("<u8", 1),
    "theta": ("<f8", 2),
    "delta": ("<f8", 2),
    "kept": ("<f8", 2),
    "repetitions": ("<u4", 1),
    "clients": ("<u4", 1),
    "rows": ("<u8", 1),
    "sums": ("<f8", 2),
}
FIELDS = TEXTS | COUNTS | set(ARRAYS)
"""Every field that may travel."""


class BadMessage(ValueError):
    """A message that is not one of ours, with the reason."""


# Kinds of message. Every method that is made for a class takes time to load, and a node loads them
# anew for every message.


@dataclass(kw_only=True, eq=False, repr=False)
class Census:
    """Server to site: how many rows have your clients, and what are the sums of their features?
    Where the mean of every feature is known, in `sums`: the sums of squared distances to it."""

    version: str
    sums: np.ndarray | None = None


@dataclass(kw_only=True, eq=False, repr=False)
class Count:
    """Site to server: the clients it holds, their rows, and a row of sums for each."""

    version: str
    clients: np.ndarray
    rows: np.ndarray
    sums: np.ndarray

    def __post_init__(self) -> None:
        for name in ("rows", "sums"):
            value = getattr(self, name)
            if len(value) != len(self.clients):
                raise BadMessage(f"count: {len(value)} {name} for {len(self.clients)} clients")
        if not np.isfinite(self.sums).all():
            raise BadMessage("count: a sum is not finite")


@dataclass(kw_only=True, eq=False, repr=False)
class Question:
    """Server to site: whom do you hold, and under which plan?

    `rows` and `sums` are what a census came to, where there was one: every client's count of rows,
    and the mean and standard deviation of every feature. `point` is the plan's place in a sweep.
    """

    version: str
    plan_hash: str
    rows: np.ndarray | None = None
    sums: np.ndarray | None = None
    point: int | None = None


@dataclass(kw_only=True, eq=False, repr=False)
class Answer:
    """Site to server: the clients it holds, out of a federation of so many, in so many
    coordinates."""

    version: str
    plan_hash: str
    federation: int
    dim: int
    clients: np.ndarray

    def __post_init__(self) -> None:
        if len(np.unique(self.clients)) != len(self.clients):
            raise BadMessage("answer: a client is listed twice")
        if len(self.clients) and self.clients.max() >= self.federation:
            raise BadMessage(f"answer: client {self.clients.max()} of {self.federation}")


@dataclass(kw_only=True, eq=False, repr=False)
class Order:
    """Server to site: work from these models; pair j is client `clients[j]` in `repetitions[j]`.

    `theta` has a row per repetition of the run: the model, followed by what is sent with it. `kept`
    has a row per pair: what the client keeps from its last round, where the algorithm keeps
    something. `step` is the index of the round's first local step, `stream_key` holds the seed
    that streams are keyed by; `rows`, `sums` and `point` are as in a question.
    """

    version: str
    plan_hash: str
    round: int
    step: int
    stream_key: np.ndarray
    theta: np.ndarray
    repetitions: np.ndarray
    clients: np.ndarray
    kept: np.ndarray | None = None
    rows: np.ndarray | None = None
    sums: np.ndarray | None = None
    point: int | None = None

    def __post_init__(self) -> None:
        check_kept("order", self.kept, self.clients)
        if len(self.stream_key) != 1:
            raise BadMessage(f"order: {len(self.stream_key)} stream keys instead of one")
        check_pairs("order", self.repetitions, self.clients)
        if len(self.repetitions) and self.repetitions.max() >= len(self.theta):
            raise BadMessage(f"order: repetition {self.repetitions.max()} of {len(self.theta)}")


@dataclass(kw_only=True, eq=False, repr=False)
class Update:
    """Site to server: what each pair's client has moved by, a row of `delta` per pair, and what it
    keeps now, a row of `kept`."""

    version: str
    plan_hash: str
    round: int
    repetitions: np.ndarray
    clients: np.ndarray
    delta: np.ndarray
    kept: np.ndarray | None = None

    def __post_init__(self) -> None:
        check_kept("update", self.kept, self.clients)
        check_pairs("update", self.repetitions, self.clients)
        if len(self.delta) != len(self.clients):
            raise BadMessage(f"update: {len(self.delta)} deltas for {len(self.clients)} clients")


@dataclass(kw_only=True, eq=False, repr=False)
class Refusal:
    """Site to server: no, and why. The reason is a sentence of ours, never text of an exception,
    which may quote a row."""

    version: str
    reason: str


KINDS = {
    kind.__name__.lower(): kind
    for kind in (Census, Count, Question, Answer, Order, Update, Refusal)
}
"""The kinds of message by their name on the wire."""


def check_pairs(kind: str, repetitions: np.ndarray, clients: np.ndarray) -> None:
    """Refuses pairs that do not match up, or that come twice."""
    if len(repetitions) != len(clients):
        raise BadMessage(f"{kind}: {len(repetitions)} repetitions for {len(clients)} clients")
    if len(set(zip(repetitions.tolist(), clients.tolist()))) != len(clients):
        raise BadMessage(f"{kind}: a client comes twice in one repetition")


def check_kept(kind: str, kept: np.ndarray | None, clients: np.ndarray) -> None:
    """Refuses rows of what clients keep that do not match up."""
    if kept is not None and len(kept) != len(clients):
        raise BadMessage(f"{kind}: {len(kept)} rows kept for {len(clients)} clients")


def encode(message: Any, ready: dict[str, Array] | None = None) -> RecordDict:
    """The records of a message; `ready` are arrays that were encoded before."""
    ready = ready or {}
    values = {field.name: getattr(message, field.name) for field in fields(message)}
    values["kind"] = type(message).__name__.lower()
    texts, counts, arrays = ConfigRecord(), MetricRecord(), ArrayRecord()
    for name, value in values.items():
        if value is None:
            continue
        if name in TEXTS:
            texts[wire(name)] = str(value)
        elif name in COUNTS:
            counts[wire(name)] = int(value)
        else:
            arrays[wire(name)] = ready.get(name) or encode_array(name, value)
    records: dict[str, Any] = {"text": texts, "count": counts, "array": arrays}
    return RecordDict({name: record for name, record in records.items() if len(record)})


def decode(content: RecordDict, *kinds: type, most: dict[str, int] | None = None) -> Any:
    """The message in the records; one of `kinds`, or [`BadMessage`]. `most` bounds how many numbers
    an array may have, before they are read; one that it does not name may have none."""
    if not isinstance(content, RecordDict):
        raise BadMessage("not a message of records")
    types = {"text": ConfigRecord, "count": MetricRecord, "array": ArrayRecord}
    values: dict[str, Any] = {}
    for record_name, record in content.items():
        if type(record) is not types.get(record_name):
            raise BadMessage(f"record {record_name!r} ({type(record).__name__}) is not one of ours")
        for key, value in record.items():
            values[key] = decode_value(record_name, key, value, most)
    kind = KINDS.get(values.pop("kind", None))
    if kind is None or (kinds and kind not in kinds):
        allowed = " or ".join(sorted(kind.__name__.lower() for kind in kinds or KINDS.values()))
        raise BadMessage(f"found {kind.__name__.lower() if kind else 'no kind'}, wanted {allowed}")
    name = kind.__name__.lower()
    known = {wire(field.name): field for field in fields(kind)}
    if unknown := set(values) - set(known):
        raise BadMessage(f"{name}: unknown field {', '.join(sorted(unknown))}")
    needed = {key for key, field in known.items() if "None" not in str(field.type)}
    if missing := needed - set(values):
        raise BadMessage(f"{name}: field {', '.join(sorted(missing))} is missing")
    return kind(**{known[key].name: value for key, value in values.items()})


def wire(name: str) -> str:
    """A field's name on the wire."""
    return name.replace("_", "-")


def decode_value(record: str, key: str, value: Any, most: dict[str, int] | None = None) -> Any:
    """A field's value, checked against the list."""
    name = key.replace("-", "_")
    if record == "text" and name in TEXTS and type(value) is str:
        return value
    if record == "count" and name in COUNTS and type(value) is int:
        if value < 0:
            raise BadMessage(f"{key} is {value}, below zero")
        return value
    if record == "array" and name in ARRAYS and wire(name) == key:
        return decode_array(name, value, None if most is None else most.get(name, 0))
    raise BadMessage(f"field {key!r} ({type(value).__name__}) is not allowed in record {record!r}")


def encode_array(name: str, value: Any) -> Array:
    """An array as raw little-endian bytes."""
    dtype, axes = ARRAYS[name]
    array = np.asarray(value)
    if array.ndim != axes:
        raise BadMessage(f"{wire(name)} has {array.ndim} axes instead of {axes}")
    array = np.ascontiguousarray(array.astype(dtype, casting="same_kind", copy=False))
    return Array(dtype=dtype, shape=array.shape, stype=STYPE, data=array.tobytes())


def decode_array(name: str, value: Array, most: int | None = None) -> np.ndarray:
    """The array in the bytes, in the machine's own byte order."""
    dtype, axes = ARRAYS[name]
    if value.stype != STYPE or value.dtype != dtype:
        raise BadMessage(f"{wire(name)} is {value.dtype} ({value.stype}), not {dtype} ({STYPE})")
    shape = tuple(value.shape)
    if len(shape) != axes or any(type(size) is not int or size < 0 for size in shape):
        raise BadMessage(f"{wire(name)} has shape {shape}, wanted {axes} axes")
    numbers = int(np.prod(shape, dtype=object))
    if most is not None and numbers > most:
        raise BadMessage(f"{wire(name)} has {numbers} numbers, {most} were asked for")
    if len(value.data) != np.dtype(dtype).itemsize * numbers:
        raise BadMessage(f"{wire(name)}: {len(value.data)} bytes do not make shape {shape}")
    flat = np.frombuffer(value.data, dtype=dtype)
    return flat.astype(flat.dtype.newbyteorder("="), copy=True).reshape(shape)
