"""Curves drawn with matplotlib, in the words of ``fedback compare``: x, y and size."""

from __future__ import annotations

from collections.abc import Sequence
from textwrap import fill
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from .results import Curve

#: Colours that differ in grey and for the colour-blind (Okabe and Ito 2008).
COLOURS = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000"]

NAMES = {
    "distance_sq": "squared distance to the stable point",
    "risk": "performative risk",
    "consensus": "consensus error before aggregation",
    "accuracy": "accuracy",
    "auc": "area under the ROC curve",
    "movement": "movement since the record before",
}

#: Measurements that fall over orders of magnitude.
LOGARITHMIC = ("distance_sq", "consensus", "movement")

COSTS = ("steps", "communications", "uploads", "sample_gradients", "rows_drawn", "deployments")

#: Width and height in inches: a screen, one column of a page, two.
SIZES = {"screen": (7.6, 4.6), "single": (3.35, 2.5), "double": (7.0, 3.6)}


def plot(
    curves: Sequence[Curve],
    y: str | None,
    *,
    x: str = "step",
    size: str = "screen",
    ax: Any = None,
    colours: Sequence[str] | None = None,
):
    """Draws a measurement of curves over what they cost, or final values over a parameter."""
    import matplotlib.pyplot as plt

    if y is None:
        y = next((name for name in NAMES if name in curves[0].columns), None)
        if y is None:
            raise ValueError("nothing was measured that could be drawn")
    if size not in SIZES:
        raise ValueError(f"size: found {size!r}; allowed: {', '.join(SIZES)}")
    key = None if x in ("step", "round", *COSTS) else _parameter(curves, x)
    with plt.rc_context({} if size == "screen" else {"font.size": 8.5}):
        if ax is None:
            _, ax = plt.subplots(figsize=SIZES[size], layout="constrained")
        width = 26 if size == "single" else 80
        if key is None:
            _curves(ax, curves, x, y, colours or _colours(len(curves)))
            ax.set_xlabel({"step": "local steps"}.get(x, x.replace("_", " ")))
            ax.set_ylabel(fill(NAMES.get(y, y), width))
        else:
            _finals(ax, curves, key, y)
            ax.set_xlabel(key)
            ax.set_ylabel(fill(f"final {NAMES.get(y, y)}", width))
        if y in LOGARITHMIC and any((curve.mean(y) > 0).any() for curve in curves):
            ax.set_yscale("log")
        many = len(ax.get_legend_handles_labels()[0]) > len(COLOURS) + 1
        beside = {"loc": "center left", "bbox_to_anchor": (1.0, 0.5)}
        ax.legend(frameon=False, **(beside if many else {}))
        ax.grid(alpha=0.25)
    return ax


def _colours(count: int) -> list[str]:
    """Colours that are told apart, or a ramp from dark to bright where there are more."""
    if count <= len(COLOURS):
        return COLOURS[:count]
    from matplotlib import colormaps
    from matplotlib.colors import to_hex

    return [to_hex(colormaps["viridis"](k / (count - 1) * 0.9)) for k in range(count)]


def _parameter(curves: Sequence[Curve], name: str) -> str:
    """A key that a sweep set, whole or by its last part."""
    keys = list(dict.fromkeys(key for curve in curves for key in curve.set))
    found = [key for key in keys if key == name or key.rsplit(".", 1)[-1] == name]
    is_number = lambda key, curve: isinstance(curve.set.get(key), (int, float))
    if len(found) == 1 and all(is_number(found[0], curve) for curve in curves):
        return found[0]
    allowed = ", ".join(["step", "round", *COSTS, *keys])
    raise ValueError(f"x: found {name!r}; allowed: {allowed}")


def _over(curve: Curve, x: str) -> np.ndarray:
    if x in COSTS:
        return curve.costs[x]
    return curve.rounds if x == "round" else curve.steps


def _band(curve: Curve, y: str) -> np.ndarray | None:
    """Two standard errors, where there are several repetitions."""
    several = curve.is_simulated and curve.repetitions > 1
    return 2.0 * curve.standard_error(y) if several else None


def _curves(ax, curves: Sequence[Curve], x: str, y: str, colours: Sequence[str]) -> None:
    many = len(curves) > len(COLOURS)
    any_exact = False
    for curve, colour in zip(curves, colours):
        values, places = curve.mean(y), _over(curve, x)
        style = "-" if curve.is_simulated else "--"
        ax.plot(places, values, style, color=colour, label=curve.label, linewidth=1.5)
        error = _band(curve, y)
        if error is not None and not many:
            low = np.maximum(values - error, values * 1e-3) if y in LOGARITHMIC else values - error
            ax.fill_between(places, low, values + error, color=colour, alpha=0.2, linewidth=0)
        exact = curve.exact if curve.is_simulated else None
        if exact is not None and y in exact.columns:
            ax.plot(_over(exact, x), exact.mean(y), "--", color=colour, linewidth=1.0)
            any_exact = True
    if any_exact:
        ax.plot([], [], "--", color="black", linewidth=1.0, label="exact")


def _finals(ax, curves: Sequence[Curve], key: str, y: str) -> None:
    """Final values over a parameter, one line for each setting of the others."""
    series: dict[str, list[Curve]] = {}
    for curve in curves:
        others = {name: value for name, value in curve.set.items() if name != key}
        label = ", ".join(f"{name.rsplit('.', 1)[-1]} {value}" for name, value in others.items())
        series.setdefault(label or "simulated", []).append(curve)
    any_exact = False
    for (label, members), colour in zip(series.items(), _colours(len(series))):
        members.sort(key=lambda curve: curve.set[key])
        errors = [error[-1] for curve in members if (error := _band(curve, y)) is not None]
        ax.errorbar(
            [curve.set[key] for curve in members], [curve.mean(y)[-1] for curve in members],
            yerr=errors if len(errors) == len(members) else None, marker="o", markersize=4,
            color=colour, linewidth=1.2, capsize=2, label=label,
        )  # fmt: skip
        exact = [
            (curve.set[key], curve.exact.mean(y)[-1])
            for curve in members
            if curve.is_simulated and curve.exact is not None and y in curve.exact.columns
        ]
        if exact:
            ax.plot(*zip(*exact), "--", color=colour, linewidth=1.0)
            any_exact = True
    if any_exact:
        ax.plot([], [], "--", color="black", linewidth=1.0, label="exact")
    places = [curve.set[key] for curve in curves]
    if min(places) > 0 and max(places) > 10 * min(places):
        ax.set_xscale("log")
