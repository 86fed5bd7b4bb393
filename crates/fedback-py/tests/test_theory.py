"""Answers of theory: attributes, pictures, the same as the command's."""

import numpy as np
import pytest

import fedback


def test_solutions(two_sites):
    found = fedback.solve(two_sites)
    assert np.allclose(found.stable_point, 1.9 / 0.38) and found.stability == "attracting"
    assert found["risk_stable"] > found.risk_optimal and "stable_points" in dir(found)
    with pytest.raises(AttributeError, match="has no 'stabel_point'; it has .*, stable_point"):
        _ = found.stabel_point


def test_certificates(two_sites):
    certificate = fedback.check(two_sites)
    assert certificate.verdict == "settles" and certificate.svg().startswith("<svg")
    assert repr(certificate).startswith("Certificate(verdict=settles, reason=")
    axes = certificate.plot()
    assert np.isclose(sum(bar.get_width() for bar in axes.patches), 100.0)
    assert "settles" in certificate._repr_html_()
    bad = fedback.check(two_sites, set={"problem.response.sensitivity": [1.4, 1.4]})
    assert bad.verdict == "does-not-settle"


def test_bounds_take_overrides(two_sites):
    assert fedback.bounds(two_sites).theorem == "Theorem 3.1"
    doubled = fedback.bounds(two_sites, sigma=2.0)
    assert doubled["constants"]["sigma"]["value"] == 2.0
    with pytest.raises(fedback.InputError, match="sigma: found -1; allowed: a number 0 or more"):
        fedback.bounds(two_sites, sigma=-1.0)


def test_plans_can_be_run(two_sites):
    plan = fedback.plan(two_sites, accuracy=0.2, communication_cost=10.0, repetitions=500)
    assert plan.verified["holds"] and plan.plot().get_xlabel() == "local steps per round, E"
    cheapest, *others = plan.plot().get_lines()
    assert cheapest.get_label() == "cheapest for each E" and cheapest.get_linestyle() == "-"
    assert all(line.get_linestyle() != "-" for line in others[:-1])
    run = fedback.run(plan.spec.set(repetitions=500))
    distance, error = run.mean("distance_sq")[-1], run.standard_error("distance_sq")[-1]
    assert distance < 0.2 + 4 * error
    nothing = fedback.plan(two_sites, accuracy=1e-3, budget=100)
    assert nothing.spec is None and nothing.binding["constraint"] == "budget"
    with pytest.raises(fedback.InputError, match="accuracy: found 0; allowed: a number above 0"):
        fedback.plan(two_sites, accuracy=0.0)
    with pytest.raises(fedback.InputError, match="schemes: found half; allowed: full"):
        fedback.plan(two_sites, accuracy=0.1, schemes=["half"])


def test_fits_from_frames(tmp_path):
    pandas = pytest.importorskip("pandas")
    rng = np.random.default_rng(2)
    thetas = pandas.DataFrame(
        {"deployment": ["before", "after"], "a": [0.0, 1.0], "b": [0.0, -1.0]}
    )
    sensitivity = {"north": 0.5, "south": 1.5}
    rows = []
    for client, strength in sensitivity.items():
        for _, theta in thetas.iterrows():
            shift = strength * np.array([theta.a, theta.b])
            z = rng.normal(size=(400, 2)) + shift
            rows.append(
                pandas.DataFrame(
                    {"client": client, "deployment": theta.deployment, "a": z[:, 0], "b": z[:, 1]}
                )
            )
    fit = fedback.fit(
        pandas.concat(rows), thetas, output=tmp_path / "fit", response="location", shape="scalar"
    )
    for client in fit["clients"]:
        assert client["low"] < sensitivity[client["name"]] < client["high"]
    assert fit.svg().startswith("<svg")
    assert fedback.check(fit.spec).verdict in (
        "settles",
        "settles-with-small-steps",
        "does-not-settle",
    )
    assert fedback.check(fit.spec)["confidence"]["resamples"] > 100
    asked = fedback.check(fit.spec, set={"problem.response.sensitivity": [0.5, 0.5]})
    assert asked["confidence"] is None
    with pytest.raises(fedback.InputError, match="exists already|not empty|--force"):
        fedback.fit(pandas.concat(rows), thetas, output=tmp_path / "fit", response="location")


def test_other_algorithms_are_answered_for(two_sites):
    """Theory knows all but Adam, the theorems P-FedAvg; where they settle it says for each."""
    scaffold = fedback.Spec(two_sites, algorithm=fedback.scaffold(scheme="full", step_size=0.1))
    assert fedback.solve(scaffold).stable_point == [5.0]
    assert fedback.check(scaffold).verdict == "settles"
    curve = fedback.exact(scaffold).mean("distance_sq")
    assert curve[-1] < curve[0]
    with pytest.raises(fedback.InputError, match="algorithm.kind.*SCAFFOLD"):
        fedback.bounds(scaffold)
    adam = fedback.fedopt(server=fedback.adam(), scheme="full", step_size=0.1)
    for ask in (fedback.exact, fedback.check):
        with pytest.raises(fedback.InputError, match="algorithm.server.*Adam"):
            ask(fedback.Spec(two_sites, algorithm=adam))
    arrivals = {
        "scheme": "first-arrivals",
        "cohort": 1,
        "step_size": 0.1,
        "latency": {"kind": "exponential", "mean": [1.0, 4.0]},
    }
    settles = {
        kind: fedback.solve(fedback.Spec(two_sites, algorithm=section)).settles_at
        for kind, section in {
            "p-fedavg": fedback.p_fedavg(**arrivals),
            "fedprox": fedback.fedprox(proximal=1.0, **arrivals),
            "scaffold": fedback.scaffold(**arrivals),
            "adam": fedback.fedopt(server=fedback.adam(), **arrivals),
        }.items()
    }
    # The first of two exponentials: 0.8 and 0.2; effective weights .56 : .06.
    weights = np.array([0.56, 0.06]) / 0.62
    effective = weights @ [1.0, 4.0] / (1 - weights @ [0.5, 0.9])
    assert settles["p-fedavg"] == pytest.approx([effective], rel=1e-9)
    assert settles["fedprox"] == pytest.approx([effective], rel=1e-9)
    assert settles["scaffold"] == pytest.approx([5.0], rel=1e-9)
    assert settles["adam"] is None
