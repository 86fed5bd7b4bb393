"""Results as xarray datasets: measurements over rounds and repetitions, models by coordinate, and
the runs of a sweep along the keys that were swept."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import xarray

    from .results import Curve

#: Dimensions that every dataset may have; a swept key of such a name keeps its whole name.
OWN = ("round", "repetition", "coordinate", "client", "group", "point", "step", "time")


def of_curve(curve: Curve) -> xarray.Dataset:
    """One run, or exact expectations."""
    import xarray

    from .results import Run

    variables: dict[str, Any] = {}
    coordinates: dict[str, Any] = {
        "round": curve.rounds,
        "step": ("round", curve.steps),
    }
    if len(curve.times):
        coordinates["time"] = ("round", curve.times)
    for name, columns in _families(curve.columns).items():
        values = np.stack([_values(curve, column) for column, _ in columns], axis=-1)
        dims: tuple[str, ...] = ("round", "repetition")[: values.ndim - 1]
        whose = [one for _, one in columns]
        if whose == [None]:
            variables[name] = (dims, values[..., 0])
            continue
        along = "client" if name.startswith("client_risk") else "group"
        coordinates[along] = _named(curve, whose) if along == "client" else whose
        variables[name] = ((*dims, along), values)
    if isinstance(curve, Run):
        coordinates["repetition"] = np.arange(curve.repetitions)
        variables["theta"] = (("repetition", "coordinate"), curve.final_theta)
        exact = curve.exact
        if exact is not None:
            for name in exact.columns:
                variables[f"{name}_exact"] = ("round", exact.mean(name))
    if curve.stable_point is not None:
        variables["stable_point"] = ("coordinate", curve.stable_point)
    if any("coordinate" in _dims(one) for one in variables.values()):
        coordinates["coordinate"] = curve.coordinate_names
    about = {key: value for key, value in curve._about().items() if value is not None}
    return xarray.Dataset(variables, coordinates, about)


def of_sweep(curves: Sequence[Curve]) -> xarray.Dataset:
    """Runs along the keys that were swept, where they are all combinations of their values; along
    ``point`` otherwise, with the keys as coordinates."""
    keys = list(dict.fromkeys(key for curve in curves for key in curve.set))
    places = [tuple(label(curve.set.get(key)) for key in keys) for curve in curves]
    values = [list(dict.fromkeys(place[j] for place in places)) for j in range(len(keys))]
    combinations = int(np.prod([len(one) for one in values], dtype=np.int64))
    names = _short(keys)
    sets = [of_curve(curve) for curve in curves]
    if keys and len(set(places)) == len(places) == combinations:
        found = dict(zip(places, sets))
        return _along(found, names, values, ())
    joined = _concat(sets, "point")
    about = {name: [place[j] for place in places] for j, name in enumerate(names)}
    for name in ("run", "name"):
        known = [curve._named().get(name) for curve in curves]
        if all(one is not None for one in known):
            about[name] = known
    return joined.assign_coords({name: ("point", column) for name, column in about.items()})


def _along(
    found: dict[tuple[Any, ...], xarray.Dataset],
    names: list[str],
    values: list[list[Any]],
    place: tuple[Any, ...],
) -> xarray.Dataset:
    """The datasets of all places that begin with this one, key after key."""
    depth = len(place)
    if depth == len(names):
        return found[place]
    parts = [_along(found, names, values, (*place, value)) for value in values[depth]]
    return _concat(parts, names[depth]).assign_coords({names[depth]: values[depth]})


def _concat(parts: list[xarray.Dataset], along: str) -> xarray.Dataset:
    """Side by side; records and repetitions that only some have are missing in the others. What is
    no index, such as the steps of a round, may differ between them too."""
    import xarray

    plain = [part.reset_coords([n for n in ("step", "time") if n in part.coords]) for part in parts]
    joined: xarray.Dataset | Any = xarray.concat(
        plain, dim=along, join="outer", data_vars="all", coords="minimal", compat="override",
        combine_attrs="drop_conflicts",
    )  # fmt: skip
    return joined


def _families(columns: list[str]) -> dict[str, list[tuple[str, str | None]]]:
    """Measurements by name, those of clients and groups together with whose they are."""
    families: dict[str, list[tuple[str, str | None]]] = {}
    for column in columns:
        found = re.fullmatch(r"(\w+)\[(.*)\]", column, flags=re.DOTALL)
        name, whose = found.groups() if found else (column, None)
        families.setdefault(name, []).append((column, whose))
    return families


def _values(curve: Curve, column: str) -> np.ndarray:
    from .results import Run

    return curve[column] if isinstance(curve, Run) else curve.mean(column)


def _named(curve: Curve, numbers: list[str | None]) -> list[Any]:
    names = curve.client_names
    return [int(k or 0) if names is None else names[int(k or 0)] for k in numbers]


def _dims(variable: tuple[Any, Any]) -> tuple[str, ...]:
    return (variable[0],) if isinstance(variable[0], str) else variable[0]


def _short(keys: list[str]) -> list[str]:
    """The last parts of keys, where they can be told apart by them."""
    last = [key.rsplit(".", 1)[-1] for key in keys]
    return [key if last.count(name) > 1 or name in OWN else name for key, name in zip(keys, last)]


def label(value: Any) -> Any:
    """A value that a coordinate can have: lists and sections as their text."""
    return json.dumps(value) if isinstance(value, (list, dict)) else value
