"""Specs: what is to be run, with the names of the TOML contract.

A :class:`Spec` is a dictionary in the shape of a spec file, and what a file cannot hold: Python
functions, and tables that are in memory. The builders of ``fedback.sections`` give its sections.

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

import json
import os
from collections.abc import Callable, Mapping
from copy import deepcopy
from pathlib import Path
from typing import Any, Union

import numpy as np
import numpy.typing as npt

from . import _arguments, _native, _notebook, _tables
from ._arguments import flag, function, given, mapping, path, whole, wrong
from .models import Model
from .sections import Section, plain, section
from .streams import Streams

SpecLike = Union["Spec", Mapping[str, Any], str, "os.PathLike[str]"]
Floats = npt.NDArray[np.float64]
#: Of one client, or of all at once (:func:`all_clients`).
Draw = (
    Callable[[int, Floats, int, np.random.Generator], Any]
    | Callable[[npt.NDArray[np.int64], Floats, int, Streams], Any]
)
Loss = Callable[[Floats, Any], tuple[Any, Any]]


class Problem:
    """A federation: clients, their data, how these react, what a prediction costs.

    Built-in parts are sections (see the builders) or plain dictionaries. Instead of ``base`` and
    ``response`` there may be a ``population``, a function ``draw(client, theta, n, rng) -> batch``
    that returns n observations of a client under a deployed θ; ``loss`` may be a function
    ``loss(theta, batch) -> (value, gradient)`` of the mean loss over a batch, or a model of JAX or
    PyTorch (:func:`jax_model`, :func:`torch_model`). Either may take all clients at once
    (:func:`all_clients`).
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
        loss = loss if callable(loss) else _section("loss", loss, "a function, a section")
        base = {} if base is None else _section("base", base, "a section")
        given(_section, "response", response, allowed="a section")
        given(function, "population", population)
        given(whole, "dim", dim, least=1)
        given(whole, "clients", clients, least=1)
        given(whole, "seed", seed)
        given(flag, "intercept", intercept)
        if population is not None:
            if dim is None and isinstance(loss, Model):
                dim = loss.dim
            base = section(kind="custom", dim=dim, intercept=intercept)
        elif dim is not None or intercept is not None:
            raise _native.InputError("problem: dim and intercept belong to a population; see base")
        self.draw = population
        self.loss: Loss | None = loss if callable(loss) else None
        self.data: bytes | None = base.get("data")
        self.section = section(
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
        self.table: Section
        self.origin, self.directory = "spec", os.getcwd()
        self.draw: Draw | None = None
        self.loss: Loss | None = None
        self.data: bytes | None = None
        table: Section = {}
        if isinstance(source, Spec):
            self.__dict__.update(source.__dict__)
            table = deepcopy(source.table)
        elif isinstance(source, Mapping):
            table = section(**mapping("spec", source))
        elif source is not None:
            if not isinstance(source, (str, os.PathLike)):
                raise wrong("spec", source, "a Spec, a mapping, the path of a TOML file")
            document = _native.Document.read(path("spec", source))
            self.origin, self.directory = document.origin, os.fspath(document.directory)
            table = json.loads(document.json)
        problem = keys.get("problem")
        if isinstance(problem, Problem):
            self.draw, self.loss, self.data = problem.draw, problem.loss, problem.data
            keys = {**keys, "problem": problem.section}
        self.table = {**table, **section(**keys)}
        self.table.setdefault("name", "run")
        base = self.table.get("problem", {}).get("base", {})
        if isinstance(base, dict) and "data" in base:
            self.data = base.pop("data")
        if self.data is not None:
            base["path"] = _tables.file_name(self.data)

    def __getstate__(self) -> dict[str, Any]:
        # Files are this process's; another one, or a copy, writes its own.
        own = ("_folder", "_written")
        return {name: value for name, value in self.__dict__.items() if name not in own}

    @classmethod
    def parse(cls, text: str, *, directory: str | os.PathLike[str] | None = None) -> Spec:
        """A spec from TOML text; relative paths start in ``directory``."""
        spec = cls(json.loads(_native.Document.parse(_arguments.text("text", text), "spec").json))
        if directory is not None:
            spec.directory = os.path.abspath(path("directory", directory))
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
        wanted = {
            **(given(mapping, "set", values) or {}),
            **{key.replace("__", "."): keys[key] for key in keys},
        }
        for key, value in wanted.items():
            *parents, last = key.split(".")
            here = changed.table
            for parent in parents:
                here = here.setdefault(parent, {})
                if not isinstance(here, dict):
                    raise _native.InputError(f"{key}: {parent} is a value, not a section")
            here[last] = plain(value, key)
            if key.startswith("problem.response.sensitivity"):
                # What is asked for rather than fitted has no resamples.
                changed.table["problem"]["response"].pop("resamples", None)
        return changed

    def points(self) -> list[dict[str, Any]]:
        """What every point of its sweep sets; one that sets nothing where there is no sweep."""
        return [json.loads(one) for one in self.document().points()]

    def at(self, point: int) -> Spec:
        """The spec of one point of its sweep.

        >>> import fedback
        >>> spec = fedback.Spec(
        ...     rounds=10, sweep={"algorithm.local_steps": [1, 5]}, algorithm=fedback.p_fedavg(
        ...         scheme="full", step_size={"constant": 0.1}), problem=fedback.Problem(
        ...         base=fedback.gaussian(mean=[1.0, 4.0]), loss=fedback.mean()))
        >>> spec.at(1).table["algorithm"]["local_steps"], spec.points()[1]
        (5, {'algorithm.local_steps': 5})
        """
        spec = Spec(self)
        spec.table = json.loads(self.document().at(whole("point", point)).json)
        return spec

    def document(self, store: str | os.PathLike[str] | None = None) -> _native.Document:
        """The spec for the compiled half. A table in memory becomes a file: beside the store that
        will refer to it, or for as long as this spec lives."""
        self.__dict__.pop("_written", None)
        directory = self.directory
        if self.data is not None:
            if store is not None:
                directory = os.path.abspath(os.fspath(store)) + "-tables"
            else:
                folder: _tables.Folder | None = self.__dict__.get("_folder")
                if folder is None or not folder.ours:
                    folder = self._folder = _tables.Folder()
                directory = folder.name
            written = _tables.write(self.data, directory)
            if written is not None:
                self._written = written
        try:
            text = json.dumps(self.table, allow_nan=False)
        except (TypeError, ValueError) as error:
            raise _native.InputError(f"{self.origin}: {error}") from None
        return _native.Document(text, self.origin, directory)

    def forget(self) -> None:
        """Takes back the file that the last :meth:`document` wrote, since nothing refers to it."""
        written: Path | None = self.__dict__.pop("_written", None)
        if written is not None:
            written.unlink(missing_ok=True)
            if not any(written.parent.iterdir()):
                written.parent.rmdir()

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

    def _repr_html_(self) -> str:
        return _notebook.of_spec(self)

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
    if spec is None:
        raise wrong("spec", spec, "a Spec, a mapping, the path of a TOML file")
    spec = spec if isinstance(spec, Spec) else Spec(spec)
    return spec if set is None else spec.set(set)


def _section(name: str, value: Any, allowed: str) -> Mapping[str, Any]:
    if isinstance(value, Mapping):
        return value
    raise wrong(name, value, f"{allowed}, such as fedback.mean()")
