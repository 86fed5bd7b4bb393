"""The sections of a spec: builders with keywords instead of keys, and tables in memory as files."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from . import _native

Section = dict[str, Any]


def section(**keys: Any) -> Section:
    """The keys that are given, as a spec has them."""
    return {key: plain(value) for key, value in keys.items() if value is not None}


def plain(value: Any) -> Any:
    """Arrays and tuples as lists, NumPy's numbers as Python's."""
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, Mapping):
        return {str(key): plain(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(one) for one in value]
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    return value


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
    missing: str | None = None,
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
        return data.to_csv(index=False).encode()
    if hasattr(data, "write_csv"):
        return data.write_csv().encode()
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


def location(*, sensitivity: Any, reference: Any = None) -> Section:
    """z = z0 + sensitivity_i · θ."""
    return section(kind="location", sensitivity=sensitivity, reference=reference)


def best_response(*, features: Sequence[str], sensitivity: Any, reference: Any = None) -> Section:
    """x_S ← x_S − sensitivity_i · θ_S: people move the features S against their score."""
    return section(
        kind="best-response", features=features, sensitivity=sensitivity, reference=reference
    )


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
    return {"beta": float(beta), "gamma": float(gamma)}


def constant(step_size: float) -> Section:
    """The same step at every t."""
    return {"constant": float(step_size)}


Server = Mapping[str, Any]


def p_fedavg(
    *,
    scheme: str,
    step_size: Mapping[str, float] | float,
    cohort: int | None = None,
    local_steps: int | None = None,
    batch: int | str | None = None,
    start: Any = None,
    deploy: str | None = None,
    aggregate: str | None = None,
    scale_objectives: bool | None = None,
    **more: Any,
) -> Section:
    """P-FedAvg; a plain number as ``step_size`` is a constant step, ``batch="all"`` the whole
    population. Further keys of the spec's section are taken by their names."""
    if isinstance(step_size, (int, float)):
        step_size = constant(step_size)
    return section(
        kind="p-fedavg", scheme=scheme, cohort=cohort, local_steps=local_steps, batch=batch,
        step_size=step_size, start=start, deploy=deploy, aggregate=aggregate,
        scale_objectives=scale_objectives, **more,
    )  # fmt: skip


def fedprox(*, proximal: float, **keys: Any) -> Section:
    """FedProx: clients are pulled back to the model as broadcast, as strongly as ``proximal`` says.
    The other keywords are those of :func:`p_fedavg`.

    >>> fedprox(proximal=0.5, scheme="full", step_size=0.1)["kind"]
    'fedprox'
    """
    return {**p_fedavg(**keys), "kind": "fedprox", "proximal": proximal}


def scaffold(**keys: Any) -> Section:
    """SCAFFOLD: clients correct their drift by what they keep from round to round. The keywords
    are those of :func:`p_fedavg`."""
    return {**p_fedavg(**keys), "kind": "scaffold"}


def fedopt(*, server: Server, **keys: Any) -> Section:
    """FedAvgM or FedAdam: the server makes more of the clients' combined work than an average; see
    :func:`momentum` and :func:`adam`. The other keywords are those of :func:`p_fedavg`.

    >>> fedopt(server=momentum(beta=0.8), scheme="full", step_size=0.1)["server"]
    {'kind': 'momentum', 'beta': 0.8}
    """
    return {**p_fedavg(**keys), "kind": "fedopt", "server": plain(server)}


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
