"""Sites that decide for themselves: a service of the command, asked by whatever runs at a node."""

import json
import socket
import struct
import threading

import numpy as np
import pytest
from loopback import Loopback
from results import in_memory
from services import SPEC, Service, together

import fedback
from fedback.flower import relay
from fedback.flower.messages import BadMessage, Census, Order, Refusal
from fedback.flower.roster import Refused
from fedback.flower.server_app import federate
from fedback.flower.settings import RunSettings


@pytest.fixture
def sites(tmp_path):
    """Three sites, each with its own process; how to make them, and their end."""
    made = []

    def make(**options):
        made.extend(Service(tmp_path, client, **options) for client in range(3))
        return made

    yield make
    for service in made:
        service.end()


def grid(services, spec, **config):
    nodes = {n + 1: {"site": service.socket} for n, service in enumerate(services)}
    return Loopback({"spec": str(spec), **config}, nodes)


@pytest.fixture
def spec(tmp_path):
    (tmp_path / "banks.toml").write_text(SPEC)
    return tmp_path / "banks.toml"


def run(services, spec, **config):
    settings = RunSettings.read({"spec": str(spec), "deadline": 5.0, "wait": 2.0, **config})
    return federate(grid(services, spec, **config), settings)


def test_the_bits_are_those_of_one_table_and_a_second_run_costs_no_answer(sites, spec, tmp_path):
    services = sites()
    found = run(services, spec)
    assert found.final_theta.tolist() == in_memory(together(tmp_path))["final_theta"]
    # Three rounds of two repetitions, two sums, and what all sums came to.
    spent = [json.loads(json_of(service))["entries"] for service in services]
    assert spent == [9, 9, 9]
    for service in services:
        service.process.kill()
        service.start()
    again = run(services, spec)
    assert again.final_theta.tolist() == found.final_theta.tolist()
    assert [json.loads(json_of(service))["entries"] for service in services] == spent


def json_of(service) -> str:
    """The ledger, while nobody holds it."""
    service.process.stop()
    told = service.command("ledger", "--json").stdout
    service.start()
    return told


ATTACKS = {
    "problem.base={kind='sites',features=['ssn']}": "problem.base is not the operator's",
    "problem.base.features=['ssn']": "problem.base.features is not the operator's",
    "algorithm.batch=1; algorithm.local_steps=1": "algorithm.batch is not the operator's",
    "algorithm.clip=1e9": "algorithm.clip is not the operator's",
    "seed=6": "seed may be 0 to 5",
}


def test_what_the_operator_sets_beyond_the_policy_is_refused_and_logged(sites, spec):
    services = sites(plan="vary = { seed = [0, 5] }")
    for change, why in ATTACKS.items():
        with pytest.raises(Refused, match="refused|no node counts|node") as refused:
            run(services, spec, set=change)
        assert why in str(refused.value), (change, str(refused.value))
        assert why in services[0].log()
    assert run(services, spec, set="seed=4").final_theta.shape == (2, 3)


def test_a_site_that_has_said_enough_says_no_more(sites, spec):
    services = sites(plan="vary = { seed = [0, 99] }", answers=6)
    for seed in range(9):
        run(services, spec, set=f"seed={seed}")
    # 2 sums, what all came to, and 9 · 6 updates are 57 of 60.
    with pytest.raises(fedback.RunError, match="all 60 answers of this site are given"):
        run(services, spec, set="seed=9", attempts=0)


def test_an_app_of_the_operators_own_gets_no_further(sites, spec):
    service = sites()[1]
    order = Order(
        version="x", plan_hash="0" * 64, round=0, step=0,
        stream_key=np.array([5], dtype=np.uint64), theta=np.zeros((2, 3)),
        repetitions=np.array([0], dtype=np.uint32), clients=np.array([1], dtype=np.uint32),
        rows=np.array([40, 40, 40], dtype=np.uint64),
        sums=np.array([[0.5, 5000.0], [0.3, 2400.0]]),
    )  # fmt: skip
    answer = relay.ask(service.socket, order, [])
    assert isinstance(answer, Refusal) and answer.reason.startswith("the plan here is")
    for frame in [
        b"\xff\xff\xff\xff",
        struct.pack("<I", 12) + b"not any JSON",
        header({"fields": {"kind": "order"}, "arrays": [["theta", "<f8", [1 << 60, 8]]]}),
        header({"fields": {"kind": "order"}, "arrays": [["theta", "<f8", [1 << 24, 8]]]}),
        header({"fields": {"kind": "rows"}, "arrays": []}),
        header({"fields": {"kind": "census", "rows": "please"}, "arrays": []}),
        header({"fields": {"kind": "\x1b[2J\nroot logged in"}, "arrays": []}),
    ]:
        with socket.socket(socket.AF_UNIX) as caller:
            caller.connect(service.socket)
            caller.sendall(frame)
            answer = relay.unpack(caller.makefile("rb"))
        assert isinstance(answer, Refusal), answer
    assert "\x1b" not in service.log()
    assert not service.process.ended


def test_an_order_that_is_too_large_is_refused_with_the_reason(sites, monkeypatch):
    """A site takes 16 MiB, and hangs up on the rest: that is no reason to ask again."""
    monkeypatch.setattr(relay, "RETURN", 0.0)
    service = sites()[0]
    order = Order(
        version="x", plan_hash="0" * 64, round=0, step=0,
        stream_key=np.array([5], dtype=np.uint64), theta=np.zeros((1000, 3000)),
        repetitions=np.array([0], dtype=np.uint32), clients=np.array([0], dtype=np.uint32),
    )  # fmt: skip
    answer = relay.ask(service.socket, order, [])
    assert isinstance(answer, Refusal)
    assert answer.reason == "the question is more than 16777216 bytes"


def test_a_node_waits_for_a_service_that_is_started_again(tmp_path, monkeypatch):
    question, path = Census(version="x"), str(tmp_path / "site.sock")
    fields = {"kind": "refusal", "version": "x", "reason": "no"}
    heard = []

    def serve():
        # Gone before it is asked, gone in the middle of an answer, and back.
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(path)
            listener.listen()
            for reply in [b"", b"\x40\0\0", header({"fields": fields, "arrays": []})]:
                caller, _ = listener.accept()
                with caller:
                    heard.append(caller.recv(1 << 16))
                    caller.sendall(reply)

    started = threading.Thread(target=serve)
    monkeypatch.setattr(relay.time, "sleep", lambda _: started.ident or started.start())
    said = relay.ask(path, question, [])
    started.join(30)
    assert said.reason == "no"
    assert heard == [relay.pack(question, [])] * 3


def test_a_node_waits_where_others_stand_in_line(tmp_path, monkeypatch):
    path = str(tmp_path / "site.sock")
    fields = {"kind": "refusal", "version": "x", "reason": "no"}
    with socket.socket(socket.AF_UNIX) as listener, socket.socket(socket.AF_UNIX) as before:
        listener.bind(path)
        listener.listen(0)
        before.connect(path)

        def serve():
            for _ in range(2):
                caller, _ = listener.accept()
                with caller:
                    caller.sendall(header({"fields": fields, "arrays": []}))
                    caller.recv(1 << 16)

        started = threading.Thread(target=serve, daemon=True)
        monkeypatch.setattr(relay.time, "sleep", lambda _: started.ident or started.start())
        before.sendall(b"x")
        assert relay.ask(path, Census(version="x"), []).reason == "no"


def test_the_log_of_questions_that_nobody_answers_is_bounded(sites):
    service = sites()[0]
    question = relay.pack(Census(version="x"), ["algorithm.batch=1"])
    with socket.socket(socket.AF_UNIX) as caller:
        caller.connect(service.socket)
        replies = caller.makefile("rb")
        for _ in range(1200):
            caller.sendall(question)
            assert isinstance(relay.unpack(replies), Refusal)
    service.process.stop()
    lines = [json.loads(line) for line in service.log().splitlines() if line.startswith("{")]
    refused = sum(line["event"] == "refused" for line in lines)
    left_out = sum(line.get("questions", 0) for line in lines if line["event"] == "left-out")
    assert 1000 <= refused < 1200 and refused + left_out == 1200


def test_a_service_that_stays_away_is_an_absence_with_a_reason(tmp_path, monkeypatch):
    monkeypatch.setattr(relay, "RETURN", 0.0)
    with pytest.raises(BadMessage, match="service does not answer .FileNotFoundError"):
        relay.ask(str(tmp_path / "site.sock"), Census(version="x"), [])


def header(value) -> bytes:
    text = json.dumps(value).encode()
    return struct.pack("<I", len(text)) + text


def test_rows_are_for_the_service_alone(sites):
    service = sites()[0]
    table = next(service.folder.glob("rows-*.csv"))
    assert service.command("check").returncode == 0
    service.process.stop()
    table.chmod(0o644)
    told = service.command("serve")
    assert told.returncode == 2 and "others than its owner may use it" in told.stderr
    assert "chmod 600" in service.command("check").stdout
    table.chmod(0o600)
    (service.folder / "site.ledger").rename(service.folder / "elsewhere")
    assert "there is no ledger" in service.command("serve").stderr
    (service.folder / "elsewhere").rename(service.folder / "site.ledger")
    service.start()
