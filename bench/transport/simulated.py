"""Very many sites on Flower's simulation: seconds on the wall and of CPU, and memory, a site.

A round is the difference between runs of few and of more rounds, so that starting (Ray, a question
to every node) cancels; it is said apart. Memory is the most that all processes of the run have had
together, where what several share counts once (PSS), looked at four times a second.

    python bench/transport/simulated.py [SITES ...]
"""

from __future__ import annotations

import contextlib
import re
import sys
import tempfile
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "crates/fedback-py/tests/flower"))

from deployment import Simulation, descendants  # noqa: E402
from sites import SPEC  # noqa: E402

DIM, FEW, MORE = 1000, 1, 4


class Watch(threading.Thread):
    """Keeps account of the processes of a simulation: their memory, and CPU time."""

    def __init__(self, simulation: Simulation):
        super().__init__(daemon=True)
        self._simulation = simulation
        self._over = threading.Event()
        self.peak, self.spent = 0, {}

    def run(self):
        while not self._over.wait(0.25):
            memory = 0
            for pid in self._processes():
                with contextlib.suppress(OSError, ValueError):
                    memory += proportional(pid)
                    self.spent[pid] = seconds(pid)
            self.peak = max(self.peak, memory)

    def _processes(self) -> list[int]:
        for folder in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                words = (folder / "cmdline").read_text().split("\0")
                if "--simulation" in words and str(self._simulation.port) in words:
                    return [int(folder.name), *descendants(int(folder.name))]
        return []

    def end(self):
        self._over.set()
        self.join()


def proportional(pid: int) -> int:
    """Bytes of a process; what several share counts in parts."""
    text = Path(f"/proc/{pid}/smaps_rollup").read_text()
    return 1024 * int(re.search(r"^Pss:\s+(\d+)", text, re.MULTILINE)[1])


def seconds(pid: int) -> float:
    """CPU time of a process."""
    words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(words[11]) + int(words[12])) / 100


def run(folder: Path, sites: int, rounds: int) -> tuple[float, float, int, float]:
    """Of a run: seconds on the wall and of CPU, bytes at most, seconds of fedback at the server."""
    simulation = Simulation(folder / f"{sites}-{rounds}")
    spec = folder / f"{sites}-{rounds}.toml"
    spec.write_text(SPEC.format(sites=sites, dim=DIM, rounds=rounds))
    watch = Watch(simulation)
    try:
        watch.start()
        started = time.monotonic()
        config = {"spec": spec, "wait": 3600.0, "deadline": 3600.0}
        log = simulation.run("sites", nodes=sites, seconds=3600, **config)
        spent = time.monotonic() - started
        assert "fedback: done" in log and f"{sites} of {sites} clients answered" in log, log[-4000:]
        watch.end()
        own = float(re.search(r"([\d.]+) s here", log)[1])
        return spent, sum(watch.spent.values()), watch.peak, own
    finally:
        simulation.end()


def measure(sites: int) -> str:
    with tempfile.TemporaryDirectory() as place:
        few, more = (run(Path(place), sites, rounds) for rounds in (FEW, MORE))
    wall, cpu, _, own = ((b - a) / (MORE - FEW) for a, b in zip(few, more))
    peak = max(few[2], more[2])
    each = [1e3 * wall / sites, 1e3 * cpu / sites, 1e3 * own / sites]
    return (
        f"| {sites} | {few[0] - wall:.0f} | {wall:.1f} | {each[0]:.1f} | {each[1]:.1f} "
        f"| {each[2]:.2f} | {peak / 2**20:.0f} | {peak / 2**10 / sites:.0f} |"
    )


if __name__ == "__main__":
    print(f"d = {DIM}.\n")
    columns = ["sites", "start, s", "a round, s", "wall, ms a site", "CPU, ms a site"]
    columns += ["fedback at the server, ms a site", "memory, MiB", "KiB a site"]
    print(f"| {' | '.join(columns)} |\n|{'---:|' * len(columns)}")
    for sites in map(int, sys.argv[1:] or ["50", "200", "1000"]):
        print(measure(sites), flush=True)
