"""What an operator's own code can do at a node: read files, meddle with the service, ask it.

Every attempt ends in what came of it: the name of the error, or what was got."""

import json
import os
import pwd
import signal
from pathlib import Path

import numpy as np
from flwr.app import ConfigRecord, Message, RecordDict
from flwr.clientapp import ClientApp

from fedback.flower import relay
from fedback.flower.messages import Census, Order, Question

app = ClientApp()


@app.query()
def query(message, context):
    socket = Path(context.node_config["site"])
    found = {
        "user": pwd.getpwuid(os.getuid()).pw_name,
        "site": socket.stem,
        "files": {path: outcome(lambda path=path: read(path)) for path in files(socket.stem)},
        "service": {what: outcome(act) for what, act in meddling(socket).items()},
        "asked": {what: answer(socket, *asked) for what, asked in questions().items()},
    }
    content = RecordDict({"found": ConfigRecord({"json": json.dumps(found)})})
    return Message(content, reply_to=message)


def outcome(act) -> str:
    try:
        return f"done: {act()!r}"
    except OSError as error:
        return type(error).__name__


def read(path: str):
    if os.path.isdir(path):
        return os.listdir(path)
    with open(path, "rb") as file:
        return file.read(20)


def files(site: str) -> list[str]:
    """What belongs to the site's service, and to the server."""
    clients = {"oak": 0, "elm": 2, "ash": 4}
    names = [f"rows-{clients[site]}.csv", "policy.toml", "banks.toml"]
    names += [f"{site}.ledger", f"{site}.ledger.seal", "service.log"]
    own = ["/srv/site", f"/srv/site/{site}", *(f"/srv/site/{site}/{name}" for name in names)]
    return [*own, "/srv/federation/server.key", "/srv/gate/server.key", "/srv/ca/ca.key"]


def meddling(socket: Path) -> dict:
    """Ways to get at the service's process, its socket, or its user."""
    process = next(pid for pid in pids() if serves(pid))
    memory = f"/proc/{process}"
    return {
        "its memory": lambda: read(f"{memory}/mem"),
        "its environment": lambda: read(f"{memory}/environ"),
        "its open files": lambda: os.listdir(f"{memory}/fd"),
        "its folder": lambda: os.listdir(f"{memory}/cwd/"),
        "its end": lambda: os.kill(process, signal.SIGKILL),
        "its socket removed": lambda: socket.unlink(),
        "a socket in its place": lambda: socket.with_suffix(".new").touch(),
        "its user": lambda: os.setuid(pwd.getpwnam("fedback-site").pw_uid),
        "root": lambda: os.setuid(0),
    }


def pids() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdecimal()]


def serves(pid: int) -> bool:
    """Whether a process is a site's service."""
    try:
        words = Path(f"/proc/{pid}/cmdline").read_text().split("\0")
        return words[2:4] == ["site", "serve"]  # after Python and its script
    except OSError:
        return False


def questions() -> dict:
    """Questions, and what is set in the spec with them."""
    question = Question(version="1", plan_hash="0" * 64)
    order = Order(
        version="1", plan_hash="0" * 64, round=0, step=0,
        stream_key=np.array([7], dtype=np.uint64), theta=np.zeros((2, 3)),
        repetitions=np.array([0], dtype=np.uint32), clients=np.array([0], dtype=np.uint32),
        rows=np.array([200] * 5, dtype=np.uint64),
        sums=np.array([[0.5, 5000.0], [0.3, 2400.0]]),
    )  # fmt: skip
    elsewhere = Census(version="1", sums=np.array([[0.1, 100.0]]))
    return {
        "another column": (question, ["problem.base.features=['customer']"]),
        "a batch of one": (question, ["algorithm.batch=1"]),
        "no clip": (question, ["algorithm.clip=1e9"]),
        "sums": (Census(version="1"), []),
        "sums about another mean": (elsewhere, []),
        "an order of another plan": (order, []),
    }


def answer(socket: Path, message, set: list[str]) -> dict:
    """The kind of what the service says, and its reason or its numbers."""
    said = relay.ask(str(socket), message, set)
    told = {"kind": type(said).__name__, "reason": getattr(said, "reason", None)}
    return told | {"numbers": sorted(k for k, v in vars(said).items() if isinstance(v, np.ndarray))}
