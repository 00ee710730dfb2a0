"""The rows of a source's tables, by the types that their messages or the source's YAML name."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping

from ingest.formats.columns import Convert, TableTypes, Texts, sql_converter, sql_spark_type
from ingest.formats.format import FormatOptions, TableName
from ingest.formats.typed_rows import TypedRows

_MEMO_MOST = 10_000


class TableRows:
    """Remembers, per table, type block and keys, how its rows are read.

    `texts` says how the format writes values of SQL types; `convert` and `spark` take the place of
    the converters and Spark types that follow from it.
    """

    def __init__(
        self,
        options: FormatOptions,
        texts: Texts,
        *,
        convert: Callable[[str], Convert | None] | None = None,
        spark: Callable[[str], str] | None = None,
    ) -> None:
        self._tables = TableTypes(
            options,
            convert=convert or sql_converter(texts),
            spark=spark or sql_spark_type(texts),
        )
        self._memo: dict[tuple[TableName, Hashable, tuple[str, ...] | None], TypedRows] = {}

    def of(
        self,
        table: TableName,
        *,
        keys: tuple[str, ...] | None = None,
        key: Hashable = None,
        sent: Callable[[], Mapping[str, str]] = dict,
    ) -> TypedRows:
        """The rows of `table` whose message names the types `sent()` and the key columns `keys`.

        `key` stands for the sent types: equal keys must mean equal types.
        """
        found = self._memo.get((table, key, keys))
        if found is None:
            if len(self._memo) >= _MEMO_MOST:
                self._memo.clear()
            types = sent()
            columns = self._tables.of(table, key, types.items)
            found = self._memo[table, key, keys] = TypedRows(
                columns, sent=frozenset(types), keys=keys
            )
        return found
