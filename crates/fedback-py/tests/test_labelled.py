"""Results by name: models by coordinate, frames and datasets of runs and sweeps."""

import numpy as np
import pytest

import fedback


def test_models_by_coordinate(two_sites):
    run = fedback.run(two_sites)
    assert list(run.theta) == ["θ[0]"]
    assert np.array_equal(run.theta["θ[0]"], run.final_theta[:, 0])
    rng = np.random.default_rng(1)
    people = {"income": rng.normal(size=60), "debt": rng.normal(size=60),
              "default": rng.integers(0, 2, 60)}  # fmt: skip
    named = fedback.run(fedback.Spec(
        rounds=10, repetitions=3, algorithm=fedback.p_fedavg(scheme="full", step_size=0.1),
        problem=fedback.Problem(base=fedback.table(people, label="default", partition={"equal": 2}),
                                loss=fedback.logistic(l2=0.1)),
    ))  # fmt: skip
    pandas = pytest.importorskip("pandas")
    assert list(pandas.DataFrame(named.theta).columns) == named.coordinates == ["income", "debt"]
    assert np.array_equal(named.theta["debt"], named.final_theta[:, 1])


def test_frames_of_sweeps_agree(two_sites):
    pytest.importorskip("pandas"), pytest.importorskip("polars")
    swept = {"algorithm.local_steps": [1, 5], "problem.response.sensitivity": [[0.5, 0.9], [0, 0]]}
    runs = fedback.run(two_sites.set(sweep=swept))
    pandas, polars = runs.to_pandas(), runs.to_polars()
    assert list(pandas.columns) == polars.columns and list(pandas.columns)[-2:] == list(swept)
    assert pandas.to_dict("list") == polars.to_dict(as_series=False)
    assert set(pandas["problem.response.sensitivity"]) == {"[0.5, 0.9]", "[0, 0]"}
    answers = fedback.check(two_sites.set(sweep=swept))
    frame = answers.to_pandas()
    assert len(frame) == len(answers.to_polars()) == 4 and set(frame["verdict"]) == {"settles"}
    assert list(frame["gradient_margin"]) == [answer.gradient_margin for answer in answers]


def test_frames_of_recorded_runs(two_sites, tmp_path):
    pytest.importorskip("polars")
    for steps in (1, 2):
        fedback.run(two_sites, set={"algorithm.local_steps": steps}, store=tmp_path / "runs.db")
    both = fedback.compare([1, 2], store=tmp_path / "runs.db")
    assert both.to_polars()["run"].unique().sort().to_list() == [1, 2]
    xarray = pytest.importorskip("xarray")
    found = both.to_xarray()
    assert isinstance(found, xarray.Dataset) and list(found["run"].values) == [1, 2]
    assert np.array_equal(found["risk"].sel(point=1), both[1]["risk"])


def test_a_dataset_of_a_run(two_sites):
    pytest.importorskip("xarray")
    run = fedback.run(two_sites, set={"measure.client_risk": True})
    found = run.to_xarray()
    assert dict(found.sizes) == {"round": 4, "repetition": 400, "coordinate": 1, "client": 2}
    assert found["distance_sq"].dims == ("round", "repetition")
    assert np.array_equal(found["distance_sq"], run["distance_sq"])
    assert found["client_risk"].dims == ("round", "repetition", "client")
    assert np.array_equal(found["client_risk"].sel(client=1), run["client_risk[1]"])
    assert np.array_equal(found["theta"].sel(coordinate="θ[0]"), run.theta["θ[0]"])
    assert np.array_equal(found["risk_exact"], run.exact.mean("risk"))
    assert list(found["step"].values) == list(run.steps) and found.attrs["name"] == "two-sites"
    assert float(found["stable_point"].sel(coordinate="θ[0]")) == run.stable_point[0]
    exact = fedback.exact(two_sites).to_xarray()
    assert exact["risk"].dims == ("round",) and "repetition" not in exact.sizes


def test_a_dataset_of_groups_and_clients_with_names():
    pytest.importorskip("xarray")
    rng = np.random.default_rng(1)
    people = {
        "income": rng.normal(size=60), "default": rng.integers(0, 2, 60),
        "bank": np.repeat(["a", "b"], 30), "age": np.tile(["old [1]", "young"], 30),
    }  # fmt: skip
    base = fedback.table(people, label="default", partition={"column": "bank"}, ignore=["age"])
    run = fedback.run(fedback.Spec(
        rounds=10, algorithm=fedback.p_fedavg(scheme="full", step_size=0.1),
        problem=fedback.Problem(base=base, loss=fedback.logistic(l2=0.1)),
        measure={"group": "age", "client_risk": True},
    ))  # fmt: skip
    found = run.to_xarray()
    assert list(found["client"].values) == ["a", "b"]
    assert np.array_equal(
        found["accuracy_by_group"].sel(group="old [1]"), run["accuracy_by_group[old [1]]"]
    )


def test_a_dataset_of_a_grid(two_sites):
    pytest.importorskip("xarray")
    swept = {"algorithm.local_steps": [1, 5], "algorithm.batch": [1, 2, 4]}
    runs = fedback.run(two_sites.set(sweep=swept))
    found = runs.to_xarray()
    assert dict(found["risk"].sizes) == {
        "local_steps": 2,
        "batch": 3,
        "round": 4,
        "repetition": 400,
    }
    for run in runs:
        place = {key.rsplit(".", 1)[-1]: value for key, value in run.set.items()}
        one = found.sel(place)
        assert np.array_equal(one["risk"], run["risk"])
        assert np.array_equal(one["step"], run.steps)
        assert np.array_equal(one["theta"].squeeze("coordinate"), run.theta["θ[0]"])


def test_datasets_of_what_is_no_grid_or_differs_in_length(two_sites):
    pytest.importorskip("xarray")
    together = {"rounds, algorithm.local_steps": [[60, 1], [40, 2]]}
    found = fedback.run(two_sites.set(sweep=together)).to_xarray()
    assert list(found["rounds"].values) == [60, 40] and list(found["local_steps"].values) == [1, 2]
    assert found["risk"].dims == ("point", "round", "repetition")
    assert np.isnan(found["risk"].sel(point=1, round=60)).all()
    listed = fedback.run(two_sites.set(sweep={"problem.response.sensitivity": [0.5, [0.5, 0.9]]}))
    assert list(listed.to_xarray()["sensitivity"].values) == ["0.5", "[0.5, 0.9]"]
