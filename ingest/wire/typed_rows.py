"""Row images whose column types are named by the message, or by the YAML alone.

What a row needs depends only on its column names, so it is worked out once for each table and set
of names and kept as a shape. Then a row is converted in place, with one look at each value.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Mapping
from typing import Any, NamedTuple

import msgspec

from ingest.codes import Code
from ingest.events import Row, Types
from ingest.memo import Memo
from ingest.names import lowered
from ingest.values import jsontext
from ingest.values.source_types import parse_type
from ingest.wire.contract import FormatOptions, TableName
from ingest.wire.declared import (
    Columns,
    Convert,
    TableTypes,
    ValueEncoding,
    in_any_case,
    sql_converter,
    sql_spark_type,
)
from ingest.wire.text_columns import Reading, readings_of


class Shape(NamedTuple):
    """What is known of rows with a set of column names: which columns to convert, how complete the
    row is, and its warnings.

    `numbers` are the columns that have held an integer; the others are expected to be text.
    """

    converted: tuple[tuple[str, Convert], ...]
    word: str
    warnings: tuple[str, ...]
    numbers: list[str]


class TypedRows:
    """Reads the rows of one table.

    `sent` are the columns that the message itself types, `keys` its key columns, `lobs` the columns
    of a large-object type; `hidden` are names that are no columns of the table. `types` are all
    types that are known, including those of the YAML; None if there are none.
    """

    __slots__ = ("_columns", "_hidden", "_keys", "_lobs", "_of_type", "_shapes", "sent", "types")

    def __init__(
        self,
        columns: Columns,
        *,
        sent: frozenset[str],
        keys: tuple[str, ...] | None,
        lobs: frozenset[str] = frozenset(),
        hidden: frozenset[str] = frozenset(),
    ) -> None:
        self.types: Types | None = columns.types
        self.sent = sent
        self._columns = columns
        self._hidden = hidden
        self._keys = frozenset(keys or ())
        self._lobs = lobs
        self._shapes: Memo[tuple[str, ...], Shape] = Memo(most=1_000)
        self._of_type: dict[str, tuple[str, ...]] = {}

    def of_type(self, name: str) -> tuple[str, ...]:
        """The columns whose type has this name, whatever its length, also by their names in lower
        and in upper case: the YAML may spell them otherwise than the rows."""
        found = self._of_type.get(name)
        if found is None:
            known = self.types.columns if self.types is not None else ()
            own = {c.name: c for c in known if parse_type(c.source_type).name == name}
            found = self._of_type[name] = tuple(in_any_case(own))
        return found

    def read(self, raw: msgspec.Raw | bytes, warnings: list[str]) -> tuple[Row | None, str | None]:
        """A row image as canonical text, and how complete it is, judged by the columns that the
        message types.

        There is no row for null, `{}` and `[]`. Raises bad_json, bad_shape, bad_value.
        """
        image = jsontext.image(raw, warnings)
        if image is None:
            return None, None
        self.hide(image)
        return image, self.texts(image, raw, warnings)

    def hide(self, image: dict[str, Any]) -> None:
        """Removes from an image the names that are no columns of the table."""
        for name in self._hidden:
            image.pop(name, None)

    def texts(self, image: dict[str, Any], raw: msgspec.Raw | bytes, warnings: list[str]) -> str:
        """Makes the values of an image canonical text, in place; returns how complete the row is.

        `raw` is the image's JSON: the text of values that are objects or arrays is cut out of it.
        """
        shape = self.shape(tuple(image))
        if shape.warnings:
            warnings += shape.warnings
        for name in shape.numbers:
            value = image[name]
            if value.__class__ is int:
                image[name] = str(value)
        for name, convert in shape.converted:
            value = image[name]
            if value is not None:
                if value.__class__ is dict or value.__class__ is list:
                    image[name] = jsontext.nested(raw, name)
                else:
                    image[name] = convert(value, warnings)
        if not jsontext.all_text(image.values()):
            _write_out(image, raw, shape.numbers)
        return shape.word

    def shape(self, names: tuple[str, ...]) -> Shape:
        """What is known of the rows that have these columns."""
        return self._shapes.get(names) or self._shape(names)

    def readings(self, names: tuple[str, ...]) -> list[Reading]:
        """How each of these columns is read if rows are read by column, so that the texts are the
        same."""
        return readings_of(self._columns.converts, names)

    def _shape(self, names: tuple[str, ...]) -> Shape:
        """The shape of rows with these names. If some names have no type and some types no name
        (types for `id`, a row of `col1`), that is a defect of the message, not a partial row:
        `types_not_in_image`."""
        known = self._columns.names.issuperset(names)
        warnings = [] if known else [Code.UNTYPED.value]
        word = "full"
        if not self.sent.issubset(names) and not lowered(self.sent) <= lowered(names):
            if known:
                word = "key" if self._keys == set(names) else "partial"
            warnings.append((Code.PARTIAL_IMAGE if known else Code.TYPES_NOT_IN_IMAGE).value)
        converts = self._columns.converts
        shape = self._shapes[names] = Shape(
            tuple((name, converts[name]) for name in names if name in converts),
            word,
            tuple(warnings),
            [],
        )
        return shape

    def withhold(
        self,
        op: str,
        before: Row | None,
        after: Row | None,
        *,
        keys: Collection[str] = (),
    ) -> list[str]:
        """Removes the columns whose NULL says nothing from the images; returns their names.

        In an update OMS leaves out, as NULL on both sides, every large object that did not change;
        in a delete no NULL of a large object can be trusted (OMS, limits of synchronisation to
        Kafka). A column without a type may be a large object too, so in an update it is removed as
        well. If an update has no row before, every NULL of a large object may be such a one. The
        names that are returned are listed as unavailable, so that they are never written as NULL.
        Key columns are always believed: `keys` are those that the message names in addition.
        """
        sent = after if before is None else before
        if op not in ("update", "delete") or sent is None or None not in sent.values():
            return []
        if op == "delete":
            empty = [name for name, value in sent.items() if value is None]
        elif after is not None:
            empty = [
                name
                for name, value in after.items()
                if value is None and sent.get(name, "") is None
            ]
        else:
            return []
        lost = self.withheld(op, empty, keys=keys, paired=before is not None)
        for image in (before, after):
            if image is not None:
                for name in lost:
                    del image[name]
        return lost

    def withheld(
        self, op: str, names: Iterable[str], *, keys: Collection[str] = (), paired: bool = True
    ) -> list[str]:
        """The columns of `names` whose NULL says nothing, see `withhold`; in an update that is
        `paired` with its row before, those that are NULL on both sides."""
        lobs, known = self._lobs, self._columns.names
        if op == "delete":
            found = [name for name in names if name in lobs]
        elif op == "update":
            found = [name for name in names if name in lobs or (paired and name not in known)]
        else:
            return []
        return [name for name in found if name not in self._keys and name not in keys]


def _write_out(image: dict[str, Any], raw: msgspec.Raw | bytes, numbers: list[str]) -> None:
    """Makes text of the values that are not text yet; notes the columns of integers, which are
    looked at first from now on."""
    for name, value in image.items():
        kind = value.__class__
        if kind is str or value is None:
            continue
        if kind is int:
            image[name] = str(value)
            numbers.append(name)
        elif kind is bool:
            image[name] = "true" if value else "false"
        else:
            image[name] = jsontext.nested(raw, name)


class TableRows:
    """Remembers, for each table, type block and keys, how its rows are read.

    `encoding` says how the format writes values of SQL types; `convert` and `spark` replace the
    converters and Spark types that follow from it.
    """

    def __init__(
        self,
        options: FormatOptions,
        encoding: ValueEncoding,
        *,
        convert: Callable[[str], Convert | None] | None = None,
        spark: Callable[[str], str] | None = None,
    ) -> None:
        self._tables = TableTypes(
            options,
            convert=convert or sql_converter(encoding),
            spark=spark or sql_spark_type(encoding),
        )
        self._memo: Memo[tuple[TableName, Hashable, tuple[str, ...] | None], TypedRows] = Memo(
            most=10_000
        )

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
            types = sent()
            columns = self._tables.of(table, key, types.items)
            found = self._memo[table, key, keys] = TypedRows(
                columns, sent=frozenset(types), keys=keys
            )
        return found
