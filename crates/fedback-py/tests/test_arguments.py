"""Wrong arguments: every one of them is named, with what was found and what is allowed, and nothing
is run or written."""

import inspect
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

import fedback

SPEC = {
    "rounds": 4,
    "problem": {
        "base": {"kind": "gaussian", "mean": [1.0, 4.0]},
        "response": {"kind": "location", "sensitivity": [0.5, 0.9]},
        "loss": {"kind": "mean"},
    },
    "algorithm": {"kind": "p-fedavg", "scheme": "full", "step_size": {"constant": 0.1}},
}
NUMBER = [("x", "a number"), (True, "a number"), ([1], "a number")]
WHOLE = [(1.5, "whole numbers"), ("x", "whole numbers"), (-1, "whole numbers, [01] or more")]
WHOLE += [
    (True, "whole numbers"),
    (2**63, r"whole numbers, [01] to 9223372036854775807"),
    (2**64, "63"),
]
ID = [(-1, "whole numbers, 0 or more"), ("1", "whole numbers"), (2**63, "9223372036854775807")]
PATH = [(3, "a path"), (True, "a path"), (b"x", "a path"), ("a\0b", "a path"), ("", "a path")]
FLAG = [("x", "True, False"), (1, "True, False")]
TEXT = [(3, "text"), (b"x", "text")]
TEXTS = [(3, "a list of texts"), ("x", "a list of texts"), ([3], "text")]
WORDS = [(3, "a list of texts"), ([3], "text"), (b"x", "a list of texts")]
WHOLES = [(3, "a list of whole numbers"), ([1.5], "whole numbers"), ([-1], "whole numbers")]
CHOICE = [("banana", None), (3, None)]
SET = [(3, "values by key"), ({3: 4}, "text"), ([("rounds", 3)], "values by key")]
SPECS = [(3, "a Spec, a mapping, the path"), (None, "a Spec"), ([SPEC], "a Spec")]
THREADS = [
    (0, "whole numbers, 1 to 1024"),
    (-1, "1 to 1024"),
    ("a", "1 to 1024"),
    (1025, "1 to 1024"),
]
FAILURE = [("banana", "raise, return"), (None, "raise, return")]
DEVICE = [("gpu", "cpu, cuda, auto"), (None, "cpu, cuda, auto"), (0, "cpu, cuda, auto")]
HOLDS = [(3, "the Spec that holds"), (SPEC, "the Spec that holds")]


class Nobody:
    """A transport that is never asked."""

    def ask(self, order): ...

    def next(self): ...

    def refused(self, repetition, client, reason): ...


#: Of every function, what it is called with, and wrong values of each of its arguments.
TABLE = {
    fedback.run: (
        {"spec": SPEC},
        {
            "spec": SPECS, "set": SET, "store": PATH, "tags": WORDS, "note": TEXT,
            "threads": THREADS, "device": DEVICE, "progress": FLAG, "on_failure": FAILURE,
        },
    ),
    fedback.exact: ({"spec": SPEC}, {"spec": SPECS, "set": SET}),
    fedback.solve: ({"spec": SPEC}, {"spec": SPECS, "set": SET}),
    fedback.check: ({"spec": SPEC}, {"spec": SPECS, "set": SET}),
    fedback.bounds: (
        {"spec": SPEC},
        {
            "spec": SPECS, "set": SET, "delta": NUMBER, "sigma": NUMBER, "varsigma": NUMBER,
            "mu": NUMBER, "smoothness": NUMBER, "accuracy": NUMBER, "communication_cost": NUMBER,
        },
    ),
    fedback.plan: (
        {"spec": SPEC, "accuracy": 0.1},
        {
            "spec": SPECS, "set": SET, "accuracy": [*NUMBER, (-1.0, None), (float("nan"), None)],
            "communication_cost": [*NUMBER, (-1.0, None)], "straggler": [*NUMBER, (2.0, None)],
            "latency": [(3, "text"), ("banana", "constant, exponential, or lognormal")],
            "budget": WHOLE, "local_steps": WHOLES,
            "schemes": [*TEXTS, (["banana"], "full, with-replacement, without-replacement")],
            "algorithms": [*TEXTS, (["banana"], "p-fedavg")], "max_cohort": WHOLE,
            "safety": [*NUMBER, (2.0, None)], "smoothness": [*NUMBER, (-1.0, None)],
            "repetitions": WHOLE, "progress": FLAG,
        },
    ),
    fedback.fit: (
        {"data": {"client": ["a"]}, "deployments": {"deployment": ["a"]}, "output": "fitted"},
        {
            "data": [(3, "a path")], "deployments": [(3, "a path")], "output": PATH,
            "client": TEXT, "deployment": TEXT, "individual": TEXT, "label": TEXT, "ignore": TEXTS,
            "response": [("banana", "best-response, location"), (3, "location")],
            "features": TEXTS, "shape": [("banana", "auto, scalar, vector, matrix"), (3, "auto")],
            "reference": TEXT, "confidence": [*NUMBER, (2.0, None)], "seed": WHOLE, "force": FLAG,
        },
    ),
    fedback.resume: (
        {"id": 1},
        {
            "id": ID, "store": PATH, "spec": HOLDS, "threads": THREADS, "device": DEVICE,
            "progress": FLAG, "on_failure": FAILURE,
        },
    ),
    fedback.replay: ({"id": 1}, {"id": ID, "store": PATH, "spec": HOLDS}),
    fedback.federate: (
        {"spec": SPEC, "transport": Nobody()},
        {
            "spec": SPECS, "transport": [(3, "ask, next and refused")], "set": SET, "store": PATH,
            "resume": [("x", "a list"), (-1, "whole numbers"), ([1.5], "whole numbers")],
            "minimum": [*WHOLE, (0, "1 or more")], "attempts": [("x", "whole"), (-1, "0 to")],
            "progress": FLAG, "on_failure": FAILURE,
        },
    ),
    fedback.reproduce: (
        {},
        {
            "figures": WORDS, "out": PATH, "quick": FLAG, "seed": WHOLE,
        },
    ),
    fedback.data: ({}, {"table": [("debit", "credit"), (3, "credit")], "file": PATH}),
    fedback.runs: ({}, {"store": PATH}),
    fedback.load: ({"id": 1}, {"id": ID, "store": PATH}),
    fedback.compare: (
        {"ids": [1]},
        {"ids": [*WHOLES, ("12", "a list"), ([], "one or more runs")], "store": PATH},
    ),
    fedback.note: ({"id": 1}, {"id": ID, "text": TEXT, "tags": WORDS, "store": PATH}),
    fedback.export: (
        {"id": 1, "out": "file", "format": "csv"},
        {
            "id": ID, "out": PATH, "format": [("xls", "csv, json, .*svg, .*bundle"), (3, "csv")],
            "store": PATH,
        },
    ),
    fedback.import_bundle: ({"path": "file"}, {"path": PATH, "store": PATH}),
    fedback.score: (
        {"id": 1, "rows": {"x": [1.0]}},
        {
            "id": ID, "rows": [(3, "a path")], "store": PATH,
            "repetition": [("x", "whole numbers"), (1.5, "whole numbers")],
        },
    ),
    fedback.Site: (
        {"spec": SPEC},
        {
            "spec": SPECS, "clients": [*WHOLES, ([2], "0 to 1")], "observe": [(3, "a function")],
            "loss": [(3, "a function")], "tables": [(3, "a Tables")], "set": SET,
        },
    ),
    fedback.Tables: (
        {"spec": SPEC, "files": {}},
        {
            "spec": SPECS, "set": SET,
            "files": [(3, "a path for every client"), ({"x": "y"}, "whole"), ({0: 3}, "a path")],
        },
    ),
    fedback.Problem: (
        {"loss": fedback.mean(), "base": fedback.gaussian(mean=[1.0])},
        {
            "loss": [(3, "a function, a section"), ("mean", "such as fedback.mean")],
            "base": [(3, "a section"), ("gaussian", "a section")],
            "response": [(3, "a section")], "clients": WHOLE, "seed": WHOLE,
            "weights": [({1, 2}, "lists"), ([float("nan")], "finite")],
            "stable_point": [(object(), "lists")],
        },
    ),
    fedback.decaying: (
        {"beta": 1.0, "gamma": 2.0}, {"beta": NUMBER, "gamma": NUMBER},
    ),
    fedback.constant: ({"step_size": 1.0}, {"step_size": NUMBER}),
    fedback.table: (
        {"data": {"x": [1.0]}},
        {"data": [(3, "a path"), (None, "a path")], "label": [({1}, "text")]},
    ),
}  # fmt: skip
#: Taken by place alone, elsewhere, or as a spec has them; sections are checked with their spec.
ELSEWHERE = {"rm", "show", "schema", "sweep", "census", "census_mean", "all_clients"}
ELSEWHERE |= {"jax_model", "jax_population", "torch_model"}
SECTIONS = {"adam", "best_response", "fedopt", "fedprox", "gaussian", "location", "logistic"}
SECTIONS |= {
    "mean",
    "momentum",
    "outcome",
    "p_fedavg",
    "retention",
    "saturating",
    "scaffold",
    "squared",
}
SECTIONS |= {"delay", "inertia", "staggered", "strategic"}
#: What has no wrong values of its own: keys of a section, with those of a population.
FREE = {"partition", "shuffle", "standardize", "intercept", "missing", "ignore", "one_hot"}
FREE |= {"holdout", "population", "dim"}

CASES = [
    pytest.param(function, usual, name, value, allowed, id=f"{function.__name__}-{name}-{place}")
    for function, (usual, arguments) in TABLE.items()
    for name, values in arguments.items()
    for place, (value, allowed) in enumerate(values)
]


@pytest.fixture(autouse=True)
def nothing_is_written(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    yield
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("function", "usual", "name", "value", "allowed"), CASES)
def test_wrong_arguments_are_named(function, usual, name, value, allowed):
    pattern = rf"^{name}(\[.*\]|: a client|: a key)?: found .*"
    if name in ("data", "deployments", "rows") and function is not fedback.Site:
        pattern = r"^table: found .*"
    if allowed is not None:
        pattern += rf"allowed: .*{allowed}"
    with pytest.raises(fedback.InputError, match=pattern):
        function(**{**usual, name: value})


def test_every_argument_of_every_function_is_in_the_table():
    functions = {name for name in fedback.__all__ if inspect.isfunction(getattr(fedback, name))}
    assert functions == {one.__name__ for one in TABLE if inspect.isfunction(one)} | (
        ELSEWHERE | SECTIONS
    )
    for function, (_, arguments) in TABLE.items():
        missing = set(inspect.signature(function).parameters) - set(arguments)
        assert missing <= FREE, function


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: fedback.rm("x"), r"ids\[0\]: found 'x'; allowed: whole numbers"),
        (lambda: fedback.rm(1, store=3), "store: found 3; allowed: a path"),
        (lambda: fedback.reproduce(["x"]), 'figure "x": unknown; allowed: convergence'),
        (lambda: fedback.show(), "show: found no run"),
        (lambda: fedback.rm(), "rm: found no run"),
        (lambda: fedback.show(-1), r"ids\[0\]: found -1; allowed: whole numbers, 0 or more"),
        (lambda: fedback.sweep(3), "spec: found 3; allowed: a Spec"),
        (lambda: fedback.Spec(SPEC).set(3), "set: found 3; allowed: values by key"),
        (lambda: fedback.Spec(SPEC).at(-1), "point: found -1; allowed: whole numbers"),
        (lambda: fedback.Spec.parse(3), "text: found 3; allowed: text"),
        (lambda: fedback.Spec(SPEC, seed=2**64), "seed: found 18446744073709551616; allowed"),
        (lambda: fedback.run(SPEC, set={"seed": 2**63}), "seed: found 9223372036854775808; al"),
        (lambda: fedback.run(SPEC, set={"seed": -1}), "spec: seed: found -1; allowed"),
        (
            lambda: fedback.Spec(SPEC, problem={"base": {"mean": {1.0}}}),
            r"problem.base.mean: found \{1.0\}; allowed: numbers, text",
        ),
        (lambda: fedback.run(SPEC, set={"rounds": "many"}), "spec: rounds: found"),
        (
            lambda: fedback.run(
                {**SPEC, "algorithm": fedback.p_fedavg(scheme="some", step_size=0.1)}
            ),
            "algorithm.scheme: found .*some.* full",
        ),
        (lambda: fedback.p_fedavg(scheme="full", step_size="x"), "step_size: found 'x'; allowed"),
        (
            lambda: fedback.check({**SPEC, "algorithm": {**SPEC["algorithm"], "scheme": "x"}}),
            "algorithm.scheme: found",
        ),
        (
            lambda: fedback.bounds(
                SPEC, set={"algorithm.scheme": "first-arrivals", "algorithm.cohort": 1}
            ),
            'algorithm.scheme: found "first-arrivals"; the theorems are about',
        ),
    ],
)
def test_wrong_input_elsewhere(call, message):
    with pytest.raises(fedback.InputError, match=message):
        call()


def test_plots(two_sites):
    run = fedback.run(two_sites)
    for keys in ({"x": "banana"}, {"size": "large"}, {"x": 3}):
        with pytest.raises(fedback.InputError, match=f"{next(iter(keys))}: found .*; allowed: "):
            run.plot(**keys)
    swept = fedback.sweep(two_sites.set(sweep={"algorithm.local_steps": [1, 2]}))
    with pytest.raises(fedback.InputError, match="panels: found 'x'; allowed: algorithm.local"):
        swept.plot(panels="x")


def test_numbers_of_numpy_are_numbers(two_sites):
    few = two_sites.set(repetitions=np.int64(2))
    found = fedback.plan(
        few, accuracy=np.float32(0.5), budget=np.int32(2000), local_steps=range(1, 3)
    )
    assert isinstance(found, Mapping)
    assert fedback.run(few, threads=np.uint8(1), store=Path("x.db")).id == 1
    for file in Path().iterdir():
        file.unlink()
