"""docs/how-to/deploy.md, typed in: three sites known by their keys, behind the gate."""

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
PAGE = ROOT / "docs/how-to/deploy.md"


def script(page: str, folder: Path) -> str:
    """The page's commands, on other ports; the gate's configuration with them in a folder."""
    ports = {number: str(free_port()) for number in ("9400", "9401", "9410", "9420")}
    nginx(folder, ports["9400"], ports["9401"])
    text = commands(page).replace("$FEDBACK/crates/fedback-py/deploy", str(folder))
    return re.sub("|".join(ports), lambda found: ports[found[0]], text)


def test_what_the_page_says_works(tmp_path):
    env = os.environ | {"PATH": f"{PROGRAMS}{os.pathsep}{os.environ['PATH']}", "FEDBACK": str(ROOT)}
    text = script(PAGE.read_text(), tmp_path)
    started = subprocess.Popen(
        ["bash", "-c", text],
        cwd=tmp_path,
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        printed, _ = started.communicate(timeout=240)
    finally:
        end(tmp_path / "federation", started.pid)
    assert started.returncode == 0, printed
    assert "turned away\n404\n" in printed, printed
    assert "any registered node" not in printed
    assert re.search(r"node \d+ \(oak\) holds client 0, 1", printed), printed
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
