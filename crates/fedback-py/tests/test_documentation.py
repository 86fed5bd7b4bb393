"""Every example runs: docstrings, the Python blocks of the pages; stubs are complete."""

import ast
import doctest
import importlib
import re
from pathlib import Path

import pytest

import fedback
from fedback import _native

ROOT = Path(__file__).parents[3]
PAGES = [
    page
    for page in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    if "```python" in page.read_text()
]


NAMES = ["commands", "results", "sections", "site", "spec", "streams", "progress"]


@pytest.mark.parametrize("name", NAMES)
def test_docstrings(name):
    failed, _ = doctest.testmod(importlib.import_module(f"fedback.{name}"), verbose=False)
    assert failed == 0


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_pages(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", page.read_text(), flags=re.DOTALL)
    assert blocks
    namespace = {}
    for block in blocks:
        exec(compile(block, str(page), "exec"), namespace)


def test_everything_public_has_a_docstring():
    for name in fedback.__all__:
        thing = getattr(fedback, name)
        assert not callable(thing) or thing.__doc__, name


def test_stubs_name_what_is_there():
    tree = ast.parse((Path(fedback.__file__).parent / "_native.pyi").read_text())
    stubbed = {node.name for node in tree.body if isinstance(node, (ast.FunctionDef, ast.ClassDef))}
    stubbed |= {node.target.id for node in tree.body if isinstance(node, ast.AnnAssign)}
    present = {name for name in dir(_native) if not name.startswith("__")} | {"__version__"}
    assert stubbed == present
    for node in tree.body:
        if isinstance(node, ast.ClassDef) and not issubclass(
            getattr(_native, node.name), Exception
        ):
            members = {one.name for one in node.body if isinstance(one, ast.FunctionDef)}
            there = {one for one in dir(getattr(_native, node.name)) if not one.startswith("_")}
            assert {one for one in members if not one.startswith("_")} == there, node.name
