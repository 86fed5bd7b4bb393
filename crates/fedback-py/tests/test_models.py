"""Models of JAX as losses and populations; those of PyTorch are tested by `./dev/test long`."""

import multiprocessing
import os
import pickle

import numpy as np
import pytest

import fedback

jax = pytest.importorskip("jax")
jnp = jax.numpy
ROWS = np.random.default_rng(4).normal(size=(3, 50, 2))
LABELS = (ROWS @ [1.0, -2.0] > 0.3).astype(float)


@fedback.all_clients
def people(clients, theta, n, rng):
    picked = rng.integers(50, n)
    rows = ROWS[clients[:, None], picked]
    rows[:, :, 1] -= 0.3 * theta[:, 1, None]
    return rows, LABELS[clients[:, None], picked]


def logistic(params, batch):
    rows, labels = batch
    margin = rows @ params["weights"]
    penalty = 0.05 * (params["weights"] ** 2).sum()
    return (jnp.logaddexp(0.0, margin) - labels * margin).mean() + penalty


def spec(population, loss, **keys):
    return fedback.Spec(
        rounds=20, repetitions=3, measure={"every": 10, "sample": 40},
        algorithm=fedback.scaffold(scheme="full", step_size=0.3, local_steps=3, batch=6),
        problem=fedback.Problem(population=population, clients=3, loss=loss, **keys),
    )  # fmt: skip


@pytest.mark.parametrize(("double", "close"), [(True, 1e-11), (False, 1e-4)])
def test_a_model_is_the_loss_that_is_built_in(double, close):
    with jax.enable_x64(double):
        model = fedback.jax_model(logistic, {"weights": jnp.zeros(2)})
        ours = fedback.run(spec(people, model))
    theirs = fedback.run(spec(people, fedback.logistic(l2=0.1), dim=2))
    assert np.allclose(ours.final_theta, theirs.final_theta, rtol=close, atol=close)
    assert np.allclose(ours["risk"], theirs["risk"], rtol=close)


def test_parameters_go_in_and_out():
    params = {"a": jnp.arange(6.0).reshape(2, 3), "b": (jnp.ones(2), jnp.array(7.0))}
    model = fedback.jax_model(lambda params, batch: params["a"].sum(), params)
    assert model.dim == 9
    back = model.unflatten(model.start)
    assert (back["a"] == params["a"]).all() and back["b"][1] == 7.0
    with pytest.raises(fedback.InputError, match=r"theta: found .*\(2,\); needed: \(9,\)"):
        model.unflatten(np.zeros(2))


def test_a_network_descends_along_its_gradient():
    def network(params, batch):
        rows, labels = batch
        hidden = jnp.tanh(rows @ params[0])
        return ((hidden @ params[1] - labels) ** 2).mean()

    rng = np.random.default_rng(0)
    with jax.enable_x64(True):
        model = fedback.jax_model(network, (jnp.array(rng.normal(size=(2, 4))), jnp.ones(4)))
        batch = ROWS, LABELS
        at = rng.normal(size=(3, model.dim))
        _, slopes = model(at, batch)
        for j in range(model.dim):
            step = np.zeros(model.dim)
            step[j] = 1e-6
            up, down = model(at + step, batch)[0], model(at - step, batch)[0]
            assert np.allclose((up - down) / 2e-6, slopes[:, j], atol=1e-8)


def test_populations_of_jax_are_seeded():
    def draw(key, client, params, n):
        return client + 0.5 * params["at"] + jax.random.normal(key, (n, 1))

    with jax.enable_x64(True):
        model = fedback.jax_model(
            lambda params, batch: 0.5 * ((params["at"] - batch) ** 2).sum(axis=1).mean(),
            {"at": jnp.zeros(1)},
        )
        custom = spec(fedback.jax_population(draw, model), model, stable_point=[2.0])
        custom = custom.set(repetitions=400, rounds=60)
        run = fedback.run(custom)
        again = fedback.run(custom.set(repetitions=5))
    assert np.allclose(run.final_theta[:5], again.final_theta, rtol=1e-12)
    mean = run.final_theta.mean(), run.final_theta.std() / 20
    assert abs(mean[0] - 2.0) < 4 * mean[1]
    assert np.unique(run.final_theta).size == 400


def test_cohorts_of_many_sizes_are_compiled_for_a_few():
    compiled = []

    def counted(params, batch):
        compiled.append(batch[0].shape)
        return logistic(params, batch)

    with jax.enable_x64(True):
        model = fedback.jax_model(counted, {"weights": jnp.zeros(2)})
        keys = {"step_size": 0.3, "batch": 6, "scheme": "with-replacement", "cohort": 2}
        algorithm = fedback.p_fedavg(**keys)
        ours = fedback.run(fedback.Spec(spec(people, model), algorithm=algorithm, repetitions=40))
    assert len(compiled) <= 6
    built_in = spec(people, fedback.logistic(l2=0.1), dim=2)
    theirs = fedback.run(fedback.Spec(built_in, algorithm=algorithm, repetitions=40))
    assert np.allclose(ours.final_theta, theirs.final_theta, rtol=1e-11, atol=1e-11)


@pytest.mark.skipif("FEDBACK_TORCH" not in os.environ, reason="runs in ./dev/test long")
def test_models_of_pytorch():
    torch = pytest.importorskip("torch")
    network = torch.nn.Linear(2, 1, bias=False, dtype=torch.float64)
    torch.nn.init.zeros_(network.weight)

    def loss(params, batch):
        rows, labels = batch
        margin = torch.func.functional_call(network, params, rows)[:, 0]
        penalty = 0.05 * (params["weight"] ** 2).sum()
        return (torch.nn.functional.softplus(margin) - labels * margin).mean() + penalty

    model = fedback.torch_model(loss, network)
    ours = fedback.run(spec(people, model))
    theirs = fedback.run(spec(people, fedback.logistic(l2=0.1), dim=2))
    assert np.allclose(ours.final_theta, theirs.final_theta, rtol=1e-9)
    assert model.unflatten(model.start)["weight"].shape == (1, 2)
    with pytest.raises(fedback.InputError, match="params: found a list"):
        fedback.torch_model(loss, [1.0])


def test_models_travel_to_other_processes():
    for double in (True, False):
        with jax.enable_x64(double):
            model = fedback.jax_model(logistic, {"weights": jnp.ones(2)})
            one = spec(people, model)
            here = fedback.run(one)
        # In whatever precision is switched on there.
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            there = pool.apply_async(fedback.run, [one]).get(timeout=300)
        assert np.array_equal(there.final_theta, here.final_theta)
        again = pickle.loads(pickle.dumps(model))
        assert np.array_equal(again.start, model.start) and again.start.dtype == model.start.dtype
    with pytest.raises((pickle.PicklingError, AttributeError), match="lambda"):
        pickle.dumps(fedback.jax_model(lambda params, batch: 0.0, {"weights": jnp.ones(2)}))
