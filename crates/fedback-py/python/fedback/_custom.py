"""What the compiled half asks of Python functions, for a block of members (clients, each in one
repetition) at a time; and checks of what they return.

Observations of a block are what a function of all clients returned, with a member axis in front; or
:class:`Each`, one batch a member, where a function takes one client at a time or clients have
different numbers of rows. A function of either form meets batches of both.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from . import _native
from .streams import Streams, takes_all_clients

Batch = Any

# The C library gives memory back to the system where twice the largest piece that was ever freed is
# free. Without one that is larger than the arrays of a step, every step would ask for these anew,
# page by page, which takes as long as the arithmetic.
np.empty(1 << 21)


class Each(list[Any]):
    """Observations, a batch a member."""


def numbers(data: bytes | bytearray) -> np.ndarray:
    """Numbers that may be written to, so that nobody stumbles over arrays that may not."""
    array = np.frombuffer(data, dtype="<f8")
    return array if array.flags.writeable else array.copy()


class Cursor:
    """The draws of a block's members in one round."""

    def __init__(self, draw: Callable[..., Any], clients: bytes, streams: _native.Streams) -> None:
        self.draw = draw
        self.clients = np.frombuffer(clients, dtype="<u4").astype(np.int64)
        self.streams = Streams(streams)
        self.together = takes_all_clients(draw)
        self.ids: list[int] = [] if self.together else self.clients.tolist()
        self.generators = [] if self.together else self.streams.generators()

    def observe(self, theta: bytearray, count: int) -> Batch:
        """So many observations of every member, each under a model of its own."""
        models = numbers(theta).reshape(len(self.clients), -1)
        if self.together:
            return self.draw(self.clients, models, count, self.streams)
        draw = self.draw
        members = zip(self.ids, models, self.generators)
        return Each(draw(client, model, count, rng) for client, model, rng in members)


def begin(draw: Callable[..., Any], clients: bytes, streams: _native.Streams) -> Cursor:
    """Prepares the draws of one round."""
    return Cursor(draw, clients, streams)


def batch(features: bytearray, labels: bytearray, dim: int, sizes: list[int]) -> Batch:
    """Built-in observations as a function sees them: an array, or features and labels."""
    rows: np.ndarray = numbers(features).reshape(-1, dim)
    marks = numbers(labels)
    if len(set(sizes)) == 1:
        rows = rows.reshape(len(sizes), -1, dim)
        return (rows, marks.reshape(len(sizes), -1)) if labels else rows
    ends = np.cumsum(sizes)[:-1]
    if not labels:
        return Each(np.split(rows, ends))
    return Each(zip(np.split(rows, ends), np.split(marks, ends)))


def rows(
    batch: Batch, members: int, count: int, features: int, labelled: bool, binary: bool
) -> tuple[bytes, bytes]:
    """A batch for a loss that is built in: rows of features, and labels where the loss has any."""
    alone = isinstance(batch, Each)
    marks = np.empty(0)
    if labelled:
        for one in batch if alone else [batch]:
            if not isinstance(one, tuple) or len(one) != 2:
                wanted = f"(features, labels), {count} rows of {features} features"
                raise TypeError(f"draw returned {kind(one)}; needed: {wanted}")
        marks = _numbers([one[1] for one in batch] if alone else batch[1], alone)
        batch = [one[0] for one in batch] if alone else batch[0]
        _shape(marks, (members, count), alone, "labels")
        if binary and not ((marks == 0.0) | (marks == 1.0)).all():
            raise ValueError("draw returned labels other than 0 and 1, which the loss needs")
    values = _numbers(batch, alone)
    if values.ndim == 2 and features == 1:
        values = values[:, :, None]
    wanted = f"{count} rows of {features} feature{'s' * (features != 1)}"
    _shape(values, (members, count, features), alone, "features", wanted)
    if not (np.isfinite(values).all() and np.isfinite(marks).all()):
        raise ValueError("draw returned a number that is not finite")
    return values.tobytes(), marks.tobytes()


def _numbers(values: Any, alone: bool) -> np.ndarray:
    """Numbers with a member axis in front; of members alone, as long as their shapes agree."""
    if alone:
        values = [np.asarray(one, dtype=np.float64) for one in values]
        if len({one.shape for one in values}) > 1:
            # What is wrong is said of the first that differs.
            values = next([one] for one in values if one.shape != values[0].shape)
    return np.asarray(values, dtype=np.float64)


def _shape(
    array: np.ndarray, needed: tuple[int, ...], alone: bool, what: str, words: str = ""
) -> None:
    """Refuses arrays of another shape; of members alone their axis is not mentioned."""
    if array.shape != needed:
        found, needed = (array.shape[1:], needed[1:]) if alone else (array.shape, needed)
        wanted = words if alone and words else needed
        raise ValueError(f"draw returned {what} of shape {found}; needed: {wanted}")


def judge(
    loss: Callable[..., Any], theta: bytearray, members: int, batch: Batch, start: int, end: int
) -> tuple[bytes, bytes]:
    """Every member's mean loss at its own model over some of its observations, and the gradients;
    over all of them where `end` is 0."""
    at = numbers(theta).reshape(members, -1)
    if end:
        batch = _part(batch, start, end)
    if takes_all_clients(loss):
        return _judge_all(loss, at, batch)
    values, gradients = np.empty(members), np.empty(at.shape)
    for member, (model, one) in enumerate(zip(at, _alone(batch, members))):
        answer = _pair(loss(model, one))
        values[member] = answer[0]
        gradient = np.asarray(answer[1], dtype=np.float64)
        if gradient.shape != model.shape:
            found = f"a gradient of shape {gradient.shape}"
            raise ValueError(f"loss returned {found}; needed: {model.shape}")
        gradients[member] = gradient
    return values.tobytes(), gradients.tobytes()


def _judge_all(loss: Callable[..., Any], at: np.ndarray, batch: Batch) -> tuple[bytes, bytes]:
    if isinstance(batch, Each):
        stacked = _stacked(batch)
        if stacked is None:
            alone = [_judge_all(loss, at[k : k + 1], _lone(one)) for k, one in enumerate(batch)]
            return b"".join(value for value, _ in alone), b"".join(slope for _, slope in alone)
        batch = stacked
    value, gradient = _pair(loss(at, batch))
    values = np.asarray(value, dtype=np.float64)
    gradients = np.asarray(gradient, dtype=np.float64)
    if values.shape != at.shape[:1]:
        raise ValueError(f"loss returned values of shape {values.shape}; needed: {at.shape[:1]}")
    if gradients.shape != at.shape:
        found = f"gradients of shape {gradients.shape}"
        raise ValueError(f"loss returned {found}; needed: {at.shape}")
    return values.tobytes(), gradients.tobytes()


def _pair(answer: Any) -> Any:
    if not isinstance(answer, tuple) or len(answer) != 2:
        raise TypeError(f"loss returned {kind(answer)}; needed: (value, gradient)")
    return answer


def _map(batch: Batch, change: Callable[[Any], Any]) -> Batch:
    """A batch whose arrays are changed; it may be a tuple, a list or a dictionary of arrays."""
    if isinstance(batch, tuple):
        return tuple(_map(one, change) for one in batch)
    if isinstance(batch, list):
        return [_map(one, change) for one in batch]
    if isinstance(batch, dict):
        return {key: _map(one, change) for key, one in batch.items()}
    return change(batch)


def _part(batch: Batch, start: int, end: int) -> Batch:
    if isinstance(batch, Each):
        return Each(_map(one, lambda array: array[start:end]) for one in batch)
    return _map(batch, lambda array: array[:, start:end])


def _lone(batch: Batch) -> Batch:
    return _map(batch, lambda array: np.asarray(array)[None])


def _alone(batch: Batch, members: int) -> Iterator[Batch]:
    """The batches of members, one by one."""
    if isinstance(batch, Each):
        return iter(batch)
    if isinstance(batch, np.ndarray):
        return iter(batch)
    if isinstance(batch, tuple) and all(isinstance(one, np.ndarray) for one in batch):
        return zip(*batch)
    return (_map(batch, operator.itemgetter(member)) for member in range(members))


def _stacked(batch: Each) -> Batch:
    """The batches of members as one with a member axis; none where they have different sizes."""
    first = batch[0]
    if isinstance(first, (tuple, list)):
        columns = [_stacked(Each(one[k] for one in batch)) for k in range(len(first))]
        return None if any(column is None for column in columns) else type(first)(columns)
    if isinstance(first, dict):
        named = {key: _stacked(Each(one[key] for one in batch)) for key in first}
        return None if any(column is None for column in named.values()) else named
    arrays = [np.asarray(one) for one in batch]
    return np.stack(arrays) if len({one.shape for one in arrays}) == 1 else None


def kind(value: Any) -> str:
    """A value as a message calls it."""
    name = type(value).__name__
    return f"an array of shape {value.shape}" if hasattr(value, "shape") else f"a {name}"
