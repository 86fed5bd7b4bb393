"""How far a run is, in a notebook: one display that is updated in place, with a bar and the curve
of the main measurement as it grows."""

from __future__ import annotations

import time
import warnings
from importlib import import_module
from typing import TYPE_CHECKING, Any

from ._html import Html, bar, note, page, percent, picture, uncertain, whole

if TYPE_CHECKING:
    from . import _native

#: Seconds before anything is shown, and between two pictures at least.
PATIENCE, PAUSE = 0.5, 0.4

#: The share of the time that pictures may take.
SHARE = 0.05


class Live:
    """Hears how far a run is, as `_native.run` tells it."""

    def __init__(self) -> None:
        self.now: _native.Now | None = None
        self.handle: Any = None
        self.began = time.monotonic()
        self.next = self.began + PATIENCE
        self.broken = False

    def begin(self, now: _native.Now) -> None:
        """There will be records to ask for."""
        self.now = now

    def __call__(self, label: str, done: int, total: int) -> None:
        began = time.monotonic()
        last = self.now is None and self.handle is not None and done >= total
        if (began < self.next and not last) or self.broken:
            return
        self._show(label, done, total)
        took = time.monotonic() - began
        self.next = began + took + max(PAUSE, took / SHARE)

    def end(self) -> None:
        """The last picture, if there was one: of a whole run, or of what is left of it."""
        run = None if self.now is None else self.now.run
        if self.handle is not None and run is not None and not self.broken:
            self._show(*run)

    def _show(self, label: str, done: int, total: int) -> None:
        try:
            shell = import_module("IPython.display")
            shown = shell.HTML(self.html(label, done, total))
            if self.handle is None:
                self.handle = shell.display(shown, display_id=True)
            else:
                self.handle.update(shown)
        except Exception as error:
            # A picture that fails must not end a run of hours.
            self.broken = True
            warnings.warn(f"progress is not shown any more: {error!r}", stacklevel=2)

    def html(self, label: str, done: int, total: int) -> Html:
        """What is shown now."""
        seconds = time.monotonic() - self.began
        share = done / total
        curve = value = None
        if self.now is None:
            state = "done" if done >= total else "running"
            said = [percent(share), _duration(seconds)]
        else:
            state, curve, value = self.now.state, self.now.svg(), self.now.value()
            said = [f"round {whole(done)} of {whole(total)}", _duration(seconds)]
            points, begun = self.now.points
            if points > 1:
                said.insert(0, f"point {begun} of {points}")
                share = (begun - 1 + share) / points
        if state == "running":
            if share > 0.0:
                said.append(f"{_duration(seconds * (1.0 - share) / share)} left")
        else:
            said.append(state)
        if value is not None:
            name, mean, error = value
            said.append(f"{name} {uncertain(mean, error)}")
        return page(label, bar(share), note(" · ".join(said)), picture(curve))


def _duration(seconds: float) -> str:
    """Time in the largest units that say something."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"
