"""What a type checker knows of answers; and, where a comment says so, what it refuses. Read by
test_types.py, never run."""

import copy
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
from typing_extensions import assert_type

import fedback
from fedback import literals

Floats = npt.NDArray[np.float64]

spec = fedback.Spec("spec.toml")
run = fedback.run(spec)
assert_type(run, fedback.Run)
assert_type(run["risk"], Floats)
assert_type(run.mean("risk"), Floats)
assert_type(run.final_theta, Floats)
assert_type(run.rounds, npt.NDArray[np.int64])
assert_type(run.exact, fedback.Curve | Any)
assert_type(run.stable_point, Floats | Any)
assert_type(run.costs, dict[str, Floats])
assert_type(copy.deepcopy(run), fedback.Run)
run.plot(x="uploads", size="single").figure.savefig("risk.pdf")

runs = fedback.sweep(spec, store="fedback.db", threads=2)
assert_type(runs, fedback.Sweep[fedback.Run])
assert_type(runs[0], fedback.Run)
assert_type(fedback.sweep(spec, fedback.check), fedback.Sweep[fedback.Certificate])
assert_type(fedback.sweep(spec, fedback.bounds, delta=0.1), fedback.Sweep[fedback.Bounds])
assert_type(fedback.compare([1, 2]), fedback.Sweep[fedback.Run])
assert_type([one.seconds for one in runs], list[float])
assert_type(runs.plot(panels="batch"), npt.NDArray[Any])
runs.plot(x="local_steps", map="batch").set_title("final values")

assert_type(fedback.exact(spec), fedback.Curve)
assert_type(fedback.solve(spec), fedback.Solution)
assert_type(fedback.solve(spec).stable_point, Floats | Any)
assert_type(fedback.check(spec).verdict, literals.Verdict)
assert_type(fedback.check(spec), fedback.Certificate)
assert_type(fedback.bounds(spec), fedback.Bounds)
plan = fedback.plan(spec, accuracy=0.1, schemes=["full"])
assert_type(plan, fedback.Plan)
fedback.run(plan.spec)
assert_type(fedback.show(1), fedback.Shown)
assert_type(fedback.show(1, 2), dict[str, list[Any]])
assert_type(fedback.score(1, "rows.csv"), dict[str, Floats])
assert_type(fedback.replay(1), tuple[fedback.Run, bool])
as_mapping: Mapping[str, Any] = fedback.solve(spec)
scheme: literals.Scheme = "first-arrivals"
fedback.fedprox(proximal=0.1, scheme=scheme, step_size=0.1, latency={"kind": "exponential"})


def draw(client: int, theta: Floats, n: int, rng: np.random.Generator) -> Floats:
    return rng.normal(theta, size=(n, 1))


@fedback.all_clients
def everybody(
    clients: npt.NDArray[np.int64], theta: Floats, n: int, rng: fedback.Streams
) -> Floats:
    return rng.normal(n, 1)


def huber(theta: Floats, batch: Any) -> tuple[float, Floats]:
    return 0.0, theta


for population in (draw, everybody):
    fedback.Problem(population=population, dim=1, clients=2, loss=huber)
fedback.Problem(population=draw, dim=1, clients=2, loss=fedback.mean())

try:
    fedback.run(spec)
except fedback.RunError as error:
    left: fedback.Run = error.run

fedback.run(3)  # wrong
fedback.run(spec, on_failure="banana")  # wrong
fedback.run(spec, threads="two")  # wrong
fedback.run(spec, store=3)  # wrong
fedback.run(spec, theads=2)  # wrong
fedback.sweep(spec, fedback.check, delta=0.1)  # wrong
fedback.plan(spec)  # wrong
fedback.plan(spec, accuracy="x")  # wrong
fedback.plan(spec, accuracy=0.1, schemes=["first-arrivals"])  # wrong
fedback.p_fedavg(scheme="some", step_size=0.1)  # wrong
fedback.scaffold(step_size=0.1)  # wrong
fedback.fedprox(proximal=0.1, scheme="full", step_size=0.1, chort=3)  # wrong
fedback.table("people.csv", missing="guess")  # wrong
fedback.export(1, "out", format="xls")  # wrong
fedback.fit("a.csv", "b.csv", output="out", shape="round")  # wrong
run.plot(x="minutes")  # wrong
run.plot(size="large")  # wrong
iter(run)  # wrong
