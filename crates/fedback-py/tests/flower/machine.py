"""A machine inside this one, for what makes users, mounts and listens.

A script runs as root with mounts, processes and a network of its own. /etc is a copy; /srv, /opt,
/run and /tmp are empty, but for /opt/fedback, which has the programs under test. When it ends
everything it has started and made is gone, and on this machine nothing has changed.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

from deployment import PROGRAMS, until

ROOT = Path(__file__).parents[4]
EMPTY = [Path("/srv"), Path("/opt"), Path("/run"), Path("/tmp"), Path("/var/tmp")]
NEEDED = {Path(sys.base_prefix), Path(sys.prefix), ROOT}
OWN = ["--mount", "--net", "--pid", "--fork", "--kill-child"]


def lacks() -> str | None:
    """Why there can be no such machine here."""
    if os.getuid() != 0:
        return "makes users and mounts: needs root"
    tried = subprocess.run(["unshare", *OWN, "true"], capture_output=True, text=True)
    return None if tried.returncode == 0 else f"needs namespaces: {tried.stderr.strip()}"


def lacks_systemd() -> str | None:
    """Why systemd cannot be started in such a machine."""
    if why := lacks():
        return why
    if not SYSTEMD.exists():
        return f"needs {SYSTEMD}"
    return None if groups() else "needs a cgroup2 file system that can be written"


def run(folder: Path, script: str, seconds: float, systemd: bool = False):
    """Runs a script on a machine of its own; what it printed. Its files are in a folder that no
    other user can read."""
    own = group(folder) if systemd else None
    parts = ["set -eu", *mounts(folder), *programs(), *(boot(own) if own else []), script]
    # In a file: as an argument, a page's commands would be found by its own pgrep.
    (folder / "machine.sh").write_text("\n".join(parts))
    try:
        return subprocess.run(
            ["unshare", *OWN, "bash", str(folder / "machine.sh")],
            cwd="/",
            env=os.environ | {"FEDBACK": str(ROOT), "HOME": "/root", "NO_COLOR": "1"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            text=True,
            timeout=seconds,
        )
    finally:
        if own:
            until(lambda: removed(own), 30, f"the end of what is in {own}")


def mounts(folder: Path) -> list[str]:
    """Mounts of its own; what the tests need can be reached by every user."""
    covered = {*EMPTY, *(one for path in NEEDED if (one := closed(path)))}
    needed = {*NEEDED, folder}
    hidden = sorted(path for path in needed if any(path.is_relative_to(one) for one in covered))
    lines = ["mount --make-rprivate /", "mount -t proc proc /proc", "ip link set lo up"]
    # The folder's own mount is where the rest is kept meanwhile: it is not covered by itself.
    kept = folder / "kept"
    lines += [f"mkdir {kept}", f"mount -t tmpfs tmpfs {kept}"]
    for place, path in enumerate(hidden):
        lines += [f"mkdir {kept}/{place}", f"mount --bind {shlex.quote(str(path))} {kept}/{place}"]
    lines += [f"exec 9< {kept}", f"cp -a /etc {kept}/etc", f"mount --bind {kept}/etc /etc"]
    lines += [f"mount -t tmpfs -o mode={mode(path)} tmpfs {path}" for path in sorted(covered)]
    for place, path in enumerate(hidden):
        back = shlex.quote(str(path))
        lines += [f"mkdir -p {back}", f"mount --bind /proc/self/fd/9/{place} {back}"]
    return [*lines, "exec 9<&-"]


def closed(path: Path) -> Path | None:
    """The first folder on the way to a path that other users cannot enter."""
    way = [*reversed(path.parents), path]
    return next((one for one in way if one.is_dir() and not one.stat().st_mode & 1), None)


def mode(path: Path) -> str:
    return "1777" if path.name == "tmp" else "755"


def programs() -> list[str]:
    """/opt/fedback, as an administrator installs it."""
    venv = Path(sys.prefix)
    return [
        "mkdir -p /opt/fedback/bin",
        f"ln -s {venv}/pyvenv.cfg {venv}/lib /opt/fedback",
        f"ln -s {PROGRAMS}/* /opt/fedback/bin",
    ]


SYSTEMD = Path("/lib/systemd/systemd")

TARGETS = ["basic", "sysinit", "shutdown", "multi-user", "network", "network-online"]

BOOT = f"""
mount -t proc proc /proc
umount -R /sys/fs/cgroup
mount -t cgroup2 cgroup2 /sys/fs/cgroup
exec {SYSTEMD} --system --unit=multi-user.target --log-target=console
"""


# The interpreter under test may lie in somebody's home, which services do not see.
HERE = f"""
[Service]
StandardOutput=append:/run/services.log
StandardError=inherit
ProtectHome=tmpfs
BindReadOnlyPaths={" ".join(map(str, sorted(NEEDED)))}
"""


def boot(group: Path) -> list[str]:
    """systemd as the first process of processes of its own, with no units but those that are put
    into /etc/systemd/system. What services say is in /run/services.log."""
    names = " ".join(TARGETS)
    own = "unshare --mount --pid --fork --kill-child --cgroup --uts --ipc"
    paths = "container=other SYSTEMD_UNIT_PATH=/etc/systemd/system:/run/targets"
    return [
        "rm -rf /etc/systemd/system && mkdir -p /run/targets",
        f"for name in {names}; do echo '[Unit]' > /run/targets/$name.target; done",
        "mkdir -p /etc/systemd/system/fedback-.service.d",
        f"cat > /etc/systemd/system/fedback-.service.d/here.conf <<'END'\n{HERE}END",
        f"(echo 0 > {group}/cgroup.procs && {paths} exec {own} bash -c {shlex.quote(BOOT)})"
        " > /run/boot.log 2>&1 &",
        # systemd listens only to those whom it sees.
        "systemctl() {",
        '    nsenter --target "$(pgrep -x systemd)" --mount --pid --cgroup /bin/systemctl "$@"',
        "}",
        "for _ in $(seq 300); do",
        "    systemctl is-active --quiet multi-user.target 2> /run/systemctl.log && break",
        "    sleep 0.1",
        "done",
        "systemctl is-active --quiet multi-user.target || { cat /run/boot.log; exit 1; }",
    ]


def groups() -> Path | None:
    """Where groups of processes can be made."""
    for line in Path("/proc/self/mounts").read_text().splitlines():
        _, place, kind, options, *_ = line.split()
        if kind == "cgroup2" and "rw" in options.split(",") and os.access(place, os.W_OK):
            return Path(place)
    return None


def group(folder: Path) -> Path:
    """A new group of processes."""
    own = groups() / f"fedback-{os.getpid()}-{folder.name}"
    own.mkdir()
    return own


def removed(own: Path) -> bool:
    """Removes a group and those in it, as far as nobody is left in them."""
    try:
        for inner, _, _ in os.walk(own, topdown=False):
            os.rmdir(inner)
    except OSError:
        return False
    return True
