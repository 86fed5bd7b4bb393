"""What a notebook shows of specs, runs, sweeps and answers: the little that decides, in words, and
the figure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from . import _native
from ._html import Html, facts, grid, note, number, page, percent, picture, uncertain, words

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

_VERDICTS = {
    "settles": "Retraining settles.",
    "settles-with-small-steps": "Retraining settles with small steps.",
    "minimisation-only": "Repeated risk minimisation settles, the algorithm does not.",
    "does-not-settle": "Retraining does not settle.",
    "unknown": "Whether retraining settles is not known.",
}


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
        lines += [("clients", f"{clients}{of}"), ("θ", _many(dim, "coordinate"))]
    custom = {"base": spec.draw, "loss": spec.loss}
    for name in ("base", "response", "loss"):
        function = custom.get(name)
        called = "population" if name == "base" and function is not None else name
        lines.append((called, _part(problem.get(name), function, spec.data)))
    lines.append(("algorithm", _part(table.get("algorithm"))))
    often = [_many(table[f"{one}s"], one) for one in ("round", "repetition") if f"{one}s" in table]
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


def _many(count: Any, word: str) -> str:
    return f"{count} {word}{'s' * (count != 1)}"


def of_curve(curve: Curve) -> Html:
    """The last record of every measurement, and the figure."""
    from .results import Run

    kind = "Run" if isinstance(curve, Run) else "Exact expectations of"
    about = [_many(curve.clients, "client"), _many(int(curve.steps[-1]), "local step")]
    exact = None
    if isinstance(curve, Run):
        exact = curve.exact
        about.insert(1, _many(curve.repetitions, "repetition"))
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
    title = f"Sweep of {_many(len(points), 'point')}: {kind}"
    curves = all(isinstance(point, Curve) for point in points)
    named = ["run", "name"] if curves and not keys else []
    shown = _measured(points) if curves else list(_COMPARED.get(kind) or points[0]._shown)
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


def _measured(curves: Sequence[Curve]) -> list[str]:
    """The first measurements that all curves have, without those of single clients and groups."""
    alike = [name for name in curves[0].columns if all(name in one.columns for one in curves)]
    return [name for name in alike if not name.endswith("]")][:4]


def of_certificate(found: Answer) -> Html:
    """The verdict and its numbers in words, who drives it, and the picture."""
    verdict = found["verdict"]
    lines = [
        ("average sensitivity", _average(found)),
        ("contraction factor", _value(found, "minimisation_radius", "per minimisation")),
        ("stability margin", _value(found, "gradient_margin")),
        ("largest constant step", _value(found, "largest_step")),
        ("stable point", _point(found, "stable_point", "risk_stable")),
        ("optimal point", _point(found, "optimal_point", "risk_optimal")),
        (
            "price of stability",
            _value(found, "price_of_stability", "above the least risk"),
        ),
    ]
    confidence = found.get("confidence")
    if confidence is not None:
        shares = {key.replace("-", " "): one for key, one in confidence["shares"].items() if one}
        said = ", ".join(f"{key} in {percent(one)}" for key, one in shares.items())
        lines.append((f"{confidence['resamples']} resamples of the fit", said))
    clients = sorted(found["per_client"], key=lambda one: -(one["share"] or 0.0))
    header = ["client", "weight", "sensitivity", "share", "risk", "without it"]
    rows = [
        [
            one["client"], number(one["weight"]), _number_or_words(_signed(one)),
            percent(one["share"]), number(one["risk"]), _without(one["without"]),
        ]
        for one in clients
    ]  # fmt: skip
    return page(
        f"{_VERDICTS.get(verdict, verdict)}",
        note(found["reason"]) if found["reason"] else None,
        facts(lines),
        grid(header, rows),
        note(found["tips"], quiet=False) if found["tips"] else None,
        *(note(f"doubted in the spec: {doubt}") for doubt in found.get("doubts", [])),
        picture(found.svg()),
    )


def _average(found: Mapping[str, Any]) -> str:
    """The paper's condition, which suffices and need not be met."""
    said = number(found["average_sensitivity"])
    if found["condition"] is None:
        return said
    suffices = "below {}, which suffices" if found["condition"] else "below {} would suffice"
    threshold = f"μ/L = {number(found['threshold'])}"
    return f"{said}; {suffices.format(threshold)}"


def _value(found: Mapping[str, Any], name: str, unit: str = "") -> str | None:
    value = found.get(name)
    return None if value is None else f"{number(value)} {unit}".strip()


def _point(found: Mapping[str, Any], name: str, risk: str) -> str | None:
    theta = found.get(name)
    return None if theta is None else f"{words(theta)}, risk {number(found.get(risk))}"


def _signed(client: Mapping[str, Any]) -> Any:
    signed = client.get("signed_sensitivity")
    return client["sensitivity"] if signed is None else signed


def _without(other: Mapping[str, Any] | None) -> str:
    return "–" if other is None else str(other["verdict"]).replace("-", " ")


def of_plan(found: Answer) -> Html:
    """The proposal with what it costs, and what else there is."""
    if found["local_steps"] is None:
        binding = found["binding"] or {}
        return page(
            f"No plan keeps the squared distance at {number(found['accuracy'])}.",
            note(binding.get("reason", ""), quiet=False),
        )
    steps = f"{found['steps']} local steps in {_many(round(found['rounds']), 'round')}"
    parts, verified, predicted = found["time_parts"], found["verified"], found["predicted"]
    cost = f"{number(found['total_time'])} = {number(parts['local_steps'])} local steps + "
    exact = "exact" if predicted["exact"] else "approximate"
    lines = [
        ("setting", _setting(found)),
        ("algorithm", words(found["algorithm"]).removeprefix("kind ")),
        ("length", steps),
        ("total cost", f"{cost}{number(parts['communication'])} communication"),
        ("predicted", f"{number(predicted['distance_sq'])} ({exact})"),
        ("simulated", None if verified is None else _verified(verified)),
    ]
    return page(
        f"Squared distance {number(found['accuracy'])}, reached and kept",
        facts(lines),
        note("Beside it:"),
        grid(["setting", "local steps", "total cost", "times the plan's"], _rivals(found)),
        note("The search was cut short: there may be cheaper ones.")
        if found["search_cut"]
        else None,
        picture(found.svg()),
    )


def _setting(one: Mapping[str, Any]) -> str:
    cohort = "" if one["scheme"] == "full" else f", K = {one['cohort']}"
    steps = f"steps {number(one['beta'])}/(t + {number(one['gamma'])})"
    if one.get("constant") is not None:
        steps = f"constant steps {number(one['constant'])}"
    return f"E = {one['local_steps']}, {one['scheme'].replace('-', ' ')}{cohort}, {steps}"


def _verified(verified: Mapping[str, Any]) -> str:
    holds = "holds" if verified["holds"] else "does not hold"
    reached = uncertain(verified["distance_sq"], verified["standard_error"])
    return f"{reached} over {verified['repetitions']} repetitions: {holds}"


def _rivals(found: Answer) -> list[list[Any]]:
    """The spec's own setting, other algorithms, the next best E, other schemes, the paper's."""
    best = found["total_time"]
    rows: list[list[Any]] = []

    def add(name: str, one: Mapping[str, Any] | None) -> None:
        if one is not None and one["total_time"] is not None:
            cost = one["total_time"]
            rows.append([name, number(one.get("steps")), number(cost), number(cost / best)])

    own = found["own_setting"]
    add("the spec's own" if own is None else f"the spec's own: {_setting(own)}", own)
    for other in found["algorithms"]:
        if other["algorithm"] != found["algorithm"]:
            kind = words(other["algorithm"]).removeprefix("kind ")
            add(f"{kind}, E = {other['local_steps']}", other)
    others = sorted(found["alternatives"], key=lambda one: one["total_time"])
    alike = [
        one
        for one in others
        if one["scheme"] == found["scheme"] and one["local_steps"] != found["local_steps"]
    ]
    schemes = {one["scheme"]: one for one in reversed(others) if one["scheme"] != found["scheme"]}
    for one in [*alike[:3], *schemes.values()]:
        add(_setting(one), one)
    paper = found["paper"] or {}
    add("the paper's theorem, corrected", paper.get("corrected"))
    return rows


def of_answer(found: Answer) -> Html:
    """The fields that are short, and the picture."""
    short = [(key, one) for key, one in found.items() if not isinstance(one, Mapping)]
    flat = [(key, one) for key, one in short if not (isinstance(one, list) and _nested(one))]
    return page(type(found).__name__, facts(flat), picture(found.svg()))


def _nested(values: list[Any]) -> bool:
    return any(isinstance(one, (list, dict)) for one in values)


def of_solution(found: Answer) -> Html:
    """Both points, coordinate by coordinate, and whether retraining gets there."""
    stable, optimal = found["stable_point"], found["optimal_point"]
    count = len(stable or optimal or [])
    named = found.get("coordinates") or [f"θ[{j}]" for j in range(count)]
    columns = [
        (name, point)
        for name, point in [("stable", stable), ("optimal", optimal)]
        if point is not None
    ]
    rows = [[name, *(point[j] for _, point in columns)] for j, name in enumerate(named[:count])]
    risks = ["risk", *(found[f"risk_{name}"] for name, _ in columns)]
    minimisation = found["minimisation"]
    lines = [
        ("stability", found["stability"]),
        ("why", found["reason"]),
        ("contraction factor", _value(found, "minimisation_radius", "per minimisation")),
        ("stability margin", _value(found, "gradient_margin")),
        ("repeated minimisation", minimisation.get("why") if minimisation else None),
    ]
    return page(
        f"Stable point of {found['name']}",
        facts(lines),
        grid(["", *(f"{name} point" for name, _ in columns)], [*rows, risks]) if columns else None,
    )


def of_bounds(found: Answer) -> Html:
    """What the theorem guarantees, as printed and corrected, and from which constants."""
    reached = found["steps_to_accuracy"]
    own = found["own_step"]
    covered = "covered" if own["covered"] else f"not covered: {own['reason']}"
    rows = [[name, found["printed"][name], found["corrected"][name]] for name in found["printed"]]
    for name in ("steps", "communications", "total_time"):
        both = [(reached[kind] or {}).get(name) for kind in ("printed", "corrected")]
        rows.append([f"{name.replace('_', ' ')} to {number(reached['accuracy'])}", *both])
    rows = [[name, number(printed), number(corrected)] for name, printed, corrected in rows]
    constants = [
        [name.replace("_", " "), number(one["value"]), one["origin"], one["how"]]
        for name, one in found["constants"].items()
    ]
    return page(
        f"{found['theorem']}",
        note(f"The spec's own step sizes are {covered}."),
        grid(["", "printed", "corrected"], rows),
        grid(["constant", "value", "origin", "how"], constants),
    )


def of_fit(found: Answer) -> Html:
    """What was found to move, by how much at every client, and the picture."""
    lines = [
        ("response", found["response"]),
        ("features", ", ".join(found["features"])),
        ("shape", f"{found['shape']}: {found['shape_reason']}"),
        ("base", f"rows of {found['reference']}"),
    ]
    rows = [
        [
            one["name"], sum(part["count"] for part in one["rows"]),
            _number_or_words(one["sensitivity"]), f"{words(one['low'])} to {words(one['high'])}",
        ]
        for one in found["clients"]
    ]  # fmt: skip
    interval = f"{percent(found['confidence'])} interval"
    return page(
        "Response, fitted",
        facts(lines),
        grid(["client", "rows", "sensitivity", interval], rows),
        *(note(f"careful: {warning}", quiet=False) for warning in found["warnings"]),
        picture(found.svg()),
    )


def _number_or_words(value: Any) -> str:
    return number(value) if isinstance(value, (int, float)) else words(value)
