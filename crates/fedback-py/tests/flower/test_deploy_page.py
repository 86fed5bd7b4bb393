"""docs/how-to/deploy.md, typed in: three banks whose rows are behind services of their own, as
users without rights, behind the gate. Then an app of the operator's own looks for the rows. Then
docs/how-to/drill.md: every part killed, and the same bits."""

import json
import re

import pytest
from deployment import commands
from machine import ROOT, lacks, run

PAGES = ROOT / "docs/how-to"
APP = "$FEDBACK/crates/fedback-py/tests/flower/intruder-app"

INTRUDER = f"""
cd /srv/federation
runuser -u fedback -- flwr run "{APP}" banks --stream --run-config "found=\\"$PWD/found.json\\""
echo "FOUND $(cat found.json)"
"""

SEEN = """
for pid in /run/*.pid; do
    name=$(basename "$pid" .pid)
    [ "$name" = again ] || echo "USER $name $(stat -c %U "/proc/$(cat "$pid")")"
done
echo "SOCKET $(stat -c '%A %U %G' /run/fedback-site /run/fedback-site/oak.sock | tr '\\n' ' ')"
echo "RESULT $(cat /srv/federation/result.json)"
"""

pytestmark = pytest.mark.skipif(lacks() is not None, reason=str(lacks()))


@pytest.fixture(scope="module")
def printed(tmp_path_factory):
    """What the pages' commands print, and those of the operator's own app between them."""
    page, heading, end = (PAGES / "deploy.md").read_text().partition("## The end\n")
    drill = (PAGES / "drill.md").read_text()
    parts = [commands(page), SEEN, INTRUDER, commands(drill), commands(heading + end)]
    done = run(tmp_path_factory.mktemp("page"), "\n".join(parts), 900)
    assert done.returncode == 0, done.stdout
    return done.stdout


def told(printed: str, word: str) -> list[str]:
    return re.findall(rf"^{word} (.*)$", printed, re.MULTILINE)


def test_what_the_page_shows_is_what_happens(printed):
    shown = re.findall(r"^```sh\n[^`]*^```\n\n```text\n(.*?)^```", page(), re.MULTILINE | re.DOTALL)
    assert len(shown) == 2
    for text in shown:
        assert text in printed, printed


def page() -> str:
    return (PAGES / "deploy.md").read_text()


def test_sites_are_known_strangers_are_not_and_the_bits_are_those_of_one_table(printed):
    assert "turned away\n404\n" in printed, printed
    assert "any registered node" not in printed
    assert re.search(r"node \d+ \(oak\) holds client 0, 1", printed), printed
    assert "fedback: done, run 1 " in printed and "\nthe same bits\n" in printed, printed
    assert len(json.loads(told(printed, "RESULT")[0])["final_theta"]) == 2


def test_every_part_has_a_user_of_its_own(printed):
    users = dict(line.split() for line in told(printed, "USER"))
    sites = [f"{site}-{part}" for site in ("oak", "elm", "ash") for part in ("node", "site")]
    assert users == {"superlink": "fedback", "gate": "fedback-gate"} | {
        name: f"fedback-{name[4:]}" for name in sites
    }
    socket = "drwxr-x--- fedback-site fedback-site srw-rw---- fedback-site fedback-site"
    assert told(printed, "SOCKET")[0].split() == socket.split()


def test_an_app_of_the_operators_own_gets_what_the_policy_allows_and_no_more(printed):
    nodes = json.loads(told(printed, "FOUND")[0])
    assert sorted(found["site"] for found in nodes) == ["ash", "elm", "oak"]
    for found in nodes:
        assert found["user"] == "fedback-node"
        assert len(found["files"]) == 11 and set(found["files"].values()) == {"PermissionError"}
        assert len(found["service"]) == 9 and set(found["service"].values()) == {"PermissionError"}
        asked = found["asked"]
        # Sums are what a census asks for; those about another mean follow from the run's own two.
        for sums in ("sums", "sums about another mean"):
            assert asked.pop(sums)["numbers"] == ["clients", "rows", "sums"]
        assert {said["kind"] for said in asked.values()} == {"Refusal"}, asked
        assert not any(said["numbers"] for said in asked.values())
        assert "is not the operator's to set" in asked["a batch of one"]["reason"]


def test_the_drill_ends_in_the_same_bits(printed):
    assert "fedback: done, run 2 " in printed
    assert "\nthe same bits again\n" in printed
