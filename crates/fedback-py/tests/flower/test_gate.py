"""The gate: what a stranger, or a site, can reach of the server with the CA certificate alone."""

import datetime
import inspect
import re
from base64 import b64encode
from concurrent.futures import ThreadPoolExecutor

import pytest
from cryptography.hazmat.primitives.serialization import load_ssh_private_key
from deployment import APP
from flwr.common.constant import TIMESTAMP_HEADER
from flwr.proto.fleet_pb2 import ActivateNodeRequest
from flwr.supercore.constant import FLEET_HTTP_PUBLIC_KEY_HEADER, FLEET_HTTP_SIGNATURE_HEADER
from flwr.supercore.primitives.asymmetric import public_key_to_bytes, sign_message
from flwr.supernode.fleet_http_client import FleetHttpClient
from gate import DEPLOY, Gated, outsider


@pytest.fixture(scope="module")
def gated(tmp_path_factory):
    federation = Gated(tmp_path_factory.mktemp("gated"))
    yield federation
    federation.end()


def post(path: str, headers: str = "", body: bytes = b"") -> bytes:
    """A request as a node sends it, with a path of the caller's choice."""
    head = (
        f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/protobuf\r\n"
        f"{headers}Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    )
    return head.encode() + body


def test_the_operators_interface_is_there_behind_the_gate_and_not_in_front_of_it(gated):
    assert b" 200 " in gated.say(post("/v1/control/list-runs"), port=gated.port)
    assert b" 404 " in gated.say(post("/v1/control/list-runs"))


ODD = [
    "/v1/control/list-runs",
    "//v1/control/list-runs",
    "/v1//control/list-runs",
    "/v1/fleet/../control/list-runs",
    "/v1/fleet/pull-messages/../../control/list-runs",
    "/v1/fleet/%2e%2e/control/list-runs",
    "/v1/fleet/..%2fcontrol/list-runs",
    "/v1/fleet/%2e%2e%2fcontrol%2flist-runs",
    "/v1/fleet/..;/control/list-runs",
    "/v1/fleet/..\\control\\list-runs",
    "/v1/%63ontrol/list-runs",
    "/V1/CONTROL/list-runs",
    "/v1/Control/list-runs",
    "/v1/control/list-runs ",
    "/v1/control/list-runs%20",
    "/v1/control/list-runs%00",
    "/v1/control/list-runs/",
    "/v1/control/list-runs?x=/v1/fleet/pull-messages",
    "/v1/fleet/pull-messages?/v1/control/list-runs",
    "/v1/fleet/pull-messages#/../../control/list-runs",
    "/v1/fleet/pull-messages/",
    "/v1/fleet/PULL-MESSAGES",
    "/v1/fleet/%70ull-messages",
    "/v1/fleet/register-node",
    "/v1/fleet/unregister-node",
    "/v1/runtime/get-nodes",
    "/v1/fleet",
    "/docs",
    "/openapi.json",
    "/",
    "*",
    "https://127.0.0.1/v1/control/list-runs",
    "http://127.0.0.1:9/v1/control/list-runs",
]


@pytest.mark.parametrize("path", ODD)
def test_nothing_else_gets_through_however_it_is_spelt(gated, path):
    before = requests(gated)
    status = gated.say(post(path)).split()[1]
    assert status in (b"400", b"404", b"405"), status
    assert requests(gated) == before, "the SuperLink has heard of it"


@pytest.mark.parametrize(
    "request_bytes",
    [
        b"GET /v1/fleet/pull-messages HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
        b"PUT /v1/fleet/push-object HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n",
        b"POST /health HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n",
        b"post /v1/fleet/pull-messages HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n",
        b"POST\t/v1/control/list-runs HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n",
        b"POST /v1/control/list-runs HTTP/1.0\r\n\r\n",
        b"POST /v1/control/list-runs\r\n\r\n",
        b"CONNECT 127.0.0.1:80 HTTP/1.1\r\nHost: a\r\n\r\n",
    ],
)
def test_nor_with_another_method(gated, request_bytes):
    before = requests(gated)
    assert b" 200 " not in gated.say(request_bytes)
    assert requests(gated) == before


def requests(gated) -> list[str]:
    """The requests that came through; the SuperLink has other things to say as well."""
    return [line for line in gated.superlink.text().splitlines() if " HTTP/" in line]


def test_a_second_request_hidden_in_the_first_is_not_passed_on(gated):
    hidden = post("/v1/control/list-runs")
    both = (
        b"POST /v1/fleet/pull-messages HTTP/1.1\r\nHost: a\r\n"
        b"Content-Type: application/protobuf\r\nContent-Length: 4\r\n"
        b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + hidden
    )
    gated.say(both)
    assert "/v1/control" not in gated.superlink.text().replace(BEHIND, "")


BEHIND = '"POST /v1/control/list-runs HTTP/1.1" 200'  # the first test's, on the private port


def test_a_stranger_with_the_certificate_can_neither_register_nor_run_nor_list(gated, tmp_path):
    home, key = outsider(gated, tmp_path / "home"), gated.key("intruder")
    attempts = [
        ["supernode", "register", f"{key}.pub", gated.name],
        ["run", str(APP), gated.name],
        ["list", gated.name],
    ]
    with ThreadPoolExecutor() as pool:
        for done in pool.map(lambda words: gated.flwr(*words, home=home), attempts):
            assert done.returncode != 0, done.stdout
    gated.register("oak")
    known = gated.flwr("supernode", "list", gated.name).stdout
    assert known.count("registered") == 1, known


def signed(path) -> str:
    """The headers by which Flower knows a node."""
    key = load_ssh_private_key(path.read_bytes(), None)
    moment = datetime.datetime.now(tz=datetime.timezone.utc).isoformat()
    fields = {
        FLEET_HTTP_PUBLIC_KEY_HEADER: b64encode(public_key_to_bytes(key.public_key())).decode(),
        TIMESTAMP_HEADER: moment,
        FLEET_HTTP_SIGNATURE_HEADER: b64encode(sign_message(key, moment.encode())).decode(),
    }
    return "".join(f"{name}: {value}\r\n" for name, value in fields.items())


def test_a_registered_site_is_known_by_its_key_and_is_no_operator_either(gated):
    key = gated.register("elm")
    public = public_key_to_bytes(load_ssh_private_key(key.read_bytes(), None).public_key())
    wish = ActivateNodeRequest(public_key=public, heartbeat_interval=30.0).SerializeToString()
    assert b" 200 " in gated.say(post("/v1/fleet/activate-node", signed(key), wish))
    assert b" 401 " in gated.say(post("/v1/fleet/activate-node", "", wish))
    for path in ("list-runs", "start-run", "register-node", "list-nodes"):
        assert b" 404 " in gated.say(post(f"/v1/control/{path}", signed(key)))


def test_a_body_beyond_the_bound_is_refused_before_the_superlink_hears_of_it(gated):
    before = requests(gated)
    long = "Content-Type: application/protobuf\r\nContent-Length: 1000000000\r\n\r\n"
    for path in ("push-object", "push-messages"):
        head = f"POST /v1/fleet/{path} HTTP/1.1\r\nHost: a\r\n{long}"
        assert b" 413 " in gated.say(head.encode())
    assert requests(gated) == before
    assert b" 413 " not in gated.say(post("/v1/fleet/push-object", body=bytes(1_000_000)))
    assert requests(gated) != before
    assert b" 413 " in gated.say(post("/v1/fleet/push-object", body=bytes(1_100_000)))


def test_the_gate_passes_exactly_what_nodes_with_a_key_use():
    used = set(re.findall(r"/v1/fleet/([a-z-]+)", inspect.getsource(FleetHttpClient)))
    named = re.findall(r'"~\^POST /v1/fleet/\(([a-z|-]+)\)\$"', (DEPLOY / "nginx.conf").read_text())
    # A node registers itself only where it has no key.
    assert set("|".join(named).split("|")) == used - {"register-node", "unregister-node"}
