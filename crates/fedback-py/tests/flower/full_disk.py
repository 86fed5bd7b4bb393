"""Three sites, the first of which has its folder on a small disk, /srv: what happens when it is
full, and when there is room again. Run by a test on a machine of its own; prints what it saw."""

import json
import tempfile
from pathlib import Path

from loopback import Loopback
from services import SPEC, Service, together

import fedback
from fedback.flower.server_app import federate
from fedback.flower.settings import RunSettings

SMALL, LARGE = Path("/srv"), Path(tempfile.mkdtemp())


def entries(service: Service) -> int:
    """Entries of a ledger, which only one process at a time may have."""
    service.process.stop()
    count = json.loads(service.command("ledger", "--json").stdout)["entries"]
    service.start()
    return count


def run(services: list[Service]):
    nodes = {n + 1: {"site": service.socket} for n, service in enumerate(services)}
    config = {"spec": str(LARGE / "banks.toml"), "deadline": 5.0, "wait": 2.0, "attempts": 0}
    return federate(Loopback(config, nodes), RunSettings.read(config))


def fill(path: Path) -> None:
    """Takes all the room that is left on a disk."""
    with path.open("wb", buffering=0) as file:
        try:
            while file.write(b"\0" * 512):
                pass
        except OSError:
            return


def main() -> None:
    (LARGE / "banks.toml").write_text(SPEC)
    services = [Service(SMALL, 0, logs=LARGE), Service(LARGE, 1), Service(LARGE, 2)]
    before = entries(services[0])
    fill(SMALL / "filler")
    try:
        told = str(run(services))
    except Exception as error:  # what it is, the test says
        told = str(error)
    log = services[0].log()
    (SMALL / "filler").unlink()
    full = entries(services[0])
    bits = run(services).final_theta.tolist()
    alone = fedback.run(str(together(LARGE))).final_theta.tolist()
    found = {"told": told, "log": log, "entries": [before, full, entries(services[0])]}
    print(json.dumps(found | {"same bits": bits == alone}))
    for service in services:
        service.end()


main()
