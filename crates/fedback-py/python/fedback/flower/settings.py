"""What `--run-config` and `--node-config` may say, checked once."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Config = Mapping[str, Any]
"""A run config or a node config, as Flower hands it over."""


class BadSetting(ValueError):
    """A setting that cannot be used: its key, what was found and what is allowed."""


@dataclass(frozen=True)
class RunSettings:
    """The run config, seen from the server.

    | Name | Default | Purpose | Range |
    |---|---|---|---|
    | spec | required | the spec | an absolute path on the server |
    | set | none | overrides of the spec, `key=value; key=value` | as `--set` of the command |
    | store | `fedback.db` beside the spec | records the run | an absolute path, or `none` |
    | resume | 0 | the run to go on with; of a sweep, its runs, "7-9" | of the store; 0: a new one |
    | wait | 120 | seconds to wait for the sites at the start | > 0 |
    | deadline | 600 | seconds a round waits for updates | > 0 |
    | minimum | 1 | members of a cohort that must answer | >= 1 |
    | attempts | 1 | how often a round asks again those who did not answer | >= 0 |
    | json | none | where to write the result as JSON | an absolute path |
    | sites | none | the list of sites: who may hold which client | an absolute path |
    | log | text | what log lines are | `text` or `json` |
    | unbounded | false | runs although nothing bounds what sites send | true, false |
    """

    spec: str
    set: tuple[tuple[str, str], ...]
    store: str | None
    resume: tuple[int, ...] | None
    wait: float
    deadline: float
    minimum: int
    attempts: int
    json: str | None
    sites: str | None
    log: str
    unbounded: bool

    @staticmethod
    def read(config: Config) -> RunSettings:
        """The settings in a run config."""
        spec = absolute(config, "spec")
        if spec is None:
            raise BadSetting(
                "run config: spec is missing; give --run-config 'spec=\"/path/spec.toml\"'"
            )
        store = config.get("store") or str(Path(spec).with_name("fedback.db"))
        return RunSettings(
            spec=spec,
            set=overrides(config.get("set", "")),
            store=None if store == "none" else absolute({"store": store}, "store"),
            resume=runs(config, "resume"),
            wait=seconds(config, "wait", 120.0),
            deadline=seconds(config, "deadline", 600.0),
            minimum=whole(config, "minimum", 1, 1),
            attempts=whole(config, "attempts", 1, 0),
            json=absolute(config, "json"),
            sites=absolute(config, "sites"),
            log=choice(config, "log", "text", "json"),
            unbounded=bool(config.get("unbounded", False)),
        )


@dataclass(frozen=True)
class NodeSettings:
    """The node config, with the run config to fall back on.

    | Name | Default | Purpose |
    |---|---|---|
    | spec | the run config's | the site's own copy of the spec |
    | clients | by partition | the clients the node holds, `"0,3,7"` |
    | partition-id, num-partitions | none | node i of n holds the clients c with c mod n = i |
    | observe | none | the site's function, `module:function` or `/path/file.py:function` |
    | loss | none | the site's own loss, where the spec's is `custom`: named as `observe` is |
    | data | none | the site's own table; for several clients, a path with `{client}` in it |
    | site | none | the socket of the site's service, which decides all of the above |

    A node's own spec is pinned: what the run config sets does not change it.
    """

    spec: str | None
    set: tuple[tuple[str, str], ...]
    clients: tuple[int, ...] | None
    partition: tuple[int, int] | None
    observe: str | None
    data: str | None = None
    site: str | None = None
    loss: str | None = None

    @staticmethod
    def read(node_config: Config, run_config: Config) -> NodeSettings:
        """The settings of a node in a run."""
        changes = overrides(run_config.get("set", ""))
        if site := absolute(node_config, "site", "node"):
            others = sorted(set(node_config) & {"spec", "clients", "observe", "loss", "data"})
            if others:
                raise BadSetting(
                    f"node config: {others[0]} is for the policy of the site's service"
                )
            return NodeSettings(None, changes, None, None, None, site=site)
        own = absolute(node_config, "spec", "node")
        spec = own or absolute(run_config, "spec")
        data = absolute(node_config, "data", "node")
        if data is not None and own is None:
            raise BadSetting(
                "node config: data needs spec, the site's own copy: else the operator's spec would "
                "say what is read"
            )
        loss = node_config.get("loss") or None
        if data is not None and loss is not None:
            raise BadSetting(
                "node config: loss goes with observe or with built-in data; leave it out"
            )
        if spec is None:
            raise BadSetting("node config: spec is missing, and the run config has none either")
        clients = partition = None
        if "clients" in node_config:
            clients = client_list(str(node_config["clients"]))
        elif "partition-id" in node_config and "num-partitions" in node_config:
            partition = (int(node_config["partition-id"]), int(node_config["num-partitions"]))
            if not 0 <= partition[0] < partition[1]:
                raise BadSetting(f"node config: partition {partition[0]} of {partition[1]}")
        else:
            raise BadSetting(
                'node config: whom does this node hold? Give clients="0,3", or partition-id and '
                "num-partitions"
            )
        return NodeSettings(
            spec=spec,
            set=changes if own is None else (),
            clients=clients,
            partition=partition,
            observe=node_config.get("observe") or None,
            data=data,
            loss=loss,
        )


def client_list(text: str) -> tuple[int, ...]:
    """`"0,3,7"` as numbers."""
    parts = [part.strip() for part in text.split(",") if part.strip()]
    if not parts or not all(part.isdecimal() for part in parts):
        raise BadSetting(f'node config: clients is {text!r}; give their numbers, as "0,3,7"')
    return tuple(sorted({int(part) for part in parts}))


def overrides(text: str) -> tuple[tuple[str, str], ...]:
    """`key=value; key=value` in parts; a semicolon inside quotes separates nothing."""
    parts, quote = [""], None
    for character in text:
        if quote is None and character == ";":
            parts.append("")
            continue
        if character in "\"'" and quote in (None, character):
            quote = None if quote else character
        parts[-1] += character
    pairs = []
    for part in filter(None, map(str.strip, parts)):
        key, equals, value = (piece.strip() for piece in part.partition("="))
        if not (key and equals and value):
            raise BadSetting(f"run config: set has {part!r}; give key=value; key=value")
        pairs.append((key, value))
    return tuple(pairs)


def values(overrides: tuple[tuple[str, str], ...]) -> dict[str, Any]:
    """Overrides as TOML values; a bare word is a string, as of `--set`."""
    # Loaded where it is needed: Flower starts a process for every message, and most need none.
    if sys.version_info >= (3, 11):
        import tomllib
    else:  # Flower brings it
        import tomli as tomllib

    def value(text: str) -> Any:
        try:
            return tomllib.loads(f"value = {text}")["value"]
        except tomllib.TOMLDecodeError:
            return text

    return {key: value(text) for key, text in overrides}


def absolute(config: Config, key: str, where: str = "run") -> str | None:
    """A path. The folder an app works in is temporary, so that a relative one would mean
    nothing."""
    value = config.get(key)
    if value is None or value == "":
        return None
    if not os.path.isabs(str(value)):
        raise BadSetting(f"{where} config: {key} is {value!r}; give an absolute path")
    return str(value)


def choice(config: Config, key: str, *allowed: str) -> str:
    """A word out of some, the first where nothing is said."""
    value: str = config.get(key) or allowed[0]
    if value not in allowed:
        raise BadSetting(f"run config: {key} is {value!r}; give {' or '.join(allowed)}")
    return value


def runs(config: Config, key: str) -> tuple[int, ...] | None:
    """The number of a run, or `"7-9"`; none where it is 0."""
    value = config.get(key, 0)
    first, dash, last = str(value or 0).partition("-")
    ends = (first, last if dash else first)
    if not all(end.isdecimal() for end in ends) or int(ends[0]) > int(ends[1]):
        raise BadSetting(f'run config: {key} is {value!r}; give a run, 7, or runs, "7-9"')
    return tuple(range(int(ends[0]), int(ends[1]) + 1)) if int(ends[0]) else None


def whole(config: Config, key: str, default: int, least: int) -> int:
    """A whole number."""
    value = config.get(key, default)
    try:
        number: int | None = int(str(value) or default)
    except ValueError:
        number = None
    if number is None or number < least:
        raise BadSetting(f"run config: {key} is {value!r}; give a whole number, at least {least}")
    return number


def seconds(config: Config, key: str, default: float) -> float:
    """A positive number of seconds."""
    value = config.get(key, default)
    if isinstance(value, (bool, str)) or not 0 < value < float("inf"):
        raise BadSetting(f"run config: {key} is {value!r}; give a number of seconds above 0")
    return float(value)
