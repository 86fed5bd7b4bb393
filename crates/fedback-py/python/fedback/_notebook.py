"""What a notebook shows of specs, runs and sweeps: the little that decides, in words, and the
figure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from . import _native
from ._html import Html, facts, grid, many, note, number, page, picture, uncertain, words

if TYPE_CHECKING:
    from .answers import Answer
    from .results import Curve
    from .spec import Spec

#: Keys of a spec that have a line of their own.
_LINES = ("name", "seed", "rounds", "repetitions", "problem", "algorithm", "sweep", "format")

#: Curves that a figure can tell apart.
_MOST_CURVES = 24

#: Measurements that are shown of a run, at most.
_MOST_MEASUREMENTS = 12

#: What is said of many answers of a kind, where that is less than is said of one.
_COMPARED = {
    "Certificate": (
        "verdict", "average_sensitivity", "minimisation_radius", "gradient_margin",
        "price_of_stability",
    ),
}  # fmt: skip


def of_spec(spec: Spec) -> Html:
    """What is run on what, what is swept, and what is missing."""
    table = spec.table
    problem = _mapping(table.get("problem"))
    title = f"Spec {table.get('name', 'run')}"
    lines: list[tuple[str, Any]] = []
    try:
        clients, dim, _, _ = spec.document().shape()
    except ValueError as error:
        lines.append(("incomplete", str(error)))
    else:
        weights = problem.get("weights")
        of = "" if weights is None else f", weights {words(weights)}"
        lines += [("clients", f"{clients}{of}"), ("θ", many(dim, "coordinate"))]
    custom = {"base": spec.draw, "loss": spec.loss}
    for name in ("base", "response", "loss"):
        function = custom.get(name)
        called = "population" if name == "base" and function is not None else name
        lines.append((called, _part(problem.get(name), function, spec.data)))
    lines.append(("algorithm", _part(table.get("algorithm"))))
    often = [many(table[f"{one}s"], one) for one in ("round", "repetition") if f"{one}s" in table]
    seed = f"seed {table['seed']}" if "seed" in table else None
    lines.append(("run", ", ".join(filter(None, [*often, seed])) or None))
    lines += [(key, words(value)) for key, value in table.items() if key not in _LINES]
    sweep = _mapping(table.get("sweep"))
    lines += [(f"sweep {key}", words(values)) for key, values in sweep.items()]
    return page(title, facts(lines))


def _part(section: Any, function: Any = None, data: bytes | None = None) -> str | None:
    """A section in a line: its kind, and what else is said."""
    if function is not None:
        named = getattr(function, "__qualname__", None)
        return repr(function) if named is None else f"function {named.rsplit('.', 1)[-1]}"
    if not isinstance(section, Mapping):
        return None if section is None else words(section)
    others = {key: value for key, value in section.items() if key != "kind"}
    if data is not None and section.get("kind") == "table":
        others["path"] = f"in memory ({len(data) / 1000:.3g} kB)"
    listed = "; ".join(f"{key} {words(value)}" for key, value in others.items())
    return ": ".join(filter(None, [str(section.get("kind", "?")), listed]))


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def of_curve(curve: Curve) -> Html:
    """The last record of every measurement, and the figure."""
    from .results import Run

    kind = "Run" if isinstance(curve, Run) else "Exact expectations of"
    about = [many(curve.clients, "client"), many(int(curve.steps[-1]), "local step")]
    exact = None
    if isinstance(curve, Run):
        exact = curve.exact
        about.insert(1, many(curve.repetitions, "repetition"))
        about.append("not recorded" if curve.id is None else f"recorded as run {curve.id}")
    rows = []
    for name in curve.columns[:_MOST_MEASUREMENTS]:
        row = [name, uncertain(*_final(curve, name))]
        if exact is not None:
            row.append(number(exact.mean(name)[-1]) if name in exact.columns else "–")
        rows.append(row)
    header = ["measurement", "at the end", *(["exact"] if exact is not None else [])]
    more = len(curve.columns) - len(rows)
    return page(
        f"{kind} {curve.label}",
        note(", ".join(about)),
        _failures([curve]),
        grid(header, rows) if rows else note("nothing was measured"),
        note(f"and {more} more measurements: .columns has their names") if more else None,
        picture(_figure([curve])),
    )


def _final(curve: Curve, name: str) -> tuple[float, float | None]:
    """The last mean, and its standard error where there are several repetitions."""
    from .results import Run

    error = None
    if isinstance(curve, Run) and curve.repetitions > 1:
        error = float(curve.standard_error(name)[-1])
    return float(curve.mean(name)[-1]), error


def _failures(curves: Sequence[Curve]) -> Html | None:
    from .results import Run

    runs = [curve for curve in curves if isinstance(curve, Run)]
    failed = [(run, len(run.failed)) for run in runs if run.failed]
    if not failed:
        return None
    said = [f"{count} of {curve.repetitions} in {curve.label}" for curve, count in failed[:6]]
    more = f", and in {len(failed) - 6} more" if len(failed) > 6 else ""
    return note(f"Repetitions stopped being finite: {', '.join(said)}{more}.", quiet=False)


def _figure(curves: Sequence[Curve]) -> str | None:
    first = [name for name in curves[0].columns if not name.endswith("]")] if curves else []
    drawable = any(all(name in curve.columns for curve in curves) for name in first)
    if not drawable or len(curves) > _MOST_CURVES:
        return None
    try:
        return _native.figure([curve._native for curve in curves])
    except _native.InputError:
        # None of its measurements is one that can be drawn.
        return None


def of_sweep(points: Sequence[Any]) -> Html:
    """What was set at every point and what came of it, and one figure."""
    from .results import Curve

    if not points:
        return page("Sweep of no points")
    keys = list(dict.fromkeys(key for point in points for key in point.set))
    kinds = {type(point).__name__ for point in points}
    kind = kinds.pop() if len(kinds) == 1 else "Result"
    title = f"Sweep of {many(len(points), 'point')}: {kind}"
    curves = all(isinstance(point, Curve) for point in points)
    named = ["run", "name"] if curves and not keys else []
    shown = _measured(points) if curves else _compared(kind, points[0])
    rows: list[list[Any]] = []
    for point in points:
        about = point._named() if curves else {}
        row = [about.get(name) for name in named] + [point.set.get(key) for key in keys]
        if curves:
            row += [uncertain(*_final(point, name)) for name in shown]
        else:
            row += [point.get(name) for name in shown]
        rows.append(row)
    header = [*named, *(key.rsplit(".", 1)[-1] for key in keys), *shown]
    if len(set(header)) < len(header):
        header = [*named, *keys, *shown]
    too_many = curves and len(points) > _MOST_CURVES
    return page(
        title,
        _failures(points) if curves else None,
        grid(header, rows),
        note(f"{len(points)} curves are too many for one figure: .plot(x=…)") if too_many else None,
        picture(_figure(points)) if curves else None,
    )


def _compared(kind: str, point: Answer) -> list[str]:
    names = _COMPARED.get(kind)
    return list(point._shown if names is None else names)


def _measured(curves: Sequence[Curve]) -> list[str]:
    """The first measurements that all curves have, without those of single clients and groups."""
    alike = [name for name in curves[0].columns if all(name in one.columns for one in curves)]
    return [name for name in alike if not name.endswith("]")][:4]
