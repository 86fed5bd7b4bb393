"""What shows how far a run is: a line on a terminal, a picture in a notebook, and nothing
elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

from ._live import Live

Hear = Callable[[str, int, int], None]


def listener(progress: bool | None) -> Hear | None:
    """What a run tells its progress to; by default only where somebody may be looking."""
    in_notebook = _in_notebook()
    if progress is None:
        progress = sys.stderr.isatty() or in_notebook
    if not progress:
        return None
    return Live() if in_notebook else _Line()


def _in_notebook() -> bool:
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return type(shell).__name__ == "ZMQInteractiveShell"


class _Line:
    """One line on standard error, written over and over, and cleared at the end."""

    def __init__(self) -> None:
        self.began = time.monotonic()
        self.shown = False

    def __call__(self, label: str, done: int, total: int) -> None:
        seconds = time.monotonic() - self.began
        if done >= total:
            if self.shown:
                sys.stderr.write("\r\x1b[K")
                sys.stderr.flush()
            self.began, self.shown = time.monotonic(), False
        elif seconds > 0.5:
            bar = "█" * round(20 * done / total)
            left = f", {seconds * (total - done) / done:.0f} s left" if done else ""
            sys.stderr.write(f"\r\x1b[K{label} {bar:░<20} {done}/{total}{left}")
            sys.stderr.flush()
            self.shown = True
