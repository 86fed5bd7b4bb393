"""Pieces of HTML for notebooks: tables and figures in one page's colours, light or dark, whatever
its style sheet says of tables. Every text is escaped here."""

from __future__ import annotations

import html
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

#: Twice the class, so that a notebook's own rules for tables do not win.
_STYLE = (
    "<style>"
    ".fedback.fedback{color:inherit;max-width:56em;line-height:1.45;overflow-x:auto}"
    ".fedback.fedback table{border-collapse:collapse;border:0;margin:.4em 0 .8em 0;"
    "font-size:inherit;color:inherit;display:table}"
    ".fedback.fedback tr,.fedback.fedback td,.fedback.fedback th{background:none;color:inherit;"
    "border:0;text-align:left;vertical-align:top;padding:.1em 1.2em .1em 0;max-width:34em;"
    "overflow-wrap:anywhere;white-space:normal}"
    ".fedback.fedback th{font-weight:600;white-space:nowrap}"
    ".fedback.fedback thead th{border-bottom:1px solid;padding-bottom:.2em}"
    ".fedback.fedback .number{text-align:right;font-variant-numeric:tabular-nums;"
    "white-space:nowrap}"
    ".fedback.fedback p{margin:.3em 0;overflow-wrap:anywhere}"
    ".fedback.fedback p.quiet{opacity:.7}"
    ".fedback.fedback .bar{height:.45em;max-width:30em;border-radius:.25em;margin:.3em 0;"
    "background:rgba(128,128,128,.3)}"
    ".fedback.fedback .bar div{height:100%;border-radius:.25em;background:#4390dc}"
    ".fedback.fedback svg{max-width:100%;height:auto;display:block}"
    "</style>"
)

#: Rows of a table, at most.
MOST = 24


class Html(str):
    """Text that is HTML already."""


class Number(str):
    """A number in words."""


def text(value: Any) -> Html:
    """A value as it may stand in HTML."""
    return value if isinstance(value, Html) else Html(html.escape(words(value)))


def words(value: Any) -> str:
    """A value in a few words: numbers in four digits, the first of many."""
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return number(value)
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {words(one)}" for key, one in value.items())
    if isinstance(value, (list, tuple)):
        few = ", ".join(words(one) for one in value[:6])
        return f"[{few}{f', … {len(value)} in all' if len(value) > 6 else ''}]"
    return str(value)


def number(value: float | None) -> Number:
    """A number in four digits; a dash where there is none."""
    if value is None or math.isnan(value):
        return Number("–")
    return Number(_plain(f"{value:.4g}"))


def _plain(scientific: str) -> str:
    return scientific.replace("e+0", "e").replace("e+", "e").replace("e-0", "e-")


def whole(count: int) -> str:
    """A count, in groups of three digits."""
    return f"{count:,}".replace(",", "\u202f") if count >= 10_000 else str(count)


def many(count: Any, word: str) -> str:
    """So many of something."""
    return f"{count} {word}{'s' * (count != 1)}"


def uncertain(value: float | None, error: float | None) -> Number:
    """A number with its standard error, where there is one."""
    if error is None or math.isnan(error):
        return number(value)
    return Number(f"{number(value)} ± {_plain(f'{error:.2g}')}")


def percent(share: float | None) -> Number:
    """A share in percent; a dash where there is none."""
    return Number("–" if share is None else f"{100 * share:.3g} %")


def page(title: str, *parts: str | None) -> Html:
    """A title and what stands below it; what is None is left out."""
    inside = "".join(part for part in parts if part is not None)
    return Html(f"<div class='fedback'>{_STYLE}<p><b>{text(title)}</b></p>{inside}</div>")


def note(said: Any, *, quiet: bool = True) -> Html:
    """A sentence, which begins with a capital letter."""
    plain = words(said)
    return Html(f"<p{' class=quiet' * quiet}>{text(plain[:1].upper() + plain[1:])}</p>")


def facts(pairs: Iterable[tuple[str, Any]]) -> Html:
    """Names with their values; what is None is left out."""
    rows = "".join(
        f"<tr><th>{text(name)}</th><td>{text(value)}</td></tr>"
        for name, value in pairs
        if value is not None
    )
    return Html(f"<table><tbody>{rows}</tbody></table>")


def grid(header: Sequence[str], rows: Sequence[Sequence[Any]]) -> Html:
    """A table of many rows, numbers on the right; of too many the first ones."""
    shown = rows[:MOST]
    right = [all(_is_number(row[j]) for row in shown) for j in range(len(header))]
    marks = [" class=number" * one for one in right]
    head = "".join(f"<th{mark}>{text(name)}</th>" for mark, name in zip(marks, header))
    body = "".join(
        f"<tr>{''.join(f'<td{mark}>{text(one)}</td>' for mark, one in zip(marks, row))}</tr>"
        for row in shown
    )
    more = note(f"and {len(rows) - len(shown)} more") if len(rows) > len(shown) else ""
    table = f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
    return Html(table + more)


def _is_number(value: Any) -> bool:
    return value is None or (
        isinstance(value, (int, float, Number)) and not isinstance(value, bool)
    )


def picture(svg: str | None) -> Html | None:
    """A figure that is SVG already, with its own colours for light and dark."""
    return None if svg is None else Html(f"<div>{svg}</div>")


def bar(share: float) -> Html:
    """How much of something is done."""
    width = 100 * min(max(share, 0.0), 1.0)
    return Html(f"<div class='bar'><div style='width:{width:.1f}%'></div></div>")
