"""The sections of a spec: builders with keywords instead of keys, and tables in memory as files."""

from __future__ import annotations

import csv
import io
import math
import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypedDict

import numpy as np

from . import _native
from ._arguments import LARGEST, number, wrong
from .literals import Aggregate, By, CostKind, Deploy, Law, Missing, Scheme, Turnout, Wants

if TYPE_CHECKING:
    from typing_extensions import Required, Unpack

Section = dict[str, Any]
StepSize = Mapping[str, float] | float
Server = Mapping[str, Any]

if TYPE_CHECKING:

    class Rounds(TypedDict, total=False):
        """The keywords of :func:`p_fedavg`, for algorithms that have more."""

        scheme: Required[Scheme]
        step_size: Required[StepSize]
        cohort: int | None
        local_steps: int | None
        batch: int | Literal["all"] | None
        start: Any
        deploy: Deploy | None
        aggregate: Aggregate | None
        scale_objectives: bool | None
        clip: float | None
        latency: Mapping[str, Any] | None
        deadline: float | None
        correct: bool | None


def section(**keys: Any) -> Section:
    """The keys that are given, as a spec has them."""
    return {key: plain(value, key) for key, value in keys.items() if value is not None}


def plain(value: Any, key: str) -> Any:
    """A value of a key as a spec can have it: arrays and tuples as lists, NumPy's numbers as
    Python's."""
    if isinstance(value, (np.ndarray, np.generic)):
        value = value.tolist()
    if isinstance(value, Mapping):
        return {str(name): plain(one, f"{key}.{name}") for name, one in value.items()}
    if isinstance(value, (list, tuple)):
        if set(map(type, value)) == {float} and all(map(math.isfinite, value)):
            return list(value)  # quickly, since a million clients have a million of them
        return [plain(one, key) for one in value]
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if isinstance(value, int) and not -LARGEST <= value <= LARGEST:
        raise wrong(key, value, f"whole numbers to {LARGEST} (2^63 - 1)")
    if isinstance(value, float) and not math.isfinite(value):
        raise wrong(key, value, "numbers that are finite")
    # A table in memory is bytes until it has a file.
    if isinstance(value, (str, bool, int, float, bytes)):
        return value
    raise wrong(key, value, "numbers, text, True, False, and lists and mappings of them")


# --- bases


def gaussian(*, mean: Any, dim: int | None = None, noise: float | None = None) -> Section:
    """Normal observations: client i draws z0 ~ N(mean_i, noise² I)."""
    return section(kind="gaussian", dim=dim, mean=mean, noise=noise)


def table(
    data: Any,
    *,
    label: str | None = None,
    partition: Mapping[str, Any] | None = None,
    shuffle: bool | None = None,
    standardize: bool | None = None,
    intercept: bool | None = None,
    missing: Missing | None = None,
    ignore: Sequence[str] | None = None,
    one_hot: Sequence[str] | None = None,
    holdout: float | Mapping[str, str] | None = None,
) -> Section:
    """The rows of a table: a path to a CSV file, a pandas or polars frame, a mapping from names to
    columns, or a NumPy array (columns ``x0``, ``x1``, …).

    ``missing`` is what becomes of missing cells (``"error"``, ``"drop"`` or ``"mean"``),
    ``one_hot`` names columns of text that become features of 0 and 1, ``holdout`` is the share of
    every client's rows that are measured on and not learned from, or ``{"column": …, "value": …}``.
    A run's ``table`` says what was read.

    >>> import numpy as np
    >>> base = table({"x": np.arange(4.0), "bank": list("aabb")}, partition={"column": "bank"})
    >>> sorted(base)
    ['data', 'kind', 'partition']
    """
    keys = section(
        kind="table", label=label, partition=partition, shuffle=shuffle, standardize=standardize,
        intercept=intercept, missing=missing, ignore=ignore, one_hot=one_hot, holdout=holdout,
    )  # fmt: skip
    if isinstance(data, (str, os.PathLike)):
        return {**keys, "path": os.path.abspath(data)}
    return {**keys, "data": as_csv(data)}


def as_csv(data: Any) -> bytes:
    """A table in memory as a CSV file, with numbers that read back the same."""
    if hasattr(data, "to_csv"):
        return bytes(data.to_csv(index=False), "utf-8")
    if hasattr(data, "write_csv"):
        return bytes(data.write_csv(), "utf-8")
    if isinstance(data, np.ndarray):
        if data.ndim != 2:
            raise _native.InputError(
                f"table: found an array of shape {data.shape}; needed: rows × columns"
            )
        data = {f"x{j}": column for j, column in enumerate(data.T)}
    if not isinstance(data, Mapping):
        raise _native.InputError(
            f"table: found a {type(data).__name__}; allowed: a path, a pandas or polars frame, a "
            "mapping from names to columns, a NumPy array"
        )
    columns = {str(name): np.asarray(column).tolist() for name, column in data.items()}
    lengths = {name: len(column) for name, column in columns.items()}
    if len(set(lengths.values())) > 1:
        raise _native.InputError(f"table: columns of different lengths: {lengths}")
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(zip(*columns.values()))
    return text.getvalue().encode()


# --- responses


def location(
    *,
    sensitivity: Any,
    reference: Any = None,
    range: Mapping[str, Sequence[float]] | None = None,
    memory: Section | None = None,
) -> Section:
    """z = z0 + sensitivity_i · θ; of a table, ``range`` has what features stay between, by name.
    ``memory`` is :func:`inertia`, :func:`delay` or :func:`staggered`: whether people answer to more
    than the model deployed last.

    >>> location(sensitivity=0.5, range={"utilisation": (0.0, 1.0)})["range"]
    {'utilisation': [0.0, 1.0]}
    """
    return section(
        kind="location", sensitivity=sensitivity, reference=reference, range=range, memory=memory
    )


def best_response(
    *,
    features: Sequence[str],
    sensitivity: Any,
    reference: Any = None,
    range: Mapping[str, Sequence[float]] | None = None,
    memory: Section | None = None,
) -> Section:
    """x_S ← x_S − sensitivity_i · θ_S: people move the features S against their score; ``range``
    has what features stay between, by name and in the table's own units.

    >>> best_response(features=["debt"], sensitivity=[0.5, 2.0])["sensitivity"]
    [0.5, 2.0]
    """
    return section(
        kind="best-response", features=features, sensitivity=sensitivity, reference=reference,
        range=range, memory=memory,
    )  # fmt: skip


def saturating(*, sensitivity: Any, limit: float, memory: Section | None = None) -> Section:
    """z = z0 + limit · tanh(sensitivity_i · θ / limit) by coordinate: people follow, but only so
    far. With a sensitivity above 1 there are several stable points instead of a run-away.

    >>> from fedback import Problem, Spec, constant, gaussian, mean, p_fedavg, saturating, solve
    >>> problem = Problem(
    ...     base=gaussian(mean=[0.2]), response=saturating(sensitivity=2.0, limit=1.0), loss=mean()
    ... )
    >>> algorithm = p_fedavg(scheme="full", step_size=constant(0.1))
    >>> answer = solve(Spec(rounds=1, problem=problem, algorithm=algorithm))
    >>> [(round(one["theta"][0], 3), one["stability"]) for one in answer.stable_point_details]
    [(1.183, 'attracting'), (-0.673, 'attracting'), (-0.23, 'repelling')]
    """
    return section(kind="saturating", sensitivity=sensitivity, limit=limit, memory=memory)


def strategic(
    *,
    features: Sequence[str],
    wants: Wants,
    budget: float | None = None,
    gain: float | None = None,
    cost: float | None = None,
    cost_kind: CostKind | None = None,
    threshold: float | None = None,
    share: float | None = None,
    smoothing: float | None = None,
    memory: Section | None = None,
) -> Section:
    """Rows that want to be on the other side of a threshold change the features S as far as that
    takes, if it is within their ``budget`` (or what ``gain`` and ``cost`` allow).

    ``wants`` is that side, ``share`` how many of those for whom it pays do it, and ``smoothing``
    blurs the budget: without it the averaged gradient jumps, and a stable point may not exist.

    >>> strategic(features=["debt"], wants="negative", gain=1.0, cost=2.0)["gain"]
    1.0
    """
    return section(
        kind="strategic", features=features, wants=wants, budget=budget, gain=gain, cost=cost,
        cost_kind=cost_kind, threshold=threshold, share=share, smoothing=smoothing, memory=memory,
    )  # fmt: skip


def outcome(*, strength: Any, memory: Section | None = None) -> Section:
    """Labels listen to the score: above 0 predictions come true, below they defeat themselves. A
    number, or one per client; from −1 to 1 under the loss ``logistic``.

    >>> outcome(strength=[0.7, -0.5])
    {'kind': 'outcome', 'strength': [0.7, -0.5]}
    """
    return section(kind="outcome", strength=strength, memory=memory)


def retention(
    *,
    by: By,
    rate: Any,
    law: Law | None = None,
    tolerance: float | None = None,
    floor: float | None = None,
    renewal: float | None = None,
    weights: Turnout | None = None,
) -> Section:
    """Who is served badly leaves: clients, labels, rows or ``{"column": name}`` together, and
    stays with probability floor + (1 − floor) · law at the mean loss L of its base rows.

    ``law`` is e^(−rate · L) (``"exponential"``) or 1/(1 + e^(rate · (L − tolerance)))
    (``"logistic"``). At every deployment the share ``renewal`` of a population is new. With
    ``weights="follow"`` clients count by how many of them stay; by client they do so by
    themselves. Runs then measure ``retained``, how many of all people stay, and ``base_risk``, the
    risk if nobody had left, beside the risk of those who stay.

    >>> from fedback import Problem, Spec, constant, gaussian, mean, p_fedavg, retention, solve
    >>> problem = Problem(
    ...     weights=[0.6, 0.4], base=gaussian(mean=[0.0, 3.0]),
    ...     response=retention(by="client", rate=1.2), loss=mean(),
    ... )
    >>> algorithm = p_fedavg(scheme="full", step_size=constant(0.05))
    >>> first = solve(Spec(rounds=1, problem=problem, algorithm=algorithm)).stable_point_details[0]
    >>> [round(first[name], 4) for name in ("risk", "base_risk", "retained")]
    [0.5139, 2.2889, 0.3303]
    """
    return section(
        kind="retention", by=by, rate=rate, law=law, tolerance=tolerance, floor=floor,
        renewal=renewal, weights=weights,
    )  # fmt: skip


# --- what populations remember


def inertia(*, rate: float, start: Any = None) -> Section:
    """People follow what is deployed at a ``rate``: the data come from D(s), and s goes that part
    of the way at every deployment. ``start`` is what they answered to before the first round.

    >>> location(sensitivity=0.5, memory=inertia(rate=0.3))["memory"]
    {'kind': 'inertia', 'rate': 0.3}
    """
    return section(kind="inertia", rate=rate, start=start)


def delay(*, deployments: int, start: Any = None) -> Section:
    """People answer to the model that was deployed so many deployments before.

    >>> delay(deployments=3)
    {'kind': 'delay', 'deployments': 3}
    """
    return section(kind="delay", deployments=deployments, start=start)


def staggered(*, parts: int, start: Any = None) -> Section:
    """Equal ``parts`` of the people answer to the last model, to the one before it, and so on.

    >>> staggered(parts=4, start=[0.0, 1.0])
    {'kind': 'staggered', 'parts': 4, 'start': [0.0, 1.0]}
    """
    return section(kind="staggered", parts=parts, start=start)


# --- losses


def mean() -> Section:
    """|θ − z|² / 2."""
    return section(kind="mean")


def squared(*, l2: float | None = None) -> Section:
    """(y − x·θ)² / 2 + l2/2 |θ|²."""
    return section(kind="squared", l2=l2)


def logistic(*, l2: float | None = None) -> Section:
    """log(1 + e^(x·θ)) − y x·θ + l2/2 |θ|²."""
    return section(kind="logistic", l2=l2)


# --- algorithms


def decaying(beta: float, gamma: float) -> Section:
    """η_t = beta / (t + gamma)."""
    return {"beta": number("beta", beta), "gamma": number("gamma", gamma)}


def constant(step_size: float) -> Section:
    """The same step at every t."""
    return {"constant": number("step_size", step_size)}


def p_fedavg(
    *,
    scheme: Scheme,
    step_size: StepSize,
    cohort: int | None = None,
    local_steps: int | None = None,
    batch: int | Literal["all"] | None = None,
    start: Any = None,
    deploy: Deploy | None = None,
    aggregate: Aggregate | None = None,
    scale_objectives: bool | None = None,
    **more: Any,
) -> Section:
    """P-FedAvg; a plain number as ``step_size`` is a constant step, ``batch="all"`` the whole
    population. Further keys of the spec's section are taken by their names."""
    if not isinstance(step_size, Mapping):
        step_size = constant(step_size)
    return section(
        kind="p-fedavg", scheme=scheme, cohort=cohort, local_steps=local_steps, batch=batch,
        step_size=step_size, start=start, deploy=deploy, aggregate=aggregate,
        scale_objectives=scale_objectives, **more,
    )  # fmt: skip


def fedprox(*, proximal: float, **keys: Unpack[Rounds]) -> Section:
    """FedProx: clients are pulled back to the model as broadcast, as strongly as ``proximal`` says.
    The other keywords are those of :func:`p_fedavg`.

    >>> fedprox(proximal=0.5, scheme="full", step_size=0.1)["kind"]
    'fedprox'
    """
    return {**p_fedavg(**keys), "kind": "fedprox", "proximal": proximal}


def scaffold(**keys: Unpack[Rounds]) -> Section:
    """SCAFFOLD: clients correct their drift by what they keep from round to round. The keywords
    are those of :func:`p_fedavg`."""
    return {**p_fedavg(**keys), "kind": "scaffold"}


def fedopt(*, server: Server, **keys: Unpack[Rounds]) -> Section:
    """FedAvgM or FedAdam: the server makes more of the clients' combined work than an average; see
    :func:`momentum` and :func:`adam`. The other keywords are those of :func:`p_fedavg`.

    >>> fedopt(server=momentum(beta=0.8), scheme="full", step_size=0.1)["server"]
    {'kind': 'momentum', 'beta': 0.8}
    """
    return {**p_fedavg(**keys), "kind": "fedopt", "server": plain(server, "server")}


def momentum(*, rate: float | None = None, beta: float | None = None) -> Section:
    """A server with momentum: v ← beta · v + Δ, θ += rate · v."""
    return section(kind="momentum", rate=rate, beta=beta)


def adam(
    *,
    rate: float | None = None,
    beta1: float | None = None,
    beta2: float | None = None,
    tau: float | None = None,
) -> Section:
    """A server that adapts its steps: θ += rate · m / (√v + tau), m and v running means of Δ and
    Δ²."""
    return section(kind="adam", rate=rate, beta1=beta1, beta2=beta2, tau=tau)
