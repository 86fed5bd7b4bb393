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
FEDPROX = "algorithm.kind=fedprox; algorithm.proximal=0.5"
SCAFFOLD = "algorithm.kind=scaffold"
MOMENTUM = "algorithm.kind=fedopt; algorithm.server={kind='momentum', beta=0.5}"
ADAM = "algorithm.kind=fedopt; algorithm.server={kind='adam', rate=0.05}"

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
    "fedprox": ("gaussian", f"rounds=5; {FEDPROX}"),
    "scaffold": ("full", f"rounds=5; {SCAFFOLD}"),
    "scaffold, with replacement": ("gaussian", f"rounds=6; {SCAFFOLD}; {WITH}"),
    "scaffold, scaled": (
        "gaussian",
        f"rounds=6; {SCAFFOLD}; {WITHOUT}; algorithm.scale_objectives=true",
    ),
    "scaffold, a table": ("table", f"rounds=4; {SCAFFOLD}; algorithm.batch=all"),
    "momentum": ("gaussian", f"rounds=5; {MOMENTUM}"),
    "adam": ("table", f"rounds=4; {ADAM}"),
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


def cut_off(grid, round):
    """A grid that breaks when it is to carry the orders of a round."""
    push = grid.push_messages

    def cut(messages):
        if any(message.metadata.group_id == str(round) for message in messages):
            raise Cut
        return push(messages)

    grid.push_messages = cut
    return grid


def test_a_run_that_was_cut_is_resumed_to_the_same_bits(place):
    spec = place("long")
    with pytest.raises(Cut):
        federate(cut_off(grid(spec, ""), 1), settings(spec))
    store = spec.with_name("fedback.db")
    (interrupted,) = fedback.runs(store)
    assert interrupted["state"] == "interrupted" and interrupted["round"] == 1
    run = federate(grid(spec, ""), settings(spec, resume=interrupted["id"]))
    assert run.id == interrupted["id"] and run.resumed_from == 1
    assert numbers(run.to_dict()) == in_memory(spec)


@pytest.mark.parametrize("kind", [SCAFFOLD, ADAM])
def test_state_outlives_server_and_nodes(place, kind):
    """The server is cut off in a round; when it comes back, other nodes hold the clients. What
    they keep went with the server's state."""
    spec = place("long")
    set = f"rounds=6; {kind}; {WITH}"
    with pytest.raises(Cut):
        federate(cut_off(grid(spec, set), 3), settings(spec, set))
    run = federate(grid(spec, set, nodes=3), settings(spec, set, resume=1))
    assert run.resumed_from == 3
    assert numbers(run.to_dict()) == in_memory(spec, set=values(overrides(set)))
    assert fedback.replay(1, store=spec.with_name("fedback.db"))[1]


def test_an_absent_client_keeps_its_state(place):
    """A node fails in one round and is done without; the run is replayed to the same bits."""
    spec = place("full")
    set = f"rounds=6; {SCAFFOLD}"
    shaky = grid(spec, set)
    shaky.answers[2] = lambda message, context: (
        "away" if message.metadata.group_id in ("2", "3") else short_app(message, context)
    )
    run = federate(shaky, settings(spec, set, attempts=0))
    assert numbers(run.to_dict()) != in_memory(spec, set=values(overrides(set)))
    assert fedback.replay(1, store=spec.with_name("fedback.db"))[1]


def test_what_clients_keep_is_checked(place):
    """An update whose rows of state are missing, or too long, is not believed."""
    spec = place("full")
    set = f"rounds=2; {SCAFFOLD}"

    def forgetful(message, context):
        reply = short_app(message, context)
        if message.metadata.message_type == "train":
            del reply.content["array"]["kept"]
        return reply

    lying = grid(spec, set)
    lying.answers[2] = forgetful
    with pytest.raises(fedback.RunError, match="numbers that the client keeps, needed are 3"):
        federate(lying, settings(spec, set, minimum=5, attempts=0))


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
