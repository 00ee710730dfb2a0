"""Row changes to be sent over every wire, and what their encoders share."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from tests.support.encoded_cells import quoted

DB, TABLE = "farm", "crop"
SECOND = 1_700_000_000
"""When change 0 happened; change n happened n seconds later."""

Row = Mapping[str, Any]
"""Column -> int, Decimal, bool, date, datetime (aware for TIMESTAMP), timedelta, bytes, str, None;
a column that is not there is not sent."""
Cell = Callable[[str, Any], str]
"""MySQL type and value other than None -> JSON token."""


class Change(NamedTuple):
    """One row change; `columns` maps each column to its MySQL type, `number` counts changes."""

    op: str
    columns: Mapping[str, str]
    before: Row | None
    after: Row | None
    keys: tuple[str, ...] = ("id",)
    number: int = 0

    @property
    def seconds(self) -> int:
        return SECOND + self.number


class Wire(NamedTuple):
    """A producer: the format it writes, and how.

    `typed`: the messages alone tell column types. `options`: what the source's YAML says of how
    they are written. `key`: the transport key that goes with a message.
    """

    format: str
    encode: Callable[[Change], bytes]
    typed: bool = True
    options: Mapping[str, Any] = {}
    key: Callable[[Change], bytes] | None = None


def object_(**members: str | None) -> str:
    """A JSON object of tokens; a member that is None is left out."""
    return "{" + ",".join(f'"{k}":{v}' for k, v in members.items() if v is not None) + "}"


def image(row: Row | None, columns: Mapping[str, str], cell: Cell) -> str:
    if row is None:
        return "null"
    cells = (
        f"{quoted(name)}:{'null' if value is None else cell(columns[name], value)}"
        for name, value in row.items()
    )
    return "{" + ",".join(cells) + "}"


def texts(*names: str) -> str:
    return json.dumps(names)


def changed(change: Change) -> Row | None:
    """The previous values of the columns that an update changed."""
    if change.before is None or change.after is None:
        return None
    after = change.after
    return {
        name: value
        for name, value in change.before.items()
        if name not in after or after[name] != value
    }
