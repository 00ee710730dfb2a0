"""StreamX read by column: the regular row changes of a batch, table by table.

Regular is a record in an envelope as the topic's others have it, whose images have one set of
columns of scalar values. What it says is read by the functions that read one record: `op_of`,
`record_event`, `TypedRows`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec

from ingest.codes import Code
from ingest.errors import DecodeError
from ingest.events import Event
from ingest.formats.dataworks.record import (
    BEFORE,
    Ddl,
    Payload,
    Record,
    Side,
    Table,
    TablesOfSchemas,
    Times,
    op_of,
    record_event,
)
from ingest.values import jsontext
from ingest.wire.contract import ChangeList, Changes, FormatOptions, Message
from ingest.wire.doubled_names import check_names
from ingest.wire.forms import Forms, Part
from ingest.wire.text_columns import TextRows, read_tables, text_rows

_ROWS = ("insert", "update", "delete", "snapshot")
_NO_IMAGE = (b"", b"null")
_PAYLOAD = {
    "before": Part(Side),
    "after": Part(Side),
    "timestamp": Part(Times),
    "ddl": Part(Ddl),
}
_FORM = Part(Record, {"payload": Part(Payload, _PAYLOAD)})
_SCHEMAS_MOST = 10_000


class _Sent(NamedTuple):
    """One change as it was sent; `before` and `after` are places in the list of all images."""

    at: int
    event: Event
    table: Table
    before: int | None
    after: int | None


class Tables:
    """Reads the regular changes of one source; `envelope`: the paths of the format's."""

    def __init__(self, options: FormatOptions, envelope: tuple[str, ...]) -> None:
        self._schemas = TablesOfSchemas(options)
        self._envelope = envelope
        self._forms: Forms[Record] = Forms(_FORM)
        self._last: tuple[bytes, Table] | None = None
        self._known: dict[bytes, Table] = {}

    def read(self, messages: Sequence[tuple[int, Message]]) -> list[Changes]:
        """The regular changes among messages, table by table."""
        texts: list[bytes] = []
        found: list[_Sent] = []
        for at, message in messages:
            value = message.value or b""
            record = self._forms.read(value, message.topic) if jsontext.is_utf8(value) else None
            sent = self._sent(at, record, value, texts=texts) if record is not None else None
            if sent is not None:
                found.append(sent)
        images = jsontext.plain_images(texts, marked=False)
        tables: dict[tuple[Table, tuple[str, ...]], list[_Sent]] = {}
        for sent in found:
            rows = [images[at] for at in (sent.before, sent.after) if at is not None]
            for row in rows:
                sent.table.rows.hide(row or {})
            kinds = {tuple(row or ()) for row in rows}
            if len(kinds) == 1 and () not in kinds:
                tables.setdefault((sent.table, kinds.pop()), []).append(sent)
        return read_tables(
            tables, lambda table, group: _changes(*table, group, images=images, texts=texts)
        )

    def _sent(self, at: int, record: Record, value: bytes, *, texts: list[bytes]) -> _Sent | None:
        """A change with its images, which join `texts`; None where the message is not regular."""
        payload = record.payload
        if payload.op is None or payload.op.upper() in BEFORE:
            return None
        if payload.ddl is not None and payload.ddl.text:
            return None
        try:
            table = self._table(record.schema, value)
            event = record_event(record, op_of(record, []), table, warnings=[])
        except (DecodeError, *jsontext.UNREADABLE):
            return None
        before, after = _image(payload.before), _image(payload.after)
        if event.op not in _ROWS or not _fits(event.op, before is not None, after is not None):
            return None
        place = len(texts)
        if before is not None:
            texts.append(before)
        if after is not None:
            texts.append(after)
        return _Sent(
            at,
            event,
            table,
            place if before is not None else None,
            place + (before is not None) if after is not None else None,
        )

    def _table(self, schema: msgspec.Raw, value: bytes) -> Table:
        """The table of a schema block, which is that of others mostly; of one not met before it is
        seen that no name of it stands twice. Raises contradiction and what cannot be read."""
        block = bytes(schema)
        last = self._last
        if last is not None and last[0] == block:
            return last[1]
        table = self._known.get(block)
        if table is None:
            check_names(value, flat=False, envelope=self._envelope)
            if len(self._known) >= _SCHEMAS_MOST:
                self._known.clear()
            table = self._known[block] = self._schemas.of(schema)
        self._last = block, table
        return table


def _image(side: Side | None) -> bytes | None:
    """The image of a side as it was sent; None where there is none."""
    text = bytes(side.dataColumn) if side is not None else b""
    return None if text in _NO_IMAGE else text


def _fits(op: str, has_before: bool, has_after: bool) -> bool:
    """Whether a change has the images of its op, and no other."""
    if op == "delete":
        return has_before and not has_after
    return has_after and (op == "update" or not has_before)


def _changes(
    table: Table,
    columns: tuple[str, ...],
    group: list[_Sent],
    *,
    images: list[dict[str, Any] | None],
    texts: list[bytes],
) -> list[Changes]:
    places = [at for one in group for at in (one.before, one.after) if at is not None]
    rows = text_rows(
        [images[at] or {} for at in places],
        [texts[at] for at in places],
        table.rows.readings(columns),
    )
    shape = table.rows.shape(columns)
    changes = ChangeList(columns)
    last = 0
    for sent in group:
        before = after = None
        if sent.before is not None:
            before, last = last, last + 1
        if sent.after is not None:
            after, last = last, last + 1
        if before in rows.odd or after in rows.odd:
            continue
        event = sent.event
        event.types = table.rows.types
        event.before_image = None if before is None else shape.word
        event.after_image = None if after is None else shape.word
        _warn(event, shape.warnings, rows, images=(before, after))
        changes.add(sent.at, event, before=rows.row(before), after=rows.row(after))
    return changes.changes()


def _warn(
    event: Event, of_columns: Sequence[str], rows: TextRows, *, images: tuple[int | None, ...]
) -> None:
    """Adds to the warnings of a change those of its images, and that one is missing."""
    warnings = event.warnings
    assert warnings is not None
    for place in images:
        if place is not None:
            warnings += of_columns
            warnings += rows.doubts.get(place, ())
    if event.op == "update" and images[0] is None:
        half = (event.op_raw or "").upper() == "UPDATE_AFTER"
        warnings.append((Code.SPLIT_UPDATE if half else Code.OLD_MISSING).value)
