"""The list of sites: who may hold which client."""

import logging

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from flwr.supercore.primitives.asymmetric import public_key_to_bytes
from loopback import Loopback
from test_census import settings, sites
from test_transport import THREE, absent, events, grid, order, pairs, spec  # noqa: F401

import fedback
from fedback.flower.holders import Holders
from fedback.flower.roster import Refused
from fedback.flower.server_app import federate
from fedback.flower.settings import BadSetting
from fedback.flower.transport import Transport

KEYS = {node: ec.generate_private_key(ec.SECP384R1()).public_key() for node in range(1, 20)}


def ssh(node: int) -> str:
    return KEYS[node].public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH).decode()


def written(folder, entries: dict[int, list[int]]):
    """A list with an entry for each node, whose key is its number's."""
    (folder / "12.pub").write_text(ssh(12))
    text = ""
    for node, clients in entries.items():
        key = "12.pub" if node == 12 else ssh(node)  # both ways of giving a key
        text += f'[[site]]\nname = "bank-{node}"\nkey = "{key}"\nclients = {clients}\n'
    path = folder / "list.toml"
    path.write_text(text)
    return str(path)


def keyed(loop: Loopback) -> Loopback:
    loop.keys = {node: public_key_to_bytes(KEYS[node]) for node in KEYS}
    return loop


LISTED = {11: [0, 3], 12: [1, 4], 13: [2]}


@pytest.fixture
def holders(tmp_path):
    return Holders.read(written(tmp_path, LISTED))


def connect(loop, holders, deadline=0.2):
    return Transport(loop, fedback.__version__, 0.2, deadline, holders)


def test_a_claim_that_is_not_its_own_is_refused_and_the_run_goes_on(spec, holders, caplog):  # noqa: F811
    loop = keyed(grid(spec, THREE | {13: {"clients": "2,0"}}))
    run = connect(loop, holders)
    run.ask(order(spec))
    assert len(pairs(events(run))) == 5
    assert "node 13 (site-13) claims client 0, of bank-11: refused" in caplog.text
    asked = [m for m in loop.seen if m.metadata.message_type == "train"]
    assert {m.metadata.dst_node_id for m in asked if m.metadata.dst_node_id in THREE} == set(THREE)


def test_a_claim_in_mid_run_is_not_believed_even_where_the_holder_is_silent(spec, holders):  # noqa: F811
    loop = keyed(grid(spec))
    run = connect(loop, holders)
    run.ask(order(spec))
    events(run)
    loop.dead = {13}
    run.ask(order(spec, round=1))
    events(run)
    loop.nodes[12], loop.activated[12] = {"clients": "1,4,2"}, "2"
    run.ask(order(spec, round=2))
    assert (0, 2) not in pairs(events(run))


def test_a_node_that_is_not_in_the_list_is_asked_nothing(spec, holders, caplog):  # noqa: F811
    loop = keyed(grid(spec, {14: {"clients": "2"}} | THREE))
    run = connect(loop, holders)
    run.ask(order(spec))
    assert len(pairs(events(run))) == 5
    assert "node 14 (site-14) is left out: its key is not in the list" in caplog.text
    assert not any(m.metadata.dst_node_id == 14 for m in loop.seen)


def test_a_client_that_only_a_stranger_holds_is_missing(spec, holders):  # noqa: F811
    nodes = {11: THREE[11], 12: THREE[12], 14: {"clients": "2"}}
    with pytest.raises(Refused, match="client 2: held by no node"):
        connect(keyed(grid(spec, nodes)), holders).ask(order(spec))


def test_a_client_that_the_list_forgets_is_named(spec, tmp_path):  # noqa: F811
    some = Holders.read(written(tmp_path, {11: [0, 3], 12: [1, 4]}))
    with pytest.raises(Refused, match="client 2: held .*; the list gives client 2 to nobody"):
        connect(keyed(grid(spec)), some).ask(order(spec))


def test_a_census_counts_only_what_is_a_sites_own(place, tmp_path, caplog):
    spec = place("sites")  # noqa: F811
    listed = written(tmp_path, {1: [2, 0], 2: [1]})
    grid = keyed(sites(spec, held=("2,0", "1,0", "0")))  # noqa: F811
    run = federate(grid, settings(spec, sites=listed))
    alone = federate(sites(spec), settings(spec))
    assert run.final_theta.tolist() == alone.final_theta.tolist()
    assert "node 2 (site-2) counts client 0, of others: refused" in caplog.text
    assert not any(m.metadata.dst_node_id == 3 for m in grid.seen)


def test_without_a_list_the_operator_is_told_once(place, caplog):
    spec = place("sites")  # noqa: F811
    with caplog.at_level(logging.WARNING):
        federate(sites(spec), settings(spec))
    assert caplog.text.count("any registered node may claim any client") == 1


@pytest.mark.parametrize(
    "text, words",
    [
        ("", "no site; give"),
        ("site = 3", "no site; give"),
        ("[[site]]\nname = 'a'", "site 1: has name; give name, key and clients"),
        ("[[site]]\nname = 'a'\nkey = 'k'\nclients = []\nmore = 1", "has name, key, clients, more"),
        ("[[site]]\nname = 'a\\nb'\nkey = 'k'\nclients = [0]", "No such file"),
        ('[[site]]\nname = "a\\nb"\nkey = "k"\nclients = [0]', "printable"),
        ("[[site]]\nname = 'a'\nkey = 'no.pub'\nclients = [0]", "key is 'no.pub': .*No such file"),
        ("[[site]]\nname = 'a'\nkey = 'ecdsa-x'\nclients = [0]", "key is 'ecdsa-x'"),
        ("[[site]]\nname = 'a'\nkey = 3\nclients = [0]", "key is 3"),
        ("[[site]]\nname = 'a'\nkey = 'k'\nclients = ['0']", "clients is"),
        ("[[site]]\nname = 'a'\nkey = 'k'\nclients = [-1]", "clients is"),
        ("[[site", "Expected"),
    ],
)
def test_a_list_that_cannot_be_used_says_why(tmp_path, text, words):
    path = tmp_path / "list.toml"
    path.write_text(text)
    with pytest.raises(BadSetting, match=f"sites {path}.*{words}"):
        Holders.read(str(path))


def test_a_client_or_a_key_has_one_site(tmp_path):
    with pytest.raises(BadSetting, match="site 2: client 2 is bank-11's already"):
        Holders.read(written(tmp_path, {11: [2], 13: [2]}))
    path = tmp_path / "list.toml"
    one = f'[[site]]\nname = "a"\nkey = "{ssh(11)}"\nclients = [%d]\n'
    path.write_text(one % 0 + one % 1)
    with pytest.raises(BadSetting, match="site 2: a has the key of a"):
        Holders.read(str(path))
    with pytest.raises(BadSetting, match="/nowhere.*No such file"):
        Holders.read("/nowhere")


def test_absences_keep_their_reasons(spec, holders):  # noqa: F811
    loop = keyed(grid(spec))
    run = connect(loop, holders, deadline=60)
    run.ask(order(spec))
    events(run)
    del loop.nodes[13]
    run.ask(order(spec, round=1))
    assert absent(events(run)) == {2: "no node holds it"}


def test_a_refused_claim_is_told_to_the_run(spec, holders):  # noqa: F811
    loop = keyed(grid(spec))
    loop.nodes[13]["clients"] = "1,2"
    run = connect(loop, holders, deadline=60)
    run.ask(order(spec))
    claimed = [event for event in events(run) if event[0] == "claimed"]
    assert [client for _, client, _ in claimed] == [1]
    assert "site-13" in claimed[0][2]
