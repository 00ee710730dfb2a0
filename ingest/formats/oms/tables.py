"""OMS Default read by column: the regular row changes of a batch, table by table.

Regular is a record in an envelope as the topic's others have it, whose images have one set of
columns of scalar values, none of them a large object that may have been left out. What it says is
read by the functions that read one record: `record_event`, `split_images`, `sent_key`, `TypedRows`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from ingest.codes import Code
from ingest.errors import DecodeError
from ingest.events import Event
from ingest.formats.oms.extended_types import LightTypes
from ingest.formats.oms.keys import key_names, sent_key
from ingest.formats.oms.records import Images, Meta, Record, record_event, split_images
from ingest.values import jsontext
from ingest.wire.contract import ChangeList, Changes, FormatOptions, Message, TableName, Texts
from ingest.wire.forms import Forms, Part
from ingest.wire.text_columns import SentImages, TextRows, columns_of, read_tables, text_rows
from ingest.wire.typed_rows import TypedRows

_ROWS = ("insert", "update", "delete", "snapshot")
_NO_IMAGE = (b"", b"null")
_FORM = Part(Record, {"allMetaData": Part(Meta)})


class _Sent(NamedTuple):
    """One change as it was sent; `before` and `after` are places in the list of all images."""

    at: int
    event: Event
    meta: Meta
    table: TypedRows
    before: int | None
    after: int | None


class _Table(NamedTuple):
    """What changes that are read together have in common; `keys`: their columns as sent."""

    names: TableName
    rows: TypedRows
    keys: str | None
    columns: tuple[str, ...]


class Tables:
    """Reads the regular changes of one source."""

    def __init__(self, options: FormatOptions) -> None:
        self._options = options
        self._light_types = LightTypes(options)
        self._forms: Forms[Record] = Forms(_FORM)

    def read(self, messages: Sequence[tuple[int, Message]]) -> list[Changes]:
        """The regular changes among messages, table by table."""
        texts: list[bytes] = []
        found: list[_Sent] = []
        for at, message in messages:
            value = message.value or b""
            record = self._forms.read(value, message.topic) if jsontext.is_utf8(value) else None
            sent = self._sent(at, record, texts) if record is not None else None
            if sent is not None:
                found.append(sent)
        images = SentImages(texts, jsontext.plain_images(texts, marked=False))
        return read_tables(
            _tables(found, images.read), lambda table, group: _changes(table, group, images)
        )

    def _sent(self, at: int, record: Record, texts: list[bytes]) -> _Sent | None:
        """A change with its images, which join `texts`; None where the message is not regular."""
        meta = record.allMetaData
        if meta is None:
            return None
        try:
            event = record_event(record, meta, self._options, warnings=[])
            if event.op not in _ROWS:
                return None
            names = (event.db, None, event.table)
            images = split_images(record, names, meta, light_types=self._light_types)
        except DecodeError:
            return None
        has_after = images.after not in _NO_IMAGE
        if not _fits(event.op, images, has_after):
            return None
        place = len(texts)
        if images.before is not None:
            texts.append(images.before)
        before = None if images.before is None else place
        if has_after:
            texts.append(images.after)
        return _Sent(at, event, meta, images.table, before, len(texts) - 1 if has_after else None)


def _tables(
    found: list[_Sent], images: Sequence[dict[str, Any] | None]
) -> dict[_Table, list[_Sent]]:
    """The changes by their table, without those of which an image is not regular."""
    tables: dict[_Table, list[_Sent]] = {}
    for sent in found:
        columns = columns_of(images, sent.before, sent.after)
        if columns is not None:
            names = (sent.event.db, None, sent.event.table)
            table = _Table(names, sent.table, sent.meta.record_primary_key, columns)
            tables.setdefault(table, []).append(sent)
    return tables


def _fits(op: str, images: Images, has_after: bool) -> bool:
    """Whether a change has the images of its op, and one set of types for both."""
    if images.before is not None and images.before_table is not images.table:
        return False
    if op == "delete":
        return images.before is not None and not has_after
    return has_after and (op == "update" or images.before is None)


def _changes(table: _Table, group: list[_Sent], images: SentImages) -> list[Changes]:
    """The changes of a table, those apart of which the same columns are unavailable."""
    places = [at for one in group for at in (one.before, one.after) if at is not None]
    rows = text_rows(images, places, table.rows.readings(table.columns))
    details = _ChangeDetails(table, rows)
    found: dict[tuple[int, ...], ChangeList] = {}
    for sent in group:
        lost = details.complete(sent)
        if lost is None:
            continue
        changes = found.setdefault(lost, ChangeList(table.columns))
        before, after = rows.of((sent.before, sent.after))
        changes.add(sent.at, sent.event, before=before, after=after)
    return [one.without(lost) for lost, changes in found.items() for one in changes.changes()]


class _ChangeDetails:
    """Gives each change of a table what is said of its rows and its key."""

    def __init__(self, table: _Table, rows: TextRows) -> None:
        self._rows, self._texts, self._names = table.rows, rows, table.columns
        self._shape = table.rows.shape(table.columns)
        self._columns: dict[str, str | None] = dict.fromkeys(table.columns)
        keys = key_names(table.keys)
        withheld = {op: set(table.rows.withheld(op, table.columns, keys=keys)) for op in _ROWS}
        self._withheld = {
            op: [at for at, name in enumerate(table.columns) if name in names]
            for op, names in withheld.items()
        }
        self._fits = keys <= self._columns.keys()

    def complete(self, sent: _Sent) -> tuple[int, ...] | None:
        """Completes the event of a change; gives its columns that are unavailable, None where it
        has to be read by itself."""
        odd, rows = self._texts.odd, self._texts.rows
        before, after = sent.before, sent.after
        if not self._fits or before in odd or after in odd:
            return None
        event, meta = sent.event, sent.meta
        lost: tuple[int, ...] = ()
        if before is not None:
            lost = self._lost(event.op, rows[before], None if after is None else rows[after])
        if len(lost) == len(self._names):
            return None
        warnings = event.warnings
        assert warnings is not None
        for place in (before, after):
            if place is not None:
                warnings += self._shape.warnings
                warnings += self._texts.doubts.get(place, ())
        if event.op == "update" and before is None:
            warnings.append(Code.OLD_MISSING.value)
        word = self._shape.word
        if lost:
            event.unavailable = [self._names[at] for at in lost]
            warnings.append(Code.PARTIAL_IMAGE.value)
            word = "partial"
        event.before_image = None if before is None else word
        event.after_image = None if after is None else word
        event.types = self._rows.types
        key = sent_key(
            meta.record_primary_key,
            meta.record_primary_value,
            row=self._columns,
            before=None,
            warnings=warnings,
        )
        event.key_columns = key.columns
        return lost

    def _lost(self, op: str, before: Texts, after: Texts | None) -> tuple[int, ...]:
        """The columns whose NULL says nothing."""
        withheld = self._withheld[op]
        return tuple(
            [at for at in withheld if before[at] is None and (after is None or after[at] is None)]
        )
