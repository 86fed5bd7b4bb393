"""What an operator reads, and what a silent node costs."""

import json
import logging
import re
import time
from pathlib import Path

import numpy as np
import pytest
import test_runs
from test_transport import absent, connect, events, grid, order, pairs, spec  # noqa: F401

import fedback
from fedback.flower import journal
from fedback.flower.roster import Roster
from fedback.flower.server_app import federate
from fedback.flower.transport import Transport


def lines(caplog) -> list[str]:
    return [record.getMessage() for record in caplog.records if hasattr(record, "event")]


def test_a_run_says_its_number_first_and_then_a_line_a_round(place, caplog):
    spec = place("long")  # noqa: F811
    with caplog.at_level(logging.INFO):
        run = federate(test_runs.grid(spec, ""), test_runs.settings(spec))
    said = lines(caplog)
    assert f"fedback: begins, run {run.id} in {spec.with_name('fedback.db')}" == said[1]
    rounds = [line for line in said if line.startswith("round ")]
    for number, line in enumerate(rounds, 1):
        pattern = (
            rf"round {number} of 3: (\d) of \1 clients answered; θ moved by [\d.e-]+; [\d.]+ s"
        )
        assert re.fullmatch(pattern, line), line
    assert len(rounds) == 3 and said[-2].startswith("fedback: done, run 1")


def test_the_movement_is_that_of_the_models(place, caplog):
    spec = place("long")  # noqa: F811
    scaffold = "algorithm.kind=scaffold; rounds=1"  # what is sent with θ does not count
    with caplog.at_level(logging.INFO):
        run = federate(test_runs.grid(spec, scaffold), test_runs.settings(spec, scaffold))
        longer = scaffold.replace("1", "2")
        federate(test_runs.grid(spec, longer), test_runs.settings(spec, longer))
    said = [record for record in caplog.records if getattr(record, "event", "") == "round"]
    moved = [record.fields["moved"] for record in said]
    start = np.zeros_like(run.final_theta)
    assert moved[0] == moved[1] == np.linalg.norm(run.final_theta - start, axis=1).mean()
    assert moved[2] != moved[1]


def lost(spec):  # noqa: F811
    """A run whose node 13 has missed a deadline, and which would wait long for another."""
    loop = grid(spec)
    run = connect(loop)
    run.ask(order(spec))
    events(run)
    loop.dead = {13}
    run.ask(order(spec, round=1))
    events(run)
    run.deadline = 60.0
    return loop, run


def test_a_silent_node_costs_one_deadline_and_no_more(spec, caplog):  # noqa: F811
    loop, run = lost(spec)
    started = time.monotonic()
    for round in range(2, 12):
        for _ in range(2):  # the server asks once more for those who are absent
            run.ask(order(spec, round=round))
            reason = absent(events(run))[2]
            assert reason == "node 13 (site-13) missed a deadline, and is not waited for"
    assert time.monotonic() - started < 20
    assert caplog.text.count("node 13 (site-13) is late in round 2") == 1
    sent = [m.metadata for m in loop.seen if m.metadata.dst_node_id == 13]
    assert [one.message_type for one in sent] == ["query", "train", "train", "query"]


def test_it_is_back_as_soon_as_it_says_anything(spec, caplog):  # noqa: F811
    loop, run = lost(spec)
    run.ask(order(spec, round=2))
    events(run)
    asked = [m for m in loop.seen if m.metadata.dst_node_id == 13][-1]
    loop.dead = set()
    loop.reply(asked.metadata.message_id, 13, asked)
    with caplog.at_level(logging.INFO):
        run.ask(order(spec, round=3))
        assert (0, 2) in pairs(events(run))
    assert "node 13 (site-13) is back" in caplog.text
    assert not run._roster.twice()


def test_at_the_start_a_node_that_flower_gives_up_may_still_come_back(spec):  # noqa: F811
    loop = grid(spec)
    loop.answers[13] = lambda message, context: "Node Unavailable"
    look, looks = loop.get_nodes, []

    def later():
        looks.append(1)
        if len(looks) == 3:
            loop.activated[13] = "2"
            del loop.answers[13]
        return look()

    loop.get_nodes = later
    run = Transport(loop, fedback.__version__, 60.0, 0.2)
    run.ask(order(spec))
    assert len(pairs(events(run))) == 5


def test_one_that_comes_and_does_not_answer_costs_one_deadline_too(spec):  # noqa: F811
    loop, run = lost(spec)
    run.deadline = 0.2
    del loop.nodes[13]
    loop.nodes[14], loop.activated[14] = {"clients": "2"}, "2"
    loop.dead = {14}
    run.ask(order(spec, round=2))
    events(run)
    run.deadline = 60.0
    started = time.monotonic()
    run.ask(order(spec, round=3))
    assert absent(events(run)) == {2: "no node holds it"}
    assert time.monotonic() - started < 20


def test_one_that_is_always_late_is_asked_ever_more_seldom():
    roster = Roster("plan")
    asked = []
    for round in range(40):
        roster.round = round
        if roster.well(1):
            asked.append(round)
            roster.missed(1)
            roster.missed(1)  # the round is asked again
        roster.heard(1)
    assert asked == [0, 1, 3, 7, 15, 31]
    roster.round = 63
    roster.worked(1)
    assert roster.well(1)


def test_late_updates_are_no_warnings_and_bad_ones_are(place, caplog):
    set = "algorithm.scheme=first-arrivals; algorithm.cohort=2; rounds=3"
    spec = place("gaussian")  # noqa: F811
    with caplog.at_level(logging.INFO):
        federate(test_runs.grid(spec, set), test_runs.settings(spec, set))
    late = [record for record in caplog.records if getattr(record, "event", "") == "refused"]
    assert late and all(record.levelname == "INFO" for record in late), late


def test_of_first_arrivals_everybody_is_asked_again_and_late_is_no_warning(spec, caplog):  # noqa: F811
    loop = grid(spec)
    run = Transport(loop, fedback.__version__, 0.2, 0.2, first_arrivals=True)
    run.ask(order(spec))
    events(run)
    loop.dead = {13}
    with caplog.at_level(logging.INFO):
        for round in (1, 2, 3):
            run.ask(order(spec, round=round))
            events(run)
    sent = [m.metadata.message_type for m in loop.seen if m.metadata.dst_node_id == 13]
    assert sent == ["query"] + 4 * ["train"]
    late = [r.levelname for r in caplog.records if getattr(r, "event", "") == "late"]
    assert late == 3 * ["INFO"]


def test_an_update_of_another_round_is_no_warning(spec, caplog):  # noqa: F811
    run = connect(grid(spec))
    run.ask(order(spec, round=5))
    run._handed = 4
    with caplog.at_level(logging.INFO):
        run.refused(0, 2, "the update is for round 4, open is round 5")
        run._handed = 5
        run.refused(0, 2, "coordinate 0 of the update is not a finite number")
    levels = [r.levelname for r in caplog.records if getattr(r, "event", "") == "refused"]
    assert levels == ["INFO", "WARNING"]


@pytest.fixture
def logger():
    """The logger, which is afterwards as it was."""
    logger = journal.logger
    held = logger.handlers, logger.propagate, logger.level
    yield logger
    logger.handlers, logger.propagate = held[:2]
    logger.setLevel(held[2])


def test_lines_of_json_have_the_fields_that_the_reference_lists(place, logger, reference, capsys):
    spec = place("gaussian")  # noqa: F811
    journal.as_json()
    run = federate(test_runs.grid(spec, ""), test_runs.settings(spec))
    lines = map(json.loads, capsys.readouterr().out.splitlines())
    said = [line for line in lines if line["event"] != "note"]  # a site's are no events
    row = re.compile(r"^\| `([a-z-]+)` \| [a-z, ]+ \| (.*?) \| .* \|$", re.MULTILINE)
    table = row.findall(reference("flower.md"))
    known = {event: set(re.findall(r"`([a-z]+)`", fields)) for event, fields in table}
    known["time"] = known["done"]
    for line in said:
        assert set(line) == {"time", "level", "event", "text"} | known[line["event"]], line
    last = [line for line in said if line["event"] == "round"][-1]
    assert last["rounds"] == last["round"] == 2 and last["answered"] == last["asked"]
    assert said[-2]["run"] == run.id


def test_every_event_is_in_the_reference(reference):
    folder = Path(fedback.__file__).parent / "flower"
    text = "".join(file.read_text() for file in folder.glob("*.py"))
    used = set(re.findall(r'(?:say|warn|tell|_tell)\(\s*"([a-z-]+)"', text))
    listed = set(
        re.findall(r"^\| `([a-z-]+)` \| (?:info|warning|error)", reference("flower.md"), re.M)
    )
    assert used == listed
