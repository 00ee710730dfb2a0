"""Canal's row changes read by column: the regular messages of a batch, table by table.

Regular is a message of one row, in an envelope as the topic's others have it, whose values are
scalars; of an update, `old` has columns of the row alone. What a row needs and how complete it is,
`RowReader` knows, as it does for one message.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ingest.codes import Code
from ingest.errors import DecodeError
from ingest.events import Event
from ingest.formats.canal.envelope import Envelope, TiDB, op_of
from ingest.formats.canal.events import event_of
from ingest.formats.canal.rows import RowReader, RowReaders, doubtful
from ingest.values import jsontext
from ingest.wire.contract import Changes, FormatOptions, Message, TableName, Texts
from ingest.wire.forms import Forms, Part
from ingest.wire.text_columns import TextRows, read_tables, text_rows

_ROWS = ("insert", "update", "delete", "snapshot")
_NO_ROWS = (b"", b"null", b"[]")
NO_CODES = (b"", b"null")
_FORM = Part(Envelope, {"_tidb": Part(TiDB)}, frozenset(("tableChanges",)))


class _Sent(NamedTuple):
    """One change as it was sent; `row` and `old` are places in the list of all images."""

    at: int
    event: Event
    row: int
    old: int | None


class _Table(NamedTuple):
    """What changes that are read together have in common."""

    names: TableName
    types: bytes
    codes: bytes
    keys: tuple[str, ...] | None
    with_id: bool
    unlogged: bool
    columns: tuple[str, ...]


class Tables:
    """Reads the regular changes of one source; `readers` are those of messages with an id and of
    messages without."""

    def __init__(self, options: FormatOptions, readers: Mapping[bool, RowReaders]) -> None:
        self._options = options
        self._readers = readers
        self._forms: Forms[Envelope] = Forms(_FORM)

    def read(self, messages: Sequence[tuple[int, Message]]) -> list[Changes]:
        """The regular changes among messages, table by table."""
        texts: list[bytes] = []
        found: list[tuple[_Sent, Envelope]] = []
        for at, message in messages:
            value = message.value or b""
            envelope = self._forms.read(value, message.topic) if jsontext.is_utf8(value) else None
            sent = self._sent(at, envelope, texts) if envelope is not None else None
            if sent is not None and envelope is not None:
                found.append((sent, envelope))
        images = jsontext.plain_images(texts, marked=False)
        tables: dict[_Table, list[_Sent]] = {}
        for sent, envelope in found:
            row, event = images[sent.row], sent.event
            if row is None:
                continue
            if sent.old is not None:
                old = images[sent.old]
                if old is None or not old.keys() <= row.keys():
                    continue
            table = _Table(
                (event.db, event.schema, event.table),
                bytes(envelope.mysqlType),
                bytes(envelope.sqlType),
                event.key_columns,
                envelope.id is not None,
                envelope.unlogged,
                tuple(row),
            )
            tables.setdefault(table, []).append(sent)
        return read_tables(
            tables, lambda table, group: self._changes(table, group, images, texts=texts)
        )

    def _sent(self, at: int, envelope: Envelope, texts: list[bytes]) -> _Sent | None:
        """A change with its images, which join `texts`; None where the message is not regular."""
        warnings: list[str] = []
        tidb = envelope.tidb
        if tidb is not None and (tidb.onlyHandleKey or tidb.claimCheckLocation):
            return None
        try:
            op = op_of(envelope)
            if op not in _ROWS:
                return None
            event = event_of(envelope, op, self._options, warnings=warnings)
        except DecodeError:
            return None
        rows, olds = bytes(envelope.data), bytes(envelope.old)
        has_old = olds not in _NO_ROWS
        if not rows.startswith(b"[{") or (has_old and op != "update"):
            return None
        if has_old and not olds.startswith(b"[{"):
            return None
        place = len(texts)
        texts.append(rows[1:-1])
        if has_old:
            texts.append(olds[1:-1])
        return _Sent(at, event, place, place + 1 if has_old else None)

    def _reader(self, table: _Table) -> RowReader:
        readers = self._readers[table.with_id]
        reader = readers.of(table.names, table.types, table.keys)
        if table.codes not in NO_CODES and not reader.shape(table.columns).typed:
            reader = readers.coded(table.names, table.types, table.codes, keys=table.keys)
        return reader

    def _changes(
        self,
        table: _Table,
        group: list[_Sent],
        images: list[dict[str, Any] | None],
        *,
        texts: list[bytes],
    ) -> list[Changes]:
        reader = self._reader(table)
        if table.unlogged and reader.lobs:
            # which of them are left out, each row tells
            return []
        rows = text_rows(
            [images[one.row] or {} for one in group],
            [texts[one.row] for one in group],
            reader.readings(table.columns),
        )
        details = _ChangeDetails(table, reader, rows)
        changes = Changes([], [], table.columns, [], [])
        for place, sent in enumerate(group):
            event, row = sent.event, rows.rows[place]
            if place in rows.odd:
                continue
            event.types = reader.types
            word = details.word(event, place, images[sent.row] or {})
            before: Texts | None = None
            if sent.old is not None:
                before = details.before(event, row, images[sent.old] or {}, raw=texts[sent.old])
                if before is None:
                    continue
            elif event.op == "update":
                word = details.without_old(event, word)
            elif event.op == "delete":
                before = row
            event.before_image = None if before is None else word
            event.after_image = None if event.op == "delete" else word
            after = None if event.op == "delete" else row
            changes.add(sent.at, event, before=before, after=after)
        return [changes]


class _ChangeDetails:
    """Tells of each change of a table how complete its rows are, and what was before an update."""

    def __init__(self, table: _Table, reader: RowReader, rows: TextRows) -> None:
        self._reader = reader
        self._shape = reader.shape(table.columns)
        self._names = table.columns
        self._places = {name: place for place, name in enumerate(table.columns)}
        self._textual = table.with_id
        self._doubts = rows.doubts

    def word(self, event: Event, place: int, image: dict[str, Any]) -> str:
        """How complete a change's row is; the event is warned of what is doubtful in it."""
        shape, warnings = self._shape, _warnings(event)
        if shape.word != "full":
            warnings.append(Code.PARTIAL_IMAGE.value)
        doubts = self._doubts.get(place, [])
        untyped = [] if shape.typed else [Code.UNTYPED.value]
        if doubts and untyped and self._textual and jsontext.all_text(image.values()):
            warnings += untyped + doubts
        else:
            warnings += doubts + untyped
        if shape.short and event.op in ("update", "delete"):
            return doubtful(shape.word, warnings)
        return shape.word

    def before(self, event: Event, row: Texts, old: dict[str, Any], *, raw: bytes) -> Texts | None:
        """The row before an update: that after it, overlaid with what changed; None where that has
        to be read by itself."""
        if 0 in old.values() and jsontext.has_negative_zero(raw):
            return None
        textual = self._textual and jsontext.all_text(old.values())
        try:
            changed = self._reader.changed(old, raw, textual=textual, warnings=_warnings(event))
        except (DecodeError, *jsontext.UNREADABLE):
            return None
        before = list(row)
        for name, text in changed.items():
            before[self._places[name]] = text
        return tuple(before)

    def without_old(self, event: Event, word: str) -> str:
        """How complete the row is of an update of which nothing before it was sent."""
        return self._reader.without_old(word, self._names, _warnings(event))


def _warnings(event: Event) -> list[str]:
    assert event.warnings is not None
    return event.warnings
