"""The ServerApp: fedback's own loop over rounds, with Flower in between."""

from __future__ import annotations

import os
import time
from logging import getLogger

from flwr.app import Context
from flwr.serverapp import Grid, ServerApp

import fedback

from . import census
from .folder import check_result, confined, write_result
from .holders import Holders
from .settings import RunSettings, values
from .transport import Transport

logger = getLogger("flwr.fedback")
app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Runs, or resumes, the spec of the run config."""
    os.umask(0o077)  # what a run writes is for its owner only
    try:
        federate(grid, confined(RunSettings.read(context.run_config)))
    except Exception as error:
        # One line that says it, before Flower's traceback.
        logger.error("fedback: %s", error)
        raise


def federate(grid: Grid, settings: RunSettings):
    """The run, recorded in the store; its result."""
    started = time.monotonic()
    if settings.json is not None:
        check_result(settings.json)
    spec = fedback.Spec(settings.spec).set(values(settings.set))
    # First arrivals may have a deadline of their own.
    deadline = spec.table.get("algorithm", {}).get("deadline", settings.deadline)
    holders = None if settings.sites is None else Holders.read(settings.sites)
    if holders is None:
        logger.warning("fedback: no list of sites: any registered node may claim any client")
    clients = spec.table.get("problem", {}).get("clients")
    federation = clients if isinstance(clients, int) else fedback.Site(spec).federation
    transport = Transport(grid, fedback.__version__, settings.wait, deadline, holders, federation)
    if census.needed(spec):
        transport.gathered = census.gather(grid, fedback.__version__, spec, settings.wait, holders)
        spec = transport.gathered.complete(spec)
    run = fedback.federate(
        spec,
        transport,
        store=settings.store,
        resume=settings.resume,
        minimum=settings.minimum,
        attempts=settings.attempts,
    )
    if settings.json is not None:
        write_result(settings.json, run.to_dict())
    seconds = time.monotonic() - started
    where = "recorded nowhere" if settings.store is None else f"run {run.id} in {settings.store}"
    logger.info("fedback: done, %s", where)
    logger.info(
        "fedback: %.2f s, of which %.2f s in Flower and at the sites, %.3f s here",
        seconds,
        transport.seconds_waiting,
        seconds - transport.seconds_waiting,
    )
    return run
