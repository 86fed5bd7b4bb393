"""Flower's simulation engine: the same bits."""

import subprocess
from pathlib import Path

from deployment import commands
from results import in_memory, result

ROOT = Path(__file__).parents[4]


def test_a_run_has_the_bits_of_the_one_in_memory(simulation, place, tmp_path):
    spec = place("table")
    log = simulation.run("table", spec=spec, json=tmp_path / "result.json")
    assert "fedback: done" in log, log
    assert result(tmp_path / "result.json") == in_memory(spec)


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
