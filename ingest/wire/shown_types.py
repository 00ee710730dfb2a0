"""The column types of a table whose rows show them value by value: DTS and OceanBase Avro.

A value tells its own type, but a NULL tells none, so the types that earlier rows of the table
showed are remembered; otherwise every pattern of NULLs would be a schema of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from ingest.events import ColumnType, Row, Types
from ingest.memo import Memo
from ingest.names import declared_for
from ingest.values.source_types import spark_type, types_of
from ingest.wire.contract import FormatOptions, TableName
from ingest.wire.declared import Convert, ValueEncoding, in_sent_names, sql_converter


class ShownTypes:
    """The types of one table's columns, learnt as its rows come.

    `source_type` gives the type of the column `index` whose value showed `word`, or None for a word
    that says nothing; for the word None it gives what is known without any value.
    """

    def __init__(
        self,
        table: TableName,
        names: Sequence[str],
        options: FormatOptions,
        *,
        family: str,
        source_type: Callable[[int, str | None], str | None],
    ) -> None:
        self.names = tuple(names)
        self._declared: Mapping[str, str] = in_sent_names(
            declared_for(options.columns, options.completed(table)), names
        )
        convert = sql_converter(ValueEncoding(family=family, zone=options.time_zone))
        self._converts: dict[str, Convert] = {
            name: found
            for name, text in self._declared.items()
            if (found := convert(text)) is not None
        }
        self._family = family
        self._source_type = source_type
        self._known = [source_type(index, None) for index in range(len(names))]
        self._patterns: Memo[tuple[str | None, ...], Types | None] = Memo(most=1_000)

    def of(self, words: Sequence[str | None]) -> Types | None:
        """The types of all columns, after a row has shown `words`, one for each column."""
        pattern = tuple(words)
        if pattern not in self._patterns:
            self._patterns[pattern] = self._shown(pattern)
        return self._patterns[pattern]

    def _shown(self, words: Sequence[str | None]) -> Types | None:
        for index, word in enumerate(words):
            shown = self._source_type(index, word) if word is not None else None
            if shown is not None and self._known[index] != f"{shown} unsigned":
                if self._known[index] is None:
                    # Rows with a NULL here have this type from now on.
                    self._patterns.clear()
                self._known[index] = shown
        found = {
            name: text
            for name, known in zip(self.names, self._known, strict=True)
            if (text := self._declared.get(name, known)) is not None
        }
        columns = tuple(ColumnType(name, text, self._spark(text)) for name, text in found.items())
        return types_of(columns) if columns else None

    def _spark(self, source_type: str) -> str:
        # Without its length, BIT is any BIT(n).
        return "decimal(20,0)" if source_type == "bit" else spark_type(source_type, self._family)

    def as_declared(self, row: Row | None, warnings: list[str]) -> None:
        """Converts the values of declared columns to the form of their declared type."""
        if row is None:
            return
        for name, convert in self._converts.items():
            value = row.get(name)
            if value is not None:
                row[name] = convert(value, warnings)
