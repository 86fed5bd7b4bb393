"""What a site can send: text that is escaped and cut, arrays that are no larger than asked,
pieces that Flower puts together only if they come to no more."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from flwr.app import Array, ArrayRecord, ConfigRecord, Message, RecordDict
from flwr.supercore.inflatable.inflatable_object import get_all_nested_objects
from flwr.superlink.grid import http_grid
from test_transport import absent, changed, connect, events, grid, order, pairs, spec  # noqa: F401

from fedback.flower import client_app
from fedback.flower.census import counted
from fedback.flower.harmless import LONGEST, harmless
from fedback.flower.inflation import SPARE, TESTED, Guard, guard
from fedback.flower.messages import BadMessage, Refusal, Update, decode, encode
from fedback.flower.node import Node
from fedback.flower.roster import Refused

ROOT = Path(__file__).parents[4]
FIRST, END = (".".join(map(str, version)) for version in TESTED)


@pytest.mark.parametrize(
    "text, shown",
    [
        ("plain: θ is fine", "plain: θ is fine"),
        ("one\ntwo\r\x1b[31mred", r"one\ntwo\r\x1b[31mred"),
        ("\u202eevil\u2066", r"\u202eevil\u2066"),
        ("\x00\u200b\ue000\ud800", r"\x00\u200b\ue000\ud800"),
        ("x" * (LONGEST + 7), "x" * LONGEST + " … (7 more characters)"),
    ],
)
def test_text_is_escaped_and_cut(text, shown):
    assert harmless(text) == shown
    assert harmless(text).isprintable()


NASTY = "no\nINFO : fedback: done\x1b[2J" + "z" * 100_000


def test_a_reason_cannot_write_lines_of_its_own(spec, caplog):  # noqa: F811
    def rude(message, context):
        if message.metadata.message_type == "query":
            return client_app.app(message, context)
        return Message(encode(Refusal(version="1", reason=NASTY)), reply_to=message)

    loop = grid(spec)
    loop.answers[13] = rude
    run = connect(loop)
    run.ask(order(spec))
    reason = absent(events(run))[2]
    for text in (reason, *caplog.messages):
        assert text.isprintable() and len(text) < 400
    assert "more characters" in reason


@pytest.mark.parametrize("answer", [lambda m, c: NASTY, lambda m, c: stranger(m)])
def test_nor_can_an_error_of_flower_or_a_record_of_its_own(spec, answer, caplog):  # noqa: F811
    loop = grid(spec)
    loop.answers[13] = answer
    with pytest.raises(Refused) as refused:
        connect(loop).ask(order(spec))
    assert str(refused.value).isprintable() and len(str(refused.value)) < 500
    assert all(text.isprintable() for text in caplog.messages)


def stranger(message):
    return Message(RecordDict({NASTY: ConfigRecord({NASTY: NASTY})}), reply_to=message)


def test_a_census_cuts_it_too():
    question = Message(RecordDict(), dst_node_id=1, message_type="query")
    question.metadata.__dict__["_message_id"] = "1"
    reply = Message(encode(Refusal(version="1", reason=NASTY)), reply_to=question)
    with pytest.raises(Refused) as refused:
        counted(Node(1, "", "", b""), reply, clients=2, features=1)
    assert str(refused.value).isprintable() and len(str(refused.value)) < 300


@pytest.mark.parametrize(
    "changes",
    [
        {"delta": lambda u: np.zeros((len(u.delta), 4))},
        {"kept": lambda u: np.zeros((len(u.delta), 1))},
        {
            name: (lambda u, name=name: np.repeat(getattr(u, name), 9, axis=0))
            for name in ("delta", "clients")
        }
        | {"repetitions": lambda u: np.arange(9 * len(u.clients), dtype=np.uint32)},
    ],
)
def test_an_array_larger_than_asked_for_is_refused(spec, changes):  # noqa: F811
    loop = grid(spec)
    loop.answers[13] = changed(**changes)
    run = connect(loop)
    run.ask(order(spec))
    found = events(run)
    assert "were asked for" in absent(found)[2] and len(pairs(found)) == 4


def test_declared_sizes_are_looked_at_before_the_numbers():
    content = encode(Refusal(version="1", reason="no"))
    array = Array(dtype="<f8", shape=(1 << 40, 3), stype="little-endian", data=b"")
    content["array"] = ArrayRecord({"delta": array})
    with pytest.raises(BadMessage, match="has 3298534883328 numbers, 12 were asked for"):
        decode(content, Update, Refusal, most={"delta": 12})


def test_content_of_another_kind_is_refused():
    with pytest.raises(BadMessage, match="not a message of records"):
        decode(ConfigRecord({"kind": "update"}), Update)


# What Flower puts together.


def contents(message: Message) -> tuple[str, dict[str, bytes]]:
    """A reply in the pieces in which it travels."""
    objects = get_all_nested_objects(message)
    return message.object_id, {name: one.deflate() for name, one in objects.items()}


def reply(data: bytes = bytes(24)) -> Message:
    question = Message(RecordDict(), dst_node_id=5, message_type="train")
    question.metadata.__dict__["_message_id"] = "the-question"
    array = Array(dtype="<f8", shape=(1, 3), stype="little-endian", data=data)
    return Message(RecordDict({"array": ArrayRecord({"delta": array})}), reply_to=question)


def test_a_reply_that_is_not_too_large_is_put_together():
    own = Guard()
    own.asked = 24
    found = own(*contents(reply()))
    assert found.content["array"]["delta"].data == bytes(24)
    assert isinstance(http_grid.inflate_object_from_contents, Guard)


def test_a_late_reply_to_a_larger_order_is_not_too_large(spec):  # noqa: F811
    run = connect(grid(spec))
    run.ask(order(spec))
    asked = guard.asked
    run.ask(order(spec, pairs=((0, 2),)))
    assert guard.asked == asked > 0


def test_a_piece_that_is_named_a_thousand_times_is_not_a_thousand_pieces():
    name, pieces = contents(reply(bytes(100_000)))
    for key, piece in pieces.items():
        if piece.startswith(b"Array "):
            body = json.loads(piece.partition(b"\x00")[2]) | {"arraychunk_ids": [0] * 100_000}
            text = json.dumps(body).encode()
            head = piece.partition(b"\x00")[0].rpartition(b" ")[0] + b" %d" % len(text)
            pieces[key] = head + b"\x00" + text
    found = Guard()(name, pieces)
    assert found.has_error() and "at most" in found.error.reason
    assert found.metadata.reply_to_message_id == "the-question"
    assert SPARE < 10**10 // 1000  # what it would have come to


@pytest.mark.parametrize("kind", [b"Array ", b"ArrayRecord ", b"RecordDict ", b"Message "])
@pytest.mark.parametrize(
    "spoil",
    [
        lambda piece: piece.replace(b"Array", b"Arrow", 1),
        lambda piece: piece.partition(b"\x00")[0] + b"\x00nonsense",
        lambda piece: piece.replace(piece.split(b" ")[1], b"", 1),
        lambda piece: b"",
    ],
)
def test_pieces_that_do_not_go_together_are_an_error_in_the_reply(kind, spoil):
    name, pieces = contents(reply())
    pieces = {key: spoil(one) if one.startswith(kind) else one for key, one in pieces.items()}
    found = Guard()(name, pieces)
    assert isinstance(found, Message)
    assert found.has_error() or found.content["array"]["delta"].data == bytes(24)


def test_a_reply_that_is_no_message_is_an_error():
    name, pieces = contents(reply())
    other = next(key for key, one in pieces.items() if one.startswith(b"ArrayRecord "))
    assert Guard()(other, pieces).has_error()


def test_no_two_messages_have_an_identity_that_a_neighbour_could_guess(spec):  # noqa: F811
    loop = grid(spec)
    connect(loop).ask(order(spec))
    lives = [m.metadata.ttl for m in loop.seen if m.metadata.dst_node_id in (11, 12, 13)]
    assert len(lives) == 6 and len({life % 1 for life in lives}) == 6


OTHER_FLOWER = """
import importlib.metadata, sys
from flwr.superlink.grid import http_grid
{change}
try:
    import fedback.flower.server_app
except ImportError as error:
    print(error)
"""


@pytest.mark.parametrize(
    "change, why",
    [
        ("importlib.metadata.version = lambda name: '1.39.2'", "1.39.2 is installed, and was not"),
        ("importlib.metadata.version = lambda name: '1.42.0'", "1.42.0 is installed, and was not"),
        ("del http_grid.inflate_object_from_contents", "its grid puts replies together without"),
        (
            "http_grid.inflate_object_from_contents = print",
            "its grid puts replies together without",
        ),
        ("http_grid.HttpGrid.pull_messages = lambda: 0", "its grid puts replies together without"),
        ("sys.modules['flwr.app.message'] = None", "looks different inside"),
        ("", ""),
    ],
)
def test_no_server_on_a_flower_that_is_not_known(change, why):
    script = OTHER_FLOWER.format(change=change)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert why in done.stdout and done.stdout.count("\n") == bool(why), done.stdout
    assert not why or f'pip install "flwr>={FIRST},<{END}"' in done.stdout


def test_the_package_takes_the_versions_that_are_known():
    extras = (ROOT / "pyproject.toml").read_text()
    assert f'site = ["flwr>={FIRST},<{END}"]' in extras
    assert f'simulation = ["flwr[simulation]>={FIRST},<{END}"]' in extras
