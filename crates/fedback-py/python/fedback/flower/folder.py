"""The folder that a run may read and write in, and the result it leaves there."""

from __future__ import annotations

import json
import os
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

from .settings import BadSetting, RunSettings

VARIABLE = "FEDBACK_FOLDER"
"""The server's environment variable that names the folder; without it, the spec's is taken."""


class Folder:
    """A folder; what lies outside it, also by a link, is refused."""

    def __init__(self, path: str):
        self.path = Path(path).resolve()

    @staticmethod
    def of(spec: str) -> Folder:
        """The folder of a run of this spec."""
        named = os.environ.get(VARIABLE)
        if named and not os.path.isabs(named):
            raise BadSetting(f"{VARIABLE} is {named!r}; give an absolute path")
        return Folder(named or os.path.dirname(spec))

    def confined(self, key: str, path: str | None) -> str | None:
        """The path of a setting, with its links resolved."""
        if path is None:
            return None
        if ".." in Path(path).parts:
            raise BadSetting(f"run config: {key} is {path!r}; give a path without '..'")
        real = Path(path).resolve()
        if not real.is_relative_to(self.path):
            raise BadSetting(
                f"run config: {key} is {path!r}, outside {self.path}; give a path in that folder, "
                f"or set {VARIABLE} where the server is started"
            )
        return str(real)


def confined(settings: RunSettings) -> RunSettings:
    """The settings of a run, with every path in its folder."""
    folder = Folder.of(settings.spec)
    paths = {key: getattr(settings, key) for key in ("spec", "store", "json", "sites")}
    own: dict[str, Any] = {key: folder.confined(key, path) for key, path in paths.items()}
    return replace(settings, **own)


def check_result(path: str) -> None:
    """Refuses to write a result over a file that is not one."""
    try:
        held = Path(path).read_bytes()
    except FileNotFoundError:
        return
    except OSError as error:
        raise BadSetting(f"run config: json is {path!r}: {error}; give another file") from None
    try:
        found = json.loads(held)
        first = found.get("points", [found])[0]
        ours = "format" in found and {"final_theta", "spec"} <= set(first)
    except (ValueError, TypeError, AttributeError, LookupError):
        ours = False
    if not ours:
        raise BadSetting(
            f"run config: json is {path!r}, a file that is not an earlier result; give another, or "
            "remove it"
        )


def write_result(path: str, result: dict[str, Any]) -> None:
    """Writes a result, whole or not at all, for its owner only."""
    check_result(path)
    # A file of this kind is born with mode 0600.
    with tempfile.NamedTemporaryFile(
        "w", dir=os.path.dirname(path), prefix=".result-", delete=False, encoding="utf-8"
    ) as out:
        try:
            json.dump(result, out)
            out.flush()
            os.fsync(out.fileno())
            os.replace(out.name, path)
        except BaseException:
            os.unlink(out.name)
            raise
