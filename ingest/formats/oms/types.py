"""The columns of a table whose OMS messages name their types."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping

from ingest.formats.oms.values import LOBS, oms_converter, oms_spark_type
from ingest.memo import Memo
from ingest.values.source_types import parse_type
from ingest.wire.contract import FormatOptions, TableName
from ingest.wire.declared import TableTypes, in_any_case
from ingest.wire.typed_rows import TypedRows


class OmsTypes:
    """Remembers the columns of each table, type family and type block."""

    def __init__(self, options: FormatOptions) -> None:
        self._options = options
        self._families: dict[str, TableTypes] = {}
        self._memo: Memo[tuple[TableName, str, Hashable], TypedRows] = Memo(most=10_000)

    def of(
        self,
        table: TableName,
        *,
        family: str,
        key: Hashable,
        sent: Callable[[], Mapping[str, str]],
        keys: tuple[str, ...] | None = None,
    ) -> TypedRows:
        """The columns of `table` whose message sent the type names `sent()`.

        `family` is that of the source's database (`ingest.values.source_types.family_of`); `key`
        stands for the sent types and the table's key columns `keys`: if it is equal, both must be
        equal.
        """
        found = self._memo.get((table, family, key))
        if found is None:
            found = self._memo[table, family, key] = self._build(
                table, family, key, sent=sent(), keys=keys
            )
        return found

    def _build(
        self,
        table: TableName,
        family: str,
        key: Hashable,
        *,
        sent: Mapping[str, str],
        keys: tuple[str, ...] | None,
    ) -> TypedRows:
        types = self._families.get(family)
        if types is None:
            types = self._families[family] = TableTypes(
                self._options,
                convert=oms_converter(family, self._options.time_zone),
                spark=oms_spark_type(family),
            )
        columns = types.of(table, key, sent.items)
        known = columns.types.columns if columns.types is not None else ()
        lobs = {name: text for name, text, _ in known if _large(text, sent.get(name))}
        lobs_named = frozenset(in_any_case(lobs))
        return TypedRows(columns, sent=frozenset(sent), keys=keys, lobs=lobs_named)


def _large(known: str, sent: str | None) -> bool:
    """Whether a column may be a large object, by the type that is known and the type that was sent.

    If only the YAML tells the type, Spark's `string` and `binary` may stand for one.
    """
    if sent is None:
        return parse_type(known).name in LOBS | {"string", "binary"}
    return not LOBS.isdisjoint((parse_type(known).name, parse_type(sent).name))
