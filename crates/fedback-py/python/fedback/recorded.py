"""Recorded runs: listed, loaded, compared, described, labelled, removed, shared, scored
with."""

from __future__ import annotations

import csv
import io
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, overload

import numpy as np

from . import _native
from .answers import Answer
from .results import Run, Sweep
from .sections import as_csv
from .spec import Spec

PathLike = str | os.PathLike


def runs(store: PathLike = "fedback.db") -> list[dict[str, Any]]:
    """The runs of a store, newest first; none where there is no store."""
    return json.loads(_native.runs(os.fspath(store)))


def load(id: int, *, store: PathLike = "fedback.db") -> Run:
    """What a recorded run left so far."""
    return Run(_native.load(id, os.fspath(store)))


def compare(ids: Sequence[int], *, store: PathLike = "fedback.db") -> Sweep:
    """Recorded runs side by side; ``.plot()`` draws them into one figure, ``.to_pandas()`` gives
    one frame."""
    return Sweep(load(id, store=store) for id in ids)


class Shown(Answer):
    """What a recorded run was, and what came of it. ``spec`` is the spec as it was planned, which
    can be run again: ``spec.to_toml()`` is its text, ``spec.table`` a dictionary."""

    _shown = ("id", "name", "state", "tags", "note", "seed", "version", "started")

    def __init__(self, fields: Mapping[str, Any]) -> None:
        super().__init__(fields, set=fields["set"])
        self.spec = Spec(fields["spec"])
        self.spec.directory = fields["directory"]


@overload
def show(id: int, /, *, store: PathLike = ...) -> Shown: ...
@overload
def show(id: int, other: int, /, *others: int, store: PathLike = ...) -> dict[str, list]: ...
def show(*ids: int, store: PathLike = "fedback.db") -> Shown | dict[str, list]:
    """What a recorded run was, and what came of it; of several runs what differs: every key with
    its value in each of them."""
    if len(ids) == 1:
        return Shown(json.loads(_native.show(ids[0], os.fspath(store))))
    if not ids:
        raise _native.InputError("show: found no run; needed: the number of one or more")
    return json.loads(_native.differing(list(ids), os.fspath(store)))


def words(tags: str | Iterable[str]) -> list[str]:
    """Tags as a list; a single one may stand alone."""
    return [tags] if isinstance(tags, str) else list(tags)


def note(
    id: int,
    text: str | None = None,
    *,
    tags: str | Iterable[str] | None = None,
    store: PathLike = "fedback.db",
) -> None:
    """Replaces the note of a recorded run, and its tags; what is not given stays as it is."""
    _native.note(id, text, None if tags is None else words(tags), os.fspath(store))


def rm(*ids: int, store: PathLike = "fedback.db") -> None:
    """Removes recorded runs, all of them or none. One that is running is refused."""
    _native.rm(list(ids), os.fspath(store))


def export(id: int, out: PathLike, *, format: str, store: PathLike = "fedback.db") -> Path:
    """Writes a recorded run to the file ``out``, and returns its path. ``format`` is ``"csv"``,
    ``"json"``, ``"svg"``, ``"npz"``: θ and every measurement of each repetition, for
    ``numpy.load``, or ``"bundle"``: a store of its own with this run and without its data, for
    :func:`import_bundle`."""
    path = Path(out)
    files = {"npz": _native.write_npz, "bundle": _native.write_bundle}
    if format in files:
        files[format](id, path, os.fspath(store))
        return path
    texts = {
        "csv": lambda outcome: outcome.csv,
        "json": lambda outcome: outcome.json + "\n",
        "svg": lambda outcome: outcome.svg(),
    }
    if format not in texts:
        allowed = ", ".join([*texts, *files])
        raise _native.InputError(f"format: found {format!r}; allowed: {allowed}")
    text = texts[format](_native.load(id, os.fspath(store)))
    path.write_text(text, encoding="utf-8")
    return path


def import_bundle(path: PathLike, *, store: PathLike = "fedback.db") -> list[int]:
    """Takes the run of a bundle, or all runs of another store, into a store, which is made where
    there is none; returns their numbers there."""
    return _native.import_bundle(os.fspath(path), os.fspath(store))


def score(
    id: int, rows: Any, *, repetition: int | None = None, store: PathLike = "fedback.db"
) -> dict[str, np.ndarray]:
    """Scores rows with the final model of a recorded run, or that of one repetition instead of
    their average. ``rows`` is a CSV file or whatever :func:`table` takes, with the columns of the
    run's table. Returns ``score``, ``probability`` and ``prediction`` of every row (of the squared
    loss ``prediction`` alone), NaN where a row has none because a cell is missing;
    ``frame.assign(**fedback.score(1, frame))`` adds them to a frame."""
    place = os.fspath(rows) if isinstance(rows, PathLike) else "rows"
    try:
        data = Path(rows).read_bytes() if isinstance(rows, PathLike) else as_csv(rows)
    except OSError as error:
        raise _native.InputError(f"{place}: cannot be read: {error.strerror}") from None
    text, added = _native.score(id, data, place, repetition, os.fspath(store))
    names, *lines = csv.reader(io.StringIO(text))
    cells = np.array([line[-added:] for line in lines]).reshape(-1, added)
    numbers = np.where(cells == "", "nan", cells).astype(float)
    return dict(zip(names[-added:], numbers.T))
