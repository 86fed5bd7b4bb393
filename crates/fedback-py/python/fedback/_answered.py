"""What a notebook shows of answers: the verdict or the proposal in words, its numbers, and the
picture."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ._html import Html, facts, grid, many, note, number, page, percent, picture, uncertain, words

if TYPE_CHECKING:
    from .answers import Answer

#: Coordinates of a stable point among others: the first of them are shown.
MOST_SHOWN = 4

_VERDICTS = {
    "settles": "Retraining settles.",
    "settles-with-small-steps": "Retraining settles with small steps.",
    "minimisation-only": "Repeated risk minimisation settles, the algorithm does not.",
    "does-not-settle": "Retraining does not settle.",
    "unknown": "Whether retraining settles is not known.",
}


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
    steps = f"{found['steps']} local steps in {many(round(found['rounds']), 'round')}"
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
    details = found.get("stable_point_details") or []
    gone = ", ".join(details[0].get("driven_away") or []) if details else ""
    lines.append(("driven away", gone or None))
    return page(
        f"Stable point of {found['name']}",
        facts(lines),
        grid(["", *(f"{name} point" for name, _ in columns)], [*rows, risks]) if columns else None,
        _each_stable_point(details),
    )


def _each_stable_point(details: list[dict[str, Any]]) -> Html | None:
    """The stable points side by side, where there are several, or where people leave: there a risk
    is one of those who stay, and says little without the others."""
    leaving = any("retained" in one for one in details)
    if len(details) < 2 and not leaving:
        return None
    header = ["stable point", "stability", "stability margin", "risk"]
    header += ["if nobody had left", "who stays"] if leaving else []
    rows = [
        [
            words([float(f"{value:.4g}") for value in one["theta"][:MOST_SHOWN]]), one["stability"],
            number(one["gradient_margin"]), number(one["risk"]),
            *([number(one["base_risk"]), percent(one["retained"])] if leaving else []),
        ]
        for one in details
    ]  # fmt: skip
    return grid(header, rows)


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
