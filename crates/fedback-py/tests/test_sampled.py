"""`solve` and `check` of problems with functions: from samples, beside theory and scipy."""

import numpy as np
import pytest

import fedback

MEAN, SENSITIVITY = np.array([1.0, 4.0, -2.0]), np.array([0.5, 0.9, 0.2])
WEIGHTS = [0.5, 0.25, 0.25]
GAUSSIAN = {
    "base": fedback.gaussian(mean=MEAN, noise=0.7),
    "response": fedback.location(sensitivity=SENSITIVITY),
}


@fedback.all_clients
def moved(clients, theta, n, rng):
    centre = MEAN[clients, None] + SENSITIVITY[clients, None] * theta
    return centre[:, None, :] + 0.7 * rng.normal(n, 1)


def one_by_one(client, theta, n, rng):
    return MEAN[client] + SENSITIVITY[client] * theta + 0.7 * rng.standard_normal((n, 1))


def square(theta, batch):
    away = theta - batch
    return 0.5 * float((away**2).sum()) / len(batch), away.mean(axis=0)


def spec(loss, step_size=0.1, algorithm=None, **population):
    keys = {"dim": 1, "clients": 3} if "population" in population else {}
    return fedback.Spec(
        rounds=50,
        problem=fedback.Problem(weights=WEIGHTS, loss=loss, **keys, **population),
        algorithm=algorithm or fedback.p_fedavg(scheme="full", step_size=step_size, local_steps=2),
    )


def near(found, name, truth):
    """Within five standard errors, which are not zero."""
    error = np.asarray(found["standard_error"][name])
    assert (error > 0).all() and (error < 0.2).all()
    assert (abs(np.asarray(found[name]) - truth) <= 5 * error + 1e-9).all(), (found[name], truth)


@pytest.mark.parametrize(
    "parts",
    [{"population": moved, "loss": fedback.mean()}, {"population": one_by_one, "loss": square}],
)
def test_affine_problems_are_solved_as_theory_does(parts):
    theory = fedback.solve(spec(fedback.mean(), **GAUSSIAN))
    custom = spec(**parts)
    found = fedback.solve(custom)
    assert found.sample == {"observations": 1000, "repetitions": 16, "smooth": True}
    for name in ("stable_point", "optimal_point", "risk_stable", "risk_optimal"):
        near(found, name, theory[name])
    # Differences of a linear function are exact: no sample changes them.
    assert found.gradient_margin == pytest.approx(theory.gradient_margin, abs=1e-7)
    assert found.minimisation_radius == pytest.approx(theory.minimisation_radius, abs=1e-7)
    assert found.stability == "attracting" and found.reason is None
    checked = fedback.check(custom)
    assert checked.verdict == "settles", checked.reason
    assert checked.trial["objection"] is None
    assert checked.stable_points[0]["stability"] == "attracting"
    assert set(fedback.check(spec(fedback.mean(), **GAUSSIAN))) <= set(checked)
    assert set(theory) <= set(found)


def test_a_custom_loss_on_a_table_is_exact():
    rng = np.random.default_rng(2)
    x = rng.normal(size=(90, 2))
    table = {"a": x[:, 0], "b": x[:, 1], "y": (x @ [1.0, -1.0] + rng.normal(size=90) > 0) * 1}
    keys = {
        "base": fedback.table(table, label="y", partition={"equal": 3}),
        "response": fedback.best_response(features=["b"], sensitivity=[0.5, 0.2, 1.0]),
    }

    def loss(theta, batch):
        rows, labels = batch
        margin = rows @ theta
        slope = 1 / (1 + np.exp(-margin)) - labels
        penalty = 0.1 * theta
        value = np.logaddexp(0, margin) - labels * margin
        return value.mean() + 0.5 * penalty @ theta, rows.T @ slope / len(labels) + penalty

    theory = fedback.solve(spec(fedback.logistic(l2=0.1), **keys))
    custom = spec(loss, step_size=0.5, **keys)
    found = fedback.solve(custom)
    assert found.sample == {"observations": None, "repetitions": 1, "smooth": True}
    assert found["standard_error"]["stable_point"] is None
    assert np.allclose(found.stable_point, theory.stable_point, atol=1e-7)
    assert np.allclose(found.optimal_point, theory.optimal_point, atol=1e-4)
    for name in ("risk_stable", "risk_optimal", "gradient_margin", "minimisation_radius"):
        assert found[name] == pytest.approx(theory[name], abs=1e-6), name
    assert found.coordinates == theory.coordinates
    assert fedback.check(custom).verdict == "settles"


CLASSES, FEATURES = 3, 4
CENTRES = np.random.default_rng(5).normal(size=(4, CLASSES, FEATURES))


def softmax(theta, batch):
    rows, labels = batch
    weights = theta.reshape(FEATURES, CLASSES)
    scores = rows @ weights
    scores -= scores.max(axis=1, keepdims=True)
    shares = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
    picked = np.arange(len(labels)), labels.astype(int)
    value = -np.log(shares[picked]).mean() + 0.05 * theta @ theta
    shares[picked] -= 1
    return value, (rows.T @ shares / len(labels)).ravel() + 0.1 * theta


def people(client, theta, n, rng):
    """Whoever is of a class moves towards what is scored highest for the first one."""
    labels = rng.integers(CLASSES, size=n)
    rows = CENTRES[client, labels] + rng.standard_normal((n, FEATURES))
    return rows + 0.4 * theta.reshape(FEATURES, CLASSES)[:, 0], labels


def test_softmax_is_solved_as_by_scipy():
    from scipy.optimize import minimize, root

    problem = fedback.Problem(population=people, loss=softmax, dim=12, clients=4)
    custom = fedback.Spec(
        rounds=50, seed=3, problem=problem, measure={"sample": 500},
        algorithm=fedback.p_fedavg(scheme="full", step_size=0.2, batch=16),
    )  # fmt: skip
    found = fedback.solve(custom)
    # Observations of NumPy's own, five times as many.
    rng = np.random.default_rng(77)
    labels = rng.integers(CLASSES, size=(4, 40_000))
    rows = CENTRES[np.arange(4)[:, None], labels] + rng.normal(size=(4, 40_000, FEATURES))

    def field(theta, deployed):
        shift = 0.4 * deployed.reshape(FEATURES, CLASSES)[:, 0]
        each = [softmax(theta, (rows[k] + shift, labels[k])) for k in range(4)]
        return np.mean([one[0] for one in each]), np.mean([one[1] for one in each], axis=0)

    stable = root(lambda theta: field(theta, theta)[1], np.zeros(12), method="hybr").x
    optimal = minimize(lambda theta: field(theta, theta)[0], stable, method="BFGS").x
    for name, truth in (("stable_point", stable), ("optimal_point", optimal)):
        error = np.array(found["standard_error"][name])
        away = abs(found[name] - truth)
        # scipy's sample has an error of its own, half of ours.
        assert (away < 6 * error).all() and away.max() < 0.05, (name, away / error)
    curvature, both = np.zeros((12, 12)), np.zeros((12, 12))
    for j, step in enumerate(1e-4 * np.eye(12)):
        both[:, j] = (field(stable + step, stable + step)[1] - field(stable, stable)[1]) / 1e-4
        curvature[:, j] = (field(stable + step, stable)[1] - field(stable, stable)[1]) / 1e-4
    margin = np.linalg.eigvals(both).real.min()
    radius = abs(np.linalg.eigvals(np.linalg.solve(curvature, both - curvature))).max()
    errors = found["standard_error"]
    assert abs(found.gradient_margin - margin) < 5 * errors["gradient_margin"] + 1e-3
    assert abs(found.minimisation_radius - radius) < 5 * errors["minimisation_radius"] + 1e-3
    assert fedback.check(custom).verdict == "settles"


@pytest.mark.parametrize(("sensitivity", "stability"), [(1.3, "repelling"), (1.0, "unknown")])
def test_what_diverges_is_never_said_to_settle(sensitivity, stability):
    @fedback.all_clients
    def strong(clients, theta, n, rng):
        return 1.0 + sensitivity * theta[:, None, :] + rng.normal(n, 1)

    checked = fedback.check(spec(fedback.mean(), population=strong))
    assert checked.verdict == "unknown"
    assert fedback.solve(spec(fedback.mean(), population=strong)).stability == stability


def test_steps_that_are_too_large_are_never_said_to_settle():
    checked = fedback.check(spec(square, step_size=5.0, population=moved))
    assert checked.gradient_margin > 0
    assert checked.verdict == "unknown"
    assert "a trial run did not settle" in checked.own_steps["why"]


def flips(client, theta, n, rng):
    """Yes or no: the more that is promised, the more say yes."""
    return (rng.random((n, 1)) < 1 / (1 + np.exp(-theta + client))) * 1.0


def drops(client, theta, n, rng):
    """Who is served badly is replaced by somebody else."""
    rows = rng.normal(size=(n, 1))
    return np.where(rows > theta, rng.normal(1.0, 1.0, size=(n, 1)), rows)


@pytest.mark.parametrize("population", [flips, drops])
def test_draws_that_jump_are_said_to(population):
    custom = spec(fedback.mean(), population=population)
    found = fedback.solve(custom)
    assert found.sample["smooth"] is False
    assert found.gradient_margin is None and found.stability == "unknown"
    assert "jump" in found.reason
    assert fedback.check(custom).verdict == "unknown"
    if population is flips:
        from scipy.optimize import brentq

        share = lambda theta: np.dot(WEIGHTS, 1 / (1 + np.exp(-theta + np.arange(3))))  # noqa: E731
        near(found, "stable_point", brentq(lambda theta: theta - share(theta), -5, 5))


def test_functions_that_are_not_seeded_are_said_to_be():
    own = np.random.default_rng()
    custom = spec(fedback.mean(), population=lambda client, theta, n, rng: own.normal(size=(n, 1)))
    found = fedback.solve(custom)
    assert found.stable_point is None
    assert "draw from rng alone" in found.reason
    assert fedback.check(custom).verdict == "unknown"


def test_what_a_function_raises_is_raised():
    def broken(client, theta, n, rng):
        raise ZeroDivisionError("mine")

    for ask in (fedback.solve, fedback.check):
        with pytest.raises(ZeroDivisionError, match="mine"):
            ask(spec(fedback.mean(), population=broken))


def test_a_sweep_has_a_solution_for_every_point():
    swept = spec(square, **GAUSSIAN).set(sweep={"problem.base.noise": [0.1, 1.0]})
    first, second = fedback.solve(swept)
    assert first.set == {"problem.base.noise": 0.1}
    errors = [one["standard_error"]["stable_point"][0] for one in (first, second)]
    assert errors[1] / errors[0] == pytest.approx(10, rel=1e-6)


def test_a_known_stable_point_is_where_the_search_begins():
    @fedback.all_clients
    def two(clients, theta, n, rng):
        return theta[:, None, :] - np.sin(theta)[:, None, :] + 0.01 * rng.normal(n, 1)

    problem = {"population": two, "dim": 1, "clients": 1, "loss": fedback.mean()}
    custom = fedback.Spec(
        rounds=10, algorithm=fedback.p_fedavg(scheme="full", step_size=0.1, start=1.0),
        problem=fedback.Problem(**problem, stable_point=[2 * np.pi]),
    )  # fmt: skip
    assert fedback.solve(custom).stable_point[0] == pytest.approx(2 * np.pi, abs=0.01)
    custom = fedback.Spec(custom, problem=fedback.Problem(**problem))
    assert fedback.solve(custom).stable_point[0] == pytest.approx(0.0, abs=0.01)
