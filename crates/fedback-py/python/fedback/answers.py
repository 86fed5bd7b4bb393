"""Answers of theory and statistics: fields as attributes, with their pictures."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from . import _answered
from .plots import COLOURS

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from .literals import PlannedScheme, Stability, Verdict
    from .plots import Drawn
    from .results import Floats
    from .spec import Spec


class Answer(Mapping[str, Any]):
    """An answer of theory: the object that the command prints with ``--json``, its fields as
    attributes; lists of numbers are arrays."""

    def __init__(self, fields: Mapping[str, Any], *, set: Mapping[str, Any] | None = None) -> None:
        self._fields = dict(fields)
        #: What a sweep set to get here.
        self.set = dict(set or {})

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            # Asked for by copy and pickle too, before there are fields.
            raise AttributeError(name)
        if name in self._fields:
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
        copy: dict[str, Any] = json.loads(json.dumps(self._fields))
        return copy

    _shown: tuple[str, ...] = ()

    def __repr__(self) -> str:
        shown = [name for name in self._shown if name in self._fields]
        words = ", ".join(f"{name}={_short(self._fields[name])}" for name in shown)
        return f"{type(self).__name__}({words})"

    def _repr_html_(self) -> str:
        return _answered.of_answer(self)

    def _named(self) -> dict[str, Any]:
        return {}

    def _table(self) -> dict[str, Any]:
        """A row of what is one number or word."""
        short = {key: one for key, one in self._fields.items() if not isinstance(one, (list, dict))}
        return {key: [one] for key, one in short.items()}

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

    # Of these and of other answers' fields, None is not said: whoever asks knows the problem.
    stable_point: Floats | Any
    stability: Stability
    reason: str | None
    optimal_point: Floats | Any
    risk_stable: float | Any
    risk_optimal: float | Any
    gradient_margin: float | Any
    minimisation_radius: float | Any
    standard_error: dict[str, Any]

    _shown = (
        "stable_point",
        "stability",
        "optimal_point",
        "risk_stable",
        "risk_optimal",
        "settles_at",
    )

    def _repr_html_(self) -> str:
        return _answered.of_solution(self)


class Bounds(Answer):
    """The paper's constants and guarantees, as printed and corrected."""

    _shown = ("theorem", "delta")

    def _repr_html_(self) -> str:
        return _answered.of_bounds(self)


class _Pictured(Answer):
    def __init__(self, fields: Mapping[str, Any], svg: str | None, **more: Any) -> None:
        super().__init__(fields, **more)
        self._svg = svg

    def svg(self) -> str | None:
        return self._svg


class Certificate(_Pictured):
    """Will retraining settle, where, how bad is that place, who drives it."""

    verdict: Verdict
    reason: str
    stable_point: Floats | Any
    optimal_point: Floats | Any
    price_of_stability: float | Any
    gradient_margin: float | Any
    minimisation_radius: float | Any
    largest_step: float | Any
    average_sensitivity: float | Any
    per_client: list[dict[str, Any]]

    _shown = ("verdict", "reason")

    def _repr_html_(self) -> str:
        return _answered.of_certificate(self)

    def plot(self, *, ax: Axes | None = None) -> Drawn:
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
        return cast("Drawn", ax)


class Plan(_Pictured):
    """The cheapest setting that reaches an accuracy and keeps it; ``spec`` is the spec to run, none
    where nothing reaches it."""

    scheme: PlannedScheme | Any
    cohort: int | Any
    local_steps: int | Any
    rounds: int | Any
    steps: int | Any
    total_time: float | Any

    _shown = ("scheme", "cohort", "local_steps", "beta", "gamma", "steps", "total_time", "binding")

    def __init__(self, fields: Mapping[str, Any], svg: str | None, spec: Spec | None) -> None:
        super().__init__(fields, svg)
        # None is not said, so that whoever has a plan need not ask twice.
        self.spec: Spec | Any = spec

    def _repr_html_(self) -> str:
        return _answered.of_plan(self)

    def plot(self, *, ax: Axes | None = None) -> Drawn:
        """Draws the total cost over local steps: the cheapest for each number of them as a solid
        line, and dashed, since not searched as closely, one for every scheme and cohort."""
        import matplotlib.pyplot as plt

        if ax is None:
            _, ax = plt.subplots(layout="constrained")
        lines: dict[tuple[str, int], list[tuple[int, float]]] = {}
        cheapest: dict[int, float] = {}
        for one in self["alternatives"]:
            place, cost = one["local_steps"], one["total_time"]
            lines.setdefault((one["scheme"], one["cohort"]), []).append((place, cost))
            cheapest[place] = min(cost, cheapest.get(place, cost))
        if cheapest and not self["search_cut"]:
            points = sorted(cheapest.items())
            ax.plot(*zip(*points), ".-", color=COLOURS[0], label="cheapest for each E")
        # A lone point is no line.
        lines = {key: points for key, points in lines.items() if len(points) > 1}
        for k, ((scheme, cohort), points) in enumerate(sorted(lines.items()), start=1):
            points.sort()
            ax.plot(
                *zip(*points), ["--", "-.", ":"][k // len(COLOURS) % 3], linewidth=1.0,
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
        return cast("Drawn", ax)


class Fit(_Pictured):
    """How every client reacts, from observations; ``spec`` is the spec that came of it."""

    _shown = ("response", "features", "shape")

    def __init__(self, fields: Mapping[str, Any], svg: str | None, spec: Spec) -> None:
        super().__init__(fields, svg)
        self.spec = spec

    def _repr_html_(self) -> str:
        return _answered.of_fit(self)
