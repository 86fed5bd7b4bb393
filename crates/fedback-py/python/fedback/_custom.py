"""What the compiled half asks of Python functions: generators for them, checks of what they
return."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np


def generator(first: int, second: int) -> np.random.Generator:
    """The generator of one client in one round, keyed by the two words that begin its stream."""
    return np.random.Generator(np.random.Philox(key=[first, second]))


def observe(draw: Callable, client: int, theta: bytes, count: int, rng: np.random.Generator) -> Any:
    """A population's observations."""
    return draw(client, numbers(theta), count, rng)


def numbers(data: bytes) -> np.ndarray:
    """Numbers that may be written to, so that nobody stumbles over arrays that may not."""
    return np.frombuffer(data, dtype="<f8").copy()


def batch(features: bytes, labels: bytes, dim: int) -> Any:
    """Built-in observations as a function sees them: an array, or features and labels."""
    rows = numbers(features).reshape(-1, dim)
    return (rows, numbers(labels)) if labels else rows


def rows(
    batch: Any, count: int, features: int, labelled: bool, binary: bool
) -> tuple[bytes, bytes]:
    """A batch for a loss that is built in: rows of features, and labels where the loss has any."""
    wanted = f"{count} rows of {features} features"
    if labelled:
        if not isinstance(batch, tuple) or len(batch) != 2:
            raise TypeError(f"draw returned {kind(batch)}; needed: (features, labels), {wanted}")
        batch, labels = batch
        labels = np.ascontiguousarray(labels, dtype=np.float64)
        if labels.shape != (count,):
            raise ValueError(f"draw returned labels of shape {labels.shape}; needed: ({count},)")
        if binary and not np.isin(labels, (0.0, 1.0)).all():
            raise ValueError("draw returned labels other than 0 and 1, which the loss needs")
    else:
        labels = np.empty(0)
    values = np.ascontiguousarray(batch, dtype=np.float64)
    if values.ndim == 1 and features == 1:
        values = values[:, None]
    if values.shape != (count, features):
        raise ValueError(f"draw returned features of shape {values.shape}; needed: {wanted}")
    if not (np.isfinite(values).all() and np.isfinite(labels).all()):
        raise ValueError("draw returned a number that is not finite")
    return values.tobytes(), labels.tobytes()


def part(batch: Any, start: int, end: int) -> Any:
    """Some observations of a batch: of an array, or of each array of a tuple."""
    if isinstance(batch, tuple):
        return tuple(one[start:end] for one in batch)
    return batch[start:end]


def judge(loss: Callable, theta: bytes, batch: Any) -> tuple[float, bytes]:
    """A loss's mean over a batch, and the gradient of that."""
    at = numbers(theta)
    value = loss(at, batch)
    if not isinstance(value, tuple) or len(value) != 2:
        raise TypeError(f"loss returned {kind(value)}; needed: (value, gradient)")
    gradient = np.ascontiguousarray(value[1], dtype=np.float64)
    if gradient.shape != at.shape:
        raise ValueError(f"loss returned a gradient of shape {gradient.shape}; needed: {at.shape}")
    return float(value[0]), gradient.tobytes()


def kind(value: Any) -> str:
    """A value as a message calls it."""
    name = type(value).__name__
    return f"an array of shape {value.shape}" if hasattr(value, "shape") else f"a {name}"
