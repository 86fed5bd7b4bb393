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
        federation.node(f"node-{place}", f"partition-id={place} num-partitions=3") for place in range(3)
    ]
    yield federation
    federation.end()
