"""What the command prints: tables for people, or one JSON object a line for programs.

Standard output holds only results. What is being done, and what went wrong, goes to standard error.
"""

from __future__ import annotations

import base64
import io
import math
import os
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import orjson
from click import style

if TYPE_CHECKING:
    from pipelines.terminal.layout import Column, Line

from pipelines.terminal.log import JsonLog, Level, json_line

EXACT = 2**53
"""Programs that hold numbers as doubles would round larger integers, so these become text."""

PIPE = 200
"""The width of a line, in cells, for a file or a pipe, unless COLUMNS says otherwise."""
STATES = ("state", "status")
"""Fields that hold a state, and are coloured."""
_UNFOLDED = 1_000_000
_LEAST_ROOM = 20


class Advance:
    """Moves a bar forward: called with the step that is finished, and whether that is news."""

    def __init__(
        self, finished: Callable[[str, bool], None], begun: Callable[[str], None] = lambda _: None
    ) -> None:
        self._finished = finished
        self._begun = begun

    def __call__(self, step: str, news: bool, **about: Any) -> None:
        """One step is finished; `about`: what a log line is about, such as its source."""
        self._finished(step, news)

    def at(self, step: str) -> None:
        """Show on a terminal the step that is at work now; the bar stays where it is."""
        self._begun(step)


class LoggedAdvance(Advance):
    """Writes each step that is news as a line of a log."""

    def __init__(self, log: JsonLog) -> None:
        super().__init__(lambda _, __: None)
        self._log = log

    def __call__(self, step: str, news: bool, **about: Any) -> None:
        if news:
            self._log.line("info", step, **about)


def json_value(value: Any) -> Any:
    """`value` as JSON that loses nothing: see the output rules in the README."""
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

    All characters that are not printable are spelled out: control characters, and with them escape
    sequences and line breaks, and characters that change the direction of writing.
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


_OF_ONE = {"are": "is", "have": "has", "were": "was"}


def counted(number: int, things: str, verb: str | None = None) -> str:
    """`1 table`, `2 tables`: `things` with their number and, if it is given, their verb: `1 table
    is`."""
    one = number == 1
    noun = things.removesuffix("s") if one else things
    does = "" if verb is None else f" {_OF_ONE.get(verb, f'{verb}s') if one else verb}"
    return f"{number:,} {noun}{does}"


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | Decimal) and not isinstance(value, bool)


def _item(value: Any) -> str:
    if isinstance(value, str):
        return value
    return orjson.dumps(value).decode()


def open_output() -> None:
    """Make standard output and standard error accept everything that is printed: as UTF-8, whatever
    the locale says, and discarded if they were closed (`>&-`)."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))
        elif isinstance(stream, io.TextIOWrapper) and stream.encoding.lower() != "utf-8":
            stream.reconfigure(encoding="utf-8")


def warn(text: str) -> None:
    """A line on standard error, after all that standard output has."""
    sys.stdout.flush()
    sys.stderr.write(clean(text) + "\n")
    sys.stderr.flush()


class Console:
    """The output of one call. `json` is what the user asked for; with `log`, what is done and what
    went wrong are written as its lines."""

    def __init__(self, *, json: bool) -> None:
        self.json = json
        self.log: JsonLog | None = None
        self.hide: Callable[[str], str] = str
        """Takes the secrets of a configuration out of a sentence, once there is one."""

    def rows(
        self,
        columns: Sequence[str],
        rows: Iterable[Sequence[Any]],
        *,
        shown: Sequence[str] | None = None,
        whole: bool = False,
    ) -> None:
        """Print rows: every column for programs, those in `shown` for people.

        `whole`: a file or a pipe gets each row on one line, however long.
        """
        if self.json:
            for row in rows:
                self.record(dict(zip(columns, row, strict=True)))
            return
        places = [columns.index(name) for name in (shown or columns)]
        # Importing it takes a while, and programs never need it.
        from pipelines.terminal.layout import Column, Kind

        held = [[row[i] for i in places] for row in rows]
        cells = [list(map(cell, row)) for row in held]
        found = []
        for at, place in enumerate(places):
            numeric = any(_is_number(row[at]) for row in held)
            texts = any(" " in row[at] for row in cells)
            kind = Kind.COUNT if numeric else Kind.TEXT if texts else Kind.NAME
            found.append(Column(clean(columns[place]), kind))
        width = _UNFOLDED if whole and not sys.stdout.isatty() else self.width
        self.table(found, cells, width=width)

    def table(
        self, columns: Sequence[Column], rows: Sequence[Sequence[str]], *, width: int | None = None
    ) -> None:
        """Print a table for people, as wide as the terminal or `width`."""
        from pipelines.terminal.layout import lines

        cleaned = [[*map(clean, row)] for row in rows]
        self._write(lines(columns, cleaned, width or self.width))
        sys.stdout.write("\n")

    @property
    def width(self) -> int:
        """The width of a line in cells: the terminal's, or the number in COLUMNS, else PIPE."""
        beside = PIPE if not sys.stdout.isatty() else 80
        return max(shutil.get_terminal_size((beside, 24)).columns, _LEAST_ROOM)

    @property
    def coloured(self) -> bool:
        """Whether standard output shows colours and they are wanted (https://no-color.org)."""
        wanted = not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
        return wanted and sys.stdout.isatty()

    def _write(self, lines: Iterable[Line]) -> None:
        coloured = self.coloured
        for line in lines:
            for text, colour, bold in line:
                plain = not coloured or not (colour or bold)
                sys.stdout.write(text if plain else style(text, fg=colour, bold=bold or None))
            sys.stdout.write("\n")

    def record(self, record: Mapping[str, Any]) -> None:
        """Print one thing: a JSON object, or its fields one below the other."""
        if self.json:
            sys.stdout.write(json_line(json_value(record)) + "\n")
            return
        from pipelines.terminal.layout import Column, Kind, fields_below

        fields = []
        for name, value in record.items():
            text = value if isinstance(value, str) else cell(value)
            kind = Kind.STATE if name in STATES else Kind.TEXT
            fields.append((Column(clean(name), kind), "\n".join(map(clean, text.split("\n")))))
        self._write(fields_below(fields, self.width))

    def text(self, text: str) -> None:
        """Print a line for people; programs do not get it."""
        if not self.json:
            sys.stdout.write(clean(text) + "\n")

    def say(self, text: str, *, level: Level = "warning", **about: Any) -> None:
        """Tell the user something beside the result, in one line; a log line also says what it is
        about."""
        text = self.hide(text)
        if self.log is not None:
            self.log.line(level, text, **about)
        else:
            warn(text)

    @contextmanager
    def progress(self, what: str, total: int) -> Iterator[Advance]:
        """A bar of `total` steps on a terminal, elsewhere a line for each step that is news; on
        standard error."""
        if self.log is not None:
            yield LoggedAdvance(self.log)
            return
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
        """Show on a terminal that something takes a while."""
        if self.log is not None or not sys.stderr.isatty():
            yield
            return
        from rich.console import Console as Terminal
        from rich.text import Text

        with Terminal(stderr=True).status(Text(clean(what))):
            yield
