"""What is known of a table's columns, and of the sets of columns that its rows came with."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from ingest.events import Types
from ingest.formats.debezium import values as encoded
from ingest.formats.debezium.values import ReadArray
from ingest.memo import Memo
from ingest.wire.declared import Convert
from ingest.wire.text_columns import Reading, readings_of


class Shape(NamedTuple):
    """A set of column names: which to convert, and whether all have a type.

    A converter None is `encoded.integer`, the most frequent. The integers of columns without a
    converter are written as they are; `numbers` are those columns, found as rows come. All other
    values are expected to be text.
    """

    converted: tuple[tuple[str, Convert | None], ...]
    typed: bool
    numbers: list[str]


class Columns(NamedTuple):
    """What is known of a table's columns.

    - `sent`: how many columns the message's schema declares, 0 if it declares none.
    - `keys`: the table's key columns by the YAML.
    - `shapes`: the sets of names met so far.
    - `canonical`: the images come as canonical text already.
    - `invented`: for each column, the values that stand for no value in PostgreSQL's row before.
    - `arrays`: the columns whose elements are encoded.
    - `family`: the type family of the connector for which they were built.
    - `large`: for SQL Server, the columns that `large_values` finds.
    """

    types: Types | None
    converts: Mapping[str, Convert | None]
    nested: Mapping[str, encoded.Nested]
    names: frozenset[str]
    sent: int
    keys: tuple[str, ...] | None
    shapes: Memo[tuple[str, ...], Shape]
    family: str
    canonical: bool = False
    invented: Mapping[str, frozenset[str]] = {}
    arrays: Mapping[str, ReadArray] = {}
    large: Mapping[str, bool] = {}

    def shape(self, names: tuple[str, ...]) -> Shape:
        """What rows with these columns need, worked out once and remembered."""
        known = [(name, self.converts.get(name)) for name in names]
        made = self.shapes[names] = Shape(
            tuple((name, None if c is encoded.integer else c) for name, c in known if c),
            bool(self.names) and self.names.issuperset(names),
            [],
        )
        return made

    def readings(self, names: tuple[str, ...]) -> list[Reading]:
        """How each of these columns is read if rows are read by column, so that the texts are the
        same."""
        return readings_of(self.converts, names)

    def text_of(self, name: str, value: Any, warnings: list[str]) -> str | None:
        """The text of a JSON object or array; None if it stays as sent."""
        if value.__class__ is list:
            array = self.arrays.get(name)
            return array(value, warnings) if array is not None else None
        nested = self.nested.get(name) if value.__class__ is dict else None
        return nested(value) if nested is not None else None
