"""Flower's simulation engine: the same bits."""

import subprocess
from pathlib import Path

from deployment import commands
from results import in_memory, result

import fedback
from fedback.flower.settings import overrides, values

ROOT = Path(__file__).parents[4]


def test_a_run_has_the_bits_of_the_one_in_memory(simulation, place, tmp_path):
    spec = place("table")
    log = simulation.run("table", spec=spec, json=tmp_path / "result.json")
    assert "fedback: done" in log, log
    assert result(tmp_path / "result.json") == in_memory(spec)


def test_clients_that_keep_something_have_the_same_bits(simulation, place, tmp_path):
    """SCAFFOLD: what clients keep travels through Flower's own processes and back."""
    spec = place("gaussian")
    set = "rounds=4; algorithm.kind=scaffold; algorithm.cohort=2"
    log = simulation.run("scaffold", spec=spec, set=set, json=tmp_path / "result.json")
    assert "fedback: done" in log, log
    assert result(tmp_path / "result.json") == in_memory(spec, set=values(overrides(set)))
    assert fedback.replay(1, store=spec.with_name("fedback.db"))[1]


def test_fifty_sites_have_the_same_bits(simulation, place, tmp_path):
    """A node for every client. bench/transport/simulated.py has a thousand."""
    spec, set = place("full"), "problem.clients=50; problem.weights=uniform"
    log = simulation.run("fifty", nodes=50, spec=spec, set=set, json=tmp_path / "result.json")
    assert "round 2 of 2: 50 of 50 clients answered" in log, log
    assert result(tmp_path / "result.json") == in_memory(spec, set=values(overrides(set)))


def test_what_the_page_says_works(simulation, tmp_path):
    """docs/how-to/simulate-on-flower.md, typed in; its last command ends the SuperLink."""
    page = (ROOT / "docs/how-to/simulate-on-flower.md").read_text()
    env = simulation.env | {"FEDBACK": str(ROOT)}
    typed = subprocess.run(
        ["bash", "-c", commands(page)],
        cwd=tmp_path,
        env=env,
        capture_output=True,
        text=True,
        timeout=180,
    )
    assert typed.returncode == 0, typed.stdout + typed.stderr
    assert "fedback: done" in typed.stdout + typed.stderr
