"""Bytes that nobody meant: replies of nodes, frames of a site's service, lists of sites. Each is
read as what it is or refused in a sentence. Inputs are changes, from a seed, of right ones and of
those that ever failed, which are in `tests/corpus`."""

import io
import os
import random
from pathlib import Path

import loopback  # noqa: F401 (it says who sends)
import numpy as np
import pytest
from flwr.app import Message, RecordDict
from flwr.common.serde import message_from_proto, message_to_proto
from flwr.proto.message_pb2 import Message as ProtoMessage
from flwr.supercore.inflatable.inflatable_object import get_all_nested_objects

from fedback.flower import relay
from fedback.flower.holders import Holders
from fedback.flower.inflation import Guard
from fedback.flower.messages import Answer, BadMessage, Count, Refusal, Update, decode, encode
from fedback.flower.settings import BadSetting

INPUTS = max(1, int(os.environ.get("FEDBACK_FUZZ", "1")))
CORPUS = Path(__file__).parents[1] / "corpus"
PAIRS = np.array([0, 1], dtype=np.uint32)
MESSAGES = [
    Answer(version="1", plan_hash="a" * 64, federation=5, dim=3, clients=PAIRS),
    Refusal(version="1", reason="no"),
    Count(version="1", clients=PAIRS, rows=np.array([3, 4], np.uint64), sums=np.ones((2, 3))),
    Update(
        version="1",
        plan_hash="a" * 64,
        round=3,
        repetitions=PAIRS,
        clients=PAIRS,
        delta=np.ones((2, 3)),
        kept=np.ones((2, 3)),
    ),
]
MOST = {"repetitions": 2, "clients": 5, "delta": 6, "kept": 6, "rows": 5, "sums": 15}
WORDS = [b"0", b"-1", b"1e999", b"NaN", b"18446744073709551616", b"null", b"[]", b"{}", b'""',
         b"[" * 2000, b"\xff\xfe", b"\x00"]  # fmt: skip


def mutate(data: bytes, other: bytes, rng: random.Random) -> bytes:
    """One to four changes; half of the time a single byte."""
    single = rng.random() < 0.5
    for _ in range(1 if single else rng.randrange(1, 5)):
        place, kind = rng.randrange(len(data) + 1), 0 if single else rng.randrange(7)
        end = place + rng.randrange(9)
        if kind == 0:
            data = data[:place] + bytes([rng.randrange(256)]) + data[place + 1 :]
        elif kind == 1:
            data = data[:place]
        elif kind == 2:
            data = data[:place] + data[end:]
        elif kind == 3:
            data = data[:end] + data[place:]
        elif kind == 4:
            data = data[:place] + rng.choice(WORDS) + data[end:]
        elif kind == 5:
            data = data[:place] + rng.choice([b"\x00", b"\x7f", b"\x80", b"\xff"]) * 4 + data[end:]
        else:
            data = data[:place] + other[rng.randrange(len(other) + 1) :]
    return data


def inputs(seeds: list[bytes], count: int, seed: int):
    """The seeds, and changes of them."""
    rng = random.Random(seed)
    yield from seeds
    for _ in range(count * INPUTS):
        yield mutate(rng.choice(seeds), rng.choice(seeds), rng)


def stored(folder: str) -> list[bytes]:
    return [path.read_bytes() for path in sorted((CORPUS / folder).iterdir())]


def reply(content: RecordDict) -> Message:
    question = Message(RecordDict(), dst_node_id=5, message_type="train")
    question.metadata.__dict__["_message_id"] = "the-question"
    return Message(content, reply_to=question)


def test_a_reply_of_any_bytes_is_read_or_refused():
    seeds = [message_to_proto(reply(encode(one))).SerializeToString() for one in MESSAGES]
    read, refused = 0, 0
    for data in inputs(seeds + stored("replies"), 6000, seed=1):
        try:
            content = message_from_proto(ProtoMessage.FromString(data)).content
        except Exception:  # what Flower does not read never gets to us
            continue
        try:
            found = decode(content, Answer, Refusal, Count, Update, most=MOST)
        except BadMessage as error:
            refused += 1
            assert str(error)
        else:
            read += 1
            arrays = {name: one for name, one in vars(found).items() if hasattr(one, "size")}
            assert all(one.size <= MOST[name] for name, one in arrays.items())
    assert read > 100 and refused > 300, (read, refused)


def test_pieces_of_any_bytes_are_put_together_or_an_error():
    found = []
    for one in MESSAGES:
        message = reply(encode(one))
        objects = get_all_nested_objects(message)
        pieces = {name: one.deflate() for name, one in objects.items()}
        rng = random.Random(2)
        for _ in range(300 * INPUTS):
            name = rng.choice(sorted(pieces))
            changed = pieces | {name: mutate(pieces[name], pieces[message.object_id], rng)}
            got = Guard()(message.object_id, changed)
            assert isinstance(got, Message)
            found.append(got.has_error())
    assert 0.2 < sum(found) / len(found) < 1.0


def test_a_frame_of_any_bytes_is_read_or_refused():
    seeds = [frame(one) for one in MESSAGES]
    read, refused = 0, 0
    for data in inputs(seeds + stored("frames"), 6000, seed=3):
        try:
            relay.unpack(io.BytesIO(data))
            read += 1
        except (BadMessage, OSError) as error:
            refused += 1
            assert str(error).isprintable() and len(str(error)) < 200, error
    assert read > 100 and refused > 1000, (read, refused)


def frame(message) -> bytes:
    """As a site's service writes it: without what the operator sets."""
    return relay.pack(message, []).replace(b', "set": []', b" " * len(', "set": []'))


LIST = b"""
[[site]]
name = "oak"
key = "ecdsa-sha2-nistp384 %s"
clients = [0, 1]

[[site]]
name = "elm"
key = "elm.pub"
clients = [2]
"""


@pytest.fixture
def keys(tmp_path):
    """Two public keys, also as files beside the list."""
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

    private = [ec.derive_private_key(number, ec.SECP384R1()) for number in (7, 8)]
    texts = [
        one.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH) for one in private
    ]
    for name, text in zip(("oak.pub", "elm.pub"), texts):
        (tmp_path / name).write_bytes(text)
    return texts


def test_a_list_of_any_bytes_is_read_or_refused(keys, tmp_path):
    path = tmp_path / "sites.toml"
    whole = LIST % keys[0].split()[1]
    seeds = [whole, whole.replace(keys[0].rstrip(), b"oak.pub")]
    read, refused = 0, 0
    for data in inputs(seeds + stored("lists"), 1500, seed=4):
        path.write_bytes(data)
        try:
            holders = Holders.read(str(path))
        except BadSetting as error:
            refused += 1
            assert str(error).startswith(f"sites {path}: ")
        else:
            read += 1
            clients = [client for site in holders.sites.values() for client in site.clients]
            assert len(set(clients)) == len(clients), "a client of two sites"
    assert read > 5 and refused > 500, (read, refused)
