"""How large a message, a statement or a packed file may be (semantics.md, 72).

Every step on a message takes time linear in its size, and a limit bounds what one message may take
at all. A message above a limit is a reject `too_large` with its bytes as they came, so that it can
be replayed once the limit is raised.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from ingest.codes import Code
from ingest.errors import DecodeError
from ingest.events import Event
from ingest.values.jsontext import excerpt

_BRACKETS = re.compile(rb'"(?:[^"\\]++|\\.)*+"?|([\[{])|([\]}])', re.DOTALL)
_SPACES = b" \t\r\n\xef\xbb\xbf"


class Limits(NamedTuple):
    """The `limits` of a source.

    `message_bytes`: the most bytes of a message as it came. `columns`: the most columns of one row
    image; the default is that of SQL Server's wide tables, the most of any database. `nesting`: how
    deep objects and arrays of a JSON message may be nested; None is as deep as the parser reads,
    some 900 levels. `ddl_bytes`: the most bytes of a statement that changes or empties tables.
    `unpacked_bytes`: the most bytes of the content of one packed file; None is a thousand times its
    size, and at least a gigabyte.
    """

    message_bytes: int = 128 * 2**20
    columns: int = 30_000
    nesting: int | None = None
    ddl_bytes: int = 256 * 2**10
    unpacked_bytes: int | None = None


def check_message(value: bytes, limits: Limits) -> None:
    """Raises too_large for a message of too many bytes, or nested too deep."""
    if len(value) > limits.message_bytes:
        raise _too_large("message_bytes", f"a message of {limits.message_bytes} bytes", len(value))
    most = limits.nesting
    if most is not None and value.count(b"{") + value.count(b"[") > most and _deeper(value, most):
        raise DecodeError(
            Code.TOO_LARGE,
            f"expected at most {most} objects and arrays in each other, got more in "
            f"{excerpt(value)}; set limits.nesting of the source",
        )


def check_columns(event: Event, limits: Limits) -> None:
    """Raises too_large for a row image of too many columns."""
    columns = max(len(event.before or ()), len(event.after or ()))
    if columns > limits.columns:
        raise _too_large("columns", f"a row of {limits.columns} columns", columns)


def statement_too_large(statement: str, limits: Limits) -> DecodeError:
    """The refusal of a message whose statement is too long."""
    most = f"a statement of {limits.ddl_bytes} bytes"
    return _too_large("ddl_bytes", most, len(statement.encode("utf-8", "surrogatepass")))


def _too_large(key: str, most: str, got: int) -> DecodeError:
    return DecodeError(
        Code.TOO_LARGE, f"expected at most {most}, got {got}; set limits.{key} of the source"
    )


def _deeper(value: bytes, most: int) -> bool:
    """Whether the brackets of a JSON message stand deeper in each other than `most`."""
    if not value.lstrip(_SPACES).startswith((b"{", b"[")):
        return False
    depth = 0
    for found in _BRACKETS.finditer(value):
        if found.lastindex == 1:
            depth += 1
            if depth > most:
                return True
        elif found.lastindex == 2:
            depth -= 1
    return False
