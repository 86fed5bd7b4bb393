"""The ServerApp: fedback's own loop over rounds, with Flower in between."""

from __future__ import annotations

import os
import time
from logging import ERROR

from flwr.app import Context
from flwr.serverapp import Grid, ServerApp

import fedback

from . import census
from .folder import check_result, confined, write_result
from .holders import Holders
from .journal import as_json, say, warn
from .settings import BadSetting, RunSettings, values
from .transport import Transport

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Runs, or resumes, the spec of the run config."""
    os.umask(0o077)  # what a run writes is for its owner only
    try:
        settings = confined(RunSettings.read(context.run_config))
        if settings.log == "json":
            as_json()
        federate(grid, settings)
    except Exception as error:
        # One line that says it, before Flower's traceback.
        say("failed", f"fedback: {error}", level=ERROR, reason=str(error))
        raise


def federate(grid: Grid, settings: RunSettings):
    """The run, recorded in the store; its result."""
    started = time.monotonic()
    if settings.json is not None:
        check_result(settings.json)
    spec = fedback.Spec(settings.spec).set(values(settings.set))
    check_bounded(spec, settings)
    holders = None if settings.sites is None else Holders.read(settings.sites)
    if holders is None:
        warn("unlisted", "fedback: no list of sites: any registered node may claim any client")
    clients = spec.table.get("problem", {}).get("clients")
    algorithm = spec.table.get("algorithm", {})
    transport = Transport(
        grid,
        fedback.__version__,
        settings.wait,
        # First arrivals may have a deadline of their own.
        algorithm.get("deadline", settings.deadline),
        holders,
        federation=clients if isinstance(clients, int) else fedback.Site(spec).federation,
        rounds=spec.table.get("rounds"),
        first_arrivals=algorithm.get("scheme") == "first-arrivals",
        began=lambda: began(settings),
    )
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
    transport.journal.closed(run.final_theta)
    if settings.json is not None:
        write_result(settings.json, run.to_dict())
    seconds = time.monotonic() - started
    waiting = transport.seconds_waiting
    fields = {"run": run.id, "store": settings.store, "seconds": seconds, "waiting": waiting}
    say("done", f"fedback: done, {where(settings, run.id)}", **fields)
    own = f"{waiting:.2f} s in Flower and at the sites, {seconds - waiting:.3f} s here"
    say("time", f"fedback: {seconds:.2f} s, of which {own}", **fields)
    return run


def check_bounded(spec: fedback.Spec, settings: RunSettings) -> None:
    """Refuses a run in which a site could move the model at will."""
    kind = spec.table.get("problem", {}).get("base", {}).get("kind")
    known = kind not in ("sites", "custom") or "clip" in spec.table.get("algorithm", {})
    if not known and not settings.unbounded:
        raise BadSetting(
            "the plan has no algorithm.clip and the server no data, so that nothing bounds what a "
            "site sends: set algorithm.clip, or unbounded=true in the run config"
        )


def began(settings: RunSettings) -> None:
    """Says which run it is, while there is time to write the number down."""
    number = settings.resume
    if number is None and settings.store is not None:
        number = fedback.runs(settings.store)[0]["id"]
    verb = "begins" if settings.resume is None else "goes on"
    text = f"fedback: {verb}, {where(settings, number)}"
    say("begins", text, run=number, store=settings.store, spec=settings.spec)


def where(settings: RunSettings, number: int | None) -> str:
    """Where a run is recorded."""
    return "recorded nowhere" if settings.store is None else f"run {number} in {settings.store}"
