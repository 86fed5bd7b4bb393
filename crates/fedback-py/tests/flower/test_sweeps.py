"""Sweeps, budgets and runs that end by themselves, over the app: the bits of runs in memory."""

import json

import pytest
from loopback import Loopback
from results import in_memory, numbers
from services import SPEC, Service, together
from test_runs import Cut, cut_off, grid, settings, short_app

import fedback
from fedback.flower.roster import Refused
from fedback.flower.server_app import federate
from fedback.flower.settings import BadSetting, RunSettings, overrides, runs, values

SWEEP = "sweep={'algorithm.local_steps'=[1, 4], 'seed'=[7, 8]}"


def test_a_sweep_has_the_bits_of_the_one_in_memory(place, caplog):
    spec = place("gaussian")
    result = spec.with_name("result.json")
    caplog.set_level("INFO")
    found = federate(grid(spec, SWEEP), settings(spec, SWEEP, json=str(result)))
    alone = fedback.run(str(spec), set=values(overrides(SWEEP)))
    assert [numbers(one.to_dict()) for one in found] == [numbers(one.to_dict()) for one in alone]
    assert [one.set for one in found] == [one.set for one in alone]
    assert [run["state"] for run in fedback.runs(spec.with_name("fedback.db"))] == ["done"] * 4
    points = json.loads(result.read_text())["points"]
    assert [point["set"] for point in points] == [one.set for one in alone]
    assert "begins, run 2 in" in caplog.text and "point 2 of the sweep" in caplog.text
    assert "done, runs 1-4 in" in caplog.text
    # A second one may replace its result.
    federate(grid(spec, SWEEP), settings(spec, SWEEP, json=str(result)))


def test_a_sweep_that_was_cut_goes_on_where_it_was(place):
    spec = place("long")
    set = "rounds=3; sweep={'algorithm.local_steps'=[1, 4, 2]}"
    broken = grid(spec, set)
    pushed, push = [], broken.push_messages

    def cut(messages):
        pushed.extend(m for m in messages if m.metadata.group_id == "1")
        if len(pushed) > 3:  # two nodes, the second point
            raise Cut
        return push(messages)

    broken.push_messages = cut
    with pytest.raises(Cut):
        federate(broken, settings(spec, set))
    store = spec.with_name("fedback.db")
    assert [run["state"] for run in fedback.runs(store)] == ["interrupted", "interrupted", "done"]
    with pytest.raises(fedback.InputError, match="resume: found 1 run; the spec has 3"):
        federate(grid(spec, set), settings(spec, set, resume=1))
    found = federate(grid(spec, set), settings(spec, set, resume="1-3"))
    alone = fedback.run(str(spec), set=values(overrides(set)))
    assert [numbers(one.to_dict()) for one in found] == [numbers(one.to_dict()) for one in alone]
    assert [one.id for one in found] == [1, 2, 3]


def test_a_point_may_have_another_scheme(place):
    """What is expected of late nodes, and how long a round waits, is a point's own."""
    spec = place("gaussian")
    set = "sweep={'algorithm.scheme'=['without-replacement', 'first-arrivals']}"
    set += "; algorithm.cohort=2; rounds=3"
    found = federate(grid(spec, set), settings(spec, set))
    assert len(found) == 2
    store = spec.with_name("fedback.db")
    assert fedback.replay(1, store=store)[1] and fedback.replay(2, store=store)[1]


@pytest.mark.parametrize(
    "set",
    ["budget={steps=20}", "rounds=40; until={movement=0.5}; measure.every=2"],
)
def test_budgets_and_ends_are_those_of_memory(place, set):
    spec = place("gaussian")
    if "budget" in set:
        text = spec.read_text()
        lines = [line for line in text.splitlines() if not line.startswith("rounds")]
        spec.write_text("\n".join(lines))
    run = federate(grid(spec, set), settings(spec, set))
    assert numbers(run.to_dict()) == in_memory(spec, set=values(overrides(set)))
    if "until" in set:
        assert 2 < len(run.rounds) < 21
        with pytest.raises(Cut):
            federate(cut_off(grid(spec, set), 3), settings(spec, set))
        again = federate(grid(spec, set), settings(spec, set, resume=2))
        assert numbers(again.to_dict()) == numbers(run.to_dict())


@pytest.mark.parametrize(
    "value, found",
    [(0, None), (7, (7,)), ("7", (7,)), ("7-9", (7, 8, 9)), ("", None), ("3-3", (3,))],
)
def test_runs_to_go_on_with(value, found):
    assert runs({"resume": value}, "resume") == found


@pytest.mark.parametrize("value", ["9-7", "a", "7-", "-7", -1, 1.5, "1-2-3"])
def test_runs_that_are_none(value):
    with pytest.raises(BadSetting, match='give a run, 7, or runs, "7-9"'):
        runs({"resume": value}, "resume")


@pytest.fixture
def sites(tmp_path):
    """Three sites, each with its own process, whose spec has a sweep."""
    # Under one seed both points would draw the same rows, which sites show once.
    spec = SPEC + "\n[sweep]\n'seed, algorithm.step_size.constant' = [[5, 0.2], [6, 0.1]]\n"
    made = [Service(tmp_path, client, spec=spec) for client in range(3)]
    (tmp_path / "banks.toml").write_text(spec)
    yield made
    for service in made:
        service.end()


def at_sites(services, spec, **config):
    nodes = {n + 1: {"site": service.socket} for n, service in enumerate(services)}
    read = RunSettings.read({"spec": str(spec), "deadline": 5.0, "wait": 2.0, **config})
    return federate(Loopback({"spec": str(spec), **config}, nodes), read)


def test_a_site_works_for_the_points_of_its_own_sweep(sites, tmp_path):
    spec = tmp_path / "banks.toml"
    with pytest.raises(BadSetting, match="rows at sites are counted once"):
        at_sites(sites, spec, set="sweep={'problem.base.standardize'=[true, false]}")
    with pytest.raises(Refused, match="sweep is not the operator's to set"):
        at_sites(sites, spec, set="sweep={'algorithm.step_size.constant'=[0.2, 0.1, 0.05]}")
    found = at_sites(sites, spec)
    sweep = {"sweep": {"seed, algorithm.step_size.constant": [[5, 0.2], [6, 0.1]]}}
    alone = fedback.run(str(together(tmp_path)), set=sweep)
    for one, other in zip(found, alone, strict=True):
        assert one.final_theta.tolist() == other.final_theta.tolist()


def test_what_went_wrong_is_in_the_result_and_in_the_store(place):
    spec = place("full")
    shaky = grid(spec, "rounds=6")
    shaky.answers[2] = lambda message, context: (
        "away" if message.metadata.group_id in ("2", "3") else short_app(message, context)
    )
    run = federate(shaky, settings(spec, "rounds=6", attempts=0))
    incidents = run.to_dict()["incidents"]
    assert incidents == fedback.load(1, store=spec.with_name("fedback.db")).to_dict()["incidents"]
    for incident in incidents:
        assert incident["trouble"] == "absent" and "away" in incident["reason"]
        assert (incident["rounds"], incident["first_round"], incident["last_round"]) == (2, 3, 4)
    # Node 2 of two holds the clients with odd numbers.
    assert [incident["client"] for incident in incidents] == ["1", "3"]
