"""A SuperLink with three SuperNodes: the same bits, and the faults that need real processes."""

import os
import signal
from pathlib import Path

from deployment import until
from results import in_memory, result

PROBE = Path(__file__).parent / "probe-app"


def test_a_run_has_the_bits_of_the_one_in_memory(deployment, place, tmp_path):
    spec = place("gaussian")
    log = deployment.run("gaussian", spec=spec, json=tmp_path / "result.json")
    assert "fedback: done" in log, log
    assert result(tmp_path / "result.json") == in_memory(spec)


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


def test_a_node_killed_in_a_round_comes_back_and_the_round_is_asked_again(deployment, place, tmp_path):
    spec = place("full")
    run = deployment.submit("lost", spec=spec, deadline=20.0, attempts=3, json=tmp_path / "result.json")
    deployment.reach(run, deployment.nodes[2], 1)
    deployment.nodes[2].kill()
    deployment.nodes[2] = deployment.node("node-2-again", "partition-id=2 num-partitions=3")
    run.wait(120)
    assert "is late" in run.text() and "fedback: done" in run.text(), run.text()
    assert result(tmp_path / "result.json") == in_memory(spec)
