"""What comes out: runs and exact curves as arrays, with pictures."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, TypeVar, cast, overload

import numpy as np
import numpy.typing as npt

from . import _native, _notebook, _xarray
from ._custom import numbers
from .literals import Over, Size
from .plots import COLOURS, plot

if TYPE_CHECKING:
    import pandas
    import polars
    import xarray
    from matplotlib.axes import Axes

    from .answers import Answer
    from .plots import Drawn

Floats = npt.NDArray[np.float64]
Wholes = npt.NDArray[np.int64]
#: What a point of a sweep comes to.
Point = TypeVar("Point", bound="Curve | Answer")

# Where a type below is `… | Any`, it may be None, and whoever asks knows whether it is.


def _whole(data: bytes) -> Wholes:
    return np.frombuffer(data, dtype="<u8").astype(np.int64)


class Curve:
    """Measurements over rounds: of a run (see :class:`Run`), or exact expectations."""

    def __init__(self, native: _native.Outcome) -> None:
        self._native = native
        self._json: dict[str, Any] = json.loads(native.json)
        #: Rounds closed, and local steps made, at every record.
        self.rounds: Wholes = _whole(native.rounds)
        self.steps: Wholes = _whole(native.steps)
        #: Seconds of work by every record; none of exact expectations.
        self.times: Floats = np.frombuffer(native.times, dtype="<f8")
        #: The names of what was measured.
        self.columns: list[str] = native.columns
        #: What a sweep set to get here.
        self.set: dict[str, Any] = json.loads(native.set)

    def __reduce__(self) -> tuple[type[Curve], tuple[_native.Outcome]]:
        # Everything else is read from it.
        return type(self), (self._native,)

    @property
    def name(self) -> str:
        """The spec's name."""
        name: str = self._json["name"]
        return name

    @property
    def label(self) -> str:
        """The name, with what a sweep set."""
        return self._native.label

    @property
    def clients(self) -> int:
        """How many clients."""
        clients: int = self._json["clients"]
        return clients

    #: Whether it was simulated; exact expectations are not.
    is_simulated: bool = False

    @property
    def costs(self) -> dict[str, Floats]:
        """What it took to get to every record, per repetition: steps, communications, uploads,
        sample_gradients, rows_drawn, deployments."""
        counts = [point["costs"] for point in self._json["curve"]]
        return {
            name: np.array([count[name] for count in counts], dtype=float) for name in counts[0]
        }

    @property
    def client_names(self) -> list[str] | None:
        """Their names, where the data have any."""
        names: list[str] | None = self._json["client_names"]
        return names

    @property
    def dim(self) -> int:
        """Coordinates of θ."""
        dim: int = self._json["dim"]
        return dim

    @property
    def coordinates(self) -> list[str] | None:
        """Their names, where the data have any."""
        names: list[str] | None = self._json["coordinates"]
        return names

    @property
    def coordinate_names(self) -> list[str]:
        """The names of the coordinates of θ; θ[0], θ[1], … where the data have none."""
        return self.coordinates or [f"θ[{j}]" for j in range(self.dim)]

    @property
    def stable_point(self) -> Floats | Any:
        """θ^PS, where it is known, else None."""
        point = self._json["stable_point"]
        return None if point is None else np.array(point, dtype=float)

    @property
    def table(self) -> dict[str, Any] | Any:
        """What a table was found to hold: rows, those held out and left out, features, groups; None
        where there is none."""
        table: dict[str, Any] | None = self._json.get("table")
        return table

    def _column(self, measurement: str) -> int:
        if measurement in self.columns:
            return self.columns.index(measurement)
        known = ", ".join(self.columns) or "nothing"
        raise KeyError(f"{measurement!r} was not measured; there is: {known}")

    def mean(self, measurement: str) -> Floats:
        """The mean over repetitions at every record; the expectation where it is exact."""
        return numbers(self._native.statistic(self._column(measurement))[0])

    def sd(self, measurement: str) -> Floats:
        """The standard deviation over repetitions at every record; NaN where the mean is exact."""
        return numbers(self._native.statistic(self._column(measurement))[1])

    def to_dict(self) -> dict[str, Any]:
        """The object that the command prints with ``--json``."""
        contract: dict[str, Any] = json.loads(self._native.json)
        return contract

    def _table(self) -> dict[str, Floats | Wholes]:
        columns: dict[str, Floats | Wholes] = {"round": self.rounds, "step": self.steps}
        for name in self.columns:
            columns[name] = self.mean(name)
            columns[f"{name}_sd"] = self.sd(name)
        return columns

    def _named(self) -> dict[str, Any]:
        return {}

    def _about(self) -> dict[str, Any]:
        return {key: self._json.get(key) for key in ("name", "version", "seed")}

    def to_pandas(self) -> pandas.DataFrame:
        """A pandas frame with a row for every record: round, step, means and deviations."""
        import pandas

        return pandas.DataFrame(self._table())

    def to_polars(self) -> polars.DataFrame:
        """A polars frame with a row for every record: round, step, means and deviations."""
        import polars

        return polars.DataFrame(self._table())

    @property
    def _exact(self) -> Curve | None:
        return None

    def _error(self, measurement: str) -> Floats | None:
        return None

    def to_xarray(self) -> xarray.Dataset:
        """An xarray dataset: measurements over round and repetition (and client or group, where
        they are of one), with step and time as coordinates; ``theta``, the final models, by
        repetition and coordinate; exact expectations as ``…_exact``, ``stable_point`` by
        coordinate."""
        return _xarray.of_curve(self)

    def svg(self) -> str:
        """The figure of the command, as SVG text."""
        return self._native.svg()

    def plot(
        self,
        measurement: str | None = None,
        *,
        x: Over = "step",
        y: str | None = None,
        size: Size = "screen",
        ax: Axes | None = None,
        colour: str | None = None,
    ) -> Drawn:
        """Draws a measurement (the first argument, or ``y``) with matplotlib and returns the axes:
        the mean with a band of two standard errors, exact expectations dashed. ``x`` is step,
        round, time or one of :attr:`costs`; ``size`` is screen, single or double, for one or two
        columns of a page. ``.figure.savefig("run.pdf")`` writes the file."""
        colours = [colour or COLOURS[0]]
        drawn = plot([self], y or measurement, x=x, size=size, ax=ax, colours=colours)
        return cast("Drawn", drawn)

    def _repr_html_(self) -> str:
        return _notebook.of_curve(self)

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
        repetitions: int = self._json["repetitions"]
        return repetitions

    @property
    def final_theta(self) -> Floats:
        """The last θ of every repetition, repetitions × dim; NaN where one stopped being finite."""
        return numbers(self._native.final_theta).reshape(-1, self.dim)

    @property
    def theta(self) -> dict[str, np.ndarray]:
        """The last θ by the names of its coordinates, each with a value for every repetition:
        ``run.theta["income"].mean()``, ``pandas.DataFrame(run.theta)``. Coordinates without a name
        are θ[0], θ[1], …; :attr:`final_theta` is the same as one array."""
        return dict(zip(self.coordinate_names, self.final_theta.T))

    @property
    def failed(self) -> list[dict[str, int]]:
        """Repetitions that stopped being finite, with the round in which they did."""
        failed: list[dict[str, int]] = self._json.get("failed", [])
        return failed

    @property
    def seconds(self) -> float:
        """Seconds spent."""
        seconds: float = self._json["seconds"]
        return seconds

    @property
    def resumed_from(self) -> int | None:
        """The round from which it was resumed."""
        round: int | None = self._json.get("resumed_from")
        return round

    @property
    def exact(self) -> Curve | Any:
        """Exact expectations of the same run, where mathematics allows, else None."""
        exact = self._native.exact
        return None if exact is None else Curve(exact)

    @property
    def _exact(self) -> Curve | None:
        return self.exact

    def _error(self, measurement: str) -> Floats | None:
        return self.standard_error(measurement) if self.repetitions > 1 else None

    def __getitem__(self, measurement: str) -> Floats:
        values = numbers(self._native.values(self._column(measurement)))
        return values.reshape(-1, self.repetitions)

    def _named(self) -> dict[str, Any]:
        return {} if self.id is None else {"run": self.id, "name": self.name}

    def standard_error(self, measurement: str) -> Floats:
        """The standard error of the mean at every record."""
        return self.sd(measurement) / float(np.sqrt(self.repetitions))

    def __repr__(self) -> str:
        where = "not recorded" if self.id is None else f"run {self.id}"
        values = zip(self.columns[:2], (self.mean(name)[-1] for name in self.columns[:2]))
        last = ", ".join(f"{name} {value:.4g}" for name, value in values) or "nothing measured"
        failed = f", {len(self.failed)} failed" if self.failed else ""
        many = f"{self.repetitions} repetition{'s' * (self.repetitions != 1)}"
        return f"Run({self.label!r}, {many}, {self.steps[-1]} steps: {last}{failed}, {where})"


class Sweep(list[Point]):
    """The runs, curves or answers of a sweep, in the order of its points."""

    def to_dict(self) -> dict[str, Any]:
        """The object that the command prints with ``--json``: a point after the other."""
        return {"format": 1, "points": [{**one.to_dict(), "set": one.set} for one in self]}

    def to_pandas(self: Sweep[Any]) -> pandas.DataFrame:
        """One frame: the records of every run, or a row for every answer, with a column for every
        key that was swept; where the runs are recorded, ``run`` and ``name`` say which."""
        import pandas

        return pandas.concat([pandas.DataFrame(one) for one in self._tables()], ignore_index=True)

    def to_polars(self: Sweep[Any]) -> polars.DataFrame:
        """The same as a polars frame."""
        import polars

        return polars.concat(map(polars.DataFrame, self._tables()), how="diagonal_relaxed")

    def to_xarray(self: Sweep[Any]) -> xarray.Dataset:
        """One xarray dataset of all runs (see :meth:`Curve.to_xarray`), with a dimension for every
        key that was swept, named by its last part: ``.sel(local_steps=5)``. Runs that are not all
        combinations of some values lie along ``point``, with the keys as coordinates."""
        return _xarray.of_sweep(self)

    def _tables(self: Sweep[Any]) -> list[dict[str, Any]]:
        """The columns of every run, or the row of every answer, with what was set."""
        tables = []
        for one in self:
            table = one._table()
            count = len(next(iter(table.values())))
            more = {**one._named(), **one.set}.items()
            tables.append({**table, **{key: [_xarray.label(value)] * count for key, value in more}})
        return tables

    def _repr_html_(self) -> str:
        return _notebook.of_sweep(self)

    @overload
    def plot(
        self: Sweep[Any],
        measurement: str | None = ...,
        *,
        x: Over | str = ...,
        y: str | None = ...,
        panels: None = ...,
        map: str | None = ...,
        size: Size = ...,
        ax: Axes | None = ...,
    ) -> Drawn: ...
    @overload
    def plot(
        self: Sweep[Any],
        measurement: str | None = ...,
        *,
        x: Over | str = ...,
        y: str | None = ...,
        panels: str,
        map: None = ...,
        size: Size = ...,
        ax: None = ...,
    ) -> npt.NDArray[Any]: ...
    def plot(
        self: Sweep[Any],
        measurement: str | None = None,
        *,
        x: Over | str = "step",
        y: str | None = None,
        panels: str | None = None,
        map: str | None = None,
        size: Size = "screen",
        ax: Axes | None = None,
    ) -> Drawn | npt.NDArray[Any]:
        """Draws a measurement of every run into the same axes, in the words of
        :meth:`Curve.plot`; if ``x`` is a key that was swept, final values over it. ``panels`` is a
        key of which each value has axes of its own, and ``map`` one that is drawn upwards in a heat
        map of final values."""
        drawn = plot(self, y or measurement, x=x, panels=panels, map=map, size=size, ax=ax)
        return cast("Drawn", drawn)
