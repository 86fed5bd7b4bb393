"""The ServerApp: fedback's own loop over rounds, with Flower in between."""

from __future__ import annotations

import os
import time
from logging import ERROR
from typing import Any

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


def federate(grid: Grid, settings: RunSettings) -> fedback.Run | fedback.Sweep[fedback.Run]:
    """The run, recorded in the store; its result."""
    started = time.monotonic()
    if settings.json is not None:
        check_result(settings.json)
    spec = fedback.Spec(settings.spec).set(values(settings.set))
    points = (
        [spec] if "sweep" not in spec.table else [spec.at(k) for k in range(len(spec.points()))]
    )
    check_points(spec, points, settings)
    holders = None if settings.sites is None else Holders.read(settings.sites)
    if holders is None:
        warn("unlisted", "fedback: no list of sites: any registered node may claim any client")

    def begins(order: fedback.Order) -> None:
        own = points[order.point or 0]
        clients = own.table.get("problem", {}).get("clients")
        algorithm = own.table.get("algorithm", {})
        transport.federation = clients if isinstance(clients, int) else fedback.Site(own).federation
        transport.first_arrivals = algorithm.get("scheme") == "first-arrivals"
        # First arrivals may have a deadline of their own.
        transport.deadline = algorithm.get("deadline", settings.deadline)
        began(settings, order)

    transport = Transport(grid, fedback.__version__, settings.wait, holders=holders, began=begins)
    if census.needed(spec):
        transport.gathered = census.gather(grid, fedback.__version__, spec, settings.wait, holders)
        spec = transport.gathered.complete(spec)
    run: Any = fedback.federate(
        spec,
        transport,
        store=settings.store,
        resume=settings.resume,
        minimum=settings.minimum,
        attempts=settings.attempts,
    )
    swept = isinstance(run, fedback.Sweep)
    transport.journal.closed((run[-1] if swept else run).final_theta)
    if settings.json is not None:
        write_result(settings.json, run.to_dict())
    seconds = time.monotonic() - started
    waiting = transport.seconds_waiting
    numbers = [one.id for one in run] if swept else [run.id]
    fields: dict[str, Any] = {
        "run": numbers[-1],
        "store": settings.store,
        "seconds": seconds,
        "waiting": waiting,
    }
    say("done", f"fedback: done, {where(settings, numbers)}", **fields)
    own = f"{waiting:.2f} s in Flower and at the sites, {seconds - waiting:.3f} s here"
    say("time", f"fedback: {seconds:.2f} s, of which {own}", **fields)
    result: fedback.Run | fedback.Sweep[fedback.Run] = run
    return result


def check_points(spec: fedback.Spec, points: list[fedback.Spec], settings: RunSettings) -> None:
    """Refuses a run in which a site could move the model at will, and a sweep over rows that are
    counted once."""
    at_sites = [point.table.get("problem", {}).get("base", {}).get("kind") for point in points]
    for point, kind in zip(points, at_sites):
        known = kind not in ("sites", "custom") or "clip" in point.table.get("algorithm", {})
        if not known and not settings.unbounded:
            raise BadSetting(
                "the plan has no algorithm.clip and the server no data, so that nothing bounds "
                "what a site sends: set algorithm.clip, or unbounded=true in the run config"
            )
    rows = [key for key in spec.table.get("sweep", {}) if key.startswith("problem.base")]
    if rows and "sites" in at_sites:
        raise BadSetting(
            f"sweep.{rows[0]!r}: rows at sites are counted once for a run; sweep over other keys"
        )


def began(settings: RunSettings, order: fedback.Order) -> None:
    """Says which run it is, while there is time to write the number down."""
    verb = "begins" if settings.resume is None else "goes on"
    text = f"fedback: {verb}, {where(settings, [order.run])}"
    if order.point is not None:
        text += f", point {order.point + 1} of the sweep"
    fields: dict[str, Any] = {"run": order.run, "point": order.point}
    say("begins", text, **fields, store=settings.store, spec=settings.spec)


def where(settings: RunSettings, numbers: list[int | None]) -> str:
    """Where runs are recorded."""
    if settings.store is None:
        return "recorded nowhere"
    many = f"runs {numbers[0]}-{numbers[-1]}" if len(numbers) > 1 else f"run {numbers[0]}"
    return f"{many} in {settings.store}"
