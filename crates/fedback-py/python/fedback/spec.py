"""Specs: what is to be run, with the names of the TOML contract.

A :class:`Spec` is a dictionary in the shape of a spec file, and what a file cannot hold: Python
functions, and tables that are in memory. The builders below give its sections, with keywords
instead of keys.

>>> import fedback
>>> spec = fedback.Spec(
...     name="two-sites", rounds=200, repetitions=100, measure={"every": 100},
...     problem=fedback.Problem(
...         weights=[0.7, 0.3],
...         base=fedback.gaussian(mean=[1.0, 4.0]),
...         response=fedback.location(sensitivity=[0.5, 0.9]),
...         loss=fedback.mean(),
...     ),
...     algorithm=fedback.p_fedavg(scheme="full", step_size=fedback.decaying(4.0, 20.0)),
... )
>>> spec
Spec('two-sites', 2 clients, dim 1)
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any, Union

import numpy as np

from . import _native

Section = dict[str, Any]
SpecLike = Union["Spec", Mapping[str, Any], str, os.PathLike]


def _section(**keys: Any) -> Section:
    return {key: _plain(value) for key, value in keys.items() if value is not None}


def _plain(value: Any) -> Any:
    """Arrays and tuples as lists, NumPy's numbers as Python's."""
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, Mapping):
        return {str(key): _plain(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(one) for one in value]
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    return value


# --- bases


def gaussian(*, mean: Any, dim: int | None = None, noise: float | None = None) -> Section:
    """Normal observations: client i draws z0 ~ N(mean_i, noise² I)."""
    return _section(kind="gaussian", dim=dim, mean=mean, noise=noise)


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
) -> Section:
    """The rows of a table: a path to a CSV file, a pandas or polars frame, a mapping from names to
    columns, or a NumPy array (columns ``x0``, ``x1``, …).

    >>> import numpy as np
    >>> base = table({"x": np.arange(4.0), "bank": list("aabb")}, partition={"column": "bank"})
    >>> sorted(base)
    ['data', 'kind', 'partition']
    """
    section = _section(
        kind="table", label=label, partition=partition, shuffle=shuffle, standardize=standardize,
        intercept=intercept, missing=missing, ignore=ignore,
    )  # fmt: skip
    if isinstance(data, (str, os.PathLike)):
        return {**section, "path": os.path.abspath(data)}
    return {**section, "data": _csv(data)}


def _csv(data: Any) -> bytes:
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
    import csv

    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(zip(*columns.values()))
    return text.getvalue().encode()


# --- responses


def location(*, sensitivity: Any, reference: Any = None) -> Section:
    """z = z0 + sensitivity_i · θ."""
    return _section(kind="location", sensitivity=sensitivity, reference=reference)


def best_response(*, features: Sequence[str], sensitivity: Any, reference: Any = None) -> Section:
    """x_S ← x_S − sensitivity_i · θ_S: people move the features S against their score."""
    return _section(
        kind="best-response", features=features, sensitivity=sensitivity, reference=reference
    )


# --- losses


def mean() -> Section:
    """|θ − z|² / 2."""
    return _section(kind="mean")


def squared(*, l2: float | None = None) -> Section:
    """(y − x·θ)² / 2 + l2/2 |θ|²."""
    return _section(kind="squared", l2=l2)


def logistic(*, l2: float | None = None) -> Section:
    """log(1 + e^(x·θ)) − y x·θ + l2/2 |θ|²."""
    return _section(kind="logistic", l2=l2)


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
    return _section(
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
    return {**p_fedavg(**keys), "kind": "fedopt", "server": _plain(server)}


def momentum(*, rate: float | None = None, beta: float | None = None) -> Section:
    """A server with momentum: v ← beta · v + Δ, θ += rate · v."""
    return _section(kind="momentum", rate=rate, beta=beta)


def adam(
    *,
    rate: float | None = None,
    beta1: float | None = None,
    beta2: float | None = None,
    tau: float | None = None,
) -> Section:
    """A server that adapts its steps: θ += rate · m / (√v + tau), m and v running means of Δ and
    Δ²."""
    return _section(kind="adam", rate=rate, beta1=beta1, beta2=beta2, tau=tau)


Draw = Callable[[int, np.ndarray, int, np.random.Generator], Any]
Loss = Callable[[np.ndarray, Any], tuple[float, np.ndarray]]


class Problem:
    """A federation: clients, their data, how these react, what a prediction costs.

    Built-in parts are sections (see the builders) or plain dictionaries. Instead of ``base`` and
    ``response`` there may be a ``population``, a function ``draw(client, theta, n, rng) -> batch``
    that returns n observations of a client under a deployed θ; ``loss`` may be a function
    ``loss(theta, batch) -> (value, gradient)`` of the mean loss over a batch.
    """

    def __init__(
        self,
        *,
        loss: Mapping[str, Any] | Loss,
        base: Mapping[str, Any] | None = None,
        response: Mapping[str, Any] | None = None,
        population: Draw | None = None,
        dim: int | None = None,
        intercept: bool | None = None,
        clients: int | None = None,
        weights: Any = None,
        seed: int | None = None,
        stable_point: Any = None,
    ) -> None:
        if (base is None) == (population is None):
            raise _native.InputError("problem: needed: either base or population")
        if population is not None:
            base = _section(kind="custom", dim=dim, intercept=intercept)
        elif dim is not None or intercept is not None:
            raise _native.InputError("problem: dim and intercept belong to a population; see base")
        self.draw = population
        self.loss = loss if callable(loss) else None
        self.data: bytes | None = base.get("data")
        self.section = _section(
            clients=clients, weights=weights, seed=seed,
            base={key: value for key, value in base.items() if key != "data"},
            response=response, loss={"kind": "custom"} if callable(loss) else loss,
            stable_point=stable_point,
        )  # fmt: skip

    def __repr__(self) -> str:
        parts = ["population" if self.draw else self.section["base"].get("kind", "?")]
        parts.append("loss" if self.loss else self.section["loss"].get("kind", "?"))
        return f"Problem({', '.join(parts)})"


class Spec:
    """What is to be run: see the module's example, and docs/reference/spec.md for every key.

    ``Spec("file.toml")`` reads a file, ``Spec.parse(text)`` takes TOML text, ``Spec(rounds=…,
    problem=…, algorithm=…)`` takes keywords. Specs are not changed: :meth:`set` gives another one.
    """

    def __init__(self, source: SpecLike | None = None, /, **keys: Any) -> None:
        self.origin, self.directory = "spec", os.getcwd()
        self.draw: Draw | None = None
        self.loss: Loss | None = None
        self.data: bytes | None = None
        table: Section = {}
        if isinstance(source, Spec):
            self.__dict__.update(source.__dict__)
            table = deepcopy(source.table)
        elif isinstance(source, Mapping):
            table = _plain(source)
        elif source is not None:
            document = _native.Document.read(os.fspath(source))
            self.origin, self.directory = document.origin, os.fspath(document.directory)
            table = json.loads(document.json)
        problem = keys.get("problem")
        if isinstance(problem, Problem):
            self.draw, self.loss, self.data = problem.draw, problem.loss, problem.data
            keys = {**keys, "problem": problem.section}
        self.table = {**table, **_section(**keys)}
        self.table.setdefault("name", "run")
        base = self.table.get("problem", {}).get("base", {})
        if isinstance(base, dict) and "data" in base:
            self.data = base.pop("data")
        if self.data is not None:
            base["path"] = _file_name(self.data)

    @classmethod
    def parse(cls, text: str, *, directory: str | os.PathLike | None = None) -> Spec:
        """A spec from TOML text; relative paths start in ``directory``."""
        spec = cls(json.loads(_native.Document.parse(text, "spec").json))
        if directory is not None:
            spec.directory = os.path.abspath(directory)
        return spec

    def set(self, values: Mapping[str, Any] | None = None, /, **keys: Any) -> Spec:
        """The same spec with other values, by dotted key; a double underscore stands for a dot.

        >>> import fedback
        >>> spec = fedback.Spec(rounds=10, algorithm={"local_steps": 1})
        >>> spec.set({"algorithm.local_steps": 5}).table["algorithm"]
        {'local_steps': 5}
        >>> spec.set(algorithm__local_steps=5, rounds=20).table["rounds"]
        20
        """
        changed = Spec(self)
        wanted = {**(values or {}), **{key.replace("__", "."): keys[key] for key in keys}}
        for key, value in wanted.items():
            *sections, last = key.split(".")
            here = changed.table
            for section in sections:
                here = here.setdefault(section, {})
                if not isinstance(here, dict):
                    raise _native.InputError(f"{key}: {section} is a value, not a section")
            here[last] = _plain(value)
        return changed

    def document(self, store: str | os.PathLike | None = None) -> _native.Document:
        """The spec for the compiled half. A table in memory becomes a file: beside the store that
        will refer to it, or for as long as this spec lives."""
        directory = self.directory
        if self.data is not None:
            if store is not None:
                directory = os.path.abspath(os.fspath(store)) + "-tables"
                Path(directory).mkdir(parents=True, exist_ok=True)
            else:
                if not hasattr(self, "_folder"):
                    self._folder = tempfile.TemporaryDirectory(prefix="fedback-")
                directory = self._folder.name
            path = Path(directory, _file_name(self.data))
            if not path.exists():
                path.write_bytes(self.data)
        try:
            text = json.dumps(self.table, allow_nan=False)
        except (TypeError, ValueError) as error:
            raise _native.InputError(f"{self.origin}: {error}") from None
        return _native.Document(text, self.origin, directory)

    def to_toml(self) -> str:
        """The text of a spec file, without functions."""
        return self.document().toml

    @property
    def custom(self) -> bool:
        """Whether a part is a function."""
        return self.draw is not None or self.loss is not None

    @property
    def plan_hash(self) -> str:
        """Names everything that decides the bits: canonical spec, data, stream format, version."""
        return self.document().shape()[2]

    def __repr__(self) -> str:
        name = self.table.get("name", "run")
        try:
            clients, dim, _, swept = self.document().shape()
        except ValueError as error:
            return f"Spec({name!r}, incomplete: {error})"
        words = f"{clients} client{'s' * (clients != 1)}, dim {dim}"
        return f"Spec({name!r}, {words}{', a sweep' if swept else ''})"


def resolve(spec: SpecLike, set: Mapping[str, Any] | None = None) -> Spec:
    """Whatever stands for a spec as a spec, with other values by dotted key."""
    spec = spec if isinstance(spec, Spec) else Spec(spec)
    return spec.set(set) if set else spec


def _file_name(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:32] + ".csv"
