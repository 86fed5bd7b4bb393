"""Tables that only their sites can read: sums travel, rows do not, and the bits are those of one
table."""

import pytest
from loopback import Loopback
from results import in_memory, numbers

import fedback
from fedback.flower.messages import Count, decode
from fedback.flower.roster import Refused
from fedback.flower.server_app import federate
from fedback.flower.settings import RunSettings


def sites(spec, held=("2,0", "1")):
    """Nodes that hold some clients each, and their tables."""
    data = str(spec.with_name("rows-{client}.csv"))
    nodes = {
        n + 1: {"clients": clients, "data": data, "spec": str(spec)}
        for n, clients in enumerate(held)
    }
    return Loopback({"spec": str(spec)}, nodes)


def settings(spec, **more):
    return RunSettings.read({"spec": str(spec), "deadline": 5.0, "wait": 1.0, **more})


def test_a_census_has_the_bits_of_one_table(place):
    spec = place("sites")
    grid = sites(spec)
    run = federate(grid, settings(spec))
    together = in_memory(place("table"))
    assert run.final_theta.tolist() == together["final_theta"]
    counts = [m for m in grid.seen if m.content["text"]["kind"] == "count"]
    assert len(counts) == 4, "two nodes, twice"
    assert {tuple(decode(m.content, Count).sums.shape) for m in counts} == {(2, 3), (1, 3)}
    # What was gathered is in the store: the run can be loaded, and gone on with.
    stored = fedback.load(run.id, store=spec.with_name("fedback.db"))
    assert numbers(stored.to_dict()) == numbers(run.to_dict())
    again = federate(sites(spec), settings(spec, resume=run.id))
    assert numbers(again.to_dict()) == numbers(run.to_dict())


def test_rows_that_changed_are_another_plan(place):
    spec = place("sites")
    run = federate(sites(spec), settings(spec))
    own = spec.with_name("rows-1.csv")
    own.write_text(own.read_text() + "\nelm,0.5,5,100.0,1")
    with pytest.raises(fedback.InputError, match="another plan"):
        federate(sites(spec), settings(spec, resume=run.id))


def test_who_cannot_be_counted_is_named(place):
    spec = place("sites")
    with pytest.raises(Refused, match="client 1: no node counts its rows"):
        federate(sites(spec, held=("0,2",)), settings(spec))
    with pytest.raises(Refused, match=r"client 2: held twice \(node 2 \(site-2\)\)"):
        federate(sites(spec, held=("0,2", "2")), settings(spec))
    spec.with_name("rows-1.csv").unlink()
    with pytest.raises(Refused, match=r"node 2 \(site-2\): data .*rows-1.csv is not there"):
        federate(sites(spec), settings(spec))
    theirs = Loopback({"spec": str(spec)}, {1: {"clients": "0,1,2", "data": "/srv/rows.csv"}})
    with pytest.raises(Refused, match="node config: data needs spec"):
        federate(theirs, settings(spec))
    bare = Loopback({"spec": str(spec)}, {1: {"clients": "0,1,2"}})
    with pytest.raises(Refused, match="node config: data is missing"):
        federate(bare, settings(spec))


def test_a_node_that_flower_gives_up_may_still_come_back_to_be_counted(place):
    spec = place("sites")
    grid = sites(spec)
    grid.answers[2] = lambda message, context: "Node Unavailable"
    with pytest.raises(Refused, match=r"client 1: no node .*; node 2 .*: Flower: Node Unavailable"):
        federate(grid, settings(spec))
    look, looks = grid.get_nodes, []

    def later():
        looks.append(1)
        if len(looks) == 3:
            grid.activated[2] = "2"
            grid.answers.clear()
        return look()

    grid.get_nodes = later
    assert federate(grid, settings(spec, wait=60.0)).final_theta.size
