"""Arguments of functions, checked in one way: what is wrong is said by the argument's name, with
what was found and what is allowed.

Ranges that depend on the question are the library's to check, which names arguments as well.
"""

from __future__ import annotations

import operator
import os
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from . import _native

T = TypeVar("T")
LARGEST = 2**63 - 1


def wrong(name: str, value: Any, allowed: str) -> _native.InputError:
    """The error of a value that is not allowed."""
    text = repr(value)
    found = text if len(text) <= 60 else f"a {type(value).__name__}"
    return _native.InputError(f"{name}: found {found}; allowed: {allowed}")


def given(check: Callable[..., T], name: str, value: Any, **how: Any) -> T | None:
    """A value that may be left out."""
    return None if value is None else check(name, value, **how)


def chosen(name: str, value: Any, allowed: Iterable[str]) -> str:
    """One of some words."""
    words = tuple(allowed)
    if not isinstance(value, str) or value not in words:
        raise wrong(name, value, ", ".join(words))
    return value


def whole(name: str, value: Any, least: int = 0, most: int = LARGEST) -> int:
    """A whole number."""
    end = "or more" if most == LARGEST else f"to {most}"
    try:
        number = None if isinstance(value, bool) else operator.index(value)
    except TypeError:
        number = None
    if number is None or number < least or number > most:
        too_large = number is not None and number > most == LARGEST
        end = f"to {LARGEST} (2^63 - 1)" if too_large else end
        raise wrong(name, value, f"whole numbers, {least} {end}")
    return number


def number(name: str, value: Any) -> float:
    """A number."""
    if not isinstance(value, (bool, str, bytes)):
        try:
            return float(value)
        except (TypeError, ValueError, OverflowError):
            pass
    raise wrong(name, value, "a number")


def flag(name: str, value: Any) -> bool:
    """True or False."""
    if value is True or value is False:
        return bool(value)
    raise wrong(name, value, "True, False")


def text(name: str, value: Any) -> str:
    """Text."""
    if isinstance(value, str):
        return value
    raise wrong(name, value, "text")


def path(name: str, value: Any) -> str:
    """The path of a file or a folder."""
    if isinstance(value, (str, os.PathLike)):
        found = os.fspath(value)
        if isinstance(found, str) and found and "\0" not in found:
            return found
    raise wrong(name, value, "a path")


def several(name: str, value: Any, one: Callable[..., T], allowed: str, **how: Any) -> list[T]:
    """A list, each of whose members is checked by its place."""
    if isinstance(value, (str, bytes, Mapping)) or not isinstance(value, Iterable):
        raise wrong(name, value, allowed)
    return [one(f"{name}[{place}]", each, **how) for place, each in enumerate(value)]


def wholes(name: str, value: Any, **how: Any) -> list[int]:
    """A list of whole numbers."""
    return several(name, value, whole, "a list of whole numbers", **how)


def texts(name: str, value: Any) -> list[str]:
    """A list of texts."""
    return several(name, value, text, "a list of texts")


def words(name: str, value: Any) -> list[str]:
    """Texts as a list; a single one may stand alone."""
    return [value] if isinstance(value, str) else texts(name, value)


def mapping(name: str, value: Any) -> Mapping[str, Any]:
    """Values by name."""
    if isinstance(value, Mapping):
        for key in value:
            text(f"{name}: a key", key)
        return value
    raise wrong(name, value, "values by key, such as {'rounds': 10}")


def function(name: str, value: Any) -> Callable[..., Any]:
    """A function."""
    if callable(value):
        result: Callable[..., Any] = value
        return result
    raise wrong(name, value, "a function")
