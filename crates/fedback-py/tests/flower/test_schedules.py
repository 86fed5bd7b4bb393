"""Random schedules of nodes that come, go, lie and repeat: what is handed to the server is what a
rightful site has sent, and nothing that was sent in time is lost."""

import os
from collections import Counter

import pytest
from crowd import CLIENTS, HOLDERS, LIES, OWNER, Clock, Crowd, honest, order

from fedback.flower import transport
from fedback.flower.messages import decode
from fedback.flower.transport import Transport

SCHEDULES = max(60, int(os.environ.get("FEDBACK_NODE_SCHEDULES", "60")))
ROUNDS, DEADLINE = 6, 20.0


@pytest.fixture
def clock(monkeypatch):
    own = Clock()
    monkeypatch.setattr(transport, "time", own)
    return own


def rounds(crowd):
    """What is asked, round after round; some is asked again."""
    for number in range(ROUNDS):
        if number:
            crowd.stir()
        every = [(repetition, client) for repetition in (0, 1) for client in OWNER]
        yield number, sorted(crowd.random.sample(every, crowd.random.randrange(1, 17)))


def gather(run, limit=5000):
    """Everything until the deadline, which comes."""
    found = []
    for _ in range(limit):
        came = run.next()
        if came == ("deadline",):
            return found
        if came is not None:
            found.append(came)
    raise AssertionError(f"no deadline after {limit} calls")


def play(seed: int, clock: Clock, seen: Counter) -> None:
    crowd = Crowd(seed)
    run = Transport(crowd, "1", 5.0, DEADLINE, HOLDERS, federation=len(OWNER))
    delivered: Counter = Counter()
    for number, pairs in rounds(crowd):
        missing = pairs
        for _ in range(crowd.random.choice([1, 1, 2])):
            crowd.handed.clear()
            started = clock.now
            run.ask(order(number, missing))
            found = gather(run)
            # A look at the nodes, a deadline and a pause; the first order waits for nodes too.
            assert clock.now - started < DEADLINE + 6.0
            check(crowd, run, number, missing, found, delivered, seen)
            came = {event[2:4] for event in found if event[:2] == ("update", number)}
            missing = [pair for pair in missing if pair not in came]
            if not missing:
                break
    for kind, count in crowd.lies.items():
        seen[f"lie {kind}"] += count


def check(crowd, run, number, asked, found, delivered, seen):
    """Of one call of `ask`."""
    updates = [event for event in found if event[0] == "update"]
    for _, round, repetition, client, delta in updates:
        key = (round, repetition, client)
        delivered[key] += 1
        # No more often than it was asked for, and never something that was not.
        assert delivered[key] <= crowd.ordered[key]
        if delta[:1].tolist() == [float(OWNER[client])]:
            assert delta.tolist() == honest(OWNER[client], *key)
        else:
            # A lie that is no impostor's: the server looks at its numbers.
            assert set(delta.tolist()) <= {-1.0} and len(delta) <= 3
            seen["lies within the shape"] += 1
    # What was right and came is handed on, once for every time it came.
    handed = Counter(key for key in crowd.handed)
    given = Counter(event[1:4] for event in updates if event[4].tolist()[:1] != [-1.0])
    assert not handed - given, handed - given
    seen["updates"] += len(updates)
    seen["late"] += sum(event[1] != number for event in updates)
    absent = {event[1]: event[2] for event in found if event[0] == "absent"}
    assert set(absent) <= {client for _, client in asked}
    assert all(text.isprintable() and len(text) < 400 for text in absent.values())
    seen["absent"] += len(absent)
    # Nobody is asked for a client that is another site's.
    for message in crowd.seen:
        if message.metadata.message_type == "train":
            site = crowd.sites[message.metadata.dst_node_id]
            own = decode(message.content).clients.tolist()
            assert set(own) <= set(CLIENTS[site])
    crowd.seen.clear()
    # What is held does not grow with what was sent: what is on its way, and the clients.
    assert len(run._mail._sent) <= 4 * len(crowd.sites) * (number + 1)
    assert not run._events


def test_what_is_handed_on_is_what_rightful_sites_have_sent(clock):
    seen: Counter = Counter()
    for seed in range(SCHEDULES):
        play(seed, clock, seen)
    assert all(seen[f"lie {kind}"] > 0 for kind in LIES), seen
    assert seen["updates"] > 20 * SCHEDULES, seen
    assert seen["late"] > 0 and seen["absent"] > SCHEDULES, seen


def test_a_schedule_is_the_same_twice(clock):
    first, second = Counter(), Counter()
    play(3, clock, first)
    play(3, clock, second)
    assert first == second and first["updates"] > 0
