"""Federated learning for populations that react to the model.

A problem and what is run on it is a :class:`Spec`; :func:`run`, :func:`exact`, :func:`solve`,
:func:`bounds`, :func:`check`, :func:`plan` and :func:`fit` are the commands of the same names.
"""

from ._native import STREAM_FORMAT, InputError, RunError, __version__
from ._transport import Order, Transport
from .commands import (
    bounds,
    check,
    exact,
    federate,
    fit,
    load,
    plan,
    replay,
    resume,
    run,
    runs,
    solve,
)
from .results import Answer, Bounds, Certificate, Curve, Fit, Plan, Run, Solution, Sweep
from .site import Site, Tables, census, census_mean
from .spec import (
    Problem,
    Spec,
    best_response,
    constant,
    decaying,
    gaussian,
    location,
    logistic,
    mean,
    p_fedavg,
    squared,
    table,
)

__all__ = [
    "Answer",
    "Bounds",
    "Certificate",
    "Curve",
    "Fit",
    "InputError",
    "Order",
    "Plan",
    "Problem",
    "Run",
    "RunError",
    "STREAM_FORMAT",
    "Site",
    "Solution",
    "Spec",
    "Sweep",
    "Tables",
    "Transport",
    "__version__",
    "best_response",
    "bounds",
    "census",
    "census_mean",
    "check",
    "constant",
    "decaying",
    "exact",
    "federate",
    "fit",
    "gaussian",
    "load",
    "location",
    "logistic",
    "mean",
    "p_fedavg",
    "plan",
    "replay",
    "resume",
    "run",
    "runs",
    "solve",
    "squared",
    "table",
]
