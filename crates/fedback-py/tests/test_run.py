"""Runs: arrays, frames, the store, threads, Ctrl-C, errors."""

import json
import os
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

import fedback


def test_arrays_agree_with_the_contract(two_sites):
    run = fedback.run(two_sites)
    assert run["distance_sq"].shape == (4, 400) and run.final_theta.shape == (400, 1)
    assert list(run.rounds) == [0, 20, 40, 60] and list(run.steps) == [0, 40, 80, 120]
    contract = run.to_dict()
    for place, point in enumerate(contract["curve"]):
        assert point["risk"]["mean"] == run.mean("risk")[place]
        assert point["risk"]["sd"] == run.sd("risk")[place]
    assert np.array_equal(contract["final_theta"], run.final_theta)
    distance = (run.final_theta[:, 0] - run.stable_point[0]) ** 2
    assert np.array_equal(distance, run["distance_sq"][-1])
    assert np.allclose(run["risk"].mean(axis=1), run.mean("risk"))


def test_simulation_agrees_with_exact(two_sites):
    run = fedback.run(two_sites)
    for name in ("distance_sq", "risk"):
        error = (run.mean(name) - run.exact.mean(name))[1:] / run.standard_error(name)[1:]
        assert abs(error).max() < 4.5
    assert np.array_equal(fedback.exact(two_sites).mean("risk"), run.exact.mean("risk"))


def test_the_same_bits_on_any_number_of_threads(two_sites):
    one, two = (fedback.run(two_sites, threads=n).final_theta for n in (1, 2))
    assert np.array_equal(one, two)
    assert not np.array_equal(one, fedback.run(two_sites, set={"seed": 8}).final_theta)


def test_frames(two_sites):
    pandas, polars = pytest.importorskip("pandas"), pytest.importorskip("polars")
    run = fedback.run(two_sites)
    for frame in (run.to_pandas(), run.to_polars()):
        columns = ["round", "step", "distance_sq", "distance_sq_sd", "risk", "risk_sd"]
        assert list(frame.columns) == columns
    assert run.to_pandas().equals(pandas.DataFrame(run.to_polars().to_dict(as_series=False)))
    assert isinstance(run.to_polars(), polars.DataFrame)


def test_a_sweep_is_a_list(two_sites):
    runs = fedback.run(two_sites.set(sweep={"algorithm.local_steps": [1, 5]}))
    assert [run.set for run in runs] == [{"algorithm.local_steps": e} for e in (1, 5)]
    frame = runs.to_pandas()
    assert sorted(frame["algorithm.local_steps"].unique()) == [1, 5] and len(frame) == 8
    assert len(runs.plot().get_lines()) == 5
    finals = runs.plot(x="local_steps", y="risk", size="double")
    assert finals.get_xlabel() == "algorithm.local_steps"
    assert "final performative risk" in finals.get_ylabel()


def test_panels_and_maps_of_a_sweep(two_sites):
    swept = {"algorithm.local_steps": [1, 5], "algorithm.batch": [1, 2, 4]}
    runs = fedback.run(two_sites.set(sweep=swept))
    panels = runs.plot(panels="batch", size="double")
    assert [ax.get_title() for ax in panels] == ["batch 1", "batch 2", "batch 4"]
    legend = [text.get_text() for text in panels[0].get_legend().get_texts()]
    assert legend == ["local_steps 1", "local_steps 5", "exact"]
    assert panels[0].get_ylim() == panels[2].get_ylim()
    heat = runs.plot(x="local_steps", map="batch", y="risk")
    assert (heat.get_xlabel(), heat.get_ylabel()) == tuple(swept)
    values = heat.collections[0].get_array().reshape(3, 2)
    assert values[2, 0] == runs[2].mean("risk")[-1]
    with pytest.raises(ValueError, match="map: needs another swept parameter"):
        runs.plot(map="batch")
    with pytest.raises(ValueError, match="panels: found 'banana'; allowed: algorithm.local_steps"):
        runs.plot(panels="banana")


def test_pictures(two_sites):
    run = fedback.run(two_sites)
    axes = run.plot()
    assert axes.get_yscale() == "log" and "distance" in axes.get_ylabel()
    assert run.plot("risk").get_yscale() == "linear"
    assert len(run.times) == len(run.rounds) and (np.diff(run.times) >= 0).all()
    assert len(run.plot(x="time").lines) == 1
    spent = run.plot(x="uploads", y="risk", size="single")
    assert spent.get_xlabel() == "uploads" and spent.figure.get_figwidth() == 3.35
    assert list(spent.get_lines()[0].get_xdata()) == list(run.costs["uploads"])
    assert [text.get_text() for text in spent.get_legend().get_texts()] == ["two-sites", "exact"]
    with pytest.raises(ValueError, match="x: found 'banana'; allowed: step, round, time, steps"):
        run.plot(x="banana")
    assert run.svg().startswith("<svg") and "<svg" in run._repr_html_()
    assert repr(run).startswith("Run('two-sites', 400 repetitions, 120 steps: distance_sq 0.")
    with pytest.raises(KeyError, match="'auc' was not measured; there is: distance_sq, risk"):
        run["auc"]


def test_recorded_runs_are_the_commands(two_sites, tmp_path):
    store = tmp_path / "runs.db"
    run = fedback.run(two_sites, store=store)
    assert run.id == 1
    [row] = fedback.runs(store)
    assert (row["name"], row["state"], row["round"]) == ("two-sites", "done", 60)
    again = fedback.load(1, store=store)
    assert np.array_equal(again["risk"], run["risk"])
    assert np.array_equal(fedback.resume(1, store=store).final_theta, run.final_theta)
    assert fedback.runs(tmp_path / "none.db") == []
    with pytest.raises(fedback.InputError, match="no store is there"):
        fedback.load(1, store=tmp_path / "none.db")


def through_parquet(columns, path):
    polars = pytest.importorskip("polars")
    polars.DataFrame(columns).write_parquet(path)
    return polars.read_parquet(path)


@pytest.mark.parametrize("form", ["pandas", "polars", "parquet", "mapping", "file"])
def test_tables_in_memory(form, tmp_path):
    rng = np.random.default_rng(1)
    columns = {
        "income": rng.normal(size=60), "debt": rng.normal(size=60),
        "default": rng.integers(0, 2, 60), "bank": np.repeat(["a", "b", "c"], 20),
    }  # fmt: skip
    import pandas

    frame = pandas.DataFrame(columns)
    path = tmp_path / "people.csv"
    frame.to_csv(path, index=False)
    data = {
        "pandas": lambda: frame,
        "polars": lambda: pytest.importorskip("polars").DataFrame(columns),
        "parquet": lambda: through_parquet(columns, tmp_path / "people.parquet"),
        "mapping": lambda: columns,
        "file": lambda: path,
    }[form]()

    def spec(base):
        return fedback.Spec(
            rounds=30, repetitions=3, algorithm=fedback.p_fedavg(scheme="full", step_size=0.2),
            problem=fedback.Problem(
                base=base, loss=fedback.logistic(l2=0.1),
                response=fedback.best_response(features=["debt"], sensitivity=[0.5, 1.0, 1.5]),
            ),
        )  # fmt: skip

    options = {"label": "default", "partition": {"column": "bank"}, "standardize": True}
    run = fedback.run(spec(fedback.table(data, **options)), store=tmp_path / "runs.db")
    assert run.client_names == ["a", "b", "c"] and run.coordinates == ["income", "debt"]
    reference = fedback.run(spec(fedback.table(path, **options)))
    assert np.array_equal(run.final_theta, reference.final_theta)
    # The command finds the table of a recorded run beside the store.
    assert np.array_equal(fedback.load(1, store=tmp_path / "runs.db")["risk"], run["risk"])
    assert fedback.check(spec(fedback.table(data, **options))).verdict == "settles"


def test_failures_are_raised_and_kept(two_sites):
    diverging = two_sites.set({"algorithm.step_size": {"constant": 1e6}, "rounds": 400})
    with pytest.raises(fedback.RunError, match="stopped being finite in round") as caught:
        fedback.run(diverging)
    with pytest.warns(UserWarning, match="the step size, 1e6 at the start, is above"):
        run = fedback.run(diverging, on_failure="return")
    assert len(run.failed) == 400 and np.isnan(run.final_theta).all()
    assert caught.value.run.failed == run.failed


def test_doubts_are_repeated(two_sites):
    with pytest.warns(UserWarning, match="doubted in the spec: people left"):
        fedback.run(two_sites.set(doubts=["people left"]))


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"rounds": 0}, "spec: rounds: found 0; allowed"),
        ({"algorithm.cohort": 1}, 'the scheme "full" uses every client'),
        ({"problem.base.noise": -1.0}, "problem.base.noise: found -1"),
        ({"problem.base.nosie": 1.0}, "did you mean noise"),
        ({"algorithm.start": float("nan")}, "algorithm.start: found nan; allowed: .* finite"),
        ({"problem.loss": {"kind": "custom"}}, r'"custom" needs a function loss='),
    ],
)
def test_wrong_input_is_named(two_sites, keys, message, tmp_path):
    with pytest.raises(fedback.InputError, match=message):
        fedback.run(two_sites.set(keys), store=tmp_path / "runs.db")
    assert not (tmp_path / "runs.db").exists()
    assert issubclass(fedback.InputError, ValueError)


def test_other_threads_go_on_while_rust_works(two_sites):
    """A Python thread counts while a run of a few hundred milliseconds is made; it could not count
    with the interpreter held."""
    counted, finished = [0], threading.Event()

    def count():
        while not finished.is_set():
            counted[0] += 1

    long = two_sites.set(rounds=40_000, measure={"every": 40_000})
    thread = threading.Thread(target=count)
    thread.start()
    try:
        before = counted[0]
        fedback.run(long)
        during = counted[0] - before
    finally:
        finished.set()
        thread.join()
    assert during > 1000


def test_ctrl_c_stops_cleanly_and_the_run_goes_on(two_sites, tmp_path):
    """An endless run is interrupted once its first checkpoint is there, then finished after its
    rounds were cut down to what a test can wait for: the same bits as without."""
    store = tmp_path / "runs.db"
    code = (
        "import fedback, json, sys\n"
        "spec = fedback.Spec(json.loads(sys.argv[1]))\n"
        "try:\n    fedback.run(spec, store=sys.argv[2])\n"
        "except KeyboardInterrupt as stopped:\n    print(stopped); raise SystemExit(130)\n"
    )
    endless = two_sites.set(rounds=300_000, repetitions=100, measure={"every": 100_000})
    child = subprocess.Popen(
        [sys.executable, "-c", code, json.dumps(endless.table), str(store)],
        stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )  # fmt: skip
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and not any(row["round"] for row in fedback.runs(store)):
        assert child.poll() is None, "the run ended before it could be interrupted"
    child.send_signal(signal.SIGINT)
    said, _ = child.communicate(timeout=60)
    assert child.returncode == 130 and "go on with fedback.resume(1" in said
    [row] = fedback.runs(store)
    assert row["state"] == "interrupted" and 0 < row["round"] < 300_000
    resumed = fedback.resume(1, store=store)
    assert resumed.resumed_from == row["round"]
    assert np.array_equal(resumed.final_theta, fedback.run(endless).final_theta)


def test_numbers_of_a_spec_keep_their_bits():
    """JSON carries specs to the compiled half: every number must arrive as it was."""
    rng = np.random.default_rng(5)
    start = (rng.normal(size=2000) * 10.0 ** rng.integers(-20, 20, size=2000)).tolist()
    spec = fedback.Spec(
        rounds=1,
        algorithm=fedback.p_fedavg(scheme="full", step_size=1e-300, start=start),
        problem=fedback.Problem(
            clients=1, base=fedback.gaussian(mean=[0.0], dim=2000, noise=0.0), loss=fedback.mean()
        ),
    )
    assert fedback.run(spec).final_theta[0].tolist() == start


def test_runs_are_compared(two_sites, tmp_path):
    store = tmp_path / "runs.db"
    for batch in (1, 4):
        fedback.run(
            two_sites.set({"name": f"batch {batch}", "algorithm.batch": batch}), store=store
        )
    both = fedback.compare([1, 2], store=store)
    assert [run.name for run in both] == ["batch 1", "batch 4"]
    assert len(both.plot().get_lines()) == 5
    frame = both.to_pandas()
    assert set(zip(frame["run"], frame["name"])) == {(1, "batch 1"), (2, "batch 4")}


def test_the_paper_and_the_schema(tmp_path):
    found = fedback.reproduce(["local-steps"], out=tmp_path / "page", quick=True, seed=3)
    assert found["seeds"] == [3]
    assert os.path.exists(found["page"]) and {"id", "verdict"} <= set(found["verdicts"][0])
    with pytest.raises(fedback.InputError, match="no-such"):
        fedback.reproduce(["no-such"], out=tmp_path / "page")
    assert "algorithm" in fedback.schema()["properties"]
    with pytest.raises(fedback.InputError, match="table: found 'debit'; allowed: credit"):
        fedback.data("debit")
