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
