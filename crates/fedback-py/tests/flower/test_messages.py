"""What may travel, and that nothing else can."""

import struct
import subprocess
import sys

import numpy as np
import pytest
from flwr.app import Array, ConfigRecord, MetricRecord
from flwr.common.serde import recorddict_from_proto, recorddict_to_proto

from fedback.flower import messages
from fedback.flower.messages import (
    Answer,
    BadMessage,
    Census,
    Count,
    Order,
    Question,
    Refusal,
    Update,
    decode,
    encode,
)


def order(**changes):
    fields = dict(
        version="1",
        plan_hash="ab",
        round=3,
        step=15,
        stream_key=np.array([2**64 - 1], dtype=np.uint64),
        theta=np.array([[1.0, -0.0], [np.nextafter(1, 2), 5e-324]]),
        repetitions=np.array([0, 1, 1], dtype=np.uint32),
        clients=np.array([4, 4, 2**32 - 1], dtype=np.uint32),
    )
    return Order(**(fields | changes))


def update(**changes):
    fields = dict(
        version="1",
        plan_hash="ab",
        round=3,
        repetitions=np.array([0, 1], dtype=np.uint32),
        clients=np.array([4, 4], dtype=np.uint32),
        delta=np.array([[1.0, 2.0], [np.nan, np.inf]]),
    )
    return Update(**(fields | changes))


def answer(**changes):
    fields = dict(
        version="1", plan_hash="ab", federation=5, dim=2, clients=np.array([0, 4], dtype=np.uint32)
    )
    return Answer(**(fields | changes))


def count(**changes):
    fields = dict(
        version="1",
        clients=np.array([0, 4], dtype=np.uint32),
        rows=np.array([7, 2**63], dtype=np.uint64),
        sums=np.ones((2, 9)),
    )
    return Count(**(fields | changes))


MESSAGES = [
    Question(version="1", plan_hash="ab"),
    answer(),
    answer(clients=np.array([], dtype=np.uint32)),
    Census(version="1"),
    Census(version="1", sums=np.ones((1, 9))),
    count(),
    Question(version="1", plan_hash="ab", rows=np.array([7, 2], np.uint64), sums=np.ones((2, 9))),
    order(),
    order(rows=np.array([7, 2], dtype=np.uint64), sums=np.ones((2, 9))),
    update(),
    Refusal(version="1", reason="no"),
]


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: type(message).__name__)
def test_a_message_survives_flower_bit_for_bit(message):
    records = recorddict_from_proto(recorddict_to_proto(encode(message)))
    back = decode(records, type(message))
    for name, value in vars(message).items():
        found = getattr(back, name)
        if isinstance(value, np.ndarray):
            assert found.dtype == value.dtype and found.shape == value.shape
            assert found.tobytes() == value.tobytes()
        else:
            assert found == value and type(found) is type(value)


def test_arrays_are_raw_little_endian_bytes():
    array = encode(order())["array"]["theta"]
    assert array.data == struct.pack("<4d", 1.0, -0.0, np.nextafter(1, 2), 5e-324)
    assert (array.dtype, array.shape, array.stype) == ("<f8", (2, 2), "little-endian")
    swapped = encode(order(theta=order().theta.astype(">f8")))["array"]["theta"]
    assert swapped.data == array.data


def test_the_list_of_fields_is_the_one_in_the_reference(reference):
    page = reference("flower.md")
    for name in messages.FIELDS:
        assert f"| `{messages.wire(name)}` |" in page, name


def spoil(change):
    records = encode(order())
    change(records)
    return records


BAD = {
    "a record of another name": lambda r: r.update(extra=ConfigRecord({"a": 1})),
    "a record of another type": lambda r: r.update(text=MetricRecord({"round": 1})),
    "an unknown field": lambda r: r["text"].update(note="hello"),
    "rows of data": lambda r: r["array"].update(features=r["array"]["theta"]),
    "a field of another kind": lambda r: r["array"].update(delta=r["array"]["theta"]),
    "a missing field": lambda r: r["array"].pop("theta"),
    "no kind": lambda r: r["text"].pop("kind"),
    "another kind": lambda r: r["text"].update(kind="update"),
    "a count that is a text": lambda r: r.update(count=ConfigRecord({"round": "3"})),
    "a count that is not whole": lambda r: r["count"].update(round=3.5),
    "a count below zero": lambda r: r["count"].update(round=-1),
    "a list of counts": lambda r: r["count"].update(round=[1, 2]),
    "a text that is bytes": lambda r: r["text"].update(version=b"1"),
    "an array of another dtype": lambda r: r["array"].update(
        theta=Array("<f4", (2, 2), "little-endian", bytes(16))
    ),
    "a pickled array": lambda r: r["array"].update(theta=Array(np.ones((2, 2)))),
    "bytes that do not fill the shape": lambda r: r["array"].update(
        theta=Array("<f8", (2, 2), "little-endian", bytes(31))
    ),
    "another number of axes": lambda r: r["array"].update(
        theta=Array("<f8", (4,), "little-endian", bytes(32))
    ),
    "a shape below zero": lambda r: r["array"].update(
        theta=Array("<f8", (-2, -2), "little-endian", bytes(32))
    ),
    "two stream keys": lambda r: r["array"].update(
        {"stream-key": Array("<u8", (2,), "little-endian", bytes(16))}
    ),
    "pairs that do not match": lambda r: r["array"].update(
        clients=Array("<u4", (1,), "little-endian", bytes(4))
    ),
    "a pair twice": lambda r: r["array"].update(
        clients=Array("<u4", (3,), "little-endian", bytes(12))
    ),
    "a repetition without a model": lambda r: r["array"].update(
        theta=Array("<f8", (1, 2), "little-endian", bytes(16))
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_whatever_is_not_in_the_list_is_refused(name):
    with pytest.raises(BadMessage):
        decode(spoil(BAD[name]), Order)
    decode(spoil(lambda r: None), Order)


def test_answers_and_updates_that_do_not_add_up_are_refused():
    for bad in [
        lambda: answer(clients=np.array([1, 1], dtype=np.uint32)),
        lambda: answer(clients=np.array([1, 5], dtype=np.uint32)),
        lambda: count(rows=np.array([1], dtype=np.uint64)),
        lambda: count(sums=np.array([[1.0], [np.nan]])),
        lambda: update(delta=np.ones((3, 2))),
        lambda: update(clients=np.array([4], dtype=np.uint32)),
    ]:
        with pytest.raises(BadMessage):
            bad()


def test_an_array_that_would_lose_digits_is_not_sent():
    with pytest.raises(TypeError):
        encode(update(clients=np.array([0.5, 1.5])))


def test_a_node_loads_only_what_a_message_needs():
    """Flower starts a process for every message. What answers behind a service is few modules."""
    code = (
        "import sys, fedback.flower.client_app; print(*(m for m in sys.modules if 'fedback' in m))"
    )
    loaded = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    own = {name.removeprefix("fedback").removeprefix(".") for name in loaded.stdout.split()}
    needed = {"messages", "relay", "settings", "client_app"}
    assert own == {"", "_frame", "flower", *(f"flower.{name}" for name in needed)}
