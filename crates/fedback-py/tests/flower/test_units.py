"""The services of a federation: units that systemd takes, users without rights, and the rule that
keeps the server's other users from being the operator."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from gate import DEPLOY

UNITS = sorted(DEPLOY.glob("*.service"))
PAGE = (Path(__file__).parents[4] / "docs/how-to/deploy.md").read_text()


def test_systemd_takes_the_units(tmp_path):
    programs, units = tmp_path / "bin", tmp_path / "units"
    programs.mkdir()
    units.mkdir()
    for name in ("flower-superlink", "flower-supernode", "fedback"):
        (programs / name).write_text("#!/bin/sh\n")
        (programs / name).chmod(0o755)
    for unit in UNITS:
        text = unit.read_text().replace("/opt/fedback/bin", str(programs))
        (units / unit.name).write_text(text)
    words = ["systemd-analyze", "verify", *map(str, units.iterdir())]
    done = subprocess.run(words, capture_output=True, text=True)
    assert done.returncode == 0 and done.stderr == "", done.stderr
    for unit in units.iterdir():
        words = ["systemd-analyze", "security", "--offline=yes", "--threshold=25", str(unit)]
        assert subprocess.run(words, capture_output=True).returncode == 0, unit.name


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.stem)
def test_services_run_without_rights_and_come_back(unit):
    text = unit.read_text()
    assert f"User={'fedback' if 'superlink' in unit.name else unit.stem}\n" in text
    for line in ("NoNewPrivileges=yes", "ProtectSystem=strict", "UMask=0077", "Restart=always"):
        assert f"{line}\n" in text, line


def options(text: str, program: str) -> set[str]:
    """The options with which a program is started, without their values."""
    command = re.search(rf"{program} --.*?[^\\]\n", text, re.DOTALL)[0]
    return set(re.findall(r"(--[a-z-]+)", command))


@pytest.mark.parametrize("program, unit", [("superlink", "superlink"), ("supernode", "node")])
def test_units_start_what_the_page_starts(program, unit):
    text = (DEPLOY / f"fedback-{unit}.service").read_text()
    assert options(text, f"flower-{program}") == options(PAGE, f"flower-{program}")


@pytest.mark.parametrize(
    "unit, words",
    [
        ("gate", ["nginx -p /srv/gate -e nginx.log -c nginx.conf\n"]),
        ("site", ["fedback site serve ", "policy.toml"]),
    ],
)
def test_units_start_the_pages_gate_and_service(unit, words):
    command = re.search(
        r"^ExecStart=(.*\n)", (DEPLOY / f"fedback-{unit}.service").read_text(), re.M
    )
    for word in words:
        assert word in command[1] and word.strip() in PAGE, word


def test_the_folder_of_the_socket_is_the_pages(tmp_path):
    text = (DEPLOY / "fedback-site.service").read_text()
    assert "RuntimeDirectory=fedback-site\nRuntimeDirectoryMode=0750\n" in text
    assert "--owner fedback-site --group fedback-site --mode 750 /run/fedback-site\n" in PAGE
    assert 'socket = "/run/fedback-site/oak.sock"\n' in PAGE


RULE = """
import os, socket, subprocess, sys
subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
subprocess.run(["nft", "--file", sys.argv[1]], check=True)
listener = socket.create_server(("127.0.0.1", 9401))

def reaches(user):
    child = os.fork()
    if child == 0:
        os.setuid(user)
        os._exit(socket.socket().connect_ex(("127.0.0.1", 9401)))
    return os.waitpid(child, 0)[1] == 0

print(*[reaches(user) for user in (0, 2001, 2002, 2003)])
"""


@pytest.mark.skipif(os.getuid() != 0, reason="rules of a network need root")
def test_the_rule_lets_only_the_services_users_reach_the_superlink(tmp_path):
    text = (DEPLOY / "loopback.nft").read_text()
    assert "{ root, fedback, fedback-gate }" in text
    rule = tmp_path / "loopback.nft"
    rule.write_text(text.replace("root, fedback, fedback-gate", "0, 2001, 2002"))
    # In a network of its own: nothing of this machine's is touched.
    words = ["unshare", "--net", sys.executable, "-c", RULE, str(rule)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60)
    assert done.stdout.split() == ["True", "True", "True", "False"], done.stderr
