"""The commands as functions: same names, options as keywords, specs as objects, dictionaries or
files."""

from __future__ import annotations

import json
import os
import tempfile
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypedDict, TypeVar, get_args, overload

from . import _native
from ._arguments import (
    chosen,
    flag,
    given,
    number,
    path,
    text,
    texts,
    whole,
    wholes,
    words,
    wrong,
)
from ._transport import Transport
from .answers import Answer, Bounds, Certificate, Fit, Plan, Solution
from .literals import Device, Latency, OnFailure, PlannedScheme, Response, Shape
from .progress import listener
from .results import Curve, Point, Run, Sweep
from .sections import as_csv
from .spec import Spec, SpecLike, resolve

if TYPE_CHECKING:
    from typing import Concatenate, ParamSpec

    from typing_extensions import Unpack

    P = ParamSpec("P")

PathLike = str | os.PathLike[str]
Theory = TypeVar("Theory", bound=Answer)
#: Threads that are worth having.
MOST_THREADS = 1024
#: Attempts that the compiled half counts.
LARGEST_ATTEMPTS = 2**32 - 1


def _answers(spec: Spec, results: list[Point]) -> Point:
    """The answer to a spec's only point. That a sweep has several is what types cannot tell of a
    spec; see :func:`sweep`."""
    several: Any = Sweep(results)
    return several if "sweep" in spec.table else results[0]


def _hear(progress: bool | None) -> Callable[[str, int, int], None] | None:
    return listener(given(flag, "progress", progress))


def _threads(threads: int | None) -> int | None:
    return given(whole, "threads", threads, least=1, most=MOST_THREADS)


def _functions(spec: Spec | None) -> dict[str, Any]:
    """What a store cannot keep of a spec."""
    if spec is not None and not isinstance(spec, Spec):
        raise wrong("spec", spec, "the Spec that holds the run's functions")
    return {"draw": spec and spec.draw, "loss": spec and spec.loss}


def run(
    spec: SpecLike,
    *,
    set: Mapping[str, Any] | None = None,
    store: PathLike | None = None,
    tags: str | Iterable[str] = (),
    note: str = "",
    threads: int | None = None,
    device: Device = "cpu",
    progress: bool | None = None,
    on_failure: OnFailure = "raise",
) -> Run:
    """Runs a spec. One with a sweep gives a :class:`Sweep` of runs; :func:`sweep` says so to type
    checkers as well.

    ``store`` is a file that records the run, as the command's does; without it nothing is recorded.
    ``tags`` are words to find a recorded run by, ``note`` says what it is for. What
    may disappoint, such as a step size that is too large, is warned of.
    Repetitions that stop being finite raise :class:`RunError`, whose ``run`` holds what is left;
    ``on_failure="return"`` returns that instead.

    ``device`` says where it is worked out: ``"cpu"``, ``"cuda"`` (an NVIDIA device) or ``"auto"``;
    the results are the same, to the bit.

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
    store = given(path, "store", store)
    threads, hear = _threads(threads), _hear(progress)
    labels, note = words("tags", tags), text("note", note)
    chosen("on_failure", on_failure, get_args(OnFailure))
    chosen("device", device, get_args(Device))
    try:
        outcomes = _native.run(
            spec.document(store), store=store, tags=labels, note=note, threads=threads,
            device=device, progress=hear, draw=spec.draw, loss=spec.loss,
        )  # fmt: skip
    except _native.InputError:
        if store is not None:
            spec.forget()
        raise
    return _finished(_answers(spec, [Run(outcome) for outcome in outcomes]), on_failure)


if TYPE_CHECKING:

    class RunOptions(TypedDict, total=False):
        """The keywords of :func:`run`."""

        set: Mapping[str, Any] | None
        store: PathLike | None
        tags: str | Iterable[str]
        note: str
        threads: int | None
        device: Device
        progress: bool | None
        on_failure: OnFailure


@overload
def sweep(spec: SpecLike, /, **options: Unpack[RunOptions]) -> Sweep[Run]: ...
@overload
def sweep(
    spec: SpecLike, ask: Callable[Concatenate[SpecLike, P], Point], /,
    *arguments: P.args, **options: P.kwargs,
) -> Sweep[Point]: ...  # fmt: skip
def sweep(
    spec: SpecLike, ask: Callable[..., Any] = run, /, *arguments: Any, **options: Any
) -> Sweep[Any]:
    """Runs every point of a sweep, or asks another command of it: :func:`exact`, :func:`solve`,
    :func:`check`, :func:`bounds`. The keywords are those of the command. A spec without a sweep is
    one point.

    >>> import fedback
    >>> spec = fedback.Spec(
    ...     rounds=10, sweep={"algorithm.local_steps": [1, 5]}, algorithm=fedback.p_fedavg(
    ...         scheme="full", step_size=0.1), problem=fedback.Problem(
    ...         base=fedback.gaussian(mean=[1.0, 4.0]), loss=fedback.mean()))
    >>> [run.steps[-1] for run in fedback.sweep(spec)]
    [np.int64(10), np.int64(50)]
    >>> [answer.verdict for answer in fedback.sweep(spec, fedback.check)]
    ['settles', 'settles']
    """
    answers = ask(spec, *arguments, **options)
    return answers if isinstance(answers, Sweep) else Sweep([answers])


def _finished(runs: Run, on_failure: str) -> Run:
    several: Any = runs
    failed = [one for one in (several if isinstance(several, Sweep) else [runs]) if one.failed]
    if failed and on_failure == "raise":
        error = _native.RunError(f"{failed[0].label}: {failed[0]._native.ending}")
        error.run = runs
        raise error
    return runs


def exact(spec: SpecLike, *, set: Mapping[str, Any] | None = None) -> Curve:
    """Exact expectations of a run, without running it; affine problems only."""
    spec = resolve(spec, set)
    return _answers(spec, [Curve(one) for one in _native.exact(spec.document())])


def _theory(kind: type[Theory], spec: Spec, answers: list[tuple[str, str]]) -> Theory:
    return _answers(spec, [kind(json.loads(text), set=json.loads(set)) for set, text in answers])


def solve(spec: SpecLike, *, set: Mapping[str, Any] | None = None) -> Solution:
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
    set: Mapping[str, Any] | None = None,
    delta: float | None = None,
    sigma: float | None = None,
    varsigma: float | None = None,
    mu: float | None = None,
    smoothness: float | None = None,
    accuracy: float | None = None,
    communication_cost: float | None = None,
) -> Bounds:
    """The paper's guarantees, as printed and corrected."""
    spec = resolve(spec, set)
    answers = _native.bounds(
        spec.document(),
        delta=given(number, "delta", delta),
        sigma=given(number, "sigma", sigma),
        varsigma=given(number, "varsigma", varsigma),
        mu=given(number, "mu", mu),
        smoothness=given(number, "smoothness", smoothness),
        accuracy=given(number, "accuracy", accuracy),
        communication_cost=given(number, "communication_cost", communication_cost),
    )
    return _theory(Bounds, spec, answers)


def check(spec: SpecLike, *, set: Mapping[str, Any] | None = None) -> Certificate:
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
    set: Mapping[str, Any] | None = None,
    communication_cost: float = 1.0,
    straggler: float = 0.0,
    latency: Latency = "exponential",
    budget: int = 1_000_000,
    local_steps: Sequence[int] | None = None,
    schemes: Sequence[PlannedScheme] | None = None,
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
    answer, svg, planned = _native.plan(
        spec.document(),
        accuracy=number("accuracy", accuracy),
        communication_cost=number("communication_cost", communication_cost),
        straggler=number("straggler", straggler),
        latency_model=text("latency", latency),
        budget=whole("budget", budget, least=1),
        local_steps=given(wholes, "local_steps", local_steps, least=1),
        schemes=given(texts, "schemes", schemes),
        algorithms=texts("algorithms", algorithms),
        max_cohort=given(whole, "max_cohort", max_cohort, least=1),
        safety=given(number, "safety", safety),
        smoothness=given(number, "smoothness", smoothness),
        repetitions=given(whole, "repetitions", repetitions, least=1),
        progress=_hear(progress),
    )
    found = None
    if planned is not None:
        found = Spec.parse(planned, directory=spec.directory)
        found.data = spec.data
    return Plan(json.loads(answer), svg, found)


def fit(
    data: Any,
    deployments: Any,
    *,
    output: PathLike,
    client: str = "client",
    deployment: str = "deployment",
    individual: str | None = None,
    label: str | None = None,
    ignore: Sequence[str] = (),
    response: Response | None = None,
    features: Sequence[str] | None = None,
    shape: Shape | None = None,
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
            answer, notes = _native.fit(
                _path(data, folder, "data"),
                _path(deployments, folder, "deployments"),
                output=os.path.abspath(path("output", output)),
                client=text("client", client),
                deployment=text("deployment", deployment),
                individual=given(text, "individual", individual),
                label=given(text, "label", label),
                ignore=texts("ignore", ignore),
                response=given(chosen, "response", response, allowed=get_args(Response)),
                features=given(texts, "features", features),
                shape=given(chosen, "shape", shape, allowed=get_args(Shape)),
                reference=given(text, "reference", reference),
                confidence=number("confidence", confidence),
                seed=whole("seed", seed),
                force=flag("force", force),
            )
        except _native.InputError as error:
            # A frame is called by its argument, not by the file that nobody can look into.
            raise _native.InputError(str(error).replace(os.path.join(folder, ""), "")) from None
    for note in notes:
        warnings.warn(note, stacklevel=2)
    fields = json.loads(answer)
    files = fields["files"]
    return Fit(fields, Path(files["figure"]).read_text(), Spec(files["spec"]))


def _path(data: Any, folder: str, name: str) -> str:
    if isinstance(data, (str, os.PathLike)):
        return os.fspath(data)
    file = os.path.join(folder, name)
    Path(file).write_bytes(as_csv(data))
    return file


def resume(
    id: int,
    *,
    store: PathLike = "fedback.db",
    spec: Spec | None = None,
    threads: int | None = None,
    device: Device = "cpu",
    progress: bool | None = None,
    on_failure: OnFailure = "raise",
) -> Run:
    """Goes on with a run that was interrupted. A run with custom parts needs the ``spec`` that
    holds its functions. ``device`` need not be the one that it began on."""
    chosen("on_failure", on_failure, get_args(OnFailure))
    chosen("device", device, get_args(Device))
    outcome = _native.resume(
        whole("id", id), store=path("store", store), threads=_threads(threads),
        device=device, progress=_hear(progress), **_functions(spec),
    )  # fmt: skip
    return _finished(Run(outcome), on_failure)


def replay(
    id: int, *, store: PathLike = "fedback.db", spec: Spec | None = None
) -> tuple[Run, bool]:
    """Runs a recorded run again in memory, with the cohorts that it recorded: the run, and whether
    every bit of its models came out again. A run with custom parts needs the ``spec`` that holds
    its functions."""
    outcome, same = _native.replay(whole("id", id), store=path("store", store), **_functions(spec))
    return Run(outcome), same


def federate(
    spec: SpecLike,
    transport: Transport,
    *,
    set: Mapping[str, Any] | None = None,
    store: PathLike | None = None,
    resume: int | Sequence[int] | None = None,
    minimum: int = 1,
    attempts: int = 1,
    progress: bool | None = None,
    on_failure: OnFailure = "raise",
) -> Run:
    """Runs a spec with real clients, which ``transport`` reaches (see :class:`Transport`); to the
    same bits as :func:`run`, where every client answers. The points of a sweep are run one after
    the other; all of them are recorded before the first begins.

    Those who do not answer are asked again, ``attempts`` times; then the round is closed without
    them, as long as ``minimum`` members of the cohort have answered. ``resume`` goes on with a run
    of the store; of a sweep, with the runs of all of its points.
    """
    spec = resolve(spec, set)
    store = given(path, "store", store)
    # A transport that lacks a part would be found out in the middle of a run.
    if not all(callable(getattr(transport, part, None)) for part in ("ask", "next", "refused")):
        raise wrong("transport", transport, "an object with ask, next and refused")
    minimum = whole("minimum", minimum, least=1)
    attempts = whole("attempts", attempts, most=LARGEST_ATTEMPTS)
    hear = _hear(progress)
    chosen("on_failure", on_failure, get_args(OnFailure))
    document = spec.document(store)
    runs = _runs_of(spec, document, store, resume)
    outcomes = [
        _native.federate(
            document, transport, point=point, store=store, resume=run, minimum=minimum,
            attempts=attempts, progress=hear, draw=spec.draw, loss=spec.loss,
        )
        for point, run in runs
    ]  # fmt: skip
    return _finished(_answers(spec, [Run(outcome) for outcome in outcomes]), on_failure)


def _runs_of(
    spec: Spec, document: _native.Document, store: str | None, resume: int | Sequence[int] | None
) -> list[tuple[int | None, int | None]]:
    """The points to run, each with the run to go on with."""
    alone = isinstance(resume, int)
    known = given(wholes, "resume", [resume] if alone else resume)
    points = len(document.points())
    if known is not None and len(known) != points:
        found = f"{len(known)} run{'s' * (len(known) != 1)}"
        raise _native.InputError(f"resume: found {found}; the spec has {points}: name all of them")
    if "sweep" not in spec.table:
        return [(None, known[0] if known else None)]
    if known is None and store is not None:
        known = _native.begin_all(document, store)
    return list(enumerate([None] * points if known is None else known))


def reproduce(
    figures: Sequence[str] = (),
    *,
    out: PathLike = "fedback-report",
    quick: bool = False,
    seed: int | None = None,
) -> dict[str, Any]:
    """Reproduces the paper's experiments, or some of its figures, into a page in the folder
    ``out``, and returns the verdict on every claim. Another ``seed`` draws other populations and
    cohorts. What cannot be reproduced for want of data is warned of."""
    page, verdicts, left_out = _native.reproduce(
        words("figures", figures), out=path("out", out), quick=flag("quick", quick),
        seed=given(whole, "seed", seed),
    )  # fmt: skip
    for why in left_out:
        warnings.warn(why, stacklevel=2)
    return {"page": os.fspath(page), **json.loads(verdicts)}


def data(table: Literal["credit"] = "credit", *, file: PathLike | None = None) -> Path:
    """Makes a table that specs know by name available, ``source = "credit"``: fetches it, or takes
    it from ``file``, and keeps it in the user's cache."""
    chosen("table", table, ["credit"])
    found, doubt = _native.credit(given(path, "file", file))
    if doubt is not None:
        warnings.warn(doubt, stacklevel=2)
    return Path(found)


def schema() -> dict[str, Any]:
    """The JSON schema of specs."""
    schema: dict[str, Any] = json.loads(_native.schema())
    return schema
