"""Tables that are in memory, as the files that the compiled half reads."""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
import threading
import weakref
from pathlib import Path


class Folder:
    """A folder for as long as somebody in this process refers to it. A forked child has a copy of
    the reference, and leaves the folder alone."""

    def __init__(self) -> None:
        self.name = tempfile.mkdtemp(prefix="fedback-")
        self.process = os.getpid()
        weakref.finalize(self, _remove, self.name, self.process)

    @property
    def ours(self) -> bool:
        """Whether this process made it."""
        return self.process == os.getpid()


def _remove(name: str, process: int) -> None:
    if os.getpid() == process:
        shutil.rmtree(name, ignore_errors=True)


def file_name(data: bytes) -> str:
    """What a table's file is called."""
    return hashlib.sha256(data).hexdigest()[:32] + ".csv"


def write(data: bytes, folder: str | os.PathLike[str]) -> Path | None:
    """Writes a table into a folder, and returns its path; none where it is there. Others who look
    meanwhile, in whatever process, see all of it or nothing."""
    path = Path(folder, file_name(data))
    if path.exists():
        return None
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f".{path.name}.{os.getpid()}.{threading.get_ident()}")
    try:
        beside.write_bytes(data)
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)
    return path
