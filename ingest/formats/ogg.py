"""Oracle GoldenGate for Big Data (GG for DAA), JSON formatters `json` and `json_row`.

`json` models the operation (before, after), and `json_row` the row: its columns stand at the top
level beside the metadata. Both may stand in `payload` beside a `schema` (Kafka Connect handler,
`schemas.enable`), and the operation's images may be flattened to `before.c` and `after.c`. With
`includeIsMissing`, a column `c` has a companion `c_isMissing`, which is true if the trail had no
value for the column, so that its null means nothing.

Vendor: https://docs.oracle.com/en/middleware/goldengate/big-data/23/gadbd/additional-details.html,
"JSON Formatter".
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import msgspec

from ingest.codes import Code
from ingest.errors import DecodeError
from ingest.events import COMMITS, Event, Row
from ingest.values import jsontext
from ingest.values.source_types import spark_type
from ingest.wire.clock import ZONES_OF_INSTANTS, Clock, epoch_micros
from ingest.wire.contract import (
    SPACES_OF_JSON,
    Decoder,
    Format,
    FormatOptions,
    Loss,
    Message,
    Option,
    TableName,
    TopLevel,
)
from ingest.wire.contradictions import refuse_rows
from ingest.wire.declared import Convert, ValueEncoding, plain, sql_converter
from ingest.wire.event_types import paired
from ingest.wire.scalars import PAYLOADS, Scalar, text_of
from ingest.wire.typed_rows import TableRows, TypedRows

_OPS = ("insert", "update", "delete", "truncate")
_DIGITS = 10**10
_LAST = ("E", "W", "2", "3", 2, 3)
"""The marks of an operation that ends its transaction, or is all of it."""
_PART = re.compile(r'"((?:[^"]|"")*+)"|([^."]++)')
_NONE = msgspec.Raw(b"")


class _Envelope(msgspec.Struct, gc=False):
    table: str | None = None
    op_type: str | None = None
    op_ts: Scalar = None
    current_ts: Any = None
    pos: Scalar = None
    scn: Any = None
    row_id: Any = None
    username: Any = None
    xid: Scalar | float = None
    txind: Any = None
    primary_keys: tuple[str, ...] | None = None
    tokens: dict[str, Any] | None = None
    before: msgspec.Raw = _NONE
    after: msgspec.Raw = _NONE
    catalog: msgspec.Raw = _NONE
    schema: msgspec.Raw = _NONE
    payload: msgspec.Raw = _NONE


_ENVELOPE = jsontext.decoder(_Envelope)
_MARKS = frozenset(("op_ts", "current_ts", "primary_keys", "tokens"))
"""Names that appear in no other format's messages with an op_type."""


def decoder(options: FormatOptions) -> Decoder:
    """Decodes one operation a message, or those of a transaction (the Kafka handler's mode tx)."""
    own = options.options
    ops = dict(zip(own["op_types"], _OPS, strict=True))
    clock = Clock(options.time_zone)
    tables = ogg_rows(options, own["dialect"])
    whole = own["supplemental_logging"] == "all"

    def decode(message: Message) -> Iterator[Event]:
        for value in jsontext.one_after_the_other(message.value or b""):
            yield operation(value)

    def operation(value: bytes) -> Event:
        warnings: list[str] = []
        envelope = jsontext.parse(value, _ENVELOPE.decode, warnings)
        if envelope.op_type is None and envelope.payload:
            value = bytes(envelope.payload)
            envelope = jsontext.parse(value, _ENVELOPE.decode, warnings)
        op = ops.get(envelope.op_type or "")
        _refuse_confluent(envelope, read=op is None and envelope.op_type == "R")
        if op is None:
            raise DecodeError(
                Code.UNKNOWN_OP,
                f"expected op_type {', '.join(ops)}, got {envelope.op_type!r}; if the formatter "
                "has words of its own, set options.op_types to them",
            )
        db, schema, table = _names(envelope)
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
            number=0,
            event_time=_happened(envelope.op_ts, clock, warnings),
            sent_time=_sent(envelope.current_ts, clock, warnings),
            tx_id=_transaction(envelope.xid, rows) or _named_by(tokens),
            extra=COMMITS if _commits(envelope, op) else None,
            types=rows.types,
            warnings=warnings,
        )
        if op == "truncate":
            refuse_rows(envelope.op_type, envelope.before, envelope.after)
        else:
            _fill(event, envelope, value, rows=rows, whole=whole)
        return event

    return decode


def _check_op_types(words: Sequence[str]) -> None:
    if len(words) != len(_OPS) or len({*words}) < len(_OPS):
        raise ValueError(
            f"expected {len(_OPS)} different words, those of {', '.join(_OPS[:-1])} and "
            f"{_OPS[-1]}, got {', '.join(words) or 'none'}"
        )


def _refuse_confluent(envelope: _Envelope, *, read: bool) -> None:
    """Raises unsupported for a row of Confluent's connector, whose metadata are columns here.

    `read`: its op_type is that of a snapshot's rows, which may have neither row_id nor username.
    """
    marked = read or None not in (envelope.row_id, envelope.username)
    if envelope.pos is None and envelope.scn is not None and marked:
        raise DecodeError(
            Code.UNSUPPORTED,
            "expected GoldenGate's op_type, got that of Confluent's Oracle CDC connector (scn "
            "beside it, and no pos), whose messages are not decoded: send the changes with "
            "GoldenGate or with Debezium's Oracle connector",
        )


def _happened(given: Scalar, clock: Clock, warnings: list[str]) -> int | None:
    """The time of a change: a text, or `${timestampmicro}`, a number of microseconds."""
    text = str(given or "")
    if text.isascii() and text.isdigit() and len(text) <= 20:
        return epoch_micros(int(text), warnings, 1_000_000)
    return clock.micros(text, warnings)


def _sent(given: Any, clock: Clock, warnings: list[str]) -> int | None:
    """The time of sending, written in the same ways; no change is refused because of it."""
    text = str(given)
    if text.isascii() and text.isdigit() and len(text) <= 20:
        with suppress(DecodeError):
            return epoch_micros(int(text), warnings, 1_000_000)
    return clock.sent_micros(given, warnings)


def _names(envelope: _Envelope) -> TableName:
    """Database, schema and table of `[catalog.]schema.table`; of two names the first is the
    database.

    A name in double quotes may hold dots. If the table's name comes alone, the others are beside it
    if the formatter's template names them (`${catalog}`, `${schema}`, `${table}`).
    """
    written = envelope.table or ""
    if written.startswith('"'):
        parts = [
            quoted.replace('""', '"') if quoted else plain_
            for quoted, plain_ in _PART.findall(written)
        ]
    else:
        parts = written.split(".")
    if len(parts) == 1:
        beside = map(_text_in, (envelope.catalog, envelope.schema))
        parts = [*filter(None, beside), *parts]
    if len(parts) < 3:
        return (parts[0] if len(parts) == 2 else None) or None, None, parts[-1] or None
    return ".".join(parts[:-2]), parts[-2], parts[-1]


def _text_in(raw: msgspec.Raw) -> str | None:
    return msgspec.json.decode(raw, type=str) if bytes(raw)[:1] == b'"' else None


def _order(pos: Scalar) -> tuple[int, ...] | None:
    """`pos`, the number of the trail file and the byte in it, in two halves."""
    text = str(pos)
    if not (text.isascii() and text.isdigit()) or len(text) > 28:
        return None
    return divmod(int(text), _DIGITS)


def _fill(event: Event, envelope: _Envelope, value: bytes, *, rows: TypedRows, whole: bool) -> None:
    """Gives a change its images. Raises no_image, image_count."""
    warnings = event.warnings
    assert warnings is not None
    sent = [bytes(image)[:1] for image in (envelope.before, envelope.after) if image]
    # If it is a text or a number, it is a column of a row without an envelope.
    if sent and all(first in b"{[n" for first in sent):
        old = read_image(envelope.before, rows, warnings)
        new = read_image(envelope.after, rows, warnings)
    else:
        old, new = rows_of(value, rows, warnings, keys=envelope.primary_keys or ())
    if event.op == "delete" and old is None:
        # that of a row without an envelope, or of SeaTunnel, which has all rows in `after`
        old, new = new, None
    event.before, event.after = paired(
        event.op,
        old.row if old is not None else None,
        new.row if new is not None else None,
        warnings=warnings,
    )
    # Without supplemental logging of all columns, an update brings its key and what it changed.
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
        except jsontext.UNREADABLE:
            return False
    return "op_type" in top and "table" in top and not _MARKS.isdisjoint(top)


FORMAT = Format(
    decoder=decoder,
    order="source",
    summary="Oracle GoldenGate's JSON, by operation or by row",
    source="https://docs.oracle.com/en/middleware/goldengate/big-data/23/gadbd/"
    "additional-details.html (JSON Formatter)",
    recognised="an object with op_type, table, and op_ts or primary_keys, on top or under payload",
    ordered="by pos, the position in the trail",
    flat=True,
    untyped=True,
    ends="the operation whose metacolumn txind is E or W, or 2 or 3 (${txind} in "
    "metaColumnsTemplate), of the formatter json",
    recognise=_recognise,
    envelope=("tokens", "payload", "payload.tokens"),
    options={
        "op_types": Option(
            "list",
            ("I", "U", "D", "T"),
            "the words of insert, update, delete and truncate, in this order, where the formatter "
            "sets its own (insertOpKey, updateOpKey, deleteOpKey, truncateOpKey)",
            check=_check_op_types,
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
    losses=(
        Loss(
            "the order of an initial load",
            "it comes as inserts from a trail of its own, whose positions do not compare with "
            "those of the changes, so it can overwrite them: read it whole before any change is "
            "sent, then raise the source's epoch",
        ),
        Loss(
            "columns of json_row with names of metadata",
            "table, op_type, op_ts, current_ts, pos, primary_keys and tokens stand beside the row; "
            "so do xid and csn, unless columns: declares them",
        ),
        ZONES_OF_INSTANTS,
        SPACES_OF_JSON,
    ),
)


_COMPANION = "_isMissing"
_METADATA = (
    "table",
    "op_type",
    "op_ts",
    "current_ts",
    "pos",
    "xid",
    "csn",
    "primary_keys",
    "tokens",
)
_OPTIONAL = ("xid", "csn")
"""Metadata that the formatter writes only if it is told to; if they are declared, they are
columns."""
_FLATTENED = ("before.", "after.")
_DATES = ("date", "timestamp", "timestamp_ntz")


class Image(NamedTuple):
    """A row, the columns that the trail lacked, and whether companions named these columns."""

    row: Row | None
    missing: list[str]
    companions: bool

    def word(self, keys: tuple[str, ...] | None, sure: bool) -> str:
        """How complete the row is; `sure`: it is whole except for what is missing."""
        if self.row is not None and keys and self.row.keys() == set(keys):
            return "key"
        return "partial" if self.missing or not (sure or self.companions) else "full"


def read_image(raw: msgspec.Raw, rows: TypedRows, warnings: list[str]) -> Image | None:
    """A row image; None for null, `{}` and no text. Raises bad_json, bad_shape, bad_value."""
    columns = jsontext.image(raw, warnings)
    if columns is None:
        return None
    text = bytes(raw)
    return _image(columns, text, rows, warnings=warnings)


def rows_of(
    value: bytes, rows: TypedRows, warnings: list[str], *, keys: tuple[str, ...]
) -> tuple[Image | None, Image | None]:
    """The rows before and after of a message whose columns stand at the top level. `json_row` has
    the one after; flattened JSON (`before.c`, `after.c`) has both, and what stands beside them is
    metadata that the user added. Raises as `read_image`, and no_image."""
    top = jsontext.parse(value, jsontext.members, [])
    own = _declared(rows)
    row = {name: raw for name, raw in top.items() if name not in _METADATA or name in own}
    flattened = [name for name in row if name.startswith(_FLATTENED)]
    of_keys = keys and all(any(part + key in row for part in _FLATTENED) for key in keys)
    if flattened and (of_keys or len(flattened) == len(row)):
        images = [
            {name.removeprefix(part): raw for name, raw in row.items() if name.startswith(part)}
            for part in _FLATTENED
        ]
    elif keys and row and row.keys().isdisjoint(keys) and all(map(_is_image, row.values())):
        raise DecodeError(
            Code.NO_IMAGE,
            f"expected images called before and after, got {', '.join(row)[:80]}; leave the "
            "formatter's beforeImageName and afterImageName at their defaults",
        )
    else:
        images = [{}, row]
    old, new = (msgspec.Raw(msgspec.json.encode(image)) for image in images)
    return read_image(old, rows, warnings), read_image(new, rows, warnings)


def _is_image(raw: msgspec.Raw) -> bool:
    return bytes(raw)[:1] in (b"{", b"n")


def _declared(rows: TypedRows) -> set[str]:
    """The names of metadata that are columns of the table, because the YAML says so."""
    known = rows.types.columns if rows.types is not None else ()
    return {column.name for column in known if column.name in _OPTIONAL}


def _transaction(xid: Scalar | float, rows: TypedRows) -> str | None:
    """The transaction that a message names; None if its xid is a column."""
    return None if isinstance(xid, float) or "xid" in _declared(rows) else text_of(xid)


def _named_by(tokens: dict[str, Any]) -> str | None:
    """The transaction that a token names: the trail's own token 6, or one that the user mapped."""
    for name in ("6", "TK-XID", "txid"):
        given = tokens.get(name)
        if given.__class__ is str and given:
            return str(given)
    return None


def _image(
    columns: dict[str, Any], text: bytes, rows: TypedRows, *, warnings: list[str]
) -> Image | None:
    missing: list[str] = []
    companions = False
    if _COMPANION.encode() in text:
        for name in [name for name in columns if name.endswith(_COMPANION)]:
            column = name.removesuffix(_COMPANION)
            # A companion may come without its column, which then is missing all the more; one that
            # is false says that the column is there.
            if columns[name].__class__ is bool and (column in columns or columns[name]):
                companions = True
                if columns.pop(name):
                    missing.append(column)
        for name in missing:
            columns.pop(name, None)
    if not columns:
        return Image(None, missing, companions)
    rows.texts(columns, text, warnings)
    return Image(columns, missing, companions)


def ogg_rows(options: FormatOptions, dialect: str) -> TableRows:
    """How the rows of GoldenGate's tables are read, by the types that the YAML names."""
    encoding = ValueEncoding(family=dialect, zone=options.time_zone)
    return TableRows(options, encoding, convert=_converter(encoding))


def _converter(encoding: ValueEncoding) -> Callable[[str], Convert | None]:
    """SQL type -> converter; GoldenGate may write a colon between day and time."""
    by_sql_type = sql_converter(encoding)

    def convert(source_type: str) -> Convert | None:
        found = by_sql_type(source_type)
        if found is None or spark_type(source_type, encoding.family) not in _DATES:
            return found
        return _spaced(found)

    return convert


def _spaced(convert: Convert) -> Convert:
    def of(value: Any, warnings: list[str]) -> str | None:
        text = plain(value)
        if text[10:11] == ":":
            text = f"{text[:10]} {text[11:]}"
        return convert(text, warnings)

    return of


def _commits(envelope: _Envelope, op: str) -> bool:
    """Whether an operation is the last of its transaction: its end, or all of it. Beside the
    columns of a row, `txind` may be one of them."""
    if envelope.txind not in _LAST:
        return False
    images = (envelope.before, envelope.after)
    return op == "truncate" or any(bytes(image)[:1] == b"{" for image in images)
