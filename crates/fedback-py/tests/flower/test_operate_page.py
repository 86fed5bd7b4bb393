"""docs/how-to/operate.md, typed in: the units under a systemd of their own, a run through them, a
service that is killed, the ledger's backup; and a site whose disk is full."""

import json
import re

import pytest
from deployment import commands
from machine import ROOT, lacks, lacks_systemd, run
from services import rows

PAGES = ROOT / "docs/how-to"
DEPLOY, OPERATE = ((PAGES / name).read_text() for name in ("deploy.md", "operate.md"))
UNITS = ["fedback-superlink", "fedback-gate", "fedback-site", "fedback-node"]


def section(page: str, heading: str) -> str:
    """A section of a page, with those in it."""
    level = re.search(rf"^(#+) {re.escape(heading)}$", page, re.MULTILINE)
    rest = page[level.end() :]
    return re.split(rf"^#{{1,{len(level[1])}}} ", rest, maxsplit=1, flags=re.MULTILINE)[0]


def file(page: str, name: str) -> str:
    """A file that a page shows."""
    return re.search(rf"^```toml\n# {name}\n(.*?)^```", page, re.MULTILINE | re.DOTALL)[1]


# The page has three sites on one machine; here, one has a machine of its own, with the server's.
FILES = {
    "federation/banks.toml": file(DEPLOY, "banks.toml").replace("clients = 5", "clients = 2"),
    "federation/sites.toml": '[[site]]\nname = "oak"\nkey = "oak.pub"\nclients = [0, 1]\n',
    "federation/flower/config.toml": re.search(r"(\[superlink\].*?)EOF", DEPLOY, re.DOTALL)[1],
    "site/policy.toml": file(DEPLOY, "policy.toml"),
} | {
    f"site/rows-{client}.csv": "\n".join(["utilisation,income,default,ssn", *rows(client, 200)])
    for client in range(2)
}

BEFORE = """
mkdir /srv/federation/flower
cp -r "$FILES"/* /srv
cp /srv/federation/banks.toml /srv/site
cp "$FEDBACK/crates/fedback-py/deploy/nginx.conf" /srv/gate
ssh-keygen -q -t ecdsa -b 384 -N "" -C "" -f /srv/node/key
cp /srv/ca/ca.crt /srv/node
cp /srv/node/key.pub /srv/federation/oak.pub
chmod -R go= /srv/*
for user in "fedback federation" "fedback-gate gate" "fedback-node node" "fedback-site site"; do
    set -- $user; chown -R "$1:" "/srv/$2"
done
# systemd makes it.
rmdir /run/fedback-site
"""

# Between the server's part of the section and the site's, the operator lets the site in.
SERVER, SITE = section(OPERATE, "Services").split("At a site:")

OPERATOR = """
cd /srv/federation
run() {
    runuser -u fedback -- flwr run "$FEDBACK/crates/fedback-py/flower-app" banks --stream \\
        --run-config "spec=\\"/srv/federation/banks.toml\\" \\
        sites=\\"/srv/federation/sites.toml\\" json=\\"/srv/federation/$1.json\\""
    echo "RESULT $(cat "/srv/federation/$1.json")"
}
health() {
    curl --silent --fail --cacert /srv/ca/ca.crt --retry 60 --retry-all-errors --retry-delay 1 \\
        https://127.0.0.1:9400/health
}
health
runuser -u fedback -- flwr supernode register /srv/federation/oak.pub banks --name oak
"""

AFTER = """
reaches() { runuser -u "$1" -- curl --silent --insecure --output /dev/null https://127.0.0.1:9401; }
reaches nobody && echo "before the rule, nobody is the operator"
nft --file "$FEDBACK/crates/fedback-py/deploy/loopback.nft"
reaches fedback && reaches fedback-gate
reaches nobody || reaches fedback-node || echo "after it, the services' users are"
run first
ledger() {
    systemctl stop fedback-site
    echo "LEDGER $(runuser -u fedback-site -- fedback site ledger /srv/site/policy.toml --json)"
    systemctl start fedback-site
}
ledger
for unit in fedback-site fedback-gate fedback-superlink; do
    before=$(systemctl show --value --property MainPID $unit)
    systemctl kill --signal KILL --kill-whom all $unit
    until now=$(systemctl show --value --property MainPID $unit)
        [ "$now" != 0 ] && [ "$now" != "$before" ]; do sleep 0.1; done
    echo "AGAIN $unit $(systemctl is-active $unit)"
done
health
# Flower turns a node away that it still counts as online: it comes and goes for a minute.
systemctl kill --signal KILL --kill-whom all fedback-node
stat -c 'SOCKET %A %U %G' /run/fedback-site /run/fedback-site/oak.sock
runuser -u fedback-node -- cat /srv/site/rows-0.csv || echo "no rows"
"""

END = """
ledger
run second
echo "STATES $(systemctl is-active UNITS | tr '\\n' ' ')"
""".replace("UNITS", " ".join(UNITS))


@pytest.mark.skipif(lacks_systemd() is not None, reason=str(lacks_systemd()))
def test_units_start_come_back_and_carry_a_run(tmp_path):
    for name, text in FILES.items():
        (tmp_path / "files" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "files" / name).write_text(text)
    parts = [
        f"trap 'tail -n 40 /run/services.log /run/boot.log' ERR; set -E; FILES={tmp_path}/files",
        commands(DEPLOY.partition("## Users")[0]),
        commands(section(DEPLOY, "Users")),
        commands(section(DEPLOY, "A certificate authority, and the server's certificate")),
        BEFORE, commands(SERVER), OPERATOR, commands(SITE), AFTER,
        commands(section(OPERATE, "A site's ledger")),
        END,
    ]  # fmt: skip
    done = run(tmp_path, "\n".join(parts), 900, systemd=True)
    printed = done.stdout
    assert done.returncode == 0, printed

    def told(word):
        return re.findall(rf"^{word} (.*)$", printed, re.MULTILINE)

    assert "\nactive\nactive\n" in printed
    assert (
        "\nbefore the rule, nobody is the operator\nafter it, the services' users are\n" in printed
    )
    assert sorted(told("AGAIN")) == sorted(f"{unit} active" for unit in UNITS[:3])
    assert told("STATES")[0].split() == ["active"] * 4
    assert told("SOCKET") == [
        "drwxr-x--- fedback-site fedback-site",
        "srw-rw---- fedback-site fedback-site",
    ]
    assert "cat: /srv/site/rows-0.csv: Permission denied\nno rows\n" in printed
    once, again = (json.loads(text)["final_theta"] for text in told("RESULT"))
    assert once == again and len(once) == 2
    before, after = (json.loads(text) for text in told("LEDGER"))
    assert before == after and before["entries"] > 0
    # What the page's own command prints of the ledger that was put back.
    assert f"{before['entries']} answers, all of them sound\ndigest {before['digest']}" in printed


FULL = """
mount -t tmpfs -o size=400k,mode=755 tmpfs /srv
/opt/fedback/bin/python "$FEDBACK/crates/fedback-py/tests/flower/full_disk.py"
"""


@pytest.mark.skipif(lacks() is not None, reason=str(lacks()))
def test_a_site_with_a_full_disk_refuses_and_tells_nothing_that_is_not_in_its_ledger(tmp_path):
    done = run(tmp_path, FULL, 120)
    assert done.returncode == 0, done.stdout
    found = json.loads(done.stdout.splitlines()[-1])
    assert "cannot be written" in found["log"] and "full" in found["log"]
    assert "the site's log says why" in found["told"]
    assert found["entries"][0] == found["entries"][1]
    assert found["same bits"] and found["entries"][2] > found["entries"][1]
