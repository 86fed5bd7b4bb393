"""Recorded runs: labels, what they were, removal, bundles."""

import json

import numpy as np
import pytest

import fedback


@pytest.fixture
def store(two_sites, tmp_path):
    """Two runs, of one and of two local steps, the second labelled."""
    store = tmp_path / "runs.db"
    fedback.run(two_sites, set={"algorithm.local_steps": 1}, store=store)
    fedback.run(two_sites, store=store, tags=["pilot", "two"], note="a first look")
    return store


def test_labels(store, two_sites):
    second, first = fedback.runs(store)
    assert (second["tags"], second["note"]) == (["pilot", "two"], "a first look")
    assert (first["tags"], first["note"]) == ([], "")
    fedback.note(1, "one step", tags="pilot", store=store)
    fedback.note(2, tags=[], store=store)
    second, first = fedback.runs(store)
    assert (second["tags"], second["note"]) == ([], "a first look")
    assert (first["tags"], first["note"]) == (["pilot"], "one step")
    with pytest.raises(fedback.InputError, match='tags: found "two words"; a tag is one word'):
        fedback.note(1, tags=["two words"], store=store)
    with pytest.raises(fedback.InputError, match="run 7"):
        fedback.note(7, "nobody", store=store)
    with pytest.raises(fedback.InputError, match="say where it is recorded: store="):
        fedback.run(two_sites, tags="pilot")


def test_a_wrong_tag_records_nothing(two_sites, tmp_path):
    with pytest.raises(fedback.InputError, match='tags: found "a,b"'):
        fedback.run(two_sites, store=tmp_path / "runs.db", tags=["a,b"])
    assert not (tmp_path / "runs.db").exists()


def test_a_sweep_is_labelled_point_by_point(two_sites, tmp_path):
    store = tmp_path / "runs.db"
    fedback.run(two_sites.set(sweep={"algorithm.batch": [1, 4]}), store=store, tags="grid")
    assert [row["tags"] for row in fedback.runs(store)] == [["grid"], ["grid"]]


def test_a_run_says_what_it_was(store):
    shown = fedback.show(2, store=store)
    assert (shown.name, shown.state, shown.seed, shown.tags) == (
        "two-sites", "done", 7, ["pilot", "two"],
    )  # fmt: skip
    assert shown["final"]["round"] == 60 and "'two-sites'" in repr(fedback.load(2, store=store))
    assert shown.spec.table["algorithm"]["local_steps"] == 2
    assert shown.spec.plan_hash == shown.plan
    again = fedback.run(fedback.Spec.parse(shown.spec.to_toml()))
    assert np.array_equal(again.final_theta, fedback.load(2, store=store).final_theta)


def test_what_differs_between_runs(store):
    differs = fedback.show(1, 2, store=store)
    assert differs["spec.algorithm.local_steps"] == [1, 2]
    assert "spec.problem.weights" not in differs and len(differs["final.risk"]) == 2
    with pytest.raises(fedback.InputError, match="found no run"):
        fedback.show(store=store)


def test_the_spec_of_a_table_in_memory_runs_again(tmp_path):
    store = tmp_path / "runs.db"
    base = fedback.table({"x": np.arange(6.0)}, partition={"equal": 2})
    spec = fedback.Spec(
        rounds=5, problem=fedback.Problem(base=base, loss=fedback.mean()),
        algorithm=fedback.p_fedavg(scheme="full", step_size=0.1),
    )  # fmt: skip
    run = fedback.run(spec, store=store)
    shown = fedback.show(1, store=store)
    assert shown.table["rows"] == 6
    assert np.array_equal(fedback.run(shown.spec).final_theta, run.final_theta)


def test_runs_are_removed_all_or_none(store):
    with pytest.raises(fedback.InputError, match="run 7"):
        fedback.rm(1, 7, store=store)
    assert len(fedback.runs(store)) == 2
    fedback.rm(1, store=store)
    assert [row["id"] for row in fedback.runs(store)] == [2]


def test_bundles_travel(store, tmp_path):
    bundle = fedback.export(2, tmp_path / "two.bundle", format="bundle", store=store)
    there = tmp_path / "there.db"
    assert fedback.import_bundle(bundle, store=there) == [1]
    [row] = fedback.runs(there)
    assert (row["tags"], row["note"]) == (["pilot", "two"], "a first look")
    here = fedback.load(2, store=store)
    assert np.array_equal(fedback.load(1, store=there)["risk"], here["risk"])
    with pytest.raises(fedback.InputError, match="is there already"):
        fedback.export(1, bundle, format="bundle", store=store)
    with pytest.raises(fedback.InputError, match="none.bundle: no such file"):
        fedback.import_bundle(tmp_path / "none.bundle", store=tmp_path / "new.db")
    assert not (tmp_path / "new.db").exists()


def test_other_formats(store, tmp_path):
    out = {name: tmp_path / f"run.{name}" for name in ("csv", "json", "svg")}
    for name, path in out.items():
        assert fedback.export(1, path, format=name, store=store) == path
    assert json.loads(out["json"].read_text()) == fedback.load(1, store=store).to_dict()
    assert "distance_sq" in out["csv"].read_text() and "<svg" in out["svg"].read_text()
    allowed = "format: found 'pdf'; allowed: csv, json, svg, npz, bundle"
    with pytest.raises(fedback.InputError, match=allowed):
        fedback.export(1, tmp_path / "run.pdf", format="pdf", store=store)
    assert not (tmp_path / "run.pdf").exists()


def test_arrays(store, tmp_path):
    path = fedback.export(1, tmp_path / "run.npz", format="npz", store=store)
    run = fedback.load(1, store=store)
    with np.load(path, allow_pickle=False) as arrays:
        assert set(arrays.files) == {"theta", "rounds", *run.columns}
        assert np.array_equal(arrays["theta"], run.final_theta)
        assert np.array_equal(arrays["rounds"], run.rounds)
        for name in run.columns:
            assert np.array_equal(arrays[name], run[name])
    again = fedback.export(1, tmp_path / "again.npz", format="npz", store=store)
    assert again.read_bytes() == path.read_bytes()


def test_arrays_of_a_table(tmp_path):
    rows = {"größe": [1.0, 2.0, 3.0, 4.0], "b": [0.5, 0.1, 0.2, 0.9], "y": [0, 1, 0, 1]}
    rows["kind"] = ["old", "young", "old", "young"]
    base = fedback.table(rows, label="y", partition={"equal": 2}, ignore=["kind"], intercept=True)
    problem = fedback.Problem(base=base, loss=fedback.logistic(l2=0.1))
    spec = fedback.Spec(
        rounds=3,
        problem=problem,
        measure={"client_risk": True, "group": "kind", "accuracy": True},
        algorithm=fedback.p_fedavg(scheme="full", step_size=0.1),
    )
    run = fedback.run(spec, store=tmp_path / "table.db")
    path = fedback.export(1, tmp_path / "run.npz", format="npz", store=tmp_path / "table.db")
    with np.load(path, allow_pickle=False) as arrays:
        assert list(arrays["coordinates"]) == run.coordinates == ["größe", "b", "intercept"]
        assert np.array_equal(arrays["client_risk[1]"], run["client_risk[1]"])
        assert np.array_equal(arrays["accuracy_by_group[young]"], run["accuracy_by_group[young]"])
        assert np.array_equal(arrays["theta"], run.final_theta)
