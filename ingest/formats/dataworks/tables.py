"""StreamX read by column: the regular row changes of a batch, table by table.

A record is regular if its envelope is like the others of its topic and its images have the same
columns with scalar values. It is read by the functions that read a single record: `op_of`,
`record_event`, `TypedRows`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from ingest.codes import Code
from ingest.errors import DecodeError
from ingest.events import Event
from ingest.formats.dataworks.record import (
    BEFORE,
    VERSIONS,
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
from ingest.memo import Memo
from ingest.values import jsontext
from ingest.wire.contract import Changes, FormatOptions, Message
from ingest.wire.doubled_names import check_names
from ingest.wire.forms import Forms, Part
from ingest.wire.scalars import plain_digits, plain_millis, text_of
from ingest.wire.text_columns import SentImages, TextRows, columns_of, read_tables, text_rows
from ingest.wire.varying import Varying, varying, varying_of_each

_ROWS = ("insert", "update", "delete")
_NO_IMAGE = (b"", b"null")
_PAYLOAD = {
    "before": Part(Side),
    "after": Part(Side),
    "timestamp": Part(Times),
    "ddl": Part(Ddl),
}
_FORM = Part(Record, {"payload": Part(Payload, _PAYLOAD)})


class _Sent(msgspec.Struct, gc=False):
    """One change as it was sent; `before` and `after` are places in the list of all images."""

    at: int
    op: str
    record: Record
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
        self._known: Memo[bytes, Table] = Memo(most=10_000)

    def read(self, messages: Sequence[tuple[int, Message]]) -> list[Changes]:
        """The regular changes among messages, table by table."""
        texts: list[bytes] = []
        found: list[_Sent] = []
        for at, message in messages:
            value = message.value or b""
            record = self._forms.read(value, message.topic)
            sent = self._sent(at, record, value, texts=texts) if record is not None else None
            if sent is not None:
                found.append(sent)
        images = SentImages(texts, jsontext.plain_images(texts, marked=False))
        return read_tables(
            _tables(found, images.read),
            lambda table, group: _changes(*table, group, images=images),
        )

    def _sent(self, at: int, record: Record, value: bytes, *, texts: list[bytes]) -> _Sent | None:
        """A change with its images, which join `texts`; None if the message is not regular."""
        payload = record.payload
        if payload.op is None or payload.op.upper() in BEFORE:
            return None
        if payload.ddl is not None and payload.ddl.text:
            return None
        try:
            table = self._table(record.schema, value)
            op = op_of(record, [])
        except (DecodeError, *jsontext.UNREADABLE):
            return None
        before, after = _image(payload.before), _image(payload.after)
        if op not in _ROWS or not _fits(op, before is not None, after is not None):
            return None
        place = len(texts)
        if before is not None:
            texts.append(before)
        if after is not None:
            texts.append(after)
        return _Sent(
            at,
            op,
            record,
            table,
            place if before is not None else None,
            place + (before is not None) if after is not None else None,
        )

    def _table(self, schema: msgspec.Raw, value: bytes) -> Table:
        """The table of a schema block, which is mostly that of other messages; a new block is
        checked for names that stand twice. Raises contradiction, and the errors of a block that
        cannot be read."""
        block = bytes(schema)
        last = self._last
        if last is not None and last[0] == block:
            return last[1]
        table = self._known.get(block)
        if table is None:
            check_names(value, flat=False, envelope=self._envelope)
            table = self._known[block] = self._schemas.of(schema)
        self._last = block, table
        return table


def _tables(
    found: list[_Sent], images: Sequence[dict[str, Any] | None]
) -> dict[tuple[Table, tuple[str, ...]], list[_Sent]]:
    """The changes by their table and columns, without those with an image that is not regular."""
    tables: dict[tuple[Table, tuple[str, ...]], list[_Sent]] = {}
    last: tuple[Table, tuple[str, ...]] | None = None
    group: list[_Sent] = []
    for sent in found:
        table = sent.table
        for place in (sent.before, sent.after):
            if place is not None:
                table.rows.hide(images[place] or {})
        columns = columns_of(images, sent.before, sent.after)
        if columns is None:
            continue
        # A change mostly has the table of the one before.
        if last is None or last[0] is not table or last[1] != columns:
            last = table, columns
            group = tables.setdefault(last, [])
        group.append(sent)
    return tables


def _image(side: Side | None) -> bytes | None:
    """The image of a side as it was sent; None if there is none."""
    text = bytes(side.dataColumn) if side is not None else b""
    return None if text in _NO_IMAGE else text


def _fits(op: str, has_before: bool, has_after: bool) -> bool:
    """Whether a change has the images of its op, and no others."""
    if op == "delete":
        return has_before and not has_after
    return has_after and (op == "update" or not has_before)


def _changes(
    table: Table, columns: tuple[str, ...], group: list[_Sent], *, images: SentImages
) -> list[Changes]:
    places = [at for one in group for at in (one.before, one.after) if at is not None]
    rows = text_rows(images, places, table.rows.readings(columns))
    if rows.odd:
        group = [o for o in group if o.before not in rows.odd and o.after not in rows.odd]
    differing = _varying_of(group, table)
    numbers = [at for at, warnings in enumerate(differing.warnings) if warnings is not None]
    if not numbers:
        return []
    group = [group[at] for at in numbers]
    shape = table.rows.shape(columns)
    fields = {
        **differing.of(numbers),
        "before_image": [None if sent.before is None else shape.word for sent in group],
        "after_image": [None if sent.after is None else shape.word for sent in group],
    }
    _warn(group, fields["warnings"], rows, of_columns=shape.warnings)
    return [
        Changes(
            [sent.at for sent in group],
            Event(
                op="update",
                db=table.db,
                schema=table.schema,
                table=table.table,
                key_columns=table.keys,
                types=table.rows.types,
                dialect=table.dialect,
            ),
            fields,
            columns,
            rows.of([sent.before for sent in group]),
            rows.of([sent.after for sent in group]),
        )
    ]


_FIELDS = (
    "op",
    "op_raw",
    "sequenceId",
    "scn",
    "order",
    "snapshot",
    "event_time",
    "sent_time",
)


def _varying_of(group: list[_Sent], table: Table) -> Varying:
    """What `record_event` says of each change."""
    return _plain_varying(group) or varying_of_each(
        group, lambda sent: record_event(sent.record, sent.op, table, warnings=[]), _FIELDS
    )


def _plain_varying(group: list[_Sent]) -> Varying | None:
    """The same by column, if all times and numbers are as DataWorks sends them; None if one of them
    must be examined."""
    payloads = [sent.record.payload for sent in group]
    times = [payload.timestamp for payload in payloads]
    sequences = [payload.sequenceId for payload in payloads]
    numbers = plain_digits(sequences)
    event_times = plain_millis([time and time.eventTime for time in times])
    sent_times = plain_millis([time and time.systemTime for time in times])
    if numbers is None or event_times is None or sent_times is None:
        return None
    if not VERSIONS.issuperset([sent.record.version for sent in group]):
        return None
    fields: dict[str, Sequence[Any]] = {
        "op": [sent.op for sent in group],
        "op_raw": [payload.op for payload in payloads],
        "sequenceId": sequences,
        "scn": [text_of(payload.scn) for payload in payloads],
        "order": [(number,) for number in numbers],
        "event_time": [time * 1000 for time in event_times],
        "sent_time": [time * 1000 for time in sent_times],
    }
    return varying(fields, len(group))


def _warn(
    group: list[_Sent],
    warnings: Sequence[list[str]],
    rows: TextRows,
    *,
    of_columns: Sequence[str],
) -> None:
    """Adds the warnings of their images, and of missing ones, to the warnings of the changes."""
    for sent, own in zip(group, warnings, strict=True):
        if of_columns or rows.doubts:
            for place in (sent.before, sent.after):
                if place is not None:
                    own += of_columns
                    own += rows.doubts.get(place, ())
        if sent.op == "update" and sent.before is None:
            half = (sent.record.payload.op or "").upper() == "UPDATE_AFTER"
            own.append((Code.SPLIT_UPDATE if half else Code.OLD_MISSING).value)
