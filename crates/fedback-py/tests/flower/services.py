"""Sites with rows, policies and services of their own, started and ended by a test."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from deployment import PROGRAMS, Process, until

COMMAND = PROGRAMS / "fedback"
"""The command as the package installs it: a site needs nothing else."""

SPEC = """
format = 1
name = "banks"
seed = 5
repetitions = 2
rounds = 3

[problem]
clients = 3

[problem.base]
kind = "sites"
features = ["utilisation", "income"]
label = "default"
standardize = true
intercept = true

[problem.response]
kind = "best-response"
features = ["utilisation"]
sensitivity = 0.3

[problem.loss]
kind = "logistic"
l2 = 0.01

[algorithm]
kind = "p-fedavg"
scheme = "full"
local_steps = 3
batch = 12
deploy = "round"
step_size = { constant = 0.2 }
clip = 0.6
"""

POLICY = """
name = "{name}"
clients = [{client}]
data = "rows-{{client}}.csv"
socket = "site.sock"
ledger = "site.ledger"

[plan]
spec = "banks.toml"
columns = ["utilisation", "income", "default"]
{plan}

[limits]
rows = 5
answers = {answers}
answers_in_all = 60
clip = 1.0
theta = 50.0
"""

NAMES = ["ash", "elm", "oak"]


def rows(client: int, count: int = 40) -> list[str]:
    """A client's rows, with a column that nobody asks for."""

    def row(k: int) -> str:
        share = ((k * 7919 + client * 31) % 101) / 101
        income = 1000 + ((k * 104729 + client * 977) % 1009) * 8
        return f"{share:.4f},{income},{int((k * 13 + client) % 5 < 2)},{900000 + k * 17 + client}"

    return [row(k) for k in range(count)]


def together(folder: Path) -> Path:
    """The same rows in one table, and the spec that reads it."""
    lines = [f"{NAMES[client]},{row}" for client in range(3) for row in rows(client)]
    (folder / "all.csv").write_text("\n".join(["bank,utilisation,income,default,ssn", *lines]))
    spec = SPEC.replace(
        'kind = "sites"\nfeatures = ["utilisation", "income"]\n',
        'kind = "table"\npath = "all.csv"\npartition = { column = "bank" }\nignore = ["ssn"]\n',
    ).replace("[problem]\nclients = 3\n", "")
    (folder / "together.toml").write_text(spec)
    return folder / "together.toml"


class Service:
    """A site in a folder of its own."""

    def __init__(
        self, folder: Path, client: int, plan: str = "", answers: int = 30, spec=SPEC, logs=None
    ):
        policy = POLICY.format(name=NAMES[client], client=client, plan=plan, answers=answers)
        table = "\n".join(["utilisation,income,default,ssn", *rows(client)])
        files = {"site.toml": policy, "banks.toml": spec, f"rows-{client}.csv": table}
        self._begin(folder / NAMES[client], files, logs)

    def _begin(self, folder: Path, files: dict[str, str], logs: Path | None = None) -> None:
        """Writes the site's files, and starts it."""
        self.folder, self.logs = folder, logs or folder
        self.folder.mkdir(mode=0o700)
        for name, text in files.items():
            (self.folder / name).write_text(text)
            (self.folder / name).chmod(0o600)
        self.socket = str(self.folder / "site.sock")
        self.command("init")
        self.start()

    def command(self, verb: str, *more: str) -> subprocess.CompletedProcess:
        """`fedback site VERB`."""
        words = [str(COMMAND), "site", verb, str(self.folder / "site.toml"), *more]
        return subprocess.run(words, capture_output=True, text=True, timeout=60)

    def start(self) -> None:
        """Starts the service; it is ready when its socket is there."""
        words = [str(COMMAND), "site", "serve", str(self.folder / "site.toml"), "--log", "json"]
        self.process = Process(words, self.logs / "log.txt", dict(os.environ))
        until(self._ready, 30, "the site's socket")

    def _ready(self) -> bool:
        assert not self.process.ended, self.process.text()
        return Path(self.socket).exists() and "listening" in self.process.text().splitlines()[-1]

    def log(self) -> str:
        return self.process.text()

    def end(self) -> None:
        self.process.kill()
