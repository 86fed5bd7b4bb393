"""Fixtures: the pages, specs and one deployment for all tests that need one."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
ROOT = Path(__file__).parents[4]


@pytest.fixture(scope="session")
def reference():
    """The text of a page of the reference."""
    return lambda page: (ROOT / "docs/reference" / page).read_text()


@pytest.fixture(scope="session")
def deployment(tmp_path_factory):
    """A SuperLink and three SuperNodes, for all tests."""
    from deployment import Deployment

    federation = Deployment(tmp_path_factory.mktemp("deployment"))
    federation.nodes = [
        federation.node(f"node-{place}", f"partition-id={place} num-partitions=3")
        for place in range(3)
    ]
    yield federation
    federation.end()


@pytest.fixture(scope="session")
def simulation(tmp_path_factory):
    """Flower's simulation engine."""
    from deployment import Simulation

    engine = Simulation(tmp_path_factory.mktemp("simulation"))
    yield engine
    engine.end()


@pytest.fixture
def place(tmp_path):
    """Writes a spec of `specs.py` into a folder of its own; its path."""
    from specs import write

    return lambda name: write(tmp_path, name)
