"""A SuperLink with three SuperNodes: the same bits, and the faults that need real processes."""

import os
import re
import signal
import struct
from pathlib import Path

import flwr.proto.message_pb2 as proto
from deployment import until
from flwr.common.serde import message_from_proto
from results import in_memory, result
from specs import TABLE

import fedback
from fedback.flower import messages
from fedback.flower.messages import decode

PROBE = Path(__file__).parent / "probe-app"


def test_a_run_has_the_bits_of_the_one_in_memory_and_sends_nothing_else(
    deployment, place, tmp_path, reference
):
    spec, traffic = place("table"), tmp_path / "messages.txt"
    log = deployment.run(
        "table", app=PROBE, spec=spec, json=tmp_path / "result.json", messages=traffic
    )
    assert "fedback: done" in log, log
    assert result(tmp_path / "result.json") == in_memory(spec)
    allowed = set(
        re.findall(r"^\| `([a-z-]+)` \| (?:text|count|array)", reference("flower.md"), re.MULTILINE)
    )
    passed = [
        (way, bytes.fromhex(message))
        for way, message in map(str.split, traffic.read_text().splitlines())
    ]
    kinds = {"up": set(), "down": set()}
    for way, raw in passed:
        message = message_from_proto(proto.Message.FromString(raw))
        fields = {name for record in message.content.values() for name in record}
        assert fields <= allowed, fields - allowed
        assert type(decode(message.content)) in messages.KINDS.values()
        kinds[way].add(message.content["text"]["kind"])
        assert not any(number in raw for number in cells(TABLE)), (
            "a cell of the table is in a message"
        )
    assert kinds == {"down": {"question", "order"}, "up": {"answer", "update"}}
    rounds = 2
    assert len(passed) == 2 * len(deployment.nodes) * (1 + rounds)


def cells(table: str) -> set[bytes]:
    """The numbers of a table, as text and as the bytes of a float."""
    texts = {cell for row in table.splitlines()[1:] for cell in row.split(",") if "." in cell}
    return {text.encode() for text in texts} | {struct.pack("<d", float(text)) for text in texts}


def test_bad_updates_are_refused_and_never_averaged(deployment, place, tmp_path):
    spec, traffic = place("full"), tmp_path / "messages.txt"
    options = {"app": PROBE, "messages": traffic, "faults": True, "attempts": 0}
    log = deployment.run("faults", spec=spec, json=tmp_path / "result.json", **options)
    assert "fedback: done" in log, log
    for words in FAULTS:
        assert words in log, f"{words!r} is not in\n{log}"
    # The cohorts that were left are recorded; memory comes to the same bits with them.
    again, same = fedback.replay(1, store=tmp_path / "fedback.db")
    assert same and again.final_theta.tolist() == result(tmp_path / "result.json")["final_theta"]


FAULTS = [
    "coordinate 0 of the update is not a finite number",
    "delta has 24 numbers, 12 were asked for",
    "long, believed are up to",
    "update: not what was asked for",
]


def test_a_node_with_another_plan_is_refused_by_name(deployment, place, tmp_path):
    spec, other = place("gaussian"), place("full")
    # The node's own copy goes before the run config's.
    deployment.nodes[1].stop()
    deployment.nodes[1] = deployment.node(
        "other-plan", f'partition-id=1 num-partitions=3 spec="{other}"'
    )
    log = deployment.run("other", spec=spec)
    assert re.search(r"client 1, 4: held by no node.* node \d+ was refused: its plan is", log), log
    assert "fedback: done" not in log
    deployment.nodes[1].stop()
    deployment.nodes[1] = deployment.node("node-1-again", "partition-id=1 num-partitions=3")


def test_a_server_killed_with_minus_nine_is_resumed_to_the_same_bits(deployment, place, tmp_path):
    spec = place("long")
    run = deployment.submit("killed", spec=spec)
    deployment.reach(run, deployment.nodes[0], 1)
    pid = until(lambda: deployment.find("flwr-serverapp"), 10, "the ServerApp")
    os.kill(pid, signal.SIGKILL)
    log = deployment.run("resumed", spec=spec, resume=1, json=tmp_path / "result.json")
    assert "fedback: done, run 1" in log, log
    assert result(tmp_path / "result.json") == in_memory(spec)
    run.kill()


def test_a_node_killed_in_a_round_comes_back_and_the_round_is_asked_again(
    deployment, place, tmp_path
):
    spec = place("full")
    run = deployment.submit("lost", spec=spec, deadline=12.0, json=tmp_path / "result.json")
    deployment.reach(run, deployment.nodes[2], 1)
    deployment.nodes[2].kill()
    deployment.nodes[2] = deployment.node("node-2-again", "partition-id=2 num-partitions=3")
    run.wait(120)
    assert "is late" in run.text() and "fedback: done" in run.text(), run.text()
    assert result(tmp_path / "result.json") == in_memory(spec)
