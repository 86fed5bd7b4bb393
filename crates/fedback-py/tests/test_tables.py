"""Tables as people have them: text, missing cells, rows held out, groups."""

import numpy as np
import pytest

import fedback


def people(rows=200):
    rng = np.random.default_rng(3)
    income = rng.normal(size=rows)
    return {
        "income": [None if row % 20 == 0 else value for row, value in enumerate(income.tolist())],
        "job": rng.choice(["baker", "smith", "tailor"], rows),
        "default": (income + rng.normal(size=rows) > 0).astype(int),
        "bank": np.repeat(["north", "south"], rows // 2),
        "age": np.where(np.arange(rows) % 3 == 0, "young", "old"),
    }


def spec(data, *, measure, **options):
    base = fedback.table(
        data, label="default", partition={"column": "bank"}, standardize=True, ignore=["age"],
        one_hot=["job"], missing="mean", **options,
    )  # fmt: skip
    return fedback.Spec(
        rounds=20, repetitions=3, measure={"every": 10, **measure},
        problem=fedback.Problem(base=base, loss=fedback.logistic(l2=0.1)),
        algorithm=fedback.p_fedavg(scheme="full", step_size=0.2),
    )  # fmt: skip


def test_what_was_read_is_there():
    run = fedback.run(spec(people(), measure={"accuracy": True}, holdout=0.25))
    assert run.coordinates == ["income", "job=smith", "job=tailor"]
    table = run.table
    assert (table["rows"], table["used"], table["held_out"]) == (200, 150, 50)
    assert table["missing"] == [{"column": "income", "cells": 10}] and table["dropped"] == 0
    assert {"risk_holdout", "accuracy_holdout"} <= set(run.columns)
    assert not np.array_equal(run["risk_holdout"], run["risk"])
    assert fedback.solve(spec(people(), measure={}, holdout=0.25)).table == table


def test_rows_are_held_out_by_a_column():
    rows = {**people(), "part": np.where(np.arange(200) % 4 == 0, "test", "train")}
    held = {"column": "part", "value": "test"}
    assert fedback.run(spec(rows, measure={}, holdout=held)).table["held_out"] == 50
    with pytest.raises(fedback.InputError, match=r"holdout: found 1\.5"):
        fedback.run(spec(people(), measure={}, holdout=1.5))


def test_no_table_no_summary(two_sites):
    assert fedback.run(two_sites).table is None


def test_groups_are_measured_one_by_one():
    measured = {"group": "age", "client_risk": True}
    run = fedback.run(spec(people(), measure=measured, holdout=0.25))
    assert run.table["groups"] == ["old", "young"]
    assert len(set(run.columns)) == len(run.columns)
    old, young = run["risk_by_group[old]"], run["risk_by_group[young]"]
    assert np.allclose(run["risk_gap"], abs(old - young))
    assert not np.array_equal(run["client_risk_holdout[0]"], run["client_risk_holdout[1]"])
    contract = run.to_dict()["curve"][-1]
    assert contract["risk_by_group"][1]["mean"] == run.mean("risk_by_group[young]")[-1]
    held = run.mean("accuracy_by_group_holdout[young]")[-1]
    assert contract["accuracy_by_group_holdout"][1]["mean"] == held


def test_rows_are_scored(tmp_path):
    store, rows = tmp_path / "runs.db", people()
    with pytest.raises(fedback.InputError, match="cohort"):
        fedback.run(spec(rows, measure={}), set={"algorithm.cohort": 99}, store=store)
    assert not any(tmp_path.iterdir())
    run = fedback.run(spec(rows, measure={}), store=store)
    scores = fedback.score(1, rows, store=store)
    assert list(scores) == ["score", "probability", "prediction"]
    income = np.array(rows["income"], dtype=float)
    income = np.where(np.isnan(income), np.nanmean(income), income)
    features = np.stack([income, rows["job"] == "smith", rows["job"] == "tailor"], axis=1)
    features = (features - features.mean(axis=0)) / features.std(axis=0)
    assert np.allclose(scores["score"], features @ run.final_theta.mean(axis=0))
    first = fedback.score(1, rows, repetition=0, store=store)["score"]
    assert np.allclose(first, features @ run.final_theta[0])
    assert np.array_equal(scores["prediction"], scores["score"] > 0)


def test_wrong_rows_are_named(tmp_path):
    store = tmp_path / "runs.db"
    fedback.run(spec(people(), measure={}), store=store)
    with pytest.raises(fedback.InputError, match='rows: no column "job"'):
        fedback.score(1, {"income": [1.0]}, store=store)
    for repetition in (-1, 3):
        allowed = f"repetition: found {repetition}; allowed: 0 to 2"
        with pytest.raises(fedback.InputError, match=allowed):
            fedback.score(1, people(), repetition=repetition, store=store)
    with pytest.raises(fedback.InputError, match="none.csv: cannot be read"):
        fedback.score(1, tmp_path / "none.csv", store=store)


def test_rows_with_missing_cells_may_have_no_score(tmp_path):
    base = fedback.table(
        {"x": [1.0, 2.0, None, 4.0, 5.0], "y": [1.0, 2.0, 3.0, 4.0, 5.0]},
        label="y", partition={"equal": 2}, missing="drop",
    )  # fmt: skip
    linear = fedback.Spec(
        rounds=5, problem=fedback.Problem(base=base, loss=fedback.squared()),
        algorithm=fedback.p_fedavg(scheme="full", step_size=0.01),
    )  # fmt: skip
    run = fedback.run(linear, store=tmp_path / "runs.db")
    found = fedback.score(1, {"x": [3.0, None]}, store=tmp_path / "runs.db")
    assert list(found) == ["prediction"] and np.isnan(found["prediction"][1])
    assert found["prediction"][0] == 3.0 * run.final_theta[0, 0]
