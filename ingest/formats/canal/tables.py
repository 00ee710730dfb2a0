"""Canal's row changes read by column: the regular messages of a batch, table by table.

A message is regular if it has one row, an envelope like the others of its topic, and only scalar
values; in an update, `old` must only have columns of the row. `RowReader` knows what a row needs
and how complete it is, as it does for a single message.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec

from ingest.codes import Code
from ingest.errors import DecodeError
from ingest.events import Event, Types
from ingest.formats.canal.envelope import Envelope, TiDB, op_of
from ingest.formats.canal.events import event_of
from ingest.formats.canal.rows import FlavourReaders, RowReader, doubtful
from ingest.values import jsontext
from ingest.wire.contract import Changes, FormatOptions, Message, TableName, Texts
from ingest.wire.forms import Forms, Part
from ingest.wire.scalars import plain_millis, plain_numbers
from ingest.wire.text_columns import SentImages, TextRows, read_tables, text_rows
from ingest.wire.varying import Varying, varying, varying_of_each

_ROWS = ("insert", "update", "delete", "snapshot")
_NO_ROWS = (b"", b"null", b"[]")
NO_CODES = (b"", b"null")
_FORM = Part(Envelope, {"_tidb": Part(TiDB)}, frozenset(("tableChanges",)))


class _Sent(msgspec.Struct, gc=False):
    """One change as it was sent; `row` and `old` are places in the list of all images."""

    at: int
    op: str
    envelope: Envelope
    row: int
    old: int | None


class _Table(NamedTuple):
    """What changes have in common that are read together."""

    names: TableName
    types: bytes
    codes: bytes
    keys: tuple[str, ...] | None
    with_id: bool
    unlogged: bool
    columns: tuple[str, ...]


class Tables:
    """Reads the regular changes of one source, with its `readers` of rows."""

    def __init__(self, options: FormatOptions, readers: FlavourReaders) -> None:
        self._options = options
        self._readers = readers
        self._forms: Forms[Envelope] = Forms(_FORM)

    def read(self, messages: Sequence[tuple[int, Message]]) -> list[Changes]:
        """The regular changes among messages, table by table."""
        texts: list[bytes] = []
        found: list[_Sent] = []
        for at, message in messages:
            value = message.value or b""
            envelope = self._forms.read(value, message.topic)
            sent = _sent(at, envelope, texts) if envelope is not None else None
            if sent is not None:
                found.append(sent)
        images = SentImages(texts, jsontext.plain_images(texts, marked=False))
        return read_tables(
            self._tables(found, images.read),
            lambda table, group: self._changes(table, group, images),
        )

    def _tables(
        self, found: list[_Sent], images: Sequence[dict[str, Any] | None]
    ) -> dict[_Table, list[_Sent]]:
        """The changes by their table, without those with an image that is not regular."""
        tables: dict[_Table, list[_Sent]] = {}
        last: tuple[object, ...] = ()
        group: list[_Sent] = []
        for sent in found:
            row = images[sent.row]
            if row is None:
                continue
            if sent.old is not None:
                old = images[sent.old]
                if old is None or not old.keys() <= row.keys():
                    continue
            envelope = sent.envelope
            if (
                sent.op == "delete"
                and envelope.id == 0
                and row.keys() == {*(envelope.pkNames or ())}
            ):
                # A message of TiCDC, whose rows may be the key alone.
                continue
            known = (
                envelope.database,
                envelope.schema_name,
                envelope.table,
                envelope.pkNames,
                envelope.id is None,
                envelope.unlogged,
                bytes(envelope.mysqlType),
                bytes(envelope.sqlType),
                columns := tuple(row),
            )
            # A change mostly has the table of the one before.
            if known != last:
                group = tables.setdefault(self._table(envelope, columns), [])
                last = known
            group.append(sent)
        return tables

    def _table(self, envelope: Envelope, columns: tuple[str, ...]) -> _Table:
        return _Table(
            self._options.completed((envelope.database, envelope.schema_name, envelope.table)),
            bytes(envelope.mysqlType),
            bytes(envelope.sqlType),
            envelope.pkNames or None,
            envelope.id is not None,
            envelope.unlogged or self._readers.of(envelope.id).unlogged,
            columns,
        )

    def _reader(self, table: _Table) -> RowReader:
        readers = self._readers.with_id if table.with_id else self._readers.without_id
        reader = readers.of(table.names, table.types, table.keys)
        coded = reader.coded or not reader.shape(table.columns).typed
        if coded and table.codes not in NO_CODES:
            reader = readers.coded(table.names, table.types, table.codes, keys=table.keys)
        return reader

    def _changes(self, table: _Table, group: list[_Sent], images: SentImages) -> list[Changes]:
        reader = self._reader(table)
        if table.unlogged and reader.lobs:
            # each row tells which of them are left out
            return []
        rows = text_rows(images, [one.row for one in group], reader.readings(table.columns))
        if rows.odd:
            group = [one for one in group if one.row not in rows.odd]
        differing = _varying_of(group, self._options)
        details = _ChangeDetails(table, reader, rows)
        found: list[_Change] = []
        for number, (sent, warnings) in enumerate(zip(group, differing.warnings, strict=True)):
            if warnings is None:
                continue
            row, deleted = rows.rows[sent.row], sent.op == "delete"
            word = details.word(sent, images, warnings=warnings)
            before: Texts | None = row if deleted else None
            if sent.old is not None:
                before = details.before(row, sent.old, images, warnings=warnings)
                if before is None:
                    continue
            elif sent.op == "update":
                word = details.without_old(word, warnings)
            found.append(_Change(number, sent.at, word, before, None if deleted else row))
        return _table_changes(table, differing, found, types=reader.types)


class _Change(msgspec.Struct, gc=False):
    """A change with its rows, and how complete these are; `number`: its place among those whose
    fields differ."""

    number: int
    at: int
    word: str
    before: Texts | None
    after: Texts | None


def _table_changes(
    table: _Table, differing: Varying, found: list[_Change], *, types: Types | None
) -> list[Changes]:
    """The changes of a table that are read by column."""
    if not found:
        return []
    fields = {
        **differing.of([one.number for one in found]),
        "before_image": [None if one.before is None else one.word for one in found],
        "after_image": [None if one.after is None else one.word for one in found],
    }
    db, schema, name = table.names
    return [
        Changes(
            [one.at for one in found],
            Event(
                op="update",
                db=db,
                schema=schema,
                table=name,
                key_columns=table.keys,
                types=types,
                crowded=True,
            ),
            fields,
            table.columns,
            [one.before for one in found],
            [one.after for one in found],
        )
    ]


def _sent(at: int, envelope: Envelope, texts: list[bytes]) -> _Sent | None:
    """A change with its images, which join `texts`; None if the message is not regular."""
    tidb = envelope.tidb
    if tidb is not None and (tidb.onlyHandleKey or tidb.claimCheckLocation):
        return None
    try:
        op = op_of(envelope)
    except DecodeError:
        return None
    rows, olds = bytes(envelope.data), bytes(envelope.old)
    has_old = olds not in _NO_ROWS
    if op not in _ROWS or not rows.startswith(b"[{") or (has_old and op != "update"):
        return None
    if has_old and not olds.startswith(b"[{"):
        return None
    place = len(texts)
    texts.append(rows[1:-1])
    if has_old:
        texts.append(olds[1:-1])
    return _Sent(at, op, envelope, place, place + 1 if has_old else None)


_FIELDS = ("op", "op_raw", "id", "scn", "order", "snapshot", "event_time", "sent_time", "tx_id")


def _varying_of(group: list[_Sent], options: FormatOptions) -> Varying:
    """What `event_of` says of each change."""
    envelopes = [sent.envelope for sent in group]
    plain = (
        _plain_varying(group, envelopes) if options.options["order_key"] != "commit_ts" else None
    )
    if plain is not None:
        return plain
    return varying_of_each(
        group, lambda sent: event_of(sent.envelope, sent.op, options, warnings=[]), _FIELDS
    )


def _plain_varying(group: list[_Sent], envelopes: list[Envelope]) -> Varying | None:
    """The same by column, if all times and numbers are as Canal sends them; None if one of them
    must be examined."""
    times = plain_millis([one.es for one in envelopes])
    sent_times = plain_millis([one.ts for one in envelopes])
    ids = [one.id for one in envelopes]
    numbers = plain_numbers(ids) if any(number is not None for number in ids) else [0] * len(ids)
    if times is None or sent_times is None or numbers is None:
        return None
    if any(one.tidb is not None for one in envelopes):
        return None
    ops = [sent.op for sent in group]
    fields: dict[str, Sequence[Any]] = {
        "op": ops,
        "op_raw": [one.type for one in envelopes],
        "id": [None if number is None else str(number) for number in ids],
        "order": list(zip(times, numbers, strict=True)),
        "snapshot": [op == "snapshot" for op in ops],
        "event_time": [time * 1000 for time in times],
        "sent_time": [time * 1000 for time in sent_times],
        "tx_id": [one.gtid or None for one in envelopes],
    }
    return varying(fields, len(group))


class _ChangeDetails:
    """Works out, for each change of a table, how complete its rows are, and the row before an
    update."""

    def __init__(self, table: _Table, reader: RowReader, rows: TextRows) -> None:
        self._reader = reader
        self._shape = reader.shape(table.columns)
        self._names = table.columns
        self._places = {name: place for place, name in enumerate(table.columns)}
        self._textual = table.with_id
        self._doubts = rows.doubts

    def word(self, sent: _Sent, images: SentImages, *, warnings: list[str]) -> str:
        """How complete a change's row is; doubts about it are added to `warnings`."""
        shape = self._shape
        if shape.word != "full":
            warnings.append(Code.PARTIAL_IMAGE.value)
        doubts = self._doubts.get(sent.row)
        if doubts or not shape.typed:
            doubts = doubts or []
            untyped = [] if shape.typed else [Code.UNTYPED.value]
            image = images.read[sent.row] or {}
            if doubts and untyped and self._textual and jsontext.all_text(image.values()):
                warnings += untyped + doubts
            else:
                warnings += doubts + untyped
        if shape.short and sent.op in ("update", "delete"):
            return doubtful(shape.word, warnings)
        return shape.word

    def before(
        self, row: Texts, place: int, images: SentImages, *, warnings: list[str]
    ) -> Texts | None:
        """The row before an update: the row after it, overlaid with what changed, which stands at a
        place of the images; None if that must be read by itself."""
        old, raw = images.read[place] or {}, images.texts[place]
        if 0 in old.values() and jsontext.has_negative_zero(raw):
            return None
        textual = self._textual and jsontext.all_text(old.values())
        try:
            changed = self._reader.changed(old, raw, textual=textual, warnings=warnings)
        except (DecodeError, *jsontext.UNREADABLE):
            return None
        before = list(row)
        for name, text in changed.items():
            before[self._places[name]] = text
        return tuple(before)

    def without_old(self, word: str, warnings: list[str]) -> str:
        """How complete the row of an update is if nothing was sent of the row before."""
        return self._reader.without_old(word, self._names, warnings)
