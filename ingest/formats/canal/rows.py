"""Rows of the Canal family: images in arrays, `old` beside `data`, types by name.

This is shared by `canal` and `cloudcanal`. The message's own types decide what a full row is: a row
that lacks a typed column is partial, and a row of only its key columns is a key. Canal sends the
types of the columns that it sends, so an update is also partial if it lacks a column or key that
the source's YAML declares: a minimal binlog row image looks like this.

What a table's rows need is worked out once and kept. `RowReaders` finds the reader of a table, its
types and keys by the bytes of the type block, and a reader keeps for each set of column names which
of them have values to convert. If all values are text, which is the usual case, an image becomes a
row in place.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, NamedTuple

import msgspec

from ingest.codes import Code
from ingest.errors import DecodeError
from ingest.events import Event, Row
from ingest.formats.canal.types import NamedTypes, TableColumns
from ingest.memo import Memo
from ingest.names import lowered
from ingest.values.jsontext import Images
from ingest.wire.contract import TableName
from ingest.wire.declared import Convert, texts
from ingest.wire.text_columns import Reading, readings_of

_Known = tuple[TableName, bytes, bytes, tuple[str, ...] | None]


class Shape(NamedTuple):
    """What is known of rows with a set of column names: which to convert, whether all are typed,
    and how complete the row is.

    `short`: the row lacks a column that the YAML declares.
    """

    converts: tuple[tuple[str, Convert], ...]
    typed: bool
    word: str
    short: bool


class RowReader:
    """Reads the rows of one table; knows its column types and key columns."""

    __slots__ = ("_columns", "_declared", "_sent", "_shapes", "coded", "keys", "lobs", "types")

    def __init__(self, table: TableColumns, keys: tuple[str, ...] | None) -> None:
        self.keys = keys
        self.types = table.columns.types
        self._columns = table.columns
        self._sent = table.sent
        self.lobs = table.lobs
        self.coded = table.coded
        self._declared = table.declared
        self._shapes: Memo[tuple[str, ...], Shape] = Memo(most=1_000)

    def typed(self, images: Images) -> bool:
        """Whether every column of the images has a type."""
        for image in images.rows:
            if image and not self.shape(tuple(image)).typed:
                return False
        return True

    def insert(self, event: Event, data: Images, index: int) -> None:
        """Gives an insert or snapshot event its after image. Raises no_image."""
        event.after, shape = self._row(data, index, _warnings(event))
        event.after_image = shape.word

    def delete(self, event: Event, data: Images, index: int, *, unlogged: bool) -> None:
        """Gives a delete event its before image. Raises no_image.

        `unlogged`: the producer sends NULL for large objects that it does not have.
        """
        row, shape = self._row(data, index, _warnings(event))
        event.before, event.before_image = row, shape.word
        if shape.short:
            event.before_image = doubtful(shape.word, _warnings(event))
        if unlogged and self.lobs:
            self._withhold(event, row, row)

    def update(
        self, event: Event, data: Images, old: Images, *, index: int, unlogged: bool
    ) -> None:
        """Gives an update both images. Raises no_image.

        `old` holds what changed, or the whole row before; both are read in the same way. before =
        after overlaid with old, by presence of the name: a null in old means that the value was
        NULL. Without old there is no before (`old_missing`), and an after without its key columns
        is partial, as in a minimal binlog row image. An old with fewer rows than data counts as
        none: some Canal servers leave empty rows out of it, so it is not known which row belongs to
        which.
        """
        warnings = _warnings(event)
        after, shape = self._row(data, index, warnings)
        word = doubtful(shape.word, warnings) if shape.short else shape.word
        event.after = after
        changed = old.rows[index] if len(old.rows) == len(data.rows) else None
        if changed:
            raw = old.text(index)
            old_values = self.changed(changed, raw, textual=old.textual, warnings=warnings)
            before = {**after, **old_values}
            event.before = before
            if len(before) > len(after):
                warnings.append(Code.OLD_COLUMN_NOT_IN_DATA.value)
                if not self._columns.names.issuperset(before):
                    warnings.append(Code.UNTYPED.value)
                if not self._sent:
                    word = doubtful(word, warnings)
            event.before_image = word
        else:
            word = self.without_old(word, after, warnings)
        event.after_image = word
        if unlogged and self.lobs:
            self._withhold(event, event.before or after, after)

    def _row(self, data: Images, index: int, warnings: list[str]) -> tuple[Row, Shape]:
        image = data.rows[index]
        if not image:
            raise DecodeError(Code.NO_IMAGE, f"expected columns in row {index}, got {image!r}")
        shape = self.shape(tuple(image))
        if shape.word != "full":
            warnings.append(Code.PARTIAL_IMAGE.value)
        if not data.textual:
            return texts(image, self._columns, data.text(index), warnings=warnings), shape
        if not shape.typed:
            warnings.append(Code.UNTYPED.value)
        for name, convert in shape.converts:
            value = image[name]
            if value is not None:
                image[name] = convert(value, warnings)
        return image, shape

    def without_old(self, word: str, after: Collection[str], warnings: list[str]) -> str:
        """How complete an update's row is if nothing was sent of its columns before."""
        warnings.append(Code.OLD_MISSING.value)
        if self.keys and word == "full" and not all(name in after for name in self.keys):
            return doubtful(word, warnings)
        return word

    def changed(
        self, image: dict[str, Any], raw: Any, *, textual: bool, warnings: list[str]
    ) -> Row:
        """Makes canonical text of the columns that an update changed."""
        if not textual:
            return texts(image, self._columns, raw, warnings=warnings)
        converts = self._columns.converts
        for name, value in image.items():
            if value is not None and name in converts:
                image[name] = converts[name](value, warnings)
        return image

    def shape(self, names: tuple[str, ...]) -> Shape:
        """What is known of the rows that have these columns."""
        return self._shapes.get(names) or self._shape(names)

    def readings(self, names: tuple[str, ...]) -> list[Reading]:
        """How each of these columns is read if rows are read by column, so that the texts are the
        same."""
        return readings_of(self._columns.converts, names)

    def _shape(self, names: tuple[str, ...]) -> Shape:
        converts = self._columns.converts
        word = "full"
        if not self._sent.issubset(names):
            word = "key" if self.keys and set(self.keys) == set(names) else "partial"
        shape = Shape(
            tuple((name, converts[name]) for name in names if name in converts),
            self._columns.names.issuperset(names),
            word,
            bool(self._declared) and not self._declared <= lowered(names),
        )
        self._shapes[names] = shape
        return shape

    def _withhold(self, event: Event, before: Row, after: Row) -> None:
        """Removes the large objects that are NULL on both sides, since unchanged ones come so."""
        lost = [name for name in after if name in self.lobs and after[name] is None]
        lost = [name for name in lost if before[name] is None]
        for name in lost:
            del before[name]
            if after is not before:
                del after[name]
        if lost:
            event.unavailable = lost
            word = doubtful(event.after_image or event.before_image or "full", _warnings(event))
            event.before_image = word if event.before is not None else None
            event.after_image = word if event.after is not None else None


class RowReaders:
    """Remembers the reader of each table, map of types and set of keys.

    `unlogged`: NULL stands for large objects that were not logged, whatever the messages look like.
    """

    def __init__(self, types: NamedTypes, *, unlogged: bool = False) -> None:
        self.unlogged = unlogged
        self._types = types
        self._memo: Memo[_Known, RowReader] = Memo(most=4_000)
        self._last: tuple[_Known, RowReader] | None = None

    def of(
        self, table: TableName, names: msgspec.Raw | bytes, keys: tuple[str, ...] | None
    ) -> RowReader:
        """The reader of `table` by its type names."""
        key = (table, bytes(names), b"", keys)
        # Comparing with the last block of types is cheaper than hashing one.
        last = self._last
        if last is not None and last[0] == key:
            return last[1]
        reader = self._memo.get(key) or self._made(key)
        self._last = key, reader
        return reader

    def coded(
        self,
        table: TableName,
        names: msgspec.Raw | bytes,
        codes: msgspec.Raw | bytes,
        *,
        keys: tuple[str, ...] | None,
    ) -> RowReader:
        """The same, with what the JDBC codes of the columns tell."""
        key = (table, bytes(names), bytes(codes), keys)
        return self._memo.get(key) or self._made(key)

    def _made(self, key: _Known) -> RowReader:
        table, names, codes, keys = key
        reader = RowReader(self._types.of(table, names, codes), keys)
        self._memo[key] = reader
        return reader


class FlavourReaders(NamedTuple):
    """The readers of one source, by whether a message has an `id`: OMS, which sends none, writes
    values in another way than Canal."""

    with_id: RowReaders
    without_id: RowReaders

    def of(self, id_: object | None) -> RowReaders:
        """The readers of a message with this `id`."""
        return self.without_id if id_ is None else self.with_id


def _warnings(event: Event) -> list[str]:
    if event.warnings is None:
        event.warnings = []
    return event.warnings


def doubtful(word: str, warnings: list[str]) -> str:
    """How complete a row is after something turned out to be missing."""
    if word != "full":
        return word
    warnings.append(Code.PARTIAL_IMAGE.value)
    return "partial"
