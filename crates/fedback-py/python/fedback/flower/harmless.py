"""Text from a site, made fit to be logged and stored."""

from __future__ import annotations

LONGEST = 200
"""Characters of a text that are kept."""


def harmless(text: str) -> str:
    """The text on one line: what is not printable (control characters, line ends, changes of
    writing direction) is spelt out, what is beyond [`LONGEST`] characters is counted."""
    shown = "".join(
        one if one.isprintable() else one.encode("unicode_escape").decode()
        for one in text[:LONGEST]
    )
    more = len(text) - LONGEST
    return shown if more <= 0 else f"{shown} … ({more} more characters)"
