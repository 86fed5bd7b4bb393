"""Functions of all clients at once: the same runs as functions of one, and as built in."""

import numpy as np
import pytest

import fedback

MEAN, SENSITIVITY = np.array([1.0, 4.0, -2.0]), np.array([0.5, 0.9, -0.4])
KEYS = {"step_size": 0.125, "local_steps": 3, "batch": 4}
ALGORITHMS = [
    fedback.p_fedavg(scheme="full", **KEYS),
    fedback.p_fedavg(scheme="with-replacement", cohort=4, deploy="round", **KEYS),
    fedback.fedprox(proximal=0.5, scheme="without-replacement", cohort=2, **KEYS),
    fedback.scaffold(scheme="without-replacement", cohort=2, deploy="round", **KEYS),
]


@fedback.all_clients
def draw_all(clients, theta, n, rng):
    centre = MEAN[clients, None] + SENSITIVITY[clients, None] * theta
    return centre[:, None, :] + rng.normal(n, 1)


def draw_one(client, theta, n, rng):
    return MEAN[client] + SENSITIVITY[client] * theta + rng.standard_normal((n, 1))


@fedback.all_clients
def loss_all(theta, batch):
    away = theta[:, None, :] - batch
    return 0.5 * (away**2).sum(axis=2).mean(axis=1), away.mean(axis=1)


def loss_one(theta, batch):
    away = theta - batch
    return 0.5 * (away**2).sum(axis=1).mean(), away.mean(axis=0)


def spec(algorithm, **parts):
    return fedback.Spec(
        rounds=15, repetitions=40, seed=3, algorithm=algorithm,
        problem=fedback.Problem(weights=[0.5, 0.3, 0.2], **parts),
        measure={"every": 5, "sample": 20, "consensus": True, "client_risk": True},
    )  # fmt: skip


FUNCTION = {"dim": 1, "clients": 3}
BUILT_IN = {
    "base": fedback.gaussian(mean=MEAN),
    "response": fedback.location(sensitivity=SENSITIVITY),
}


@pytest.mark.parametrize("algorithm", ALGORITHMS, ids=lambda one: one["kind"] + one["scheme"])
def test_streams_are_those_of_what_is_built_in(algorithm):
    """The same words in the same order: only rounding differs. (Of larger batches of normal data
    the kernels draw the mean.)"""
    algorithm = {**algorithm, "batch": 1}
    built_in = spec(algorithm, **BUILT_IN, loss=fedback.mean())
    del built_in.table["measure"]["sample"]
    theirs = fedback.run(built_in).final_theta
    for parts in (
        {"population": draw_all, **FUNCTION, "loss": fedback.mean()},
        {"population": draw_all, **FUNCTION, "loss": loss_all},
        {"population": draw_all, **FUNCTION, "loss": loss_one},
        {**BUILT_IN, "loss": loss_all},
    ):
        assert np.allclose(fedback.run(spec(algorithm, **parts)).final_theta, theirs, rtol=1e-11)


@pytest.mark.parametrize("algorithm", ALGORITHMS, ids=lambda one: one["kind"] + one["scheme"])
@pytest.mark.parametrize("population", [{"population": draw_one, **FUNCTION}, BUILT_IN])
def test_a_loss_of_all_clients_is_that_of_one(algorithm, population):
    one = fedback.run(spec(algorithm, **population, loss=loss_one))
    all = fedback.run(spec(algorithm, **population, loss=loss_all))
    assert one.columns == all.columns
    assert np.allclose(one.final_theta, all.final_theta, rtol=1e-12)
    for name in one.columns:
        assert np.allclose(one[name], all[name], rtol=1e-10)


def test_clients_with_different_numbers_of_rows():
    data = {"x": np.arange(12) % 5 / 2, "who": list("aaaaabbbbccc")}
    base = fedback.table(data, partition={"column": "who"})

    def run(loss):
        return fedback.run(fedback.Spec(
            rounds=9, algorithm=fedback.p_fedavg(scheme="full", step_size=0.2, batch="all"),
            problem=fedback.Problem(base=base, loss=loss,
                                    response=fedback.location(sensitivity=SENSITIVITY)),
        ))  # fmt: skip

    theirs = run(fedback.mean())
    rows_one = lambda theta, batch: loss_one(theta, batch[0])
    rows_all = fedback.all_clients(lambda theta, batch: loss_all(theta, batch[0]))
    for ours in (run(rows_one), run(rows_all)):
        assert np.allclose(ours.final_theta, theirs.final_theta, rtol=1e-12)
        assert np.allclose(ours["risk"], theirs["risk"], rtol=1e-12)


def test_blocks_threads_and_resume_change_no_bit(tmp_path):
    """2,000 observations of 3 clients and 40 repetitions are more than one block."""
    wide = spec(ALGORITHMS[3], population=draw_all, **FUNCTION, loss=loss_all)
    wide = wide.set({"algorithm.batch": 2000, "rounds": 4, "measure.every": 1})
    whole = fedback.run(wide, threads=1).final_theta
    assert np.array_equal(fedback.run(wide, threads=4).final_theta, whole)
    few = fedback.run(wide.set(repetitions=2)).final_theta
    assert np.array_equal(few, whole[:2])

    calls = [0]

    @fedback.all_clients
    def interrupted(clients, theta, n, rng):
        calls[0] += 1
        if calls[0] == 9:
            raise KeyboardInterrupt
        return draw_all(clients, theta, n, rng)

    store = tmp_path / "runs.db"
    broken = fedback.Spec(wide)
    broken.draw = interrupted
    with pytest.raises(KeyboardInterrupt):
        fedback.run(broken, store=store)
    assert np.array_equal(fedback.resume(1, store=store, spec=wide).final_theta, whole)


def test_streams_give_every_client_its_own():
    seen = {}

    @fedback.all_clients
    def draw(clients, theta, n, rng):
        assert len(rng) == len(clients) == len(theta)
        assert not np.shares_memory(theta, seen.setdefault("theta", np.empty(1)))
        whole = rng.integers(6, n), rng.uniform(2, n), rng.words(n), rng.keys()
        one = [generator.normal() for generator in rng.generators()]
        again = [generator.normal() for generator in rng.generators()]
        assert one == again
        assert len(set(one)) == len(one)
        assert [array.shape[1:] for array in whole] == [(n,), (2, n), (n,), (2,)]
        assert ((whole[0] >= 0) & (whole[0] < 6)).all()
        assert ((whole[1] >= 0) & (whole[1] < 1)).all()
        assert len(np.unique(whole[2])) == whole[2].size
        assert not (rng.keys() == whole[3]).all(axis=1).any()
        theta += 100.0
        return rng.normal(n, 1)

    run = fedback.run(spec(ALGORITHMS[0], population=draw, **FUNCTION, loss=fedback.mean()))
    assert abs(run.final_theta).max() < 10
    for bad in (-1, 1.5, "a"):
        with pytest.raises(fedback.InputError, match="shape: found"):
            streams(lambda rng, bad=bad: rng.normal(bad))
    with pytest.raises(fedback.InputError, match="high: found 0"):
        streams(lambda rng: rng.integers(0, 3))


def streams(use):
    @fedback.all_clients
    def draw(clients, theta, n, rng):
        return use(rng)

    fedback.run(spec(ALGORITHMS[0], population=draw, **FUNCTION, loss=fedback.mean()))


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (
            lambda m, n: np.zeros((m, n, 2)),
            r"features of shape \(\d+, 20, 2\); needed: \(\d+, 20, 1",
        ),
        (lambda m, n: np.zeros((n, 1)), r"features of shape \(20, 1, 1\); needed: \(\d+, 20, 1\)"),
        (lambda m, n: np.full((m, n, 1), np.inf), "not finite"),
    ],
)
def test_wrong_batches_are_named(answer, message):
    @fedback.all_clients
    def draw(clients, theta, n, rng):
        return answer(len(clients), n)

    with pytest.raises(ValueError, match=message):
        fedback.run(spec(ALGORITHMS[0], population=draw, **FUNCTION, loss=fedback.mean()))


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (lambda at: at, r"loss returned an array of shape .*; needed: \(value, gradient\)"),
        (lambda at: (0.0, at), r"values of shape \(\); needed: \(\d+,\)"),
        (lambda at: (at[:, 0], at[0]), r"gradients of shape \(1,\); needed: \(\d+, 1\)"),
    ],
)
def test_wrong_losses_are_named(answer, message):
    loss = fedback.all_clients(lambda theta, batch: answer(theta))
    with pytest.raises((TypeError, ValueError), match=message):
        fedback.run(spec(ALGORITHMS[0], **BUILT_IN, loss=loss))
