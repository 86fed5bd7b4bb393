"""The commands as functions: same names, options as keywords, specs as objects, dictionaries or
files."""

from __future__ import annotations

import json
import os
import tempfile
import warnings
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from . import _native
from ._transport import Transport
from .answers import Bounds, Certificate, Fit, Plan, Solution
from .progress import listener
from .recorded import words
from .results import Curve, Run, Sweep
from .sections import as_csv
from .spec import Spec, SpecLike, resolve

Store = "str | os.PathLike | None"


def _answers(spec: Spec, results: list) -> Any:
    return Sweep(results) if "sweep" in spec.table else results[0]


def run(
    spec: SpecLike,
    *,
    set: dict[str, Any] | None = None,
    store: Store = None,
    tags: str | Iterable[str] = (),
    note: str = "",
    threads: int | None = None,
    progress: bool | None = None,
    on_failure: str = "raise",
) -> Run | Sweep:
    """Runs a spec; a sweep gives one run for every point.

    ``store`` is a file that records the run, as the command's does; without it nothing is recorded.
    ``tags`` are words to find a recorded run by, ``note`` says what it is for. What
    may disappoint, such as a step size that is too large, is warned of.
    Repetitions that stop being finite raise :class:`RunError`, whose ``run`` holds what is left;
    ``on_failure="return"`` returns that instead.

    >>> import fedback
    >>> spec = fedback.Spec.parse('''
    ... rounds = 100
    ... repetitions = 50
    ... algorithm = { kind = "p-fedavg", scheme = "full", step_size = { beta = 4.0, gamma = 20.0 } }
    ... [problem]
    ... base = { kind = "gaussian", mean = [1.0, 4.0] }
    ... response = { kind = "location", sensitivity = [0.5, 0.9] }
    ... loss = { kind = "mean" }
    ... ''')
    >>> run = fedback.run(spec)
    >>> run["distance_sq"].shape
    (101, 50)
    >>> error = run.mean("distance_sq") - run.exact.mean("distance_sq")
    >>> bool((abs(error[1:]) < 5 * run.standard_error("distance_sq")[1:]).all())
    True
    """
    spec = resolve(spec, set)
    try:
        outcomes = _native.run(
            spec.document(store), store=store, tags=words(tags), note=note, threads=threads,
            progress=listener(progress), draw=spec.draw, loss=spec.loss,
        )  # fmt: skip
    except _native.InputError:
        if store is not None:
            spec.forget()
        raise
    return _finished(_answers(spec, [Run(outcome) for outcome in outcomes]), on_failure)


def _finished(runs: Any, on_failure: str) -> Any:
    failed = [one for one in (runs if isinstance(runs, Sweep) else [runs]) if one.failed]
    if failed and on_failure == "raise":
        error = _native.RunError(f"{failed[0].label}: {failed[0]._native.ending}")
        error.run = runs
        raise error
    return runs


def exact(spec: SpecLike, *, set: dict[str, Any] | None = None) -> Curve | Sweep:
    """Exact expectations of a run, without running it; affine problems only."""
    spec = resolve(spec, set)
    return _answers(spec, [Curve(one) for one in _native.exact(spec.document())])


def _theory(kind: Callable, spec: Spec, answers: list) -> Any:
    return _answers(spec, [kind(json.loads(text), set=json.loads(set)) for set, text in answers])


def solve(spec: SpecLike, *, set: dict[str, Any] | None = None) -> Solution | Sweep:
    """Where retraining settles (the stable point), and the optimal point. Where a part is a
    function, numbers are means over samples, with their ``standard_error``.

    >>> import fedback
    >>> found = fedback.solve({"rounds": 1, "problem": {
    ...     "base": {"kind": "gaussian", "mean": [1.0, 4.0]},
    ...     "response": {"kind": "location", "sensitivity": [0.5, 0.9]},
    ...     "loss": {"kind": "mean"},
    ... }, "algorithm": {"kind": "p-fedavg", "scheme": "full", "step_size": {"constant": 0.1}}})
    >>> found.stability, found.stable_point.round(3), found.optimal_point.round(3)
    ('attracting', array([8.333]), array([3.462]))
    """
    spec = resolve(spec, set)
    return _theory(Solution, spec, _native.solve(spec.document(), draw=spec.draw, loss=spec.loss))


def bounds(
    spec: SpecLike,
    *,
    set: dict[str, Any] | None = None,
    delta: float | None = None,
    sigma: float | None = None,
    varsigma: float | None = None,
    mu: float | None = None,
    smoothness: float | None = None,
    accuracy: float | None = None,
    communication_cost: float | None = None,
) -> Bounds | Sweep:
    """The paper's guarantees, as printed and corrected."""
    spec = resolve(spec, set)
    answers = _native.bounds(
        spec.document(), delta=delta, sigma=sigma, varsigma=varsigma, mu=mu, smoothness=smoothness,
        accuracy=accuracy, communication_cost=communication_cost,
    )  # fmt: skip
    return _theory(Bounds, spec, answers)


def check(spec: SpecLike, *, set: dict[str, Any] | None = None) -> Certificate | Sweep:
    """Will retraining settle, where, how bad is that place, who drives it. Where a part is a
    function, from samples and a trial run."""
    spec = resolve(spec, set)
    answers = _native.check(spec.document(), draw=spec.draw, loss=spec.loss)
    return _answers(
        spec, [Certificate(json.loads(text), svg, set=json.loads(at)) for at, text, svg in answers]
    )


def plan(
    spec: SpecLike,
    *,
    accuracy: float,
    set: dict[str, Any] | None = None,
    communication_cost: float = 1.0,
    straggler: float = 0.0,
    latency: str = "exponential",
    budget: int = 1_000_000,
    local_steps: Sequence[int] | None = None,
    schemes: Sequence[str] | None = None,
    algorithms: Sequence[str] = (),
    max_cohort: int | None = None,
    safety: float | None = None,
    smoothness: float | None = None,
    repetitions: int | None = None,
    progress: bool | None = None,
) -> Plan:
    """The cheapest E, K, scheme and step sizes that reach E|θ − θ^PS|² ≤ accuracy and stay there,
    checked by simulation; among ``algorithms`` too, if some are named (``"p-fedavg"``,
    ``"scaffold"``, ``"fedprox:0.5"``, ``"momentum:0.9"``; without a number a few are tried). Where
    nothing does, ``binding`` says what is in the way and ``spec`` is None."""
    spec = resolve(spec, set)
    text, svg, planned = _native.plan(
        spec.document(), accuracy=accuracy, communication_cost=communication_cost,
        straggler=straggler, latency_model=latency, budget=budget,
        local_steps=None if local_steps is None else list(local_steps),
        schemes=None if schemes is None else list(schemes), algorithms=list(algorithms),
        max_cohort=max_cohort, safety=safety, smoothness=smoothness, repetitions=repetitions,
        progress=listener(progress),
    )  # fmt: skip
    found = None
    if planned is not None:
        found = Spec.parse(planned, directory=spec.directory)
        found.data = spec.data
    return Plan(json.loads(text), svg, found)


def fit(
    data: Any,
    deployments: Any,
    *,
    output: str | os.PathLike,
    client: str = "client",
    deployment: str = "deployment",
    individual: str | None = None,
    label: str | None = None,
    ignore: Sequence[str] = (),
    response: str | None = None,
    features: Sequence[str] | None = None,
    shape: str | None = None,
    reference: str | None = None,
    confidence: float = 0.95,
    seed: int = 0,
    force: bool = False,
) -> Fit:
    """How each client reacts, from observations under two or more deployed models.

    ``data`` and ``deployments`` are CSV files or frames; the spec, its base, resamples of the
    estimates and a picture are written into the folder ``output``. What needs care is warned of.
    """
    with tempfile.TemporaryDirectory(prefix="fedback-") as folder:
        try:
            text, notes = _native.fit(
                _path(data, folder, "data"), _path(deployments, folder, "deployments"),
                output=os.path.abspath(output), client=client, deployment=deployment,
                individual=individual, label=label, ignore=list(ignore), response=response,
                features=None if features is None else list(features), shape=shape,
                reference=reference, confidence=confidence, seed=seed, force=force,
            )  # fmt: skip
        except _native.InputError as error:
            # A frame is called by its argument, not by the file that nobody can look into.
            raise _native.InputError(str(error).replace(os.path.join(folder, ""), "")) from None
    for note in notes:
        warnings.warn(note, stacklevel=2)
    fields = json.loads(text)
    files = fields["files"]
    return Fit(fields, Path(files["figure"]).read_text(), Spec(files["spec"]))


def _path(data: Any, folder: str, name: str) -> str:
    if isinstance(data, (str, os.PathLike)):
        return os.fspath(data)
    path = Path(folder, name)
    path.write_bytes(as_csv(data))
    return os.fspath(path)


def resume(
    id: int,
    *,
    store: str | os.PathLike = "fedback.db",
    spec: Spec | None = None,
    threads: int | None = None,
    progress: bool | None = None,
    on_failure: str = "raise",
) -> Run:
    """Goes on with a run that was interrupted. A run with custom parts needs the ``spec`` that
    holds its functions."""
    outcome = _native.resume(
        id, store=os.fspath(store), threads=threads, progress=listener(progress),
        draw=spec.draw if spec else None, loss=spec.loss if spec else None,
    )  # fmt: skip
    return _finished(Run(outcome), on_failure)


def replay(
    id: int, *, store: str | os.PathLike = "fedback.db", spec: Spec | None = None
) -> tuple[Run, bool]:
    """Runs a recorded run again in memory, with the cohorts that it recorded: the run, and whether
    every bit of its models came out again. A run with custom parts needs the ``spec`` that holds
    its functions."""
    outcome, same = _native.replay(
        id, store=os.fspath(store),
        draw=spec.draw if spec else None, loss=spec.loss if spec else None,
    )  # fmt: skip
    return Run(outcome), same


def federate(
    spec: SpecLike,
    transport: Transport,
    *,
    set: dict[str, Any] | None = None,
    store: Store = None,
    resume: int | Sequence[int] | None = None,
    minimum: int = 1,
    attempts: int = 1,
    progress: bool | None = None,
    on_failure: str = "raise",
) -> Run | Sweep:
    """Runs a spec with real clients, which ``transport`` reaches (see :class:`Transport`); to the
    same bits as :func:`run`, where every client answers. The points of a sweep are run one after
    the other; all of them are recorded before the first begins.

    Those who do not answer are asked again, ``attempts`` times; then the round is closed without
    them, as long as ``minimum`` members of the cohort have answered. ``resume`` goes on with a run
    of the store; of a sweep, with the runs of all of its points.
    """
    spec = resolve(spec, set)
    document = spec.document(store)
    runs = _runs_of(spec, document, store, resume)
    outcomes = [
        _native.federate(
            document, transport, point=point, store=store, resume=run, minimum=minimum,
            attempts=attempts, progress=listener(progress), draw=spec.draw, loss=spec.loss,
        )
        for point, run in runs
    ]  # fmt: skip
    return _finished(_answers(spec, [Run(outcome) for outcome in outcomes]), on_failure)


def _runs_of(
    spec: Spec, document: _native.Document, store: Store, resume: int | Sequence[int] | None
) -> list[tuple[int | None, int | None]]:
    """The points to run, each with the run to go on with."""
    known = None if resume is None else [resume] if isinstance(resume, int) else list(resume)
    points = len(document.points())
    if known is not None and len(known) != points:
        found = f"{len(known)} run{'s' * (len(known) != 1)}"
        raise _native.InputError(f"resume: found {found}; the spec has {points}: name all of them")
    if "sweep" not in spec.table:
        return [(None, known[0] if known else None)]
    if known is None and store is not None:
        known = _native.begin_all(document, os.fspath(store))
    return list(enumerate(known if known is not None else [None] * points))


def reproduce(
    figures: Sequence[str] = (),
    *,
    out: str | os.PathLike = "fedback-report",
    quick: bool = False,
    seed: int | None = None,
) -> dict[str, Any]:
    """Reproduces the paper's experiments, or some of its figures, into a page in the folder
    ``out``, and returns the verdict on every claim. Another ``seed`` draws other populations and
    cohorts. What cannot be reproduced for want of data is warned of."""
    page, verdicts, left_out = _native.reproduce(
        list(figures), out=os.fspath(out), quick=quick, seed=seed
    )
    for why in left_out:
        warnings.warn(why, stacklevel=2)
    return {"page": os.fspath(page), **json.loads(verdicts)}


def data(table: str = "credit", *, file: str | os.PathLike | None = None) -> Path:
    """Makes a table that specs know by name available, ``source = "credit"``: fetches it, or takes
    it from ``file``, and keeps it in the user's cache."""
    if table != "credit":
        raise _native.InputError(f"data: found {table!r}; allowed: 'credit'")
    path, doubt = _native.credit(None if file is None else os.fspath(file))
    if doubt is not None:
        warnings.warn(doubt, stacklevel=2)
    return Path(path)


def schema() -> dict[str, Any]:
    """The JSON schema of specs."""
    return json.loads(_native.schema())
