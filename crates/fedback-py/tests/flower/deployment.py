"""A Flower federation on loopback, started and ended by a test.

Everything runs in a folder of its own, on free ports; the end kills each process that was started
here, and what it has started, by its id. Nothing sleeps to wait for anything: a process is ready
when its port answers or its log says so.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

APP = Path(__file__).parents[2] / "flower-app"
PROGRAMS = Path(sys.executable).parent


def environment(home: Path) -> dict[str, str]:
    """The environment of every Flower process: a home of its own, nothing that reaches out."""
    return os.environ | {
        "PATH": f"{PROGRAMS}{os.pathsep}{os.environ['PATH']}",
        "FLWR_HOME": str(home),
        "FLWR_TELEMETRY_ENABLED": "0",
        "FLWR_DISABLE_UPDATE_CHECK": "1",
        "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1",
        "FLWR_SUPEREXEC_TASK_POLL_INTERVAL": "0.05",
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
        "NO_COLOR": "1",
    }


def commands(page: str) -> str:
    """The commands of a page, with its files written."""
    parts = ["set -eu"]
    for language, text in re.findall(r"^```(\w+)\n(.*?)^```", page, re.MULTILINE | re.DOTALL):
        if language == "sh":
            parts.append(text)
        elif language == "toml" and (name := re.match(r"# (\S+\.toml)\n", text)):
            parts.append(f"cat > {name[1]} <<'PAGE'\n{text}PAGE")
    return "\n".join(parts)


def free_port() -> int:
    """A port that nobody listens on just now."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def until(condition, seconds: float, what: str):
    """Looks again and again until the condition holds; its value."""
    limit = time.monotonic() + seconds
    while time.monotonic() < limit:
        if value := condition():
            return value
        time.sleep(0.05)
    raise TimeoutError(f"{what}: not within {seconds} s")


class Process:
    """A process in a session of its own, with a log."""

    def __init__(self, command: list[str], log: Path, env: dict[str, str], cwd: Path | None = None):
        self.log = log
        with log.open("ab") as out:
            self._process = subprocess.Popen(
                command,
                stdout=out,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                env=env,
                cwd=cwd,
            )

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def ended(self) -> bool:
        return self._process.poll() is not None

    def text(self) -> str:
        """What it has said so far."""
        return self.log.read_text(errors="replace")

    def says(self, words: str, seconds: float = 60) -> str:
        """Waits until the log has the words; the log."""

        def look():
            return words in self.text() or (self.ended and words not in self.text())

        until(look, seconds, f"{self.log.name}: {words!r}")
        assert words in self.text(), f"ended without saying {words!r}:\n{self.text()}"
        return self.text()

    def wait(self, seconds: float) -> int:
        return self._process.wait(seconds)

    def stop(self) -> None:
        """Asks it to end; a SuperNode signs off."""
        self._process.terminate()
        self._process.wait(30)

    def kill(self) -> None:
        """Ends it and what it has started, without asking; Flower's children have sessions of
        their own."""
        for pid in [self.pid, *descendants(self.pid)]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self._process.wait()


def descendants(ancestor: int) -> list[int]:
    """The processes that a process has started, and those that they have."""
    children: dict[int, list[int]] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue
        children.setdefault(parent, []).append(int(folder.name))
    found = children.get(ancestor, [])
    for pid in found:
        found.extend(children.get(pid, []))
    return found


class Deployment:
    """A SuperLink, and SuperNodes that come and go."""

    def __init__(
        self, folder: Path, *, name: str = "test", simulation: bool = False, tls: Path | None = None
    ):
        self.folder = folder
        self.name = name
        self.tls = tls
        folder.mkdir(parents=True, exist_ok=True)
        self.env = environment(folder / "home")
        self.port = free_port()
        self.processes: list[Process] = []
        (folder / "home").mkdir(exist_ok=True)
        security = f'root-certificates = "{tls}/ca.crt"' if tls else "insecure = true"
        (folder / "home/config.toml").write_text(
            f'[superlink]\ndefault = "{name}"\n\n[superlink.{name}]\n'
            f'address = "127.0.0.1:{self.port}"\n{security}\n'
        )
        self.public = self.port
        self.simulation = simulation
        self.superlink = self.start_superlink()

    def start_superlink(self) -> Process:
        """Starts the SuperLink, and waits until it answers."""
        command = ["flower-superlink", "--host", "127.0.0.1", "--port", str(self.port)]
        if self.tls:
            command += ["--ssl-ca-certfile", f"{self.tls}/ca.crt"]
            command += ["--ssl-certfile", f"{self.tls}/server.pem"]
            command += ["--ssl-keyfile", f"{self.tls}/server.key", "--enable-supernode-auth"]
            command += ["--database", f"{self.folder}/superlink.db"]
        else:
            command += ["--insecure"]
        if self.simulation:
            command += ["--simulation"]
        self.superlink = self.start("superlink", command)
        until(self._answers, 60, "the SuperLink's port")
        return self.superlink

    def _answers(self) -> bool:
        assert not self.superlink.ended, self.superlink.text()
        with socket.socket() as caller:
            if caller.connect_ex(("127.0.0.1", self.port)) != 0:
                return False
        if self.tls:
            return True
        try:
            return (
                urllib.request.urlopen(f"http://127.0.0.1:{self.port}/health", timeout=5).status
                == 200
            )
        except OSError:
            return False

    def start(self, name: str, command: list[str], env: dict[str, str] | None = None) -> Process:
        """Starts a process whose log is `name.log`."""
        process = Process(command, self.folder / f"{name}.log", self.env | (env or {}))
        self.processes.append(process)
        return process

    def node(self, name: str, config: str, key: Path | None = None, env=None) -> Process:
        """Starts a SuperNode."""
        command = ["flower-supernode", "--superlink", f"127.0.0.1:{self.public}"]
        command += ["--host", "127.0.0.1", "--port", str(free_port()), "--node-config", config]
        if self.tls:
            command += ["--root-certificates", f"{self.tls}/ca.crt"]
        else:
            command += ["--insecure"]
        if key:
            command += ["--auth-supernode-private-key", str(key)]
        return self.start(name, command, env)

    def submit(self, name: str, *, app: Path = APP, federation: str = "", **config) -> Process:
        """Starts `flwr run`, whose log is the server's."""
        command = [
            "flwr",
            "run",
            str(app),
            self.name,
            "--stream",
            "--run-config",
            run_config(config),
        ]
        if federation:
            command += ["--federation-config", federation]
        return self.start(f"run-{name}", command)

    def run(self, name: str, *, seconds: float = 120, **options) -> str:
        """`flwr run`, to the end; the server's log."""
        process = self.submit(name, **options)
        process.wait(seconds)
        return process.text()

    def reach(self, run: Process, node: Process, round: int, seconds: float = 120) -> None:
        """Waits until a node has the order of a run's round."""
        started = re.search(r"Successfully started run (\d+)", run.says("Successfully started run"))
        node.says(f"[RUN {started[1]}, ROUND {round}]", seconds)

    def find(self, program: str) -> int | None:
        """A process that the SuperLink has started, by its program."""
        for pid in descendants(self.superlink.pid):
            try:
                words = Path(f"/proc/{pid}/cmdline").read_text().split("\0")
            except OSError:
                continue
            if program in (Path(word).name for word in words[:2]):
                return pid
        return None

    def end(self) -> None:
        """Kills what is left."""
        for process in reversed(self.processes):
            process.kill()


class Simulation:
    """Flower's simulation engine, on the in-memory address.

    `flwr run` starts a SuperLink there, and leaves it behind for the next; the end kills it.
    """

    def __init__(self, folder: Path):
        self.folder = folder
        self.port = free_port()
        ports = {
            "FLWR_LOCAL_SUPERLINK_HTTP_API_PORT": str(self.port),
            "FLWR_LOCAL_CONTROL_API_PORT": str(free_port()),
        }
        self.env = environment(folder / "home") | ports
        (folder / "home").mkdir(parents=True)
        (folder / "home/config.toml").write_text(
            '[superlink]\ndefault = "simulation"\n\n[superlink.simulation]\n'
            'address = ":local-in-memory:"\n'
        )

    def run(self, name: str, *, nodes: int = 3, seconds: float = 180, **config) -> str:
        """`flwr run`, to the end; the server's log."""
        command = [
            "flwr",
            "run",
            str(APP),
            "simulation",
            "--stream",
            "--run-config",
            run_config(config),
        ]
        command += ["--federation-config", f"num_supernodes={nodes} client_resources_num_cpus=1"]
        process = Process(command, self.folder / f"run-{name}.log", self.env)
        try:
            process.wait(seconds)
            return process.text()
        finally:
            process.kill()

    def end(self) -> None:
        """Ends the SuperLink that was left behind."""
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                words = (folder / "cmdline").read_text().split("\0")
            except OSError:
                continue
            if "--simulation" in words and str(self.port) in words:
                for pid in [int(folder.name), *descendants(int(folder.name))]:
                    os.kill(pid, signal.SIGKILL)


def run_config(config: dict) -> str:
    """Settings as `--run-config` wants them."""

    def toml(value) -> str:
        return f'"{value}"' if isinstance(value, (str, Path)) else str(value).lower()

    return " ".join(f"{key}={toml(value)}" for key, value in config.items())
