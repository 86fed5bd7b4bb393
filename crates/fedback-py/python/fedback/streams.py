"""Functions of all clients at once, and what they draw from.

A population or a loss may take one client at a time, or all clients of a round and all repetitions
as arrays with a client axis in front: see :func:`all_clients`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numpy as np

from . import _native

Function = TypeVar("Function", bound=Callable[..., Any])

_MARK = "_fedback_all_clients"


def all_clients(function: Function) -> Function:
    """Says of a population or a loss that it takes all clients of a round at once, and all
    repetitions: arrays with a client axis in front.

    A population is then ``draw(clients, theta, n, rng) -> batch`` with ``clients`` an array of m
    numbers, ``theta`` of m rows and ``rng`` the :class:`Streams` of these clients; the arrays of
    its batch have m rows of n observations. A loss is ``loss(theta, batch) -> (values, gradients)``
    with m values and m rows of gradients. One Python call then serves a local step of everybody.

    >>> import fedback
    >>> mean, sensitivity = np.array([1.0, 4.0]), np.array([0.5, 0.9])
    >>> @fedback.all_clients
    ... def draw(clients, theta, n, rng):
    ...     centre = mean[clients, None] + sensitivity[clients, None] * theta
    ...     return centre[:, None, :] + rng.normal(n, 1)
    >>> custom = fedback.Problem(population=draw, dim=1, clients=2, loss=fedback.mean())
    >>> built_in = fedback.Problem(
    ...     base=fedback.gaussian(mean=mean), loss=fedback.mean(),
    ...     response=fedback.location(sensitivity=sensitivity))
    >>> spec = fedback.Spec(rounds=20, repetitions=3, problem=custom, algorithm=fedback.p_fedavg(
    ...     scheme="full", step_size=0.1, local_steps=5))
    >>> same = fedback.Spec(spec, problem=built_in)
    >>> bool(np.allclose(fedback.run(spec).final_theta, fedback.run(same).final_theta, rtol=1e-12))
    True
    """
    try:
        setattr(function, _MARK, True)
    except AttributeError:
        # Compiled functions take no attributes.
        return cast(Function, _Wrapped(function))
    return function


def takes_all_clients(function: Callable[..., Any]) -> bool:
    """Whether a function takes all clients at once."""
    return bool(getattr(function, _MARK, False))


class _Wrapped:
    _fedback_all_clients = True

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function

    def __call__(self, *arguments: Any) -> Any:
        return self.function(*arguments)


class Streams:
    """The random streams of some clients, each in one repetition and round: what is drawn for a
    client does not depend on who is drawn for beside it, so that runs have the same bits however
    they are divided, resumed or spread over sites. The arrays have a client axis in front.

    Words are drawn from the same streams, in the same order, as by built-in populations.
    """

    def __init__(self, native: _native.Streams) -> None:
        self._native = native

    def __len__(self) -> int:
        """How many clients."""
        return len(self._native)

    def normal(self, *shape: int) -> np.ndarray:
        """Standard normal variates of this shape for every client."""
        return self._shaped(np.frombuffer(self._native.normals(_size(shape)), "<f8"), shape)

    def uniform(self, *shape: int) -> np.ndarray:
        """Numbers in [0, 1) of this shape for every client."""
        return self._shaped(np.frombuffer(self._native.uniforms(_size(shape)), "<f8"), shape)

    def integers(self, high: int, *shape: int) -> np.ndarray:
        """Integers from 0 to below ``high`` of this shape for every client."""
        if not 0 < high < 2**63:
            raise _native.InputError(f"high: found {high}; allowed: 1 to 2^63 - 1")
        found = np.frombuffer(self._native.integers(high, _size(shape)), "<u8")
        return self._shaped(found, shape).astype(np.int64)

    def words(self, *shape: int) -> np.ndarray:
        """Words of 64 random bits of this shape for every client."""
        return self._shaped(np.frombuffer(self._native.words(_size(shape)), "<u8"), shape)

    def keys(self) -> np.ndarray:
        """A fresh key for every client, two numbers of 32 bits: what ``jax.random`` takes."""
        return self.words(1).view(np.uint32)

    def generators(self) -> list[np.random.Generator]:
        """NumPy's generators, one for every client, for draws that arrays cannot say. They begin
        anew at every call."""
        return generators(np.frombuffer(self._native.keys(), "<u8").reshape(-1, 2).copy())

    def _shaped(self, array: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
        return array.reshape(len(self), *shape)


def _size(shape: tuple[int, ...]) -> int:
    size = 1
    for one in shape:
        if isinstance(one, bool) or not isinstance(one, (int, np.integer)) or one < 0:
            raise _native.InputError(f"shape: found {one!r}; needed: whole numbers, 0 or more")
        size *= int(one)
    return size


_ZERO = np.zeros(4, dtype=np.uint64)
_ZERO.flags.writeable = False


class _NoSeed(np.random.bit_generator.ISeedSequence):
    """Makes a generator without asking the system for a seed, which takes long."""

    def generate_state(self, n_words: int, dtype: Any = np.uint32) -> np.ndarray:
        return np.zeros(n_words, dtype=dtype)


def generators(keys: np.ndarray) -> list[np.random.Generator]:
    """The generators of keys, two words each, at the beginning of their streams."""
    # NumPy takes a pair of words on both sides of 2^63 by way of floating-point numbers; runs that
    # were recorded under its reading of them go on to the same bits.
    mixed = (keys >> np.uint64(63)).sum(axis=1) == 1
    keys[mixed] = keys[mixed].astype(np.float64).astype(np.uint64)
    state: dict[str, Any] = {
        "bit_generator": "Philox",
        "state": {"counter": _ZERO, "key": None},
        "buffer": _ZERO,
        "buffer_pos": 4,
        "has_uint32": 0,
        "uinteger": 0,
    }
    made = []
    for key in keys:
        philox = np.random.Philox(cast(Any, _NoSeed()))
        state["state"]["key"] = key
        philox.state = cast(Any, state)
        made.append(np.random.Generator(philox))
    return made
