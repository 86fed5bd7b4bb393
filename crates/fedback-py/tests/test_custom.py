"""Custom parts: the same curves as built in, seeds, errors."""

import traceback

import numpy as np
import pytest

import fedback

MEAN, SENSITIVITY = [1.0, 4.0], [0.5, 0.9]


def draw(client, theta, n, rng):
    return MEAN[client] + SENSITIVITY[client] * theta + rng.standard_normal((n, 1))


def loss(theta, batch):
    away = theta - batch
    return 0.5 * (away**2).sum(axis=1).mean(), away.mean(axis=0)


def custom(two_sites, **parts):
    problem = fedback.Problem(weights=[0.7, 0.3], stable_point=[5.0], **parts)
    return fedback.Spec(two_sites, problem=problem, name="custom")


@pytest.fixture
def population(two_sites):
    return custom(two_sites, population=draw, dim=1, clients=2, loss=fedback.mean())


@pytest.mark.parametrize("deploy", ["step", "round"])
@pytest.mark.parametrize("parts", ["population", "loss", "both"])
def test_equal_to_built_in_within_standard_errors(two_sites, parts, deploy):
    built_in = {
        "base": fedback.gaussian(mean=MEAN), "response": fedback.location(sensitivity=SENSITIVITY),
    }  # fmt: skip
    function = {"population": draw, "dim": 1, "clients": 2}
    spec = custom(
        two_sites,
        **(built_in if parts == "loss" else function),
        loss=fedback.mean() if parts == "population" else loss,
    ).set({"algorithm.deploy": deploy, "measure.sample": 400})
    run = fedback.run(spec)
    expected = fedback.exact(two_sites.set({"algorithm.deploy": deploy}))
    for name in ("distance_sq", "risk"):
        error = run.mean(name) - expected.mean(name)
        # The risk is estimated from 400 observations a client, also where all θ are the same.
        sampled = 4.0 / np.sqrt(400 * run.repetitions) if name == "risk" else 0.0
        assert (abs(error) < 4.5 * np.hypot(run.standard_error(name), sampled) + 1e-12).all()


KEYS = {"scheme": "without-replacement", "cohort": 2, "local_steps": 3, "step_size": 0.3}


@pytest.mark.parametrize("batch", [4, "all"])
@pytest.mark.parametrize(
    "algorithm",
    [fedback.p_fedavg(**KEYS), fedback.fedprox(proximal=0.7, **KEYS), fedback.scaffold(**KEYS),
     fedback.fedopt(server=fedback.adam(), **KEYS)],
    ids=lambda section: section["kind"],
)  # fmt: skip
def test_a_custom_loss_on_a_table_is_the_built_in_one(algorithm, batch):
    """Rows are drawn from the same streams, so that only the last digits differ."""
    rng = np.random.default_rng(3)
    x, y = rng.normal(size=(90, 2)), rng.integers(0, 2, 90).astype(float)
    data = {"a": x[:, 0], "b": x[:, 1], "y": y}

    def logistic(theta, batch):
        rows, labels = batch
        margin = rows @ theta
        slope = 1 / (1 + np.exp(-margin)) - labels
        value = np.logaddexp(0, margin) - labels * margin
        return value.mean() + 0.05 * theta @ theta, rows.T @ slope / len(labels) + 0.1 * theta

    def spec(loss):
        return fedback.Spec(
            rounds=40, repetitions=2, seed=5, measure={"every": 10},
            algorithm={**algorithm, "batch": batch},
            problem=fedback.Problem(
                base=fedback.table(data, label="y", partition={"equal": 3}),
                response=fedback.best_response(features=["a"], sensitivity=[0.2, 0.8, 1.4]),
                loss=loss,
            ),
        )  # fmt: skip

    ours, theirs = fedback.run(spec(logistic)), fedback.run(spec(fedback.logistic(l2=0.1)))
    assert np.allclose(ours.final_theta, theirs.final_theta, rtol=1e-10, atol=1e-12)
    assert np.allclose(ours["risk"], theirs["risk"], rtol=1e-10)
    assert ours.columns == ["risk"] and ours.stable_point is None
    assert ours.to_dict()["curve"][0]["distance_sq"] is None


def test_all_of_a_population_must_be_there(population, two_sites):
    with pytest.raises(fedback.InputError, match='algorithm.batch: found "all".*cannot be listed'):
        fedback.run(population.set({"algorithm.batch": "all"}))
    on_normal_data = custom(two_sites, base=fedback.gaussian(mean=MEAN), loss=loss)
    with pytest.raises(fedback.InputError, match="expectation of a custom loss"):
        fedback.run(on_normal_data.set({"algorithm.batch": "all"}))


def test_seeded_and_resumed(population, tmp_path):
    few = population.set(repetitions=3)
    one = fedback.run(few, store=tmp_path / "runs.db")
    assert np.array_equal(one.final_theta, fedback.run(few, threads=4).final_theta)
    assert not np.array_equal(one.final_theta, fedback.run(few.set(seed=1)).final_theta)
    assert fedback.runs(tmp_path / "runs.db")[0]["state"] == "done"

    calls = [0]

    def interrupted(client, theta, n, rng):
        calls[0] += 1
        if calls[0] > 300:
            raise KeyboardInterrupt
        return draw(client, theta, n, rng)

    few.draw = interrupted
    with pytest.raises(KeyboardInterrupt):
        fedback.run(few, store=tmp_path / "runs.db")
    few.draw = draw
    with pytest.raises(fedback.InputError, match='"custom" needs a function draw='):
        fedback.resume(2, store=tmp_path / "runs.db")
    resumed = fedback.resume(2, store=tmp_path / "runs.db", spec=few)
    assert np.array_equal(resumed.final_theta, one.final_theta)


def test_errors_are_the_users_own(population):
    def broken(client, theta, n, rng):
        return {}["no such key"]

    population.draw = broken
    with pytest.raises(KeyError, match="no such key") as caught:
        fedback.run(population)
    assert "in broken" in "".join(traceback.format_exception(caught.value))


@pytest.mark.parametrize(
    ("batch", "message"),
    [
        (lambda n: np.zeros((n, 2)), r"features of shape \(\d+, 2\); needed: \d+ rows of 1"),
        (lambda n: np.full((n, 1), np.nan), "not finite"),
        (lambda n: "words", "could not convert"),
    ],
)
def test_wrong_batches_are_named(population, batch, message):
    population.draw = lambda client, theta, n, rng: batch(n)
    with pytest.raises(ValueError, match=message):
        fedback.run(population)


def test_labels_are_needed_by_losses_that_predict():
    def spec(draw, intercept):
        return fedback.Spec(
            rounds=3, measure={"risk": False},
            algorithm=fedback.p_fedavg(scheme="full", step_size=0.1, batch=4, deploy="round"),
            problem=fedback.Problem(
                population=draw, dim=3, intercept=intercept, clients=2, loss=fedback.logistic()
            ),
        )  # fmt: skip

    def labelled(client, theta, n, rng):
        assert theta.shape == (3,)
        return rng.normal(size=(n, 2)), rng.integers(0, 2, n)

    assert fedback.run(spec(labelled, True)).final_theta.shape == (1, 3)
    with pytest.raises(ValueError, match="needed: 4 rows of 3 features"):
        fedback.run(spec(labelled, False))
    with pytest.raises(TypeError, match=r"needed: \(features, labels\)"):
        fedback.run(spec(lambda client, theta, n, rng: rng.normal(size=(n, 2)), True))
    with pytest.raises(ValueError, match="labels other than 0 and 1"):
        fedback.run(spec(lambda client, theta, n, rng: (np.zeros((n, 2)), np.full(n, 2.0)), True))


def test_wrong_losses_are_named(two_sites):
    spec = custom(two_sites, population=draw, dim=1, clients=2, loss=lambda theta, batch: 1.0)
    with pytest.raises(TypeError, match=r"loss returned a float; needed: \(value, gradient\)"):
        fedback.run(spec)
    spec.loss = lambda theta, batch: (1.0, np.zeros(2))
    with pytest.raises(ValueError, match=r"gradient of shape \(2,\); needed: \(1,\)"):
        fedback.run(spec)


def test_theory_says_that_it_cannot(population):
    for ask in (fedback.exact, fedback.bounds):
        with pytest.raises(fedback.InputError, match="problem.base.kind: .*theory"):
            ask(population)
