"""A PostgreSQL server of a test's own, run by an ordinary user."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from deployment import free_port


def programs() -> Path:
    """Where PostgreSQL's programs are."""
    found = sorted(
        Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: int(path.parts[-3])
    )
    path = str(found[-1]) if found else shutil.which("initdb")
    assert path, "PostgreSQL is missing; install the package postgresql"
    return Path(path).parent


class Postgres:
    """Starts a server; `database` is how to reach it."""

    def __init__(self):
        self.folder = Path(tempfile.mkdtemp(prefix="fedback-postgres-"))
        self.port = free_port()
        self.database = f"host=127.0.0.1 port={self.port} user=site dbname=postgres"
        if os.geteuid() == 0:
            # The server refuses to be run by root.
            shutil.chown(self.folder, "postgres")
        data = self.folder / "data"
        self._run(
            "initdb", "-D", data, "-U", "site", "--auth=trust", "--no-sync", "--encoding=UTF8"
        )
        settings = f"-h 127.0.0.1 -p {self.port} -k {self.folder} -c fsync=off"
        self._run("pg_ctl", "-D", data, "-w", "-l", self.folder / "log", "-o", settings, "start")

    def _run(self, program: str, *arguments) -> None:
        command = [str(programs() / program), *map(str, arguments)]
        if os.geteuid() == 0:
            command = ["runuser", "-u", "postgres", "--", *command]
        done = subprocess.run(
            command, cwd=self.folder, capture_output=True, text=True, stdin=subprocess.DEVNULL
        )
        assert done.returncode == 0, done.stdout + done.stderr

    def end(self) -> None:
        """Ends the server and removes its folder."""
        self._run("pg_ctl", "-D", self.folder / "data", "-w", "stop", "-m", "immediate")
        shutil.rmtree(self.folder)
