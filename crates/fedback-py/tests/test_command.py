"""The command as the package installs it: output, exit codes and signals are those of the binary,
which crates/fedback tests."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import fedback

COMMAND = Path(sys.executable).parent / "fedback"
LONG = ["--set", "rounds=100000000", "--set", "measure.every=1000"]


@pytest.fixture
def place(two_sites, tmp_path):
    (tmp_path / "spec.toml").write_text(two_sites.to_toml())
    return tmp_path


def command(place, *words, **more):
    return subprocess.run([COMMAND, *words], cwd=place, capture_output=True, text=True, **more)


def test_it_runs_what_python_runs(place, two_sites):
    done = command(place, "run", "spec.toml", "--json", "--threads", "1")
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)["curve"] == fedback.run(two_sites).to_dict()["curve"]
    module = subprocess.run([sys.executable, "-m", "fedback", "--version"], stdout=subprocess.PIPE)
    assert module.stdout.decode() == command(place, "--version").stdout
    assert module.stdout.decode() == f"fedback {fedback.__version__}\n"


@pytest.mark.parametrize(
    "words, code, says",
    [
        (["--help"], 0, ""),
        (["run", "--help"], 0, ""),
        (["frobnicate"], 2, "error: unrecognized subcommand 'frobnicate'"),
        (["run", "missing.toml"], 2, "error: missing.toml: no such file"),
        (["run", b"\xff.toml"], 2, "error: "),
        (["run", "spec.toml", "--set", "algorithm.step_size={constant=1e9}"], 1, "error: "),
    ],
)
def test_exit_codes(place, words, code, says):
    done = command(place, *words)
    assert done.returncode == code, done.stderr
    assert says in done.stderr and "Traceback" not in done.stderr


def test_nobody_listens(place):
    left = f'"{COMMAND}" --help | true; echo "${{PIPESTATUS[0]}}"'
    done = subprocess.run(["bash", "-c", left], capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("0\n", "")
    closed = ["bash", "-c", f'"{COMMAND}" run spec.toml <&- >&- 2>&-']
    assert subprocess.run(closed, cwd=place).returncode == 0
    # Nothing that was meant for the reader is in a file.
    assert fedback.runs(store=place / "fedback.db")[0]["state"] == "done"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_it_stops_when_it_is_told_to(place, number):
    running = subprocess.Popen(
        [COMMAND, "run", "spec.toml", *LONG], cwd=place, stderr=subprocess.PIPE, text=True
    )
    try:
        while not recorded(place):
            assert running.poll() is None
        os.kill(running.pid, number)
        _, said = running.communicate(timeout=60)
    finally:
        running.kill()
    assert running.returncode == 130
    assert "go on with: fedback resume 1" in said and "Traceback" not in said
    assert [run["state"] for run in fedback.runs(store=place / "fedback.db")] == ["interrupted"]


def recorded(place) -> bool:
    """Whether the run has begun: its store names it."""
    return (place / "fedback.db").exists() and bool(fedback.runs(store=place / "fedback.db"))
