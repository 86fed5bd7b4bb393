"""Problems that several tests share."""

import signal

import matplotlib
import pytest

import fedback

matplotlib.use("Agg")
# A shell's background job ignores Ctrl-C, and hands that on; tests press it.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture
def two_sites() -> fedback.Spec:
    """Two sites whose data follow the model, 0.5 and 0.9 as far as it goes."""
    return fedback.Spec(
        name="two-sites",
        rounds=60,
        repetitions=400,
        seed=7,
        measure={"every": 20},
        problem=fedback.Problem(
            weights=[0.7, 0.3],
            base=fedback.gaussian(mean=[1.0, 4.0]),
            response=fedback.location(sensitivity=[0.5, 0.9]),
            loss=fedback.mean(),
        ),
        algorithm=fedback.p_fedavg(
            scheme="full", local_steps=2, batch=2, step_size=fedback.decaying(4.0, 20.0)
        ),
    )
