"""Other processes: forked after a run, spawned, in pools of every kind; and what travels to them
and back."""

import copy
import json
import multiprocessing
import os
import pickle
import signal
from concurrent.futures import ProcessPoolExecutor

import numpy as np
import pytest

import fedback


def draw(client, theta, n, rng):
    return rng.normal([1.0, 4.0][client] + 0.5 * theta, 1.0, size=(n, 1))


def huber(theta, batch):
    away = theta - batch
    return (np.abs(away) - 0.5).mean(), np.clip(away, -1, 1).mean(axis=0)


def failing(theta, batch):
    raise ZeroDivisionError("as the user raised it")


def work(spec: fedback.Spec) -> list:
    """What a worker does: everything that has threads somewhere."""
    run = fedback.run(spec)
    return [
        run,
        fedback.run(spec, threads=2).final_theta,
        fedback.exact(spec),
        fedback.solve(spec),
        fedback.check(spec),
        fedback.bounds(spec),
        fedback.plan(spec, accuracy=0.5, budget=2000),
    ]


def contents(thing) -> object:
    """All that a result shows, in a form that compares to the bit."""
    if isinstance(thing, fedback.Curve):
        arrays = [thing.rounds, thing.steps, thing.times]
        arrays += [array for name in thing.columns for array in (thing.mean(name), thing.sd(name))]
        arrays += list(thing.costs.values())
        if isinstance(thing, fedback.Run):
            arrays += [thing.final_theta, *(thing[name] for name in thing.columns)]
            more = (thing.id, thing.exact and contents(thing.exact))
        else:
            more = ()
        native = thing._native
        said = (native.json, native.csv, native.ending, native.label, repr(thing), thing.set)
        drawn = thing.svg() if thing.columns else None
        return [array.tobytes() for array in arrays], thing.columns, said, drawn, more
    if isinstance(thing, fedback.Answer):
        spec = getattr(thing, "spec", None)
        table = spec.table if isinstance(spec, fedback.Spec) else spec
        return json.dumps(thing.to_dict()), thing.set, thing.svg(), table
    if isinstance(thing, fedback.Spec):
        return thing.table, thing.draw, thing.loss, thing.data, thing.directory, thing.origin
    if isinstance(thing, list):
        return type(thing), [contents(one) for one in thing]
    return np.asarray(thing).tobytes()


def timeless(thing) -> object:
    """The same without the seconds that it took."""
    if isinstance(thing, fedback.Run):
        fields = {key: value for key, value in thing.to_dict().items() if key != "seconds"}
        return json.dumps(fields), [thing[name].tobytes() for name in thing.columns]
    if isinstance(thing, fedback.Curve):
        return [thing.mean(name).tobytes() for name in thing.columns]
    return contents(thing)


def table_spec() -> fedback.Spec:
    rng = np.random.default_rng(3)
    people = {
        "income": rng.normal(size=90),
        "default": rng.integers(0, 2, size=90),
        "age": rng.choice(["old", "young"], size=90),
        "bank": np.repeat(["north", "south", "west"], 30),
    }
    return fedback.Spec(
        rounds=20,
        repetitions=3,
        problem=fedback.Problem(
            base=fedback.table(
                people, label="default", partition={"column": "bank"}, ignore=["age"], holdout=0.2
            ),
            loss=fedback.logistic(l2=0.1),
        ),
        algorithm=fedback.p_fedavg(scheme="full", step_size=0.1),
        measure={"every": 5, "client_risk": True, "accuracy": True, "group": "age"},
    )


@pytest.fixture
def few(two_sites) -> fedback.Spec:
    return two_sites.set(repetitions=8, algorithm__local_steps=1, algorithm__batch=1)


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_pools_after_a_run(few, method):
    here = [timeless(one) for one in work(few)]
    with multiprocessing.get_context(method).Pool(2) as pool:
        there = pool.map_async(work, [few, few]).get(timeout=120)
    assert [[timeless(one) for one in each] for each in there] == [here, here]


def test_executors_and_joblib(few):
    here = timeless(fedback.run(few))
    context = multiprocessing.get_context("fork")
    with ProcessPoolExecutor(2, mp_context=context) as pool:
        assert [timeless(run) for run in pool.map(fedback.run, [few, few], timeout=120)] == [
            here,
            here,
        ]
    joblib = pytest.importorskip("joblib")
    jobs = [joblib.delayed(fedback.run)(few) for _ in range(2)]
    runs = joblib.Parallel(n_jobs=2, backend="loky", timeout=120)(jobs)
    assert [timeless(run) for run in runs] == [here, here]


def test_a_child_of_a_child(few):
    """And none of them in the middle of its pool: `os.fork`, twice."""
    fedback.run(few)
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        signal.alarm(60)
        fedback.run(few)
        grandchild = os.fork()
        if grandchild == 0:
            signal.alarm(60)
            os.write(write, fedback.run(few).final_theta.tobytes())
            os._exit(0)
        os._exit(os.waitstatus_to_exitcode(os.waitpid(grandchild, 0)[1]))
    os.close(write)
    with os.fdopen(read, "rb") as told:
        assert told.read() == fedback.run(few).final_theta.tobytes()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_functions_and_tables_travel(few):
    custom = fedback.Problem(population=draw, dim=1, clients=2, loss=huber)
    changed = fedback.Spec(few, problem=custom, rounds=5, measure={"every": 5, "sample": 20})
    for spec in (changed, table_spec()):
        here = timeless(fedback.run(spec))
        for method in ("fork", "spawn"):
            with multiprocessing.get_context(method).Pool(2) as pool:
                runs = pool.map_async(fedback.run, [spec, spec]).get(timeout=120)
            assert [timeless(run) for run in runs] == [here, here]


def test_a_child_leaves_the_tables_of_its_parent():
    spec = table_spec()
    here = timeless(fedback.run(spec))
    child = os.fork()
    if child == 0:
        signal.alarm(60)
        fedback.run(spec)
        del spec
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert timeless(fedback.run(spec)) == here


def test_runs_of_several_processes_share_a_store(few, tmp_path):
    store = tmp_path / "runs.db"
    context = multiprocessing.get_context("fork")
    fedback.run(few, store=store)
    with ProcessPoolExecutor(2, mp_context=context) as pool:
        jobs = [pool.submit(fedback.run, few, store=store) for _ in range(4)]
        ids = {job.result(timeout=120).id for job in jobs}
    assert ids == {2, 3, 4, 5} and len(fedback.runs(store)) == 5


def results(spec: fedback.Spec, folder) -> list:
    store = folder / "runs.db"
    rng = np.random.default_rng(5)
    seen = {"client": np.tile(["a", "b"], 100), "deployment": np.repeat(["old", "new"], 100)}
    seen["x"] = rng.normal(size=200) + 0.5 * (seen["deployment"] == "new")
    deployed = {"deployment": ["old", "new"], "x": [0.0, 1.0]}
    recorded = fedback.run(spec, store=store, tags="kept")
    return [
        *work(spec),
        recorded,
        fedback.load(1, store=store),
        fedback.show(1, store=store),
        fedback.fit(seen, deployed, output=folder / "fitted"),
        fedback.run(table_spec()),
        fedback.run(spec, set={"measure": {"distance": False, "risk": False}}),
        fedback.sweep(spec.set(sweep={"algorithm.local_steps": [1, 5]})),
        fedback.sweep(spec.set(sweep={"algorithm.local_steps": [1, 5]}), fedback.check),
        spec,
        table_spec(),
        fedback.plan(spec, accuracy=1e-9, budget=10),
    ]


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_everything_pickles_and_copies_to_the_bit(few, tmp_path):
    for thing in results(few, tmp_path):
        there = [pickle.loads(pickle.dumps(thing, protocol)) for protocol in (2, 4, 5)]
        for again in [*there, copy.copy(thing), copy.deepcopy(thing)]:
            assert type(again) is type(thing)
            assert contents(again) == contents(thing), thing
        if isinstance(thing, fedback.Run) and thing.columns:
            assert there[0].plot().get_ylabel() == thing.plot().get_ylabel()
            assert there[0].to_pandas().equals(thing.to_pandas())


def test_a_run_pickles_as_its_results(two_sites):
    """A million numbers in its state, a few in what it measured."""
    wide = two_sites.set(repetitions=2, rounds=10, measure={"every": 10}, algorithm__start=0.0)
    size = len(pickle.dumps(fedback.run(wide)))
    many = wide.set({"problem.weights": [1 / 1000] * 1000})
    many = many.set({"problem.base.mean": [1.0] * 1000, "problem.response.sensitivity": 0.5})
    run = fedback.run(many.set({"algorithm": {"kind": "scaffold", "scheme": "full", "step_size":
                                              {"constant": 0.1}}}))  # fmt: skip
    assert size < 6000
    spec = len(json.dumps(run.to_dict()["spec"]))
    assert len(pickle.dumps(run)) < 2 * spec + size


def test_errors_come_back_as_themselves(few):
    diverging = few.set(algorithm__step_size={"constant": 1e200}, rounds=20)
    broken = fedback.Problem(population=draw, dim=1, clients=2, loss=failing)
    with multiprocessing.get_context("fork").Pool(1) as pool:

        def there(spec):
            return pool.apply_async(fedback.run, [spec]).get(timeout=120)

        with pytest.raises(fedback.InputError, match="rounds: found 0"):
            there(few.set(rounds=0))
        with pytest.raises(fedback.RunError) as caught:
            there(diverging)
        with pytest.raises(ZeroDivisionError, match="as the user raised it"):
            there(fedback.Spec(few, problem=broken, measure={"sample": 5}))
    assert len(caught.value.run.failed) == 8
    again = pickle.loads(pickle.dumps(caught.value))
    assert str(again) == str(caught.value)
    assert contents(again.run) == contents(caught.value.run)


def test_streams_stay_where_they_are():
    seen = []

    @fedback.all_clients
    def population(clients, theta, n, rng):
        seen.append(rng)
        return rng.normal(n, 1)

    problem = fedback.Problem(population=population, dim=1, clients=2, loss=fedback.mean())
    algorithm = fedback.p_fedavg(scheme="full", step_size=0.1)
    fedback.run(fedback.Spec(rounds=1, problem=problem, algorithm=algorithm))
    with pytest.raises(TypeError, match="cannot pickle"):
        pickle.dumps(seen[0])
