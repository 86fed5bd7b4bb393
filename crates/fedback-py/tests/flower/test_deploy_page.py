"""docs/how-to/deploy.md, typed in: three sites known by their keys, behind the gate; and, before
its end, docs/how-to/drill.md: every part killed, and the same bits."""

import contextlib
import json
import os
import re
import signal
import subprocess
from pathlib import Path

from deployment import PROGRAMS, commands, descendants, free_port
from gate import nginx

ROOT = Path(__file__).parents[4]
PAGES = ROOT / "docs/how-to"


def script(page: str, folder: Path) -> str:
    """The page's commands, on other ports; the gate's configuration with them in a folder."""
    ports = {str(number): str(free_port()) for number in (9400, 9401, 9410, 9420, 9430)}
    nginx(folder, ports["9400"], ports["9401"])
    text = commands(page).replace("$FEDBACK/crates/fedback-py/deploy", str(folder))
    return re.sub("|".join(ports), lambda found: ports[found[0]], text)


def test_what_the_pages_say_works(tmp_path):
    env = os.environ | {"PATH": f"{PROGRAMS}{os.pathsep}{os.environ['PATH']}", "FEDBACK": str(ROOT)}
    page, heading, end_of_it = (PAGES / "deploy.md").read_text().partition("## The end\n")
    text = script(page + (PAGES / "drill.md").read_text() + heading + end_of_it, tmp_path)
    # In a file: as an argument, the page's commands would be found by its own pgrep.
    (tmp_path / "page.sh").write_text(text)
    started = subprocess.Popen(
        ["bash", "page.sh"],
        cwd=tmp_path,
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        printed, _ = started.communicate(timeout=300)
    finally:
        end(tmp_path / "federation", started.pid)
    assert started.returncode == 0, printed
    assert "turned away\n404\n" in printed, printed
    assert "any registered node" not in printed
    assert re.search(r"node \d+ \(oak\) holds client 0, 1", printed), printed
    assert "fedback: done, run 2" in printed
    assert len(json.loads((tmp_path / "federation/result.json").read_text())["final_theta"]) == 3


def end(folder: Path, shell: int) -> None:
    """Kills what the page's last command has not."""
    pids = [int(path.read_text()) for path in folder.glob("*.pid")]
    for pid in [
        shell,
        *pids,
        *(child for parent in [shell, *pids] for child in descendants(parent)),
    ]:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
