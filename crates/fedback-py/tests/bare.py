"""Every Python block of the documentation, with nothing installed but the package: statements that
need another package are left out, and those that go on from them."""

import ast
import os
import re
import tempfile
import warnings
from pathlib import Path

ROOT = Path(__file__).parents[3]


def run(page: Path) -> tuple[int, int]:
    """Runs the blocks of a page, one after the other; how many statements ran, and how many were
    left out."""
    names = {"__name__": page.name}
    missing: set[str] = set()
    ran = left = 0
    for block in re.findall(r"```python\n(.*?)```", page.read_text(), flags=re.DOTALL):
        for statement in ast.parse(block).body:
            code = compile(ast.Module([statement], []), str(page), "exec")
            try:
                exec(code, names)
                ran += 1
            except ModuleNotFoundError as error:
                if error.name.split(".")[0] in ("fedback", "numpy"):
                    raise
                missing |= assigned(statement)
                left += 1
            except NameError as error:
                if error.name not in missing:
                    raise
                missing |= assigned(statement)
                left += 1
    return ran, left


def assigned(statement: ast.stmt) -> set[str]:
    """The names that a statement would have made."""
    names = {one.asname or one.name for one in getattr(statement, "names", [])}
    stored = (one for one in ast.walk(statement) if isinstance(one, ast.Name))
    return names | {one.id for one in stored if isinstance(one.ctx, ast.Store)}


def main():
    warnings.simplefilter("ignore", UserWarning)  # steps that are too large, in examples of that
    for page in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]:
        if "```python" not in page.read_text():
            continue
        with tempfile.TemporaryDirectory() as folder:
            os.chdir(folder)
            ran, left = run(page)
        print(f"{page.relative_to(ROOT)}: {ran} statements, {left} need other packages")


if __name__ == "__main__":
    main()
