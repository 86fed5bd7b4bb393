"""The transport and the ClientApp together, without Flower's processes: what is refused, who is
absent."""

import numpy as np
import pytest
from flwr.app import Message
from loopback import Loopback
from specs import GAUSSIAN

import fedback
from fedback.flower import client_app, messages, transport, work
from fedback.flower.messages import Answer, Order, Update, decode, encode
from fedback.flower.roster import Refused
from fedback.flower.transport import Transport

THREE = {11: {"clients": "0,3"}, 12: {"clients": "1,4"}, 13: {"clients": "2"}}


@pytest.fixture
def spec(tmp_path):
    path = tmp_path / "spec.toml"
    path.write_text(GAUSSIAN)
    return str(path)


def order(spec, round=0, pairs=((0, 0), (0, 1), (0, 2), (1, 3), (1, 0)), plan_hash=None):
    site = fedback.Site(spec)
    return fedback.Order(
        round=round,
        step=2 * round,
        seed=7,
        plan_hash=plan_hash or site.plan_hash,
        again=False,
        thetas=np.full((2, site.dim), 0.5),
        repetitions=np.array([pair[0] for pair in pairs], dtype=np.uint32),
        clients=np.array([pair[1] for pair in pairs], dtype=np.uint32),
        kept=np.zeros((len(pairs), site.kept)),
    )


def grid(spec, nodes=None):
    return Loopback({"spec": spec, "set": ""}, THREE if nodes is None else nodes)


def connect(grid, wait=0.2, deadline=0.2):
    return Transport(grid, fedback.__version__, wait, deadline)


def events(transport):
    """Everything until the deadline."""
    found = []
    while not found or found[-1] != ("deadline",):
        if (came := transport.next()) is not None:
            found.append(came)
    return found[:-1]


def pairs(found):
    return sorted(event[2:4] for event in found if event[0] == "update")


def absent(found):
    return {event[1]: event[2] for event in found if event[0] == "absent"}


def changed(**changes):
    """A node whose updates are changed on their way."""

    def answer(message, context):
        reply = client_app.app(message, context)
        content = decode(reply.content)
        if isinstance(content, Update):
            content = Update(
                **(vars(content) | {key: value(content) for key, value in changes.items()})
            )
        return Message(encode(content), reply_to=message)

    return answer


def test_every_pair_comes_back_with_the_sites_own_bits(spec):
    asked = order(spec)
    run = connect(grid(spec))
    run.ask(asked)
    found = events(run)
    assert pairs(found) == [(0, 0), (0, 1), (0, 2), (1, 0), (1, 3)]
    site = fedback.Site(spec)
    for _, round, repetition, client, delta in found:
        alone = site.work(
            round, 7, np.array([repetition], np.uint32), np.array([client], np.uint32), asked.thetas
        )
        assert delta.tobytes() == alone[0].tobytes()


def test_a_node_gets_one_message_a_round(spec):
    loop = grid(spec)
    run = connect(loop)
    run.ask(order(spec))
    events(run)
    orders = [
        m
        for m in loop.seen
        if m.metadata.message_type == "train" and m.metadata.dst_node_id in THREE
    ]
    assert sorted(m.metadata.dst_node_id for m in orders) == [11, 12, 13]
    assert decode(orders[0].content, Order).clients.tolist() == [0, 0, 3]


def test_a_model_is_encoded_once_a_round(spec, monkeypatch):
    encoded, encode_array = [], messages.encode_array

    def count(name, value):
        encoded.append(name)
        return encode_array(name, value)

    for module in (messages, transport):
        monkeypatch.setattr(module, "encode_array", count)
    run = connect(grid(spec))
    run.ask(order(spec))
    assert len(pairs(events(run))) == 5 and encoded.count("theta") == 1


def test_partitions_hold_clients_by_remainder(spec):
    nodes = {i + 1: {"partition-id": i, "num-partitions": 2} for i in range(2)}
    loop = grid(spec, nodes)
    connect(loop).ask(order(spec))
    answers = [decode(m.content) for m in loop.seen if m.metadata.message_type == "query"]
    held = [a.clients.tolist() for a in answers if isinstance(a, Answer)]
    assert held == [[0, 2, 4], [1, 3]]


@pytest.mark.parametrize(
    "nodes, words",
    [
        ({}, "every client: held by no node .waited 0.2 s"),
        ({11: {"clients": "0,3"}}, "client 1, 2, 4: held by no node"),
        (
            THREE | {14: {"clients": "2"}},
            r"client 2 is held twice: by node 13 \(site-13\) and by node 14",
        ),
        (
            THREE | {13: {"clients": "2", "spec": "/nowhere.toml"}},
            r"node 13 \(site-13\) was refused.*nowhere",
        ),
        (THREE | {13: {}}, r"node 13 .* refused: node config: whom does this node hold"),
    ],
)
def test_a_federation_that_does_not_add_up_is_refused(spec, nodes, words):
    with pytest.raises(Refused, match=words):
        connect(grid(spec, nodes)).ask(order(spec))


def test_another_plan_is_refused_with_the_nodes_name(spec, tmp_path):
    other = tmp_path / "other.toml"
    other.write_text(GAUSSIAN.replace("seed = 7", "seed = 8"))
    with pytest.raises(
        Refused, match=r"node 12 \(site-12\) was refused: its plan is [0-9a-f]{12}, the server's"
    ):
        connect(grid(spec, THREE | {12: {"clients": "1,4", "spec": str(other)}})).ask(order(spec))


def test_another_version_with_the_same_plan_works_and_is_told_once(spec, caplog):
    run = Transport(grid(spec), "0.0.0", 0.2, 0.2)
    with caplog.at_level("INFO"):
        run.ask(order(spec))
        assert len(pairs(events(run))) == 5
    assert caplog.text.count(f"runs fedback {fedback.__version__}, the server 0.0.0") == 1


def test_a_stranger_beside_a_complete_federation_is_left_alone(spec, tmp_path):
    other = tmp_path / "other.toml"
    other.write_text(GAUSSIAN.replace("seed = 7", "seed = 8"))
    run = connect(grid(spec, THREE | {14: {"clients": "1", "spec": str(other)}}))
    run.ask(order(spec))
    assert len(pairs(events(run))) == 5


def test_a_site_refuses_an_order_that_is_not_its_own(spec):
    loop = grid(spec)
    run = connect(loop)
    run.ask(order(spec))
    events(run)
    run._roster.plan_hash = "f" * 64  # a server that does not ask first
    run.ask(order(spec, round=1, plan_hash="f" * 64))
    reasons = absent(events(run))
    assert set(reasons) == {0, 1, 2, 3}
    assert all("the order is of plan ffffffffffff" in reason for reason in reasons.values())


def test_nodes_are_asked_anew_when_a_run_of_another_plan_begins(spec):
    run = connect(grid(spec))
    run.ask(order(spec))
    events(run)
    with pytest.raises(Refused, match="its plan is [0-9a-f]{12}, the server's ffffffffffff"):
        run.ask(order(spec, plan_hash="f" * 64))


def test_a_dead_node_is_late_and_the_others_count(spec):
    loop = grid(spec)
    run = connect(loop)
    run.ask(order(spec))
    events(run)
    loop.dead = {13}
    run.ask(order(spec, round=1))
    assert pairs(events(run)) == [(0, 0), (0, 1), (1, 0), (1, 3)]


def test_a_node_that_flower_reports_gone_is_absent_at_once(spec):
    loop = grid(spec)
    run = connect(loop, deadline=60)
    run.ask(order(spec))
    events(run)
    del loop.nodes[13]
    run.ask(order(spec, round=1))
    assert absent(events(run)) == {2: "no node holds it"}


def test_an_error_of_flower_is_an_absence_with_the_nodes_name(spec):
    loop = grid(spec)
    run = connect(loop, deadline=60)
    run.ask(order(spec))
    events(run)
    loop.answers[12] = lambda message, context: "Node Unavailable"
    run.ask(order(spec, round=1))
    assert absent(events(run)) == {1: "node 12 (site-12): Flower: Node Unavailable"}


def test_a_site_that_was_killed_comes_back_under_a_new_id(spec):
    loop = grid(spec)
    run = connect(loop)
    run.ask(order(spec))
    events(run)
    loop.dead = {13}
    run.ask(order(spec, round=1))
    assert (0, 2) not in pairs(events(run))
    # Flower has not noticed yet that node 13 is dead.
    loop.nodes[14], loop.activated[14] = {"clients": "2"}, "2"
    run.ask(order(spec, round=2))
    assert (0, 2) in pairs(events(run))


def test_a_site_that_comes_back_under_its_key_is_asked_whom_it_holds(spec):
    loop = grid(spec)
    run = connect(loop)
    run.ask(order(spec))
    events(run)
    loop.nodes[13], loop.activated[13] = {"clients": "1"}, "2"
    run.ask(order(spec, round=1))
    assert absent(events(run)) == {2: "no node holds it"}


def test_a_second_claimant_changes_nothing_while_the_first_is_well(spec):
    loop = grid(spec)
    run = connect(loop)
    run.ask(order(spec))
    events(run)
    loop.nodes[14], loop.activated[14] = {"clients": "2"}, "2"
    for round in (1, 2):
        loop.seen.clear()
        run.ask(order(spec, round=round))
        assert len(pairs(events(run))) == 5
        assert not any(
            m.metadata.message_type == "train" and m.metadata.dst_node_id == 14 for m in loop.seen
        )


def test_a_round_that_is_asked_again_waits_for_who_was_lost_in_it(spec, monkeypatch):
    monkeypatch.setattr(transport, "LOOK_AGAIN", 0.0)
    loop = grid(spec)
    run = connect(loop, deadline=0.5)
    run.ask(order(spec))
    events(run)
    loop.dead = {13}
    run.ask(order(spec, round=1))
    events(run)
    looks = []
    look = loop.get_nodes

    def later():
        looks.append(1)
        if len(looks) == 3:
            loop.nodes[14], loop.activated[14] = {"clients": "2"}, "2"
        return look()

    loop.get_nodes = later
    run.ask(order(spec, round=1, pairs=((0, 2), (0, 1))))
    assert pairs(events(run)) == [(0, 1), (0, 2)]


def test_who_was_lost_earlier_is_not_waited_for(spec):
    loop = grid(spec)
    run = connect(loop, deadline=60)
    run.ask(order(spec))
    events(run)
    del loop.nodes[13]
    for _ in range(2):
        run.ask(order(spec, round=1))
        assert 2 in absent(events(run))


def test_a_slow_node_is_in_time_when_the_round_is_asked_again(spec):
    loop = grid(spec)
    run = connect(loop)
    run.ask(order(spec))
    events(run)
    late = []
    loop.answers[13] = lambda message, context: late.append(message)
    run.ask(order(spec, round=1))
    events(run)
    run.ask(order(spec, round=1, pairs=((0, 2),)))
    del loop.answers[13]
    loop.reply(late[0].metadata.message_id, 13, late[0])
    assert pairs(events(run)) == [(0, 2)]
    assert [m.metadata.message_type for m in late].count("train") == 1, "it was told twice"


def test_a_late_update_is_handed_over_with_its_own_round(spec):
    loop = grid(spec)
    run = connect(loop)
    run.ask(order(spec))
    events(run)
    late = []

    def slow(message, context):
        late.append((message, context))

    loop.answers[13] = slow
    run.ask(order(spec, round=1))
    events(run)
    del loop.answers[13]
    message, _ = late[0]
    loop.reply(message.metadata.message_id, 13, message)
    run.ask(order(spec, round=2))
    rounds = sorted(event[1] for event in events(run) if event[0] == "update" and event[3] == 2)
    assert rounds == [1, 2]


@pytest.mark.parametrize(
    "changes, words",
    [
        ({"plan_hash": lambda u: "f" * 64}, "of another plan"),
        ({"round": lambda u: u.round + 1}, "not what was asked for"),
        ({"clients": lambda u: u.clients + np.uint32(1)}, "not what was asked for"),
    ],
)
def test_an_update_that_was_not_asked_for_is_refused(spec, changes, words):
    loop = grid(spec)
    loop.answers[13] = changed(**changes)
    run = connect(loop)
    run.ask(order(spec))
    found = events(run)
    assert words in absent(found)[2] and "node 13" in absent(found)[2]
    assert len(pairs(found)) == 4


def test_a_reply_with_a_field_of_its_own_is_refused(spec):
    def talkative(message, context):
        reply = client_app.app(message, context)
        if message.metadata.message_type == "train":
            reply.content["array"]["features"] = reply.content["array"]["delta"]
        return reply

    loop = grid(spec)
    loop.answers[13] = talkative
    run = connect(loop)
    run.ask(order(spec))
    assert "'features'" in absent(events(run))[2]


def test_values_that_are_no_numbers_are_left_to_the_server(spec):
    loop = grid(spec)
    loop.answers[13] = changed(delta=lambda u: u.delta * np.nan)
    run = connect(loop)
    run.ask(order(spec))
    assert (0, 2) in pairs(events(run))


def test_an_exception_at_a_site_stays_there(spec, monkeypatch, caplog):
    class Broken:
        plan_hash, federation, dim = fedback.Site(spec).plan_hash, 5, fedback.Site(spec).dim
        broadcast, kept = dim, 0

        def update(self, *order):
            raise ValueError("row 17 of the table: age 43")

    real = work.load
    monkeypatch.setattr(
        work,
        "load",
        lambda s, *asked: (Broken(), s.clients) if s.clients == (2,) else real(s, *asked),
    )
    loop = grid(spec)
    run = connect(loop)
    run.ask(order(spec))
    reason = absent(events(run))[2]
    assert reason.endswith("ValueError at the site; the node's log has the traceback")
    assert not any(b"age 43" in str(m.content).encode() for m in loop.seen)
    assert "age 43" in caplog.text
