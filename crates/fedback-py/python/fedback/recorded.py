"""Recorded runs: listed, loaded, compared, described, labelled, removed, shared, scored
with."""

from __future__ import annotations

import csv
import io
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, get_args, overload

import numpy as np

from . import _arguments, _native
from ._arguments import LARGEST, chosen, given, path, whole, wholes, words, wrong
from .answers import Answer
from .literals import Format
from .results import Floats, Run, Sweep
from .sections import as_csv
from .spec import Spec

PathLike = str | os.PathLike[str]


def runs(store: PathLike = "fedback.db") -> list[dict[str, Any]]:
    """The runs of a store, newest first; none where there is no store."""
    found: list[dict[str, Any]] = json.loads(_native.runs(path("store", store)))
    return found


def load(id: int, *, store: PathLike = "fedback.db") -> Run:
    """What a recorded run left so far."""
    return Run(_native.load(whole("id", id), path("store", store)))


def compare(ids: Sequence[int], *, store: PathLike = "fedback.db") -> Sweep[Run]:
    """Recorded runs side by side; ``.plot()`` draws them into one figure, ``.to_pandas()`` gives
    one frame."""
    known = wholes("ids", ids)
    if not known:
        raise wrong("ids", ids, "the numbers of one or more runs")
    return Sweep(load(id, store=store) for id in known)


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
def show(id: int, other: int, /, *others: int, store: PathLike = ...) -> dict[str, list[Any]]: ...
def show(*ids: int, store: PathLike = "fedback.db") -> Shown | dict[str, list[Any]]:
    """What a recorded run was, and what came of it; of several runs what differs: every key with
    its value in each of them."""
    known, place = wholes("ids", ids), path("store", store)
    if len(known) == 1:
        return Shown(json.loads(_native.show(known[0], place)))
    if not known:
        raise _native.InputError("show: found no run; needed: the number of one or more")
    differing: dict[str, list[Any]] = json.loads(_native.differing(known, place))
    return differing


def note(
    id: int,
    text: str | None = None,
    *,
    tags: str | Iterable[str] | None = None,
    store: PathLike = "fedback.db",
) -> None:
    """Replaces the note of a recorded run, and its tags; what is not given stays as it is."""
    _native.note(
        whole("id", id), given(_arguments.text, "text", text), given(words, "tags", tags),
        path("store", store),
    )  # fmt: skip


def rm(*ids: int, store: PathLike = "fedback.db") -> None:
    """Removes recorded runs, all of them or none. One that is running is refused."""
    known, place = wholes("ids", ids), path("store", store)
    if not known:
        raise _native.InputError("rm: found no run; needed: the number of one or more")
    _native.rm(known, place)


def export(id: int, out: PathLike, *, format: Format, store: PathLike = "fedback.db") -> Path:
    """Writes a recorded run to the file ``out``, and returns its path. ``format`` is ``"csv"``,
    ``"json"``, ``"svg"``, ``"npz"``: θ and every measurement of each repetition, for
    ``numpy.load``, or ``"bundle"``: a store of its own with this run and without its data, for
    :func:`import_bundle`."""
    file, place, id = Path(path("out", out)), path("store", store), whole("id", id)
    chosen("format", format, get_args(Format))
    files = {"npz": _native.write_npz, "bundle": _native.write_bundle}
    if format in files:
        files[format](id, file, place)
        return file
    outcome = _native.load(id, place)
    texts = {"csv": lambda: outcome.csv, "json": lambda: outcome.json + "\n", "svg": outcome.svg}
    file.write_text(texts[format](), encoding="utf-8")
    return file


def import_bundle(path: PathLike, *, store: PathLike = "fedback.db") -> list[int]:
    """Takes the run of a bundle, or all runs of another store, into a store, which is made where
    there is none; returns their numbers there."""
    file, place = _arguments.path("path", path), _arguments.path("store", store)
    return _native.import_bundle(file, place)


def score(
    id: int, rows: Any, *, repetition: int | None = None, store: PathLike = "fedback.db"
) -> dict[str, Floats]:
    """Scores rows with the final model of a recorded run, or that of one repetition instead of
    their average. ``rows`` is a CSV file or whatever :func:`table` takes, with the columns of the
    run's table. Returns ``score``, ``probability`` and ``prediction`` of every row (of the squared
    loss ``prediction`` alone), NaN where a row has none because a cell is missing;
    ``frame.assign(**fedback.score(1, frame))`` adds them to a frame."""
    file = isinstance(rows, (str, os.PathLike))
    place = path("rows", rows) if file else "rows"
    try:
        data = Path(place).read_bytes() if file else as_csv(rows)
    except OSError as error:
        raise _native.InputError(f"{place}: cannot be read: {error.strerror}") from None
    repetition = given(whole, "repetition", repetition, least=-LARGEST)
    scored, added = _native.score(whole("id", id), data, place, repetition, path("store", store))
    names, *lines = csv.reader(io.StringIO(scored))
    cells = np.array([line[-added:] for line in lines]).reshape(-1, added)
    numbers = np.where(cells == "", "nan", cells).astype(float)
    return dict(zip(names[-added:], numbers.T))
