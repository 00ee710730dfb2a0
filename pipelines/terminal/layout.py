"""Tables for people: how columns share the width of a screen, so that no name is ever broken.

As long as there is room, everything stands side by side. Where there is less, in this order: the
gaps shrink, paths are shortened in the middle and texts broken between words; texts that may stand
below their row go there; optional columns are left out. Where a row has values of its own, they go
below it before anything is left out, as `name=value`. Where even that is too wide, each row is a
block of its fields.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import Enum, auto
from typing import NamedTuple

from rich.cells import cell_len

WIDE, NARROW = 3, 2
"""Cells between two columns."""
LEAST_TEXT, LEAST_BELOW, LEAST_PATH = 32, 60, 20
"""The least width, in cells, of a text, of a text that may stand below its row, and of a path."""
INDENT = 4
COLOURS = {
    **dict.fromkeys(("ok", "applied", "resolved"), "green"),
    **dict.fromkeys(("behind", "pending", "open", "approved"), "yellow"),
    **dict.fromkeys(("parked", "failed", "failing", "gap", "gaps"), "red"),
    "rejected": "magenta",
    **dict.fromkeys(("ignored", "superseded", "dismissed"), "bright_black"),
}
"""The colour of a state: good, waiting, broken, kept out, no longer of concern."""


class Kind(Enum):
    """How a column's cells may be changed."""

    NAME = auto()
    """Stays whole."""
    COUNT = auto()
    """Stays whole, aligned to the right."""
    STATE = auto()
    """Stays whole, in the colour of its first word."""
    PATH = auto()
    """May be shortened in the middle."""
    TEXT = auto()
    """May be broken between words."""


class Where(Enum):
    """What becomes of a column if there is no room for it."""

    BESIDE = auto()
    """It stays beside the others."""
    BELOW = auto()
    """It goes below its row, on lines of its own."""
    FOLDED = auto()
    """It goes below its row, on one line with the others of this kind."""
    LEFT_OUT = auto()
    """It is left out."""


@dataclass(frozen=True)
class Column:
    """One column of a screen."""

    name: str
    kind: Kind = Kind.NAME
    where: Where = Where.BESIDE


class Span(NamedTuple):
    """A piece of a line, and its look."""

    text: str
    colour: str | None = None
    bold: bool = False


Line = list[Span]
Rows = Sequence[Sequence[str]]


@dataclass(frozen=True)
class _Plan:
    """The columns, by number, that stand beside each other, their widths, and the columns that go
    below."""

    beside: tuple[int, ...]
    below: tuple[int, ...] = ()
    folded: tuple[int, ...] = ()
    widths: tuple[int, ...] = ()
    gap: int = WIDE


def lines(columns: Sequence[Column], rows: Rows, width: int) -> Iterator[Line]:
    """The lines of the table on a screen that is `width` cells wide; no cell holds a line break."""
    plan = next(
        filter(None, (_fitted(p, columns, rows, width=width) for p in _plans(columns))), None
    )
    if plan is None:
        yield from _blocks(columns, rows, width)
        return
    heads = [columns[i].name for i in plan.beside]
    yield _line(plan, columns, heads, head=True)
    yield [Span("─" * (sum(plan.widths) + plan.gap * (len(plan.widths) - 1)))]
    for row in rows:
        parts = [
            _parts(columns[i], row[i], w) for i, w in zip(plan.beside, plan.widths, strict=True)
        ]
        for number in range(max(map(len, parts))):
            texts = [part[number] if number < len(part) else "" for part in parts]
            yield _line(plan, columns, texts)
        yield from _below(plan, columns, row, width=width)


def without_empty(columns: Sequence[Column], rows: Rows) -> tuple[list[Column], list[list[str]]]:
    """The table without columns that are empty in all rows."""
    kept = [i for i in range(len(columns)) if any(row[i] for row in rows)]
    return [columns[i] for i in kept], [[row[i] for i in kept] for row in rows]


def wrapped(text: str, width: int) -> list[str]:
    """The text on lines of at most so many cells, broken at spaces; a longer word stays whole."""
    if cell_len(text) <= width:
        return [text]
    found, line = [], ""
    for word in text.split(" "):
        longer = f"{line} {word}" if line else word
        if line and cell_len(longer) > width:
            found.append(line)
            line = word
        else:
            line = longer
    return [*found, line]


def shortened(path: str, width: int) -> str:
    """The path in at most so many cells: without folders in its middle, or only its file; else
    without letters in its middle."""
    if cell_len(path) <= width:
        return path
    first, *rest = path.split("/")
    ends = [(first, "…", *rest[left:]) for left in range(1, len(rest))]
    for kept in (*ends, ("…", *rest[-1:])):
        shorter = "/".join(kept)
        if cell_len(shorter) <= width:
            return shorter
    end = (width - 1) * 2 // 3
    return _cut(path, width - 1 - end) + "…" + _cut(path[::-1], end)[::-1]


def _cut(text: str, width: int) -> str:
    """As much of the beginning of the text as fits."""
    while cell_len(text) > width:
        text = text[:-1]
    return text


def _plans(columns: Sequence[Column]) -> Iterator[_Plan]:
    """Ways to arrange the columns, each more frugal than the one before."""
    plan = _Plan(tuple(range(len(columns))))
    yield plan
    yield (plan := replace(plan, gap=NARROW))
    for number in reversed(_of(columns, Where.BELOW)):
        plan = replace(_without(plan, [number]), below=(number, *plan.below))
        yield plan
    if folded := _of(columns, Where.FOLDED):
        plan = replace(_without(plan, folded), folded=tuple(folded))
        yield plan
    yield from _leaving_out(plan, columns)


def _leaving_out(plan: _Plan, columns: Sequence[Column]) -> Iterator[_Plan]:
    """The plan with fewer and fewer optional columns."""
    for number in reversed(_of(columns, Where.LEFT_OUT)):
        yield (plan := _without(plan, [number]))


def _of(columns: Sequence[Column], where: Where) -> list[int]:
    return [number for number, column in enumerate(columns) if column.where is where]


def _without(plan: _Plan, numbers: Sequence[int]) -> _Plan:
    return replace(plan, beside=tuple(i for i in plan.beside if i not in numbers))


def _fitted(plan: _Plan, columns: Sequence[Column], rows: Rows, *, width: int) -> _Plan | None:
    """The plan with the width of each column; None if they do not fit, or none is left."""
    if not plan.beside:
        return None
    whole = [_widest(columns[i].name, *(row[i] for row in rows)) for i in plan.beside]
    least = [
        min(full, _least(columns[i], [row[i] for row in rows]))
        if columns[i].kind in (Kind.PATH, Kind.TEXT)
        else full
        for i, full in zip(plan.beside, whole, strict=True)
    ]
    spare = width - plan.gap * (len(whole) - 1) - sum(least)
    if spare < 0 or (plan.gap == WIDE and spare < sum(whole) - sum(least)):
        return None
    if spare >= sum(whole) - sum(least):
        return replace(plan, widths=tuple(whole))
    widths = list(least)
    while spare and widths != whole:
        # The narrowest column that needs more gets a cell.
        wanting = [i for i in range(len(widths)) if widths[i] < whole[i]]
        widths[min(wanting, key=lambda i: widths[i])] += 1
        spare -= 1
    return replace(plan, widths=tuple(widths))


def _least(column: Column, cells: Sequence[str]) -> int:
    if column.kind is Kind.PATH:
        return max(LEAST_PATH, cell_len(column.name))
    least = LEAST_BELOW if column.where is Where.BELOW else LEAST_TEXT
    return max(least, _widest(*(word for cell in cells for word in cell.split(" "))))


def _widest(*texts: str) -> int:
    return max(map(cell_len, texts))


def _parts(column: Column, cell: str, width: int) -> list[str]:
    """The lines of one cell."""
    if column.kind is Kind.TEXT:
        return wrapped(cell, width)
    return [shortened(cell, width) if column.kind is Kind.PATH else cell]


def _line(
    plan: _Plan, columns: Sequence[Column], texts: Sequence[str], *, head: bool = False
) -> Line:
    """One line of cells side by side, nothing behind the last."""
    line: Line = []
    for place, (number, text) in enumerate(zip(plan.beside, texts, strict=True)):
        column = columns[number]
        room = " " * (plan.widths[place] - cell_len(text))
        if column.kind is Kind.COUNT:
            line += [Span(room), Span(text, bold=head)]
        else:
            colour = colour_of(text) if column.kind is Kind.STATE and not head else None
            line += [Span(text, colour, bold=head), Span(room)]
        line.append(Span(" " * plan.gap))
    while line and not line[-1].text.strip():
        line.pop()
    return line


def colour_of(state: str) -> str | None:
    """The colour of a state: that of the first word that has one."""
    words = state.replace(",", " ").split()
    return next((COLOURS[word] for word in words if word in COLOURS), None)


def _below(
    plan: _Plan, columns: Sequence[Column], row: Sequence[str], *, width: int
) -> Iterator[Line]:
    """What stands below a row."""
    texts = [f"{columns[i].name}: {row[i]}" for i in plan.below if row[i]]
    values = "  ".join(f"{columns[i].name}={row[i]}" for i in plan.folded if row[i])
    for text in (*texts, *([values] if values else [])):
        first, *rest = wrapped(text, width - INDENT - NARROW)
        yield [Span(" " * INDENT + first.rstrip())]
        yield from ([Span(" " * (INDENT + NARROW) + line.strip())] for line in rest)


def _blocks(columns: Sequence[Column], rows: Rows, width: int) -> Iterator[Line]:
    """Each row as a block of its fields, empty ones left out."""
    for number, row in enumerate(rows):
        if number:
            yield []
        fields = [(c, text) for c, text in zip(columns, row, strict=True) if text]
        yield from fields_below(fields or [(columns[0], "")], width)


def fields_below(fields: Iterable[tuple[Column, str]], width: int) -> Iterator[Line]:
    """Fields one below the other, their texts beside their names and broken between words."""
    fields = list(fields)
    margin = _widest(*(column.name for column, _ in fields)) + NARROW
    for column, text in fields:
        name = column.name + " " * (margin - cell_len(column.name))
        broken = [part for line in text.split("\n") for part in _within(line, width - margin)]
        colour = colour_of(text) if column.kind is Kind.STATE else None
        yield [Span(name.rstrip() if not broken[0] else name), Span(broken[0], colour)]
        yield from ([Span(" " * margin + part) if part else Span("")] for part in broken[1:])


def _within(line: str, room: int) -> list[str]:
    """The line broken between words, as far as there is room for words."""
    return [line] if room < LEAST_PATH else wrapped(line, room)
