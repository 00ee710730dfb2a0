"""Oracle GoldenGate for Big Data (GG for DAA), JSON formatters `json` and `json_row`.

Vendor: https://docs.oracle.com/en/middleware/goldengate/big-data/23/gadbd/additional-details.html,
"JSON Formatter". `json` models the operation (before, after), `json_row` the row: its columns stand
at the top level beside the metadata. Both may stand in `payload` beside a `schema` (Kafka Connect
handler, `schemas.enable`), and the operation's images may be flattened to `before.c` and `after.c`.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from ingest import jsontext
from ingest.codes import Code
from ingest.errors import DecodeError
from ingest.events import Event
from ingest.formats.clock import Clock
from ingest.formats.envelope import PAYLOADS, Scalar, text_of
from ingest.formats.event_types import paired
from ingest.formats.format import (
    Decoder,
    Format,
    FormatOptions,
    Message,
    Option,
    TableName,
    TopLevel,
)
from ingest.formats.ogg_images import Image, ogg_rows, read_image, rows_of
from ingest.formats.typed_rows import TypedRows

_OPS = ("insert", "update", "delete", "truncate")
_DIGITS = 10**10
_NONE = msgspec.Raw(b"")


class _Envelope(msgspec.Struct, gc=False):
    table: str | None = None
    op_type: str | None = None
    op_ts: str | None = None
    current_ts: str | None = None
    pos: Scalar = None
    xid: Scalar = None
    primary_keys: tuple[str, ...] | None = None
    tokens: dict[str, str | None] | None = None
    before: msgspec.Raw = _NONE
    after: msgspec.Raw = _NONE
    schema: msgspec.Raw = _NONE
    payload: msgspec.Raw = _NONE


_ENVELOPE = jsontext.decoder(_Envelope)


def decoder(options: FormatOptions) -> Decoder:
    """Decodes one operation a message."""
    own = options.options
    ops = dict(zip(own["op_types"], _OPS, strict=False))
    if len(ops) < len(_OPS):
        ops = dict(zip("IUDT", _OPS, strict=True))
    clock = Clock(options.time_zone)
    tables = ogg_rows(options, own["dialect"])
    whole = own["supplemental_logging"] == "all"

    def decode(message: Message) -> Iterator[Event]:
        warnings: list[str] = []
        value = message.value or b""
        envelope = jsontext.parse(value, _ENVELOPE.decode, warnings)
        if envelope.op_type is None and envelope.payload:
            value = bytes(envelope.payload)
            envelope = jsontext.parse(value, _ENVELOPE.decode, warnings)
        op = ops.get(envelope.op_type or "")
        if op is None:
            raise DecodeError(
                Code.UNKNOWN_OP, f"expected op_type {', '.join(ops)}, got {envelope.op_type!r}"
            )
        db, schema, table = _names(envelope.table)
        rows = tables.of((db, schema, table), keys=envelope.primary_keys or None)
        tokens = envelope.tokens or {}
        event = Event(
            op=op,
            op_raw=envelope.op_type,
            db=db,
            schema=schema,
            table=table,
            key_columns=envelope.primary_keys or None,
            scn=text_of(envelope.pos),
            order=_order(envelope.pos),
            event_time=clock.micros(envelope.op_ts, warnings),
            sent_time=clock.micros(envelope.current_ts, warnings),
            tx_id=text_of(envelope.xid) or tokens.get("6") or tokens.get("TK-XID"),
            types=rows.types,
            warnings=warnings,
        )
        if op != "truncate":
            _fill(event, envelope, value, rows, whole)
        yield event

    return decode


def _names(text: str | None) -> TableName:
    """Database, schema and table of `[catalog.]schema.table`; of two names the first is the db."""
    parts = (text or "").split(".")
    if len(parts) < 3:
        return (parts[0] if len(parts) == 2 else None) or None, None, parts[-1] or None
    return ".".join(parts[:-2]), parts[-2], parts[-1]


def _order(pos: Scalar) -> tuple[int, ...] | None:
    """`pos`, the number of the trail file and the byte in it, in two halves."""
    text = str(pos)
    if not (text.isascii() and text.isdigit()) or len(text) > 28:
        return None
    return divmod(int(text), _DIGITS)


def _fill(event: Event, envelope: _Envelope, value: bytes, rows: TypedRows, whole: bool) -> None:
    """Gives a change its images. Raises no_image, image_count."""
    warnings = event.warnings
    assert warnings is not None
    sent = [bytes(image)[:1] for image in (envelope.before, envelope.after) if image]
    # What is a text or a number is a column of a row by itself.
    if sent and all(first in b"{[n" for first in sent):
        old = read_image(envelope.before, rows, warnings)
        new = read_image(envelope.after, rows, warnings)
    else:
        old, new = rows_of(value, rows, warnings)
        if event.op == "delete" and old is None:
            old, new = new, None
    event.before, event.after = paired(
        event.op,
        old.row if old is not None else None,
        new.row if new is not None else None,
        warnings,
    )
    # Without supplemental logging of all columns an update brings its key and what it changed.
    sure = whole or event.op == "insert"
    if event.before is not None and old is not None:
        event.before_image = old.word(event.key_columns, sure)
    if event.after is not None and new is not None:
        event.after_image = new.word(None, sure)
    if "partial" in (event.before_image, event.after_image):
        warnings.append(Code.PARTIAL_IMAGE.value)
    event.unavailable = _missing(new if event.op != "delete" else old)


def _missing(image: Image | None) -> list[str]:
    return image.missing if image is not None else []


def _recognise(top: TopLevel) -> bool:
    if "op_type" not in top and "schema" in top and "payload" in top:
        try:
            top = PAYLOADS.of(top["payload"])
        except (msgspec.MsgspecError, ValueError, RecursionError):
            return False
    return "op_type" in top and "table" in top and ("op_ts" in top or "pos" in top)


FORMAT = Format(
    decoder=decoder,
    order="source",
    summary="Oracle GoldenGate's JSON, by operation or by row",
    source="https://docs.oracle.com/en/middleware/goldengate/big-data/23/gadbd/"
    "additional-details.html (JSON Formatter)",
    recognised="an object with op_type and table, and op_ts or pos, on top or under payload",
    ordered="by pos, the position in the trail",
    recognise=_recognise,
    options={
        "op_types": Option(
            "list",
            ("I", "U", "D", "T"),
            "the words of insert, update, delete and truncate, in this order, where the formatter "
            "sets its own (insertOpKey, updateOpKey, deleteOpKey, truncateOpKey)",
        ),
        "supplemental_logging": Option(
            "choice",
            "unknown",
            "all: the source logs all columns, so images of updates and deletes are whole rows; "
            "unknown: they are partial, unless isMissing says which columns lack",
            ("unknown", "all"),
        ),
        "dialect": Option(
            "choice",
            "oracle",
            "the database whose types the source's columns name",
            ("oracle", "mysql", "postgres", "sqlserver"),
        ),
    },
    impossible={
        "id": "the operation has no number of its own; pos is shown as scn",
        "sequenceId": "the message has no such field",
        "storeDataSequence": "the message has no such field",
        "ddl": "GoldenGate's JSON formatters write no DDL",
        "columns": "the schema goes to a separate file or topic; only the YAML's columns are known",
        "snapshot": "rows of an initial load come as op_type I",
    },
)
