"""Types, by mypy in its strict mode and by pyright: of the package, of documented examples, and of
what must be refused."""

import doctest
import importlib
import json
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
#: As it lies here: what is installed lies among packages of others.
PACKAGE = ROOT / "crates/fedback-py/python/fedback"
TYPED = Path(__file__).with_name("typed.py")
#: Functions of examples need no annotations; what is passed to them and by them is checked.
EXAMPLES = ["--allow-untyped-defs", "--allow-incomplete-defs", "--allow-untyped-calls"]


def mypy(*arguments: object) -> list[tuple[str, int, str]]:
    settings = ["--no-error-summary", "--config-file", ROOT / "pyproject.toml"]
    command = [sys.executable, "-m", "mypy", *settings, *arguments]
    asked = subprocess.run([*map(str, command)], cwd=ROOT, capture_output=True, text=True)
    assert asked.returncode in (0, 1), asked.stdout + asked.stderr
    found = re.findall(r"^(.*?):(\d+): error: (.*)$", asked.stdout, flags=re.MULTILINE)
    return [(Path(file).name, int(line), text) for file, line, text in found]


def pyright(*paths: Path, project: Path) -> list[tuple[str, int, str]]:
    """Errors; `project` is where its settings are."""
    command = [sys.executable, "-m", "pyright", "--outputjson", "--pythonpath", sys.executable]
    command += ["--project", project, *paths]
    asked = subprocess.run([*map(str, command)], cwd=ROOT, capture_output=True, text=True)
    assert asked.returncode in (0, 1), asked.stdout + asked.stderr
    told = json.loads(asked.stdout)
    assert told["summary"]["filesAnalyzed"] > 0, asked.stdout
    return [
        (Path(one["file"]).name, one["range"]["start"]["line"] + 1, one["message"])
        for one in told["generalDiagnostics"]
        if one["severity"] == "error"
    ]


def examples(folder: Path) -> list[Path]:
    """Every page, notebook and docstring with examples, as a file."""
    written = []

    def write(name: str, code: str) -> None:
        written.append(folder / f"example_{name}.py")
        written[-1].write_text(code)

    for page in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]:
        blocks = re.findall(r"```python\n(.*?)```", page.read_text(), flags=re.DOTALL)
        if blocks:
            write(re.sub(r"\W", "_", page.stem), "\n".join(blocks))
    for notebook in sorted((ROOT / "docs").rglob("*.ipynb")):
        cells = json.loads(notebook.read_text())["cells"]
        code = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
        write(re.sub(r"\W", "_", notebook.stem), "\n".join(code))
    for file in sorted(PACKAGE.glob("*.py")):
        module = importlib.import_module(f"fedback.{file.stem}")
        for test in doctest.DocTestFinder(exclude_empty=True).find(module):
            if not test.examples:
                continue
            code = "".join(example.source for example in test.examples)
            known = f"from fedback.{file.stem} import *\n" if "fedback" not in code else ""
            known += "import numpy as np\n" if "np." in code and "import numpy" not in code else ""
            body = textwrap.indent(code, "    ")
            write(re.sub(r"\W", "_", test.name), f"{known}def example():\n{body}")
    return written


def test_the_package():
    assert mypy(PACKAGE) == []
    assert pyright(project=ROOT) == []


@pytest.fixture
def settings(tmp_path) -> Path:
    """Settings of a user who has said nothing."""
    (tmp_path / "pyrightconfig.json").write_text('{"reportMissingImports": false}')
    return tmp_path


def test_documented_examples(settings):
    written = examples(settings)
    assert len(written) > 8
    assert mypy(*EXAMPLES, *written) == []
    # An expression on a line of its own is how examples show a value.
    assert pyright(project=settings) == []


def test_answers_have_types_of_their_own_and_wrong_arguments_are_refused(settings):
    lines = TYPED.read_text().splitlines()
    wrong = {number for number, line in enumerate(lines, start=1) if line.endswith("# wrong")}
    assert len(wrong) > 15
    (settings / TYPED.name).write_text(TYPED.read_text())
    for found in (mypy(TYPED), pyright(project=settings)):
        places = {line for _, line, _ in found}
        assert places == wrong, [one for one in found if one[1] in places ^ wrong]
