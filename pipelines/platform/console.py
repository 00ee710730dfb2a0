"""What the command prints: tables for people, or one JSON object a line for programs.

Standard output holds results and nothing else. What is being done, and what went wrong, goes to
standard error.
"""

from __future__ import annotations

import base64
import math
import shutil
import sys
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from decimal import Decimal
from io import StringIO
from itertools import chain
from typing import Any

import orjson

EXACT = 2**53
"""Above it, programs that hold numbers as doubles would round: such integers become text."""

_UNFOLDED = 1_000_000
_LEAST_ROOM = 20


class Advance:
    """Moves a bar on: called with what was finished, and whether that is news."""

    def __init__(
        self, finished: Callable[[str, bool], None], begun: Callable[[str], None] = lambda _: None
    ) -> None:
        self._finished = finished
        self._begun = begun

    def __call__(self, step: str, news: bool) -> None:
        """One step is finished."""
        self._finished(step, news)

    def at(self, step: str) -> None:
        """Show on a terminal what is at work now; the bar stays where it is."""
        self._begun(step)


def json_value(value: Any) -> Any:
    """`value` as JSON holds it without loss: see the output rules in the README."""
    kind = value.__class__
    if value is None or kind is str or kind is bool:
        return value
    if kind is int:
        return value if -EXACT <= value <= EXACT else str(value)
    if isinstance(value, Mapping):
        return {str(key): json_value(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set):
        return [json_value(item) for item in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, Decimal):
        return f"{value:f}"
    if isinstance(value, bytes | bytearray):
        return base64.b64encode(value).decode()
    if isinstance(value, datetime) and value.tzinfo is not None:
        return value.astimezone(UTC).isoformat().replace("+00:00", "Z")
    return value.isoformat() if hasattr(value, "isoformat") else str(value)


def clean(text: str) -> str:
    """`text` as one line that a terminal shows and does not obey (semantics.md, 71).

    Whatever is not printable is spelled out: control characters, so escape sequences and line
    breaks, and characters that turn the direction of writing.
    """
    if text.isprintable():
        return text
    return "".join(letter if letter.isprintable() else repr(letter)[1:-1] for letter in text)


def cell(value: Any) -> str:
    """`value` on one line of a table for people."""
    value = json_value(value)
    if value is None:
        return ""
    if isinstance(value, dict):
        return clean(" ".join(f"{key}={_item(item)}" for key, item in value.items()))
    return clean(_item(value))


def counted(number: int, things: str) -> str:
    """`1 table`, `2 tables`: `things` with the number of them."""
    return f"{number:,} {things.removesuffix('s') if number == 1 else things}"


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | Decimal) and not isinstance(value, bool)


def _item(value: Any) -> str:
    if isinstance(value, str):
        return value
    return orjson.dumps(value).decode()


def _terminal_width() -> int:
    """Of standard output; wide enough for everything where that is no terminal."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else _UNFOLDED


def _wrapped(line: str, room: int) -> list[str]:
    """The line broken between words, as far as there is room for words."""
    if len(line) <= room or room < _LEAST_ROOM:
        return [line]
    return textwrap.wrap(
        *(line, room), break_long_words=False, break_on_hyphens=False, replace_whitespace=False
    )


def warn(text: str) -> None:
    """A line on standard error, after all that standard output has."""
    sys.stdout.flush()
    sys.stderr.write(clean(text) + "\n")
    sys.stderr.flush()


class Console:
    """One call's output. `json` is what the user asked for."""

    def __init__(self, *, json: bool) -> None:
        self.json = json

    def rows(
        self,
        columns: Sequence[str],
        rows: Iterable[Sequence[Any]],
        *,
        shown: Sequence[str] | None = None,
    ) -> None:
        """Print rows: every column for programs, those in `shown` for people."""
        if self.json:
            for row in rows:
                self.record(dict(zip(columns, row, strict=True)))
            return
        places = [columns.index(name) for name in (shown or columns)]
        self._table([columns[i] for i in places], [[row[i] for i in places] for row in rows])

    def record(self, record: Mapping[str, Any]) -> None:
        """Print one thing: a JSON object, or its fields one below the other."""
        if self.json:
            sys.stdout.write(orjson.dumps(json_value(record)).decode() + "\n")
            return
        width = max(map(len, record))
        room = _terminal_width() - width - 2
        for name, value in record.items():
            text = value if isinstance(value, str) else cell(value)
            first, *rest = chain.from_iterable(
                _wrapped(line, room) for line in map(clean, text.split("\n"))
            )
            sys.stdout.write(f"{clean(name):<{width}}  {first}".rstrip() + "\n")
            for line in rest:
                sys.stdout.write(f"{'':<{width}}  {line}".rstrip() + "\n")

    def text(self, text: str) -> None:
        """Print a line for people; programs do not get it."""
        if not self.json:
            sys.stdout.write(clean(text) + "\n")

    def say(self, text: str) -> None:
        """Tell the user something beside the result, in a line."""
        warn(text)

    @contextmanager
    def progress(self, what: str, total: int) -> Iterator[Advance]:
        """A bar of `total` steps on a terminal, elsewhere a line for the news; standard error."""
        if not sys.stderr.isatty():
            yield Advance(lambda step, news: self.say(f"{what}: {step}") if news else None)
            return
        from rich.console import Console as Terminal
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
        from rich.progress import TimeElapsedColumn as Elapsed

        columns = (TextColumn("{task.description}", markup=False), BarColumn())
        bar = Progress(
            *columns, MofNCompleteColumn(), Elapsed(), console=Terminal(stderr=True), transient=True
        )
        with bar:
            task = bar.add_task(what, total=total)

            def described(step: str) -> str:
                return clean(f"{what}: {step}")

            yield Advance(
                lambda step, _: bar.update(task, advance=1, description=described(step)),
                lambda step: bar.update(task, description=described(step)),
            )

    @contextmanager
    def waiting(self, what: str) -> Iterator[None]:
        """Show on a terminal that something takes its time."""
        if not sys.stderr.isatty():
            yield
            return
        from rich.console import Console as Terminal
        from rich.text import Text

        with Terminal(stderr=True).status(Text(clean(what))):
            yield

    def _table(self, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
        # A tenth of a second to import, and programs never need it.
        from rich import box
        from rich.console import Console as Terminal
        from rich.table import Table
        from rich.text import Text

        table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, header_style="bold")
        for i, name in enumerate(columns):
            numeric = any(_is_number(row[i]) for row in rows)
            justify: Any = "right" if numeric else "left"
            table.add_column(Text(clean(name)), justify=justify, overflow="fold")
        for row in rows:
            table.add_row(*(Text(cell(value)) for value in row))
        if sys.stdout.isatty():
            terminal = Terminal(file=sys.stdout, highlight=False)
            if Terminal(width=_UNFOLDED).measure(table).maximum > 2 * terminal.width:
                self._one_below_the_other(columns, rows)
            else:
                terminal.print(table, "")
            return
        # Nothing is folded or padded where a file or a pipe takes it.
        terminal = Terminal(file=StringIO(), highlight=False, width=_UNFOLDED)
        terminal.print(table)
        printed = terminal.file.getvalue()  # type: ignore[attr-defined]
        sys.stdout.writelines(line.rstrip() + "\n" for line in printed.splitlines())
        sys.stdout.write("\n")

    def _one_below_the_other(self, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
        """Rows too wide for the terminal, each as a block of its fields."""
        for row in rows:
            cells = zip(columns, map(cell, row), strict=True)
            self.record({name: text for name, text in cells if text} or {columns[0]: ""})
            sys.stdout.write("\n")
