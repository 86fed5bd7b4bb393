"""The site behind a node: which clients it holds, and their work."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import fedback
from fedback.observe import NoFunction, function

from .gathered import Gathered
from .settings import BadSetting, NodeSettings, values

Held = tuple[fedback.Site, tuple[int, ...]]
"""A site, and the clients whose it is."""


def load(
    settings: NodeSettings, gathered: Gathered | None = None, point: int | None = None
) -> Held:
    """The site, and the clients it holds; of a sweep, at one point. Kept while the process lives
    and the spec's file stays as it is: a simulated node is called many times in one process, a
    deployed one once."""
    if gathered is not None:
        return at_tables(settings, tables(settings), gathered, point)
    return build(settings, point, changed(settings.spec, "spec"))


def spec_at(settings: NodeSettings, point: int | None) -> fedback.Spec:
    """The spec of a node, at a point of its sweep."""
    spec = fedback.Spec(settings.spec).set(values(settings.set))
    return spec if point is None else spec.at(point)


def tables(settings: NodeSettings) -> fedback.Tables:
    """The tables of the clients that the node holds."""
    if settings.data is None:
        raise BadSetting(
            'node config: data is missing; rows lie at sites here: data="/path/rows.csv"'
        )
    if settings.clients is None:
        raise BadSetting('node config: clients is missing; whose rows are these? clients="0,3"')
    files = {client: settings.data.replace("{client}", str(client)) for client in settings.clients}
    stamps = [changed(path, "data") for path in files.values()]
    return read(settings, tuple(files.items()), (changed(settings.spec, "spec"), *stamps))


@lru_cache(maxsize=64)
def read(
    settings: NodeSettings, files: tuple[tuple[int, str], ...], _changed: tuple[int, ...]
) -> fedback.Tables:
    """The same, from the files."""
    # All points of a sweep have the same rows; what has none is its only point.
    return fedback.Tables(spec_at(settings, 0), dict(files))


@lru_cache(maxsize=64)
def at_tables(
    settings: NodeSettings, own: fedback.Tables, gathered: Gathered, point: int | None
) -> Held:
    """The site of tables that were read, and the clients whose they are."""
    clients = tuple(own.sums()[0].tolist())
    spec = gathered.complete(spec_at(settings, point))
    return fedback.Site(spec, clients=clients, tables=own), clients


def changed(path: str | None, what: str) -> int:
    """When a file was changed."""
    try:
        return os.stat(path or "").st_mtime_ns
    except OSError:
        raise BadSetting(f"{what} {path} is not there, or cannot be read, at this node") from None


@lru_cache(maxsize=64)
def build(settings: NodeSettings, point: int | None, _changed: int) -> Held:
    """The same, from the spec."""
    spec = spec_at(settings, point)
    options: dict[str, Any] = {}
    if settings.observe is not None:
        options["observe"] = named(settings.observe, "observe")
    if settings.loss is not None:
        options["loss"] = named(settings.loss, "loss")
    if settings.clients is not None:
        site = fedback.Site(spec, clients=list(settings.clients), **options)
        return site, tuple(settings.clients)
    site = fedback.Site(spec, **options)
    place, count = settings.partition or (0, 1)
    return site, tuple(client for client in site.clients if client % count == place)


def named(name: str, key: str) -> Callable[..., Any]:
    """A function of the site's."""
    try:
        return function(name, key)
    except NoFunction as reason:
        raise BadSetting(f"node config: {reason}") from None
