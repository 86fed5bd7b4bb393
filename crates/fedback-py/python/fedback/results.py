"""What comes out: runs and exact curves as arrays, answers as attributes, all with pictures."""

from __future__ import annotations

import html
import json
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from . import _native
from ._custom import numbers
from .plots import COLOURS, plot


def _whole(data: bytes) -> np.ndarray:
    return np.frombuffer(data, dtype="<u8").astype(np.int64)


class Curve:
    """Measurements over rounds: of a run (see :class:`Run`), or exact expectations."""

    def __init__(self, native: _native.Outcome) -> None:
        self._native = native
        self._json: dict[str, Any] = json.loads(native.json)
        #: Rounds closed, and local steps made, at every record.
        self.rounds: np.ndarray = _whole(native.rounds)
        self.steps: np.ndarray = _whole(native.steps)
        #: The names of what was measured.
        self.columns: list[str] = native.columns
        #: What a sweep set to get here.
        self.set: dict[str, Any] = json.loads(native.set)

    @property
    def name(self) -> str:
        """The spec's name."""
        return self._json["name"]

    @property
    def label(self) -> str:
        """The name, with what a sweep set."""
        return self._native.label

    @property
    def clients(self) -> int:
        """How many clients."""
        return self._json["clients"]

    #: Whether it was simulated; exact expectations are not.
    is_simulated = False

    @property
    def costs(self) -> dict[str, np.ndarray]:
        """What it took to get to every record, per repetition: steps, communications, uploads,
        sample_gradients, rows_drawn, deployments."""
        counts = [point["costs"] for point in self._json["curve"]]
        return {name: np.array([count[name] for count in counts]) for name in counts[0]}

    @property
    def client_names(self) -> list[str] | None:
        """Their names, where the data have any."""
        return self._json["client_names"]

    @property
    def dim(self) -> int:
        """Coordinates of θ."""
        return self._json["dim"]

    @property
    def coordinates(self) -> list[str] | None:
        """Their names, where the data have any."""
        return self._json["coordinates"]

    @property
    def stable_point(self) -> np.ndarray | None:
        """θ^PS, where it is known."""
        point = self._json["stable_point"]
        return None if point is None else np.array(point)

    def _column(self, measurement: str) -> int:
        if measurement in self.columns:
            return self.columns.index(measurement)
        known = ", ".join(self.columns) or "nothing"
        raise KeyError(f"{measurement!r} was not measured; there is: {known}")

    def mean(self, measurement: str) -> np.ndarray:
        """The mean over repetitions at every record; the expectation where it is exact."""
        return numbers(self._native.statistic(self._column(measurement))[0])

    def sd(self, measurement: str) -> np.ndarray:
        """The standard deviation over repetitions at every record; NaN where the mean is exact."""
        return numbers(self._native.statistic(self._column(measurement))[1])

    def to_dict(self) -> dict[str, Any]:
        """The object that the command prints with ``--json``."""
        return json.loads(self._native.json)

    def _table(self) -> dict[str, np.ndarray]:
        columns: dict[str, np.ndarray] = {"round": self.rounds, "step": self.steps}
        for name in self.columns:
            columns[name] = self.mean(name)
            columns[f"{name}_sd"] = self.sd(name)
        return columns

    def _named(self) -> dict[str, Any]:
        return {}

    def to_pandas(self):
        """A pandas frame with a row for every record: round, step, means and deviations."""
        import pandas

        return pandas.DataFrame(self._table())

    def to_polars(self):
        """A polars frame with a row for every record: round, step, means and deviations."""
        import polars

        return polars.DataFrame(self._table())

    def svg(self) -> str:
        """The figure of the command, as SVG text."""
        return self._native.svg()

    def plot(
        self,
        measurement: str | None = None,
        *,
        x: str = "step",
        y: str | None = None,
        size: str = "screen",
        ax=None,
        colour: str | None = None,
    ):
        """Draws a measurement (the first argument, or ``y``) with matplotlib and returns the axes:
        the mean with a band of two standard errors, exact expectations dashed. ``x`` is step,
        round or one of :attr:`costs`; ``size`` is screen, single or double, for one or two columns
        of a page. ``.figure.savefig("run.pdf")`` writes the file."""
        colours = [colour or COLOURS[0]]
        return plot([self], y or measurement, x=x, size=size, ax=ax, colours=colours)

    def _repr_html_(self) -> str:
        if not self.columns:
            return f"<pre>{html.escape(repr(self))}</pre>"
        return f"<pre>{html.escape(repr(self))}</pre>{self.svg()}"

    def __repr__(self) -> str:
        last = ", ".join(f"{name} {self.mean(name)[-1]:.4g}" for name in self.columns[:2])
        return f"Curve({self.label!r}, after {self.steps[-1]} steps: {last}, exact)"


class Run(Curve):
    """A finished run. ``run["distance_sq"]`` has a row for every record and a column for every
    repetition."""

    is_simulated = True

    @property
    def id(self) -> int | None:
        """Its number in the store, where it was recorded."""
        return self._native.id

    @property
    def repetitions(self) -> int:
        """How many repetitions."""
        return self._json["repetitions"]

    @property
    def final_theta(self) -> np.ndarray:
        """The last θ of every repetition, repetitions × dim; NaN where one stopped being finite."""
        return numbers(self._native.final_theta).reshape(-1, self.dim)

    @property
    def failed(self) -> list[dict[str, int]]:
        """Repetitions that stopped being finite, with the round in which they did."""
        return self._json.get("failed", [])

    @property
    def seconds(self) -> float:
        """Seconds spent."""
        return self._json["seconds"]

    @property
    def resumed_from(self) -> int | None:
        """The round from which it was resumed."""
        return self._json.get("resumed_from")

    @property
    def exact(self) -> Curve | None:
        """Exact expectations of the same run, where mathematics allows."""
        exact = self._native.exact
        return None if exact is None else Curve(exact)

    def __getitem__(self, measurement: str) -> np.ndarray:
        values = numbers(self._native.values(self._column(measurement)))
        return values.reshape(-1, self.repetitions)

    def _named(self) -> dict[str, Any]:
        return {} if self.id is None else {"run": self.id, "name": self.name}

    def standard_error(self, measurement: str) -> np.ndarray:
        """The standard error of the mean at every record."""
        return self.sd(measurement) / np.sqrt(self.repetitions)

    def __repr__(self) -> str:
        where = "not recorded" if self.id is None else f"run {self.id}"
        values = zip(self.columns[:2], (self.mean(name)[-1] for name in self.columns[:2]))
        last = ", ".join(f"{name} {value:.4g}" for name, value in values) or "nothing measured"
        failed = f", {len(self.failed)} failed" if self.failed else ""
        many = f"{self.repetitions} repetition{'s' * (self.repetitions != 1)}"
        return f"Run({self.label!r}, {many}, {self.steps[-1]} steps: {last}{failed}, {where})"


class Sweep(list):
    """The runs, curves or answers of a sweep, in the order of its points."""

    def to_pandas(self):
        """One frame: the records of every run, with a column for every key that was swept; where
        the runs are recorded, ``run`` and ``name`` say which."""
        import pandas

        frames = [one.to_pandas().assign(**{**one._named(), **one.set}) for one in self]
        return pandas.concat(frames, ignore_index=True)

    def plot(
        self,
        measurement: str | None = None,
        *,
        x: str = "step",
        y: str | None = None,
        size: str = "screen",
        ax=None,
    ):
        """Draws a measurement of every run into the same axes, in the words of
        :meth:`Curve.plot`; if ``x`` is a key that was swept, final values over it."""
        return plot(self, y or measurement, x=x, size=size, ax=ax)


class Answer(Mapping):
    """An answer of theory: the object that the command prints with ``--json``, its fields as
    attributes; lists of numbers are arrays."""

    def __init__(self, fields: Mapping[str, Any], *, set: Mapping[str, Any] | None = None) -> None:
        self._fields = dict(fields)
        #: What a sweep set to get here.
        self.set = dict(set or {})

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("_") and name in self._fields:
            return _arrays(self._fields[name])
        raise AttributeError(f"{type(self).__name__} has no {name!r}; it has {', '.join(self)}")

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self._fields]

    def __getitem__(self, name: str) -> Any:
        return self._fields[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._fields)

    def __len__(self) -> int:
        return len(self._fields)

    def to_dict(self) -> dict[str, Any]:
        """A copy of the object."""
        return json.loads(json.dumps(self._fields))

    _shown: tuple[str, ...] = ()

    def __repr__(self) -> str:
        shown = [name for name in self._shown if name in self._fields]
        words = ", ".join(f"{name}={_short(self._fields[name])}" for name in shown)
        return f"{type(self).__name__}({words})"

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><th style='text-align:left'>{html.escape(name)}</th>"
            f"<td style='text-align:left'>{html.escape(_short(value))}</td></tr>"
            for name, value in self._fields.items()
            if not isinstance(value, dict) and _short(value) != "…"
        )
        return f"<table>{rows}</table>{self.svg() or ''}"

    def svg(self) -> str | None:
        """The picture of the command, where there is one."""
        return None


def _arrays(value: Any) -> Any:
    if isinstance(value, list) and value and all(isinstance(x, (int, float)) for x in value):
        return np.array(value, dtype=float)
    return value


def _short(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, list):
        if not all(isinstance(x, (int, float, str)) for x in value):
            return "…"
        few = [_short(x) for x in value[:6]]
        return "[" + ", ".join(few + ["…"] * (len(value) > 6)) + "]"
    return "…" if isinstance(value, dict) else str(value)


class Solution(Answer):
    """Where retraining settles (the stable point), and the optimal point."""

    _shown = (
        "stable_point",
        "stability",
        "optimal_point",
        "risk_stable",
        "risk_optimal",
        "settles_at",
    )


class Bounds(Answer):
    """The paper's constants and guarantees, as printed and corrected."""

    _shown = ("theorem", "delta")


class _Pictured(Answer):
    def __init__(self, fields: Mapping[str, Any], svg: str | None, **more: Any) -> None:
        super().__init__(fields, **more)
        self._svg = svg

    def svg(self) -> str | None:
        return self._svg


class Certificate(_Pictured):
    """Will retraining settle, where, how bad is that place, who drives it."""

    _shown = ("verdict", "reason")

    def plot(self, *, ax=None):
        """Draws every client's share of the average sensitivity, the largest on top."""
        import matplotlib.pyplot as plt

        clients = sorted(self["per_client"], key=lambda client: client["share"] or 0.0)[-25:]
        if ax is None:
            _, ax = plt.subplots(layout="constrained", figsize=(6, 1 + 0.25 * len(clients)))
        shares = [100 * (client["share"] or 0.0) for client in clients]
        ax.barh([client["client"] for client in clients], shares, color=COLOURS[0])
        ax.set_xlabel("share of the average sensitivity, %")
        ax.set_ylabel("client")
        ax.set_title(self["verdict"])
        return ax


class Plan(_Pictured):
    """The cheapest setting that reaches an accuracy and keeps it; ``spec`` is the spec to run, none
    where nothing reaches it."""

    _shown = ("scheme", "cohort", "local_steps", "beta", "gamma", "steps", "total_time", "binding")

    def __init__(self, fields: Mapping[str, Any], svg: str | None, spec: Any) -> None:
        super().__init__(fields, svg)
        self.spec = spec

    def plot(self, *, ax=None):
        """Draws the total cost over local steps, a line for every scheme and cohort."""
        import matplotlib.pyplot as plt

        if ax is None:
            _, ax = plt.subplots(layout="constrained")
        lines: dict[tuple[str, int], list[tuple[int, float]]] = {}
        for one in self["alternatives"]:
            key = (one["scheme"], one["cohort"])
            lines.setdefault(key, []).append((one["local_steps"], one["total_time"]))
        for k, ((scheme, cohort), points) in enumerate(sorted(lines.items())):
            points.sort()
            ax.plot(
                *zip(*points), [".-", ".--", ".:"][k // len(COLOURS) % 3],
                color=COLOURS[k % len(COLOURS)], label=f"{scheme}, K = {cohort}",
            )  # fmt: skip
        if self["local_steps"] is not None:
            ax.plot(self["local_steps"], self["total_time"], "*", color="#000000", markersize=12)
        ax.set_xscale("log")
        ax.set_yscale("log")
        ax.set_xlabel("local steps per round, E")
        ax.set_ylabel("total cost, in local steps")
        ax.legend(frameon=False, fontsize="small")
        ax.grid(alpha=0.25)
        return ax


class Fit(_Pictured):
    """How every client reacts, from observations; ``spec`` is the spec that came of it."""

    _shown = ("response", "features", "shape")

    def __init__(self, fields: Mapping[str, Any], svg: str | None, spec: Any) -> None:
        super().__init__(fields, svg)
        self.spec = spec
