"""The columns of a record, as DTS's and OceanBase's records both list them ahead of their rows."""

from __future__ import annotations

from collections.abc import Hashable
from typing import NamedTuple

from ingest.memo import Memo
from ingest.wire.avro.bytes import count, number, text


class Fields(NamedTuple):
    """The columns of a record, by position: names and the source's type numbers."""

    names: tuple[str, ...]
    numbers: tuple[int, ...]


class KnownFields:
    """Reads lists of columns; those of a table are read once, then compared."""

    def __init__(self) -> None:
        self._known: Memo[Hashable, tuple[bytes, Fields]] = Memo(most=10_000)

    def read(self, data: bytes, at: int, table: Hashable) -> tuple[Fields, int]:
        """The list whose branch of the union stands at `at`, and where it ends."""
        known = self._known.get(table)
        if known is not None and data.startswith(known[0], at):
            return known[1], at + len(known[0])
        start = at
        names: list[str] = []
        types: list[int] = []
        left, at = count(data, at + 1)
        while left:
            for _ in range(left):
                name, at = text(data, at)
                type_, at = number(data, at)
                names.append(name)
                types.append(type_)
            left, at = count(data, at)
        fields = Fields(tuple(names), tuple(types))
        self._known[table] = data[start:at], fields
        return fields, at
