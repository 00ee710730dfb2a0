"""What the command prints: tables for people, or one JSON object a line for programs.

Standard output holds results and nothing else. What is being done, and what went wrong, goes to
standard error.
"""

from __future__ import annotations

import base64
import math
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from decimal import Decimal
from io import StringIO
from typing import Any

import orjson

EXACT = 2**53
"""Above it, programs that hold numbers as doubles would round: such integers become text."""

_UNFOLDED = 1_000_000
Advance = Callable[[str, bool], None]
"""Called with what was finished, and whether that is news; moves the bar on by one."""


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


def cell(value: Any) -> str:
    """`value` on one line of a table for people; control characters are spelled out."""
    value = json_value(value)
    if value is None:
        return ""
    if isinstance(value, dict):
        return " ".join(f"{key}={_item(item)}" for key, item in value.items())
    text = _item(value)
    return "".join(letter if letter.isprintable() else repr(letter)[1:-1] for letter in text)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | Decimal) and not isinstance(value, bool)


def _item(value: Any) -> str:
    if isinstance(value, str):
        return value
    return orjson.dumps(value).decode()


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
        for name, value in record.items():
            text = value if isinstance(value, str) else cell(value)
            first, *rest = text.split("\n") if text else [""]
            sys.stdout.write(f"{name:<{width}}  {first}".rstrip() + "\n")
            for line in rest:
                sys.stdout.write(f"{'':<{width}}  {line}".rstrip() + "\n")

    def text(self, text: str) -> None:
        """Print a line for people; programs do not get it."""
        if not self.json:
            sys.stdout.write(text + "\n")

    def say(self, text: str) -> None:
        """Tell the user something beside the result."""
        sys.stdout.flush()
        sys.stderr.write(text + "\n")
        sys.stderr.flush()

    @contextmanager
    def progress(self, what: str, total: int) -> Iterator[Advance]:
        """A bar of `total` steps on a terminal, elsewhere a line for the news; standard error."""
        if not sys.stderr.isatty():
            yield lambda step, news: self.say(f"{what}: {step}") if news else None
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

            def advance(step: str, news: bool) -> None:
                bar.update(task, advance=1, description=f"{what}: {step}")

            yield advance

    @contextmanager
    def waiting(self, what: str) -> Iterator[None]:
        """Show on a terminal that something takes its time."""
        if not sys.stderr.isatty():
            yield
            return
        from rich.console import Console as Terminal

        with Terminal(stderr=True).status(what):
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
            table.add_column(Text(name), justify=justify, overflow="fold")
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
            self.record(dict(zip(columns, map(cell, row), strict=True)))
            sys.stdout.write("\n")
