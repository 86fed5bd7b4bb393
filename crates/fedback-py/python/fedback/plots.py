"""Curves drawn with matplotlib, in the words of ``fedback compare``: x, y and size."""

from __future__ import annotations

from collections.abc import Sequence
from textwrap import fill
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ._native import InputError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from .results import Curve, Floats, Wholes

    class Drawn(Axes):
        """Axes, whose figure is no part of another one unless the caller's were."""

        @property
        def figure(self) -> Figure: ...


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

#: What curves are drawn over; everything else is a parameter.
OVER = ("step", "round", "time", *COSTS)

#: Width and height in inches: a screen, one column of a page, two.
SIZES = {"screen": (7.6, 4.6), "single": (3.35, 2.5), "double": (7.0, 3.6)}


def plot(
    curves: Sequence[Curve],
    y: str | None,
    *,
    x: str = "step",
    panels: str | None = None,
    map: str | None = None,
    size: str = "screen",
    ax: Any = None,
    colours: Sequence[str] | None = None,
) -> Axes | npt.NDArray[Any]:
    """Draws a measurement of curves over what they cost, or final values over a parameter."""
    import matplotlib.pyplot as plt

    if y is None:
        y = next((name for name in NAMES if name in curves[0].columns), None)
        if y is None:
            raise InputError("nothing was measured that could be drawn")
    if size not in SIZES:
        raise InputError(f"size: found {size!r}; allowed: {', '.join(SIZES)}")
    if map is not None and (panels is not None or x in OVER):
        raise InputError("map: needs another swept parameter as x, and no panels")
    # A notebook's backend switches drawing on when it is loaded. Loaded within the context, it
    # would be switched off at its end, and no later figure of the notebook would be shown.
    plt.draw_if_interactive()  # type: ignore[no-untyped-call]
    with plt.rc_context({} if size == "screen" else {"font.size": 8.5}):
        if panels is not None:
            return _panels(curves, y, x, _parameter(curves, panels, "panels"), size)
        if ax is None:
            _, ax = plt.subplots(figsize=SIZES[size], layout="constrained")
        if map is not None:
            return _map(ax, curves, _parameter(curves, x), _parameter(curves, map, "map"), y)
        return _panel(ax, curves, y, x, size, colours)


def _panel(
    ax: Axes, curves: Sequence[Curve], y: str, x: str, size: str,
    colours: Sequence[str] | None = None, hidden: Sequence[str] = (),
) -> Axes:  # fmt: skip
    """One drawing with its axes and its legend, which does not name ``hidden`` parameters."""
    key = None if x in OVER else _parameter(curves, x)
    width = 26 if size == "single" else 80
    if key is None:
        _curves(ax, curves, x, y, colours or _colours(len(curves)), hidden)
        named = {"step": "local steps", "time": "seconds of work"}
        ax.set_xlabel(named.get(x, x.replace("_", " ")))
        ax.set_ylabel(fill(NAMES.get(y, y), width))
    else:
        _finals(ax, curves, key, y, hidden)
        ax.set_xlabel(key)
        ax.set_ylabel(fill(f"final {NAMES.get(y, y)}", width))
    if y in LOGARITHMIC and any((curve.mean(y) > 0).any() for curve in curves):
        ax.set_yscale("log")
    many = len(ax.get_legend_handles_labels()[0]) > len(COLOURS) + 1
    beside: dict[str, Any] = {"loc": "center left", "bbox_to_anchor": (1.0, 0.5)}
    ax.legend(frameon=False, **(beside if many else {}))
    ax.grid(alpha=0.25)
    return ax


def _panels(curves: Sequence[Curve], y: str, x: str, key: str, size: str) -> npt.NDArray[Any]:
    """A panel for each value of a parameter, with the same axes and one legend."""
    import matplotlib.pyplot as plt

    values = list(dict.fromkeys(curve.set[key] for curve in curves))
    width, height = SIZES[size]
    rows = -(-len(values) // 3)
    figure, axes = plt.subplots(
        rows, min(3, len(values)), figsize=(width, height * (0.4 + 0.6 * rows)), sharex=True,
        sharey=True, squeeze=False, layout="constrained",
    )  # fmt: skip
    for place, (ax, value) in enumerate(zip(axes.flat, values)):
        members = [curve for curve in curves if curve.set[key] == value]
        _panel(ax, members, y, x, size, hidden=(key,))
        ax.set_title(f"{key.rsplit('.', 1)[-1]} {value}", fontsize="medium")
        ax.label_outer()
        if place > 0:
            ax.get_legend().remove()
    for ax in axes.flat[len(values) :]:
        ax.remove()
    return axes.flat[: len(values)]


def _map(ax: Axes, curves: Sequence[Curve], x: str, y: str, measurement: str) -> Axes:
    """A heat map of final values over two parameters."""
    from matplotlib.colors import LogNorm

    across, upwards = (sorted({curve.set[key] for curve in curves}) for key in (x, y))
    values = np.full((len(upwards), len(across)), np.nan)
    for curve in curves:
        place = upwards.index(curve.set[y]), across.index(curve.set[x])
        if not np.isnan(values[place]):
            raise InputError(f"map: several runs have {x} {curve.set[x]} and {y} {curve.set[y]}")
        values[place] = curve.mean(measurement)[-1]
    norm = LogNorm() if measurement in LOGARITHMIC and np.nanmin(values) > 0 else None
    drawn = ax.pcolormesh(values, cmap="viridis", norm=norm)
    ax.set_xticks(np.arange(len(across)) + 0.5, [str(value) for value in across])
    ax.set_yticks(np.arange(len(upwards)) + 0.5, [str(value) for value in upwards])
    ax.set_xlabel(x)
    ax.set_ylabel(y)
    ax.figure.colorbar(drawn, label=f"final {NAMES.get(measurement, measurement)}")
    return ax


def _colours(count: int) -> list[str]:
    """Colours that are told apart, or a ramp from dark to bright where there are more."""
    if count <= len(COLOURS):
        return COLOURS[:count]
    from matplotlib import colormaps
    from matplotlib.colors import to_hex

    return [to_hex(colormaps["viridis"](k / (count - 1) * 0.9)) for k in range(count)]


def _parameter(curves: Sequence[Curve], name: str, word: str = "x") -> str:
    """A key that a sweep set, whole or by its last part."""
    keys = list(dict.fromkeys(key for curve in curves for key in curve.set))
    found = [key for key in keys if key == name or key.rsplit(".", 1)[-1] == name]
    if len(found) == 1 and all(isinstance(c.set.get(found[0]), (int, float)) for c in curves):
        return found[0]
    allowed = ", ".join([*OVER, *keys] if word == "x" else keys)
    raise InputError(f"{word}: found {name!r}; allowed: {allowed}")


def _over(curve: Curve, x: str) -> Floats | Wholes:
    if x in COSTS:
        return curve.costs[x]
    if x == "time":
        return curve.times
    return curve.rounds if x == "round" else curve.steps


def _band(curve: Curve, y: str) -> Floats | None:
    """Two standard errors, where there are several repetitions."""
    error = curve._error(y)
    return None if error is None else 2.0 * error


def _curves(
    ax: Axes, curves: Sequence[Curve], x: str, y: str, colours: Sequence[str],
    hidden: Sequence[str] = (),
) -> None:  # fmt: skip

    many = len(curves) > len(COLOURS)
    any_exact = False
    for curve, colour in zip(curves, colours):
        values, places = curve.mean(y), _over(curve, x)
        style = "-" if curve.is_simulated else "--"
        ax.plot(places, values, style, color=colour, label=_label(curve, hidden), linewidth=1.5)
        error = _band(curve, y)
        if error is not None and not many:
            low = np.maximum(values - error, values * 1e-3) if y in LOGARITHMIC else values - error
            ax.fill_between(places, low, values + error, color=colour, alpha=0.2, linewidth=0)
        # Mathematics takes no time of the run.
        exact = curve._exact if x != "time" else None
        if exact is not None and y in exact.columns:
            ax.plot(_over(exact, x), exact.mean(y), "--", color=colour, linewidth=1.0)
            any_exact = True
    if any_exact:
        ax.plot([], [], "--", color="black", linewidth=1.0, label="exact")


def _label(curve: Curve, hidden: Sequence[str]) -> str:
    """What a curve is called where some of its parameters are said elsewhere."""
    if not hidden:
        return curve.label
    others = [(key, value) for key, value in curve.set.items() if key not in hidden]
    return ", ".join(f"{key.rsplit('.', 1)[-1]} {value}" for key, value in others) or "simulated"


def _finals(
    ax: Axes, curves: Sequence[Curve], key: str, y: str, hidden: Sequence[str] = ()
) -> None:
    """Final values over a parameter, one line for each setting of the others."""
    series: dict[str, list[Curve]] = {}
    for curve in curves:
        series.setdefault(_label(curve, (key, *hidden)), []).append(curve)
    any_exact = False
    for (label, members), colour in zip(series.items(), _colours(len(series))):
        members.sort(key=lambda curve: curve.set[key])
        errors = [error[-1] for curve in members if (error := _band(curve, y)) is not None]
        ax.errorbar(
            [curve.set[key] for curve in members], [curve.mean(y)[-1] for curve in members],
            yerr=errors if len(errors) == len(members) else None, marker="o", markersize=4,
            color=colour, linewidth=1.2, capsize=2, label=label,
        )  # fmt: skip
        expected = [
            (curve.set[key], exact.mean(y)[-1])
            for curve in members
            if (exact := curve._exact) is not None and y in exact.columns
        ]
        if expected:
            ax.plot(*zip(*expected), "--", color=colour, linewidth=1.0)
            any_exact = True
    if any_exact:
        ax.plot([], [], "--", color="black", linewidth=1.0, label="exact")
    places = [curve.set[key] for curve in curves]
    if min(places) > 0 and max(places) > 10 * min(places):
        ax.set_xscale("log")
