"""A site's function behind its own service: ``python -m fedback.observe MODULE:FUNCTION``.

``fedback site serve`` starts this program where a policy has ``observe``, and asks it in frames on
its standard input. The function is ``observe(theta, n, rng)``, called as :class:`fedback.Site`
calls it, with the same generator, so that a run has the same bits.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
import traceback
from collections.abc import Callable
from io import BufferedReader
from pathlib import Path
from typing import Any, BinaryIO, cast

import numpy as np

from . import _custom, _frame
from .streams import generators

LONGEST = 1000
"""Characters of a failure that the service's log gets in one line; the traceback is beside it."""


class NoFunction(ValueError):
    """There is no such function; the message says what to give instead."""


def function(name: str, key: str = "observe") -> Callable[..., Any]:
    """The function `module:function` or `/path/file.py:function`, which a key names."""
    place, _, attribute = name.rpartition(":")
    if not place:
        raise NoFunction(f"{key} is {name!r}; give module:function")
    if place.endswith(".py"):
        found = importlib.util.spec_from_file_location(Path(place).stem, place)
        if found is None or found.loader is None or not Path(place).is_file():
            raise NoFunction(f"{key} names {place}, which is not there")
        module = importlib.util.module_from_spec(found)
        found.loader.exec_module(module)
    else:
        module = importlib.import_module(place)
    named: Any = getattr(module, attribute, None)
    if not callable(named):
        raise NoFunction(f"{place} has no function {attribute}")
    return cast("Callable[..., Any]", named)


class Observer:
    """Answers questions with a function's observations."""

    def __init__(self, observe: Callable[..., Any]) -> None:
        self._observe = observe
        self._key: list[int] | None = None
        self._draws = 0
        self._rng: np.random.Generator | None = None

    def answer(self, fields: dict[str, Any], arrays: dict[str, np.ndarray]) -> bytes:
        """The frame that answers a question. What goes wrong in the function is a failure."""
        try:
            rng = self._generator(arrays["key"].tolist(), fields["draw"])
            count, features = fields["count"], fields["features"]
            batch = self._observe(_custom.numbers(arrays["theta"].tobytes()), count, rng)
            labelled, binary = fields["labels"] != "none", fields["labels"] == "binary"
            alone = _custom.Each([batch])
            rows, labels = _custom.rows(alone, 1, count, features, labelled, binary)
        except Exception as error:
            traceback.print_exc()
            reason = f"{type(error).__name__}: {error}"[:LONGEST]
            return _frame.pack({"kind": "failure", "reason": reason}, {})
        made = {"features": np.frombuffer(rows, dtype="<f8").reshape(count, features)}
        if labelled:
            made["labels"] = np.frombuffer(labels, dtype="<f8")
        return _frame.pack({"kind": "observations"}, made)

    def _generator(self, key: list[int], draw: int) -> np.random.Generator:
        """The generator of a client in a round, which goes on from draw to draw."""
        if draw == 0:
            (rng,) = generators(np.array([key], dtype=np.uint64))
            self._key, self._draws, self._rng = key, 0, rng
        if self._rng is None or (key, draw) != (self._key, self._draws):
            raise ValueError(f"draw {draw} of a client whose earlier ones were made elsewhere")
        self._draws += 1
        return self._rng


def serve(observe: Callable[..., Any], source: BufferedReader, sink: BinaryIO) -> None:
    """Answers until whoever asks has hung up."""
    observer = Observer(observe)
    while source.peek(1):
        sink.write(observer.answer(*_frame.unpack(source)))
        sink.flush()


def private() -> tuple[BufferedReader, BinaryIO]:
    """Standard input and output, for nobody else: what a function or one of its libraries prints
    goes to standard error, and there is nothing for it to read."""
    sys.stdout.flush()
    source, sink = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    sys.stdout = sys.stderr
    return source, sink


def main(arguments: list[str]) -> int:
    """The program."""
    if len(arguments) != 1:
        print("usage: python -m fedback.observe MODULE:FUNCTION", file=sys.stderr)
        return 2
    # Before the function's module is imported, which may print as well.
    source, sink = private()
    try:
        observe = function(arguments[0])
    except NoFunction as error:
        print(f"fedback.observe: {error}", file=sys.stderr)
        return 2
    try:
        serve(observe, source, sink)
    except (BrokenPipeError, OSError) as error:
        print(f"fedback.observe: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
