"""Rounds of a real deployment: a SuperLink, three SuperNodes, and behind each a site's own service
with rows, policy and ledger; d = 1000. What of the CPU time of all these processes is fedback's.

The first rounds are left out, since plans are built in them.

    FEDBACK_COMMAND=target/release/fedback python bench/transport/deployed.py [ROUNDS]
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "crates/fedback-py/tests/flower"))
os.environ.setdefault("FEDBACK_COMMAND", str(ROOT / "target/release/fedback"))

from deployment import Deployment, descendants, until  # noqa: E402
from services import Service  # noqa: E402

APP = Path(__file__).parent / "measured-app"
DIM, ROWS, SITES, LEFT_OUT = 1000, 100, 3, 5
TICK = os.sysconf("SC_CLK_TCK")

SPEC = """
format = 1
name = "banks"
seed = 5
rounds = {rounds}

[problem]
clients = {sites}

[problem.base]
kind = "sites"
features = {features}
label = "y"
standardize = true

[problem.response]
kind = "best-response"
features = ["x0"]
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
step_size = {{ constant = 0.02 }}
clip = 10.0
"""

POLICY = """
name = "site-{client}"
clients = [{client}]
data = "rows-{{client}}.csv"
socket = "site.sock"
ledger = "site.ledger"

[plan]
spec = "banks.toml"

[limits]
rows = 5
answers = {answers}
answers_in_all = {answers}
clip = 10.0
theta = 1000.0
"""


class WideSite(Service):
    """A site whose rows have d features."""

    def __init__(self, folder: Path, client: int, spec: str, rounds: int):
        names = [f"x{j}" for j in range(DIM)]
        rows = [",".join([*names, "y"])]
        for k in range(ROWS):
            cells = [f"{(k * 7919 + j * 104729 + client * 977) % 1009 / 64}" for j in range(DIM)]
            rows.append(",".join([*cells, str((k * 13 + client) % 5 // 3)]))
        policy = POLICY.format(client=client, answers=rounds + 20)
        files = {"site.toml": policy, "banks.toml": spec, f"rows-{client}.csv": "\n".join(rows)}
        self._begin(folder / f"site-{client}", files)


def cpu(pid: int, children: bool = False) -> float:
    """CPU seconds of a process, and of those that it has started and that have ended."""
    words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, words[11 : 15 if children else 13])) / TICK


def lines(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def of_rounds(path: Path) -> list[dict]:
    """The lines of a node's messages that were orders of the rounds that count."""
    return [line for line in lines(path) if line["round"] and int(line["round"]) >= LEFT_OUT]


def measure(folder: Path, rounds: int) -> str:
    spec = folder / "banks.toml"
    features = json.dumps([f"x{j}" for j in range(DIM)])
    text = SPEC.format(rounds=rounds, sites=SITES, features=features)
    spec.write_text(text)
    services, federation = [], None
    try:
        services = [WideSite(folder, client, text, rounds) for client in range(SITES)]
        federation = Deployment(folder / "federation")
        notes = [folder / f"node-{site}.jsonl" for site in range(SITES)]
        nodes = [
            federation.node(f"node-{k}", f'site="{service.socket}"', env={"FEDBACK_MEASURED": note})
            for k, (service, note) in enumerate(zip(services, map(str, notes)))
        ]
        account = folder / "server.jsonl"
        run = federation.submit("measured", app=APP, spec=spec, measured=account)

        def all_began():
            assert not run.ended, run.text()
            return all(f'"round":{LEFT_OUT},' in service.log() for service in services)

        def flower():
            roots = [federation.superlink.pid, *(node.pid for node in nodes)]
            all = [pid for root in roots for pid in [root, *descendants(root)]]
            return sum(cpu(pid, children=True) for pid in all)

        until(all_began, 600, f"round {LEFT_OUT}")
        kept = [cpu(service.process.pid) for service in services]
        other = flower()
        assert run.wait(30.0 * rounds) == 0 and "fedback: done" in run.text(), run.text()
        count = rounds - LEFT_OUT
        kept = [(cpu(service.process.pid) - was) / count for service, was in zip(services, kept)]
        return report(lines(account), list(map(of_rounds, notes)), kept, (flower() - other) / count)
    finally:
        for one in [*services, *([federation] if federation else [])]:
            one.end()


def report(server: list[dict], nodes: list[list[dict]], kept: list[float], others: float) -> str:
    """The table: milliseconds of CPU a round."""
    rounds = [line for line in server if line["round"] and int(line["round"]) >= LEFT_OUT]
    first, last, count = rounds[0], rounds[-1], len(rounds) - 1

    def each(name: str) -> float:
        return (last[name] - first[name]) / count

    def at_a_node(name: str) -> float:
        return statistics.mean(line[name] for node in nodes for line in node)

    ours, load, answer = each("fedback"), at_a_node("load"), at_a_node("answer")
    service, sites = statistics.mean(kept), len(nodes)
    waiting = each("idle") + each("watching")
    table = [
        ("server: orders, updates, fold, store", ours, 1),
        ("server, while it waits: looks for replies and for Ctrl-C", waiting, 1),
        ("a node's process: loading fedback", load, sites),
        ("a node's process: the message, to and from the service", answer, sites),
        ("a site's service: keeper, work, ledger", service, sites),
        ("Flower in the server's process", each("process") - ours - waiting, 1),
        ("Flower in a node's process", at_a_node("flower"), sites),
        ("all processes that Flower starts, fedback in them included", others, 1),
    ]
    rows = [f"| {what} | {1e3 * ms:.2f} | {1e3 * ms * of:.1f} |" for what, ms, of in table]
    way = 1e3 * (ours + load + answer + service)
    return "\n".join(
        [
            f"{count} rounds of {sites} sites, d = {DIM}; {each('wall'):.1f} s a round.\n",
            "| what | CPU, ms a round | of all sites |\n|---|---:|---:|",
            *rows,
            f"\nfedback, server and one site: {way:.1f} ms; of all sites: "
            f"{1e3 * (ours + sites * (load + answer + service)):.1f} ms; "
            f"and {1e3 * waiting:.1f} ms while it waits.",
        ]
    )


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place:
        print(measure(Path(place), int(sys.argv[1]) if len(sys.argv) > 1 else 105))
