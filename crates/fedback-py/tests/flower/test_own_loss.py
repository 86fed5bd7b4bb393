"""Sites that bring a loss of their own, named in their node config."""

import pytest
from loopback import Loopback

import fedback
from fedback.flower.server_app import federate
from fedback.flower.settings import BadSetting, NodeSettings, RunSettings

SPEC = """
name = "own"
seed = 5
repetitions = 2
rounds = 3

[problem]
clients = 2

[problem.base]
kind = "custom"
dim = 2

[problem.loss]
kind = "custom"

[algorithm]
kind = "p-fedavg"
scheme = "full"
local_steps = 2
batch = 8
deploy = "round"
step_size = { constant = 0.2 }
clip = 5.0

[measure]
distance = false
risk = false
"""

FUNCTIONS = """
import numpy as np


def observe(theta, n, rng):
    return {"z": 1.0 + 0.3 * theta + rng.standard_normal((n, 2))}


def loss(theta, batch):
    away = np.clip(theta - batch["z"], -1.0, 1.0)
    return float(abs(away).mean()), away.mean(axis=0)
"""


def test_a_site_brings_its_own_loss(tmp_path):
    (tmp_path / "spec.toml").write_text(SPEC)
    (tmp_path / "functions.py").write_text(FUNCTIONS)
    spec, functions = str(tmp_path / "spec.toml"), str(tmp_path / "functions.py")
    named = {"observe": f"{functions}:observe", "loss": f"{functions}:loss"}
    nodes = {i + 1: {"clients": str(i), "spec": spec, **named} for i in range(2)}
    run = federate(
        Loopback({"spec": spec}, nodes), RunSettings.read({"spec": spec, "store": "none"})
    )
    scope: dict = {}
    exec(FUNCTIONS, scope)
    alone = fedback.Spec(spec)
    alone.draw = lambda client, theta, n, rng: scope["observe"](theta, n, rng)
    alone.loss = scope["loss"]
    assert (run.final_theta == fedback.run(alone).final_theta).all()
    assert abs(run.final_theta).min() > 0.1


def test_a_site_without_its_loss_says_so(tmp_path):
    (tmp_path / "spec.toml").write_text(SPEC)
    with pytest.raises(fedback.InputError, match="problem.loss.kind: .*needs a function loss"):
        fedback.Site(tmp_path / "spec.toml", observe=lambda theta, n, rng: None)


def test_a_loss_is_named_as_observe_is():
    own = {"spec": "/spec.toml", "clients": "0"}
    read = NodeSettings.read
    assert read({**own, "loss": "module:loss"}, {}).loss == "module:loss"
    with pytest.raises(BadSetting, match="loss is for the policy"):
        read({"site": "/site.sock", "loss": "module:loss"}, {})
    with pytest.raises(BadSetting, match="loss goes with observe"):
        read({**own, "data": "/rows.csv", "loss": "module:loss"}, {})
