"""Federated learning for populations that react to the model.

A problem and what is run on it is a :class:`Spec`; :func:`run`, :func:`exact`, :func:`solve`,
:func:`bounds`, :func:`check`, :func:`plan` and :func:`fit` are the commands of the same names.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ._native import __version__ as __version__
    from ._public import *  # noqa: F403
    from ._public import __all__ as __all__


def __getattr__(name: str) -> Any:
    """Loads all names with the first that is asked for: a node of a federation starts a process for
    every message, and needs none of them, nor what is compiled."""
    if name == "__version__":
        return import_module("._native", __name__).__version__
    if name == "__all__" or not name.startswith("_"):
        names = import_module("._public", __name__)
        globals().update({own: getattr(names, own) for own in ["__all__", *names.__all__]})
        if name in globals():
            return globals()[name]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__getattr__("__all__")})
