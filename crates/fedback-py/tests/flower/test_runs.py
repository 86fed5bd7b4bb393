"""Whole runs over the app, without Flower's processes: every kind of spec has the bits of a run
in memory."""

import pytest
from loopback import Loopback
from results import in_memory, numbers

import fedback
from fedback.flower.server_app import federate
from fedback.flower.settings import RunSettings, overrides, values

WITH = "algorithm.scheme=with-replacement; algorithm.cohort=4"
WITHOUT = "algorithm.scheme=without-replacement; algorithm.cohort=2"

VARIANTS = {
    "full": ("full", "rounds=5"),
    "with replacement": ("gaussian", f"rounds=5; {WITH}"),
    "without replacement": ("gaussian", f"rounds=5; {WITHOUT}"),
    "deployed once a round": ("gaussian", f"rounds=5; {WITHOUT}; algorithm.deploy=round"),
    "iterates": ("gaussian", f"rounds=5; {WITHOUT}; algorithm.aggregate=iterates"),
    "scaled objectives": ("gaussian", f"rounds=5; {WITHOUT}; algorithm.scale_objectives=true"),
    "one repetition": ("gaussian", "repetitions=1; rounds=3"),
    "a large seed": ("gaussian", "seed=9223372036854775807"),
    "a table": ("table", "rounds=4"),
    "a table, deployed at every step": ("table", "algorithm.deploy=step; algorithm.cohort=1"),
    "a table, with replacement": ("table", f"rounds=4; {WITH}; measure.consensus=false"),
}


def grid(spec, set, nodes=2):
    places = {i + 1: {"partition-id": i, "num-partitions": nodes} for i in range(nodes)}
    return Loopback({"spec": str(spec), "set": set}, places)


def settings(spec, set="", **more):
    return RunSettings.read({"spec": str(spec), "set": set, "deadline": 5.0, **more})


@pytest.mark.parametrize("name", VARIANTS)
def test_a_run_has_the_bits_of_the_one_in_memory(place, name):
    file, set = VARIANTS[name]
    spec = place(file)
    run = federate(grid(spec, set), settings(spec, set))
    alone = in_memory(spec, set=values(overrides(set)))
    assert numbers(run.to_dict()) == alone
    stored = fedback.load(run.id, store=spec.with_name("fedback.db"))
    assert numbers(stored.to_dict()) == alone
    assert fedback.runs(spec.with_name("fedback.db"))[0]["state"] == "done"


def test_nodes_do_not_matter(place):
    spec = place("gaussian")
    found = [
        numbers(federate(grid(spec, "", nodes), settings(spec, store="none")).to_dict())
        for nodes in (1, 3, 5)
    ]
    assert found[0] == found[1] == found[2]


class Cut(Exception):
    """The cable."""


def test_a_run_that_was_cut_is_resumed_to_the_same_bits(place):
    spec = place("long")
    broken = grid(spec, "")
    push = broken.push_messages

    def cut(messages):
        if any(message.metadata.group_id == "1" for message in messages):
            raise Cut
        return push(messages)

    broken.push_messages = cut
    with pytest.raises(Cut):
        federate(broken, settings(spec))
    store = spec.with_name("fedback.db")
    (interrupted,) = fedback.runs(store)
    assert interrupted["state"] == "interrupted" and interrupted["round"] == 1
    run = federate(grid(spec, ""), settings(spec, resume=interrupted["id"]))
    assert run.id == interrupted["id"] and run.resumed_from == 1
    assert numbers(run.to_dict()) == in_memory(spec)


def test_too_few_clients_end_the_run_and_it_says_so(place):
    spec = place("full")
    short = grid(spec, "")
    short.answers[2] = lambda message, context: (
        "the disk is full"
        if message.metadata.message_type == "train"
        else short_app(message, context)
    )
    with pytest.raises(fedback.RunError, match="the disk is full"):
        federate(short, settings(spec, minimum=5, attempts=0))
    run = federate(short, settings(spec, minimum=3, attempts=0))
    assert numbers(run.to_dict()) != in_memory(spec)


def short_app(message, context):
    from fedback.flower.client_app import app

    return app(message, context)


def test_first_arrivals_close_a_round_and_are_replayed(place):
    spec = place("gaussian")
    set = "rounds=4; algorithm.scheme=first-arrivals; algorithm.cohort=2"
    federate(grid(spec, set), settings(spec, set))
    assert fedback.replay(1, store=spec.with_name("fedback.db"))[1]
