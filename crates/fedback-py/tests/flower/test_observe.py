"""Sites that observe behind a service of their own: policy, ledger and function on one side of a
socket, what Flower starts on the other."""

import json
import os
import re
import signal
import sys

import pytest
from loopback import Loopback
from services import NAMES, Service

import fedback
from fedback.flower.server_app import federate
from fedback.flower.settings import RunSettings
from fedback.observe import NoFunction, function

SPEC = """
format = 1
name = "loans"
seed = 5
repetitions = 2
rounds = 3

[problem]
clients = 3

[problem.base]
kind = "custom"
dim = 3
intercept = true

[problem.loss]
kind = "logistic"
l2 = 0.01

[algorithm]
kind = "p-fedavg"
scheme = "full"
local_steps = 3
batch = 12
deploy = "round"
step_size = { constant = 0.2 }
clip = 0.6

[measure]
distance = false
risk = false
"""

POLICY = """
name = "{name}"
clients = [{client}]
observe = ["{python}", "-m", "fedback.observe", "observe.py:observe"]
socket = "site.sock"
ledger = "site.ledger"

[plan]
spec = "loans.toml"
vary = {{ seed = [0, 9] }}

[limits]
rows = 5
answers = 30
answers_in_all = 60
clip = 1.0
theta = 50.0
"""

FUNCTION = '''
import os
import signal
from pathlib import Path

import numpy as np

FOLDER = Path(__file__).parent
ROWS = np.loadtxt(FOLDER / "rows.csv", delimiter=",")
print("on standard output, which is not for it")


def observe(theta, n, rng):
    """The rows of the folder, as they react; a file `mode` says what goes wrong."""
    print("observes", n)
    os.write(1, b"past Python's own buffers\\n")
    mode = FOLDER / "mode"
    wrong = mode.read_text() if mode.exists() else ""
    if wrong == "killed":
        mode.unlink()
        os.kill(os.getpid(), signal.SIGKILL)
    rows = ROWS[rng.choice(len(ROWS), size=n, replace=False)]
    if wrong == "few":
        rows = ROWS[np.arange(n) % 4]
    if wrong == "short":
        rows = rows[1:]
    if wrong == "labels":
        rows[0, 2] = 0.5
    if wrong == "infinite":
        rows[0, 0] = np.inf
    if wrong == "raises":
        raise KeyError("account 900017 of jane doe")
    if wrong == "words":
        return "nonsense"
    return rows[:, :2] - 0.3 * theta[:2], rows[:, 2]
'''


def rows(client: int, count: int = 120) -> str:
    """A client's rows: a share, an income in thousands, whether they defaulted."""

    def row(k: int) -> str:
        share = ((k * 7919 + client * 31) % 1009) / 1009
        income = 1 + ((k * 104729 + client * 977) % 1013) / 100
        return f"{share:.4f},{income},{int((k * 13 + client) % 5 < 2)}"

    return "\n".join(row(k) for k in range(count))


class Observing(Service):
    """A site in a folder of its own, with a function."""

    def __init__(self, folder, client: int, spec: str):
        policy = POLICY.format(name=NAMES[client], client=client, python=sys.executable)
        files = {
            "site.toml": policy,
            "loans.toml": spec,
            "observe.py": FUNCTION,
            "rows.csv": rows(client),
        }
        self._begin(folder / NAMES[client], files)
        self.client = client

    def start(self) -> None:
        log = self.folder / "log.txt"
        self._before = len(log.read_text()) if log.exists() else 0
        super().start()

    def _ready(self) -> bool:
        # The program may have said something after the service has.
        assert not self.process.ended, self.process.text()
        return '"listening"' in self.process.text()[self._before :]

    def goes(self, mode: str) -> None:
        """What goes wrong from now on."""
        (self.folder / "mode").write_text(mode)

    def answers(self) -> int:
        """Entries of the ledger, by the last line that has them."""
        lines = [json.loads(line) for line in self.log().splitlines() if line.startswith("{")]
        return [line["entries"] for line in lines if "entries" in line][-1]


@pytest.fixture
def sites(tmp_path):
    """Three sites, each with its own processes; how to make them, and their end."""
    made = []

    def make(spec=SPEC):
        (tmp_path / "loans.toml").write_text(spec)
        made.extend(Observing(tmp_path, client, spec) for client in range(3))
        return made

    yield make
    for service in made:
        service.end()


def run(services, node, **config):
    """A run with a node for each site, whose config is said."""
    spec = str(services[0].folder.parent / "loans.toml")
    nodes = {n + 1: node(service) for n, service in enumerate(services)}
    settings = RunSettings.read({"spec": spec, "deadline": 5.0, "wait": 2.0, **config})
    return federate(Loopback({"spec": spec, **config}, nodes), settings)


def behind(service):
    """A node that has a socket and nothing else."""
    return {"site": service.socket}


def in_process(service):
    """A node that calls the function itself."""
    return {"clients": str(service.client), "observe": f"{service.folder}/observe.py:observe"}


@pytest.mark.parametrize("deploy", ["round", "step"])
def test_the_bits_are_those_of_a_function_in_the_nodes_process(sites, deploy):
    services = sites(SPEC.replace('deploy = "round"', f'deploy = "{deploy}"'))
    inside = run(services, in_process, store="none").final_theta.tolist()
    found = run(services, behind, store="none").final_theta.tolist()
    assert found == inside
    assert [service.answers() for service in services] == [6, 6, 6]
    # Asked again, the ledger answers.
    for service in services:
        service.goes("raises")
    assert run(services, behind, store="none").final_theta.tolist() == inside
    assert [service.answers() for service in services] == [6, 6, 6]
    for line in ("on standard output, which is not for it", "past Python's own buffers"):
        services[0].process.says(line)


def test_few_rows_are_refused(sites):
    services = sites()
    services[1].goes("few")
    with pytest.raises(fedback.RunError, match="a step would rest on fewer than 5 different rows"):
        run(services, behind, minimum=3, attempts=0)


def test_a_program_that_is_killed_comes_back_to_the_same_bits(sites):
    services = sites()
    inside = run(services, in_process, store="none").final_theta.tolist()
    # In the middle of an order, and while nobody asks.
    services[0].goes("killed")
    (process,) = re.findall(r'"program-started","process":(\d+)', services[2].log())
    os.kill(int(process), signal.SIGKILL)
    assert run(services, behind, store="none").final_theta.tolist() == inside
    for service in (services[0], services[2]):
        assert service.log().count('"program-started"') == 2
        assert "signal: 9" in service.log()
    assert services[1].log().count('"program-started"') == 1


NONSENSE = {
    "short": "ValueError: draw returned labels of shape",
    "labels": "draw returned labels other than 0 and 1",
    "infinite": "draw returned a number that is not finite",
    "words": "draw returned a str; needed: (features, labels)",
    "raises": "account 900017 of jane doe",
}


def test_what_a_function_gets_wrong_stays_at_its_site(sites):
    services = sites()
    for mode, why in NONSENSE.items():
        services[1].goes(mode)
        with pytest.raises(fedback.RunError) as failed:
            run(services, behind, store="none", minimum=3, attempts=0)
        told = str(failed.value)
        assert "the site could not observe; the site's log says why" in told
        assert "draw" not in told and "jane" not in told
        services[1].process.says(why)
        assert services[1].answers() == 0
    services[1].goes("")
    run(services, behind, store="none")


def test_a_service_ends_its_program(sites):
    service = sites()[0]
    (process,) = re.findall(r'"program-started","process":(\d+)', service.log())
    service.process.stop()
    assert "program-ended" in service.log()
    with pytest.raises(ProcessLookupError):
        os.kill(int(process), 0)


def test_a_function_that_others_may_change_is_not_called(sites):
    service = sites()[0]
    told = service.command("check").stdout
    assert "client 0 is observed by the site's program: 12 rows for a local step" in told
    assert "180 numbers in all" in told
    service.process.stop()
    (service.folder / "observe.py").chmod(0o622)
    refused = service.command("serve")
    assert refused.returncode == 2 and "others than its owner may change it" in refused.stderr
    assert "chmod go-w" in service.command("check").stdout


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("observe", "observe is 'observe'; give module:function"),
        ("/nowhere/site.py:observe", "observe names /nowhere/site.py, which is not there"),
        ("json:observe", "json has no function observe"),
    ],
)
def test_a_function_that_is_not_there_is_named(name, words):
    with pytest.raises(NoFunction, match=words):
        function(name)
