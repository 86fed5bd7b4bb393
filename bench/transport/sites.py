"""Very many sites in one round of the Python transport: CPU time an update, without Flower's.

Nodes are in this process and answer at once; what they need is measured apart and taken away
(to look at the clock for every message would cost more than the message). The first table is one
round of the transport alone, the second are whole runs, compiled part and store included: seconds a
round from runs of two lengths, so that starting cancels.

    python bench/transport/sites.py [SITESxDIM ...]
"""

from __future__ import annotations

import logging
import resource
import sys
import tempfile
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
from flwr.app import Message
from flwr.supercore.task_identity import TaskIdentity

import fedback
from fedback.flower.messages import Answer, Order, Update, decode, encode
from fedback.flower.transport import Transport

# Flower fills in who sends from the process it runs an app in.
TaskIdentity.run_id = TaskIdentity.node_id = TaskIdentity.task_id = 1
PLAN = "a" * 64


class Prompt:
    """A grid whose node i holds client i − 1, and answers when it is asked."""

    def __init__(self, sites: int, dim: int, plan: str = PLAN):
        self.sites, self.dim, self.plan = sites, dim, plan
        self.replies: dict[str, Message] = {}
        self.sent = 0
        self.last: Message | None = None

    def get_nodes(self):
        return [
            SimpleNamespace(node_id=node, name="", last_activated_at="1", public_key=b"")
            for node in range(1, self.sites + 1)
        ]

    def push_messages(self, messages):
        return [self.reply(message) for message in messages]

    def pull_messages(self, identities):
        return [self.replies.pop(one) for one in identities if one in self.replies]

    def alone(self) -> float:
        """CPU seconds that the nodes need for a message, of the last kind that came."""
        times = 300
        started = time.process_time()
        for _ in range(times):
            self.replies.pop(self.reply(self.last))
        return (time.process_time() - started) / times

    def reply(self, message: Message) -> str:
        self.sent, self.last = self.sent + 1, message
        identity = message.metadata.__dict__["_message_id"] = str(self.sent)
        asked, client = decode(message.content), message.metadata.dst_node_id - 1
        own = {"version": "1", "plan_hash": self.plan}
        if isinstance(asked, Order):
            delta = np.full((len(asked.clients), self.dim), 1e-3 * (client % 17))
            own |= {"round": asked.round, "repetitions": asked.repetitions}
            content = encode(Update(**own, clients=asked.clients, delta=delta))
        else:
            own |= {"federation": self.sites, "dim": self.dim}
            content = encode(Answer(**own, clients=np.array([client], dtype=np.uint32)))
        self.replies[identity] = Message(content, reply_to=message)
        return identity


def one_round(sites: int, dim: int) -> str:
    """A row of the first table."""
    grid = Prompt(sites, dim)
    transport = Transport(grid, "1", 600.0, 600.0, federation=sites)
    clients = np.arange(sites, dtype=np.uint32)
    order = fedback.Order(
        round=0,
        step=0,
        seed=1,
        plan_hash=PLAN,
        again=False,
        thetas=np.zeros((1, dim)),
        repetitions=np.zeros(sites, dtype=np.uint32),
        clients=clients,
        kept=np.zeros((sites, 0)),
    )
    held = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    started = time.process_time()
    transport.ask(order)
    asked = time.process_time()
    updates = 0
    while (event := transport.next()) != ("deadline",):
        updates += event is not None and event[0] == "update"
    taken = time.process_time()
    assert updates == sites, f"{updates} of {sites}"
    peak = 1024 * (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - held)
    # A question costs a node no more than an order.
    asking, taking = (asked - started) / sites - 2 * grid.alone(), (taken - asked) / sites
    each = [1e6 * seconds for seconds in (asking, taking)]
    return f"| {sites} | {dim} | {each[0]:.0f} | {each[1]:.0f} | {peak / (8 * sites * dim):.1f} |"


SPEC = """
format = 1
name = "sites"
seed = 7
rounds = {rounds}
[problem]
clients = {sites}
[problem.base]
kind = "gaussian"
dim = {dim}
mean = {{ average = 1.0, variance = 0.5 }}
[problem.response]
kind = "location"
sensitivity = {{ average = 0.2, variance = 0.01 }}
[problem.loss]
kind = "mean"
[algorithm]
kind = "p-fedavg"
scheme = "full"
local_steps = 2
step_size = {{ constant = 0.01 }}
"""


def whole_run(sites: int, dim: int, rounds: int, folder: Path) -> tuple[float, float]:
    """Seconds of CPU and on the wall of a run with a store, without the grid's."""
    spec = fedback.Spec.parse(SPEC.format(rounds=rounds, sites=sites, dim=dim))
    plan = fedback.Site(spec).plan_hash
    grid = Prompt(sites, dim, plan)
    transport = Transport(grid, "1", 600.0, 600.0, federation=sites, rounds=rounds)
    cpu, wall = time.process_time(), time.monotonic()
    fedback.federate(spec, transport, store=folder / f"{sites}-{dim}-{rounds}.db")
    cpu, wall = time.process_time() - cpu, time.monotonic() - wall
    nodes = sites * rounds * grid.alone()
    return cpu - nodes, wall - nodes


def share(sites: int, dim: int) -> str:
    """A row of the second table."""
    few, many = 5, 55
    with tempfile.TemporaryDirectory() as folder:
        tries = []
        for number in range(3):
            place = Path(folder) / str(number)
            place.mkdir()
            ends = [whole_run(sites, dim, rounds, place) for rounds in (few, many)]
            tries.append([(b - a) / (many - few) for a, b in zip(*ends)])
    cpu, wall = (1e3 * min(each) for each in zip(*tries))
    return f"| {sites} | {dim} | {cpu:.2f} | {wall:.2f} | {1e3 * cpu / sites:.0f} |"


def main(which: list[str]) -> None:
    logging.disable(logging.CRITICAL)
    print("### One round of the transport, one update a node\n")
    print("| sites | d | ask, us | take, us | peak |\n|---:|---:|---:|---:|---:|")
    for one in which or ["1000x1000", "10000x100", "10000x1000", "100000x100"]:
        print(one_round(*map(int, one.split("x"))), flush=True)
    print(
        "\nMicroseconds of CPU an update: to ask whom a node holds and to send its order; to take"
    )
    print("its update. Peak memory as multiples of the updates' numbers, with the replies.\n")
    print("### A round of a whole run, with a store, without Flower\n")
    print("| sites | d | CPU, ms | wall, ms | CPU, us an update |\n|---:|---:|---:|---:|---:|")
    for sites in (3, 10, 100):
        print(share(sites, 1000), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
