"""The gallery of notebooks: executed as committed, again with the same numbers, small."""

import base64
import os
import re
from pathlib import Path

import numpy as np
import pytest

GALLERY = Path(__file__).parents[3] / "docs/notebooks"
NOTEBOOKS = sorted(GALLERY.glob("*.ipynb"))
NUMBER = re.compile(r"[-+−]?\d+(?:\.\d+)?(?:e-?\d+)?")

#: Another machine's exponential function may turn a draw, which is seen in a last digit.
NEAR = {"rtol": 0.01, "atol": 0.002}


def read(path):
    nbformat = pytest.importorskip("nbformat")
    return nbformat.read(path, as_version=4)


def outputs(notebook):
    return [one for cell in notebook.cells for one in cell.get("outputs", [])]


def texts(output):
    """What an output says, by kind; figures are compared in their data, which tables have too."""
    said = dict(output.get("data", {}))
    if output.output_type == "stream":
        said = {output.name: output.text}
    page = said.get("text/html", "")
    said["text/html"] = re.sub(r"<(svg|style).*?</\1>", "", page, flags=re.DOTALL)
    return {kind: text for kind, text in said.items() if not kind.startswith("image/")}


def numbers(text):
    return np.array([float(one.replace("−", "-")) for one in NUMBER.findall(text)])


def renew(path, notebook):
    """Writes a notebook as it was executed, and its last picture for the index."""
    nbformat = pytest.importorskip("nbformat")
    for cell in notebook.cells:
        cell.metadata.pop("execution", None)
    notebook.metadata["language_info"] = {"name": "python"}
    nbformat.write(notebook, path)
    pictured(path).write_bytes(picture(notebook))


def pictured(path):
    return path.with_suffix(".png")


def picture(notebook):
    """The last one."""
    *_, last = (one["data"] for one in outputs(notebook) if "image/png" in one.get("data", {}))
    return base64.b64decode(last["image/png"])


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_comes_out_again(path, tmp_path):
    nbclient = pytest.importorskip("nbclient")
    committed, notebook = read(path), read(path)
    if any("import jax" in cell.source for cell in notebook.cells):
        pytest.importorskip("jax")
    resources = {"metadata": {"path": str(tmp_path)}}
    nbclient.NotebookClient(notebook, timeout=600, resources=resources).execute()
    if os.environ.get("FEDBACK_RENEW"):
        renew(path, notebook)
        committed = notebook
    before, after = outputs(committed), outputs(notebook)
    assert [sorted(one.get("data", {})) for one in before] == [
        sorted(one.get("data", {})) for one in after
    ]
    for old, new in zip(before, after):
        old, new = texts(old), texts(new)
        assert sorted(old) == sorted(new)
        for kind in old:
            assert NUMBER.sub("", old[kind]) == NUMBER.sub("", new[kind])
            np.testing.assert_allclose(numbers(new[kind]), numbers(old[kind]), **NEAR)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_committed_notebook_is_whole_and_small(path):
    notebook = read(path)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in code] == list(range(1, len(code) + 1))
    for output in outputs(notebook):
        assert output.output_type != "error"
        # Warnings, and paths of whoever executed it.
        assert output.get("name") != "stderr"
        assert len(str(output)) < 100_000
        assert not re.search(r"/(work|home|tmp|root|Users)/", str(texts(output)))
    assert pictured(path).read_bytes() == picture(notebook)


def test_the_index_has_all_of_them():
    index = (GALLERY / "README.md").read_text()
    for path in NOTEBOOKS:
        assert f"]({path.name})" in index, path.name
        assert f"]({path.stem}.png)" in index, path.name
