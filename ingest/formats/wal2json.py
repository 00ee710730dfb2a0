"""wal2json, PostgreSQL's logical decoding as JSON, format versions 1 and 2.

Version 2 is one object for each row, with the transaction's begin and end around them; version 1 is
one object for each transaction. Chunks of a transaction (write-in-chunks) are no JSON by
themselves.

A TOAST column that an update did not change is not among its columns. Without REPLICA IDENTITY
FULL, the row before, as well as a deleted row, is only the key.

Vendor: https://github.com/eulerto/wal2json (README and regression tests, 00fffae).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import msgspec

from ingest.codes import Code
from ingest.errors import DecodeError
from ingest.events import COMMITS, KIND_OF, Event, Row
from ingest.names import declared_for, lacking
from ingest.values import canonical, jsontext
from ingest.values.source_types import bits_type, parse_type, spark_type
from ingest.wire.clock import Clock
from ingest.wire.contract import (
    Decoder,
    Format,
    FormatOptions,
    Loss,
    Message,
    Option,
    TopLevel,
    repeats_without_key,
)
from ingest.wire.contradictions import refuse_after, refuse_rows
from ingest.wire.declared import Convert, ValueEncoding, plain, sql_converter
from ingest.wire.scalars import Scalar, text_of
from ingest.wire.typed_rows import TableRows

_POSTGRES = "postgres"
_DATES = ("date", "timestamp", "timestamp_ntz")
_WORDS = {"0": "false", "1": "true"}


class Column(msgspec.Struct, gc=False):
    """One column of version 2; `pk` has no values."""

    name: str
    type: str | None = None
    value: Any = msgspec.UNSET


class PrimaryKey(msgspec.Struct, gc=False):
    """`pk` of version 1."""

    pknames: tuple[str, ...]


class Change(NamedTuple):
    """The row after, the row before or its key, and the primary key; None if not sent.

    An identity without columns is a row that has only NULLs, since version 1 leaves them out.
    """

    columns: list[Column] | None
    identity: list[Column] | None
    primary_key: tuple[str, ...] | None


class Rows:
    """Gives changes their images."""

    def __init__(self, options: FormatOptions) -> None:
        encoding = ValueEncoding(family=_POSTGRES, zone=options.time_zone)
        self._tables = TableRows(options, encoding, convert=_converter(encoding), spark=_spark_type)
        self._full = options.options["replica_identity"] == "full"
        self._options = options

    def fill(self, event: Event, change: Change) -> None:
        """Raises no_image, bad_shape, bad_value."""
        warnings = event.warnings
        assert warnings is not None
        identity = self._row(event, change.identity, warnings)
        keys = change.primary_key
        if event.op == "delete":
            refuse_after(event.op, change.columns)
            if identity is None and change.identity is not None:
                # nothing names the row, and the transaction's other changes must stay valid
                warnings.append(Code.OLD_MISSING.value)
                return
            if identity is None:
                raise DecodeError(
                    Code.NO_IMAGE,
                    "expected the identity of a deleted row, got none; give the "
                    "table a primary key or REPLICA IDENTITY FULL",
                )
            if keys is None and not self._full:
                keys = tuple(identity)
            event.before, event.key_columns = identity, keys
            event.before_image = "full"
            if keys and set(keys) == identity.keys():
                # The types of a key are not those of a row.
                event.before_image, event.types = "key", None
            elif keys and not identity.keys() >= set(keys):
                # REPLICA IDENTITY USING INDEX: the columns of another key than the primary one.
                event.before_image = "partial"
                warnings.append(Code.PARTIAL_IMAGE.value)
            return
        after = self._row(event, change.columns, warnings)
        if after is None:
            raise DecodeError(Code.NO_IMAGE, f"expected columns of an {event.op}, got none")
        event.after, event.after_image = after, "full"
        if event.op == "insert" and identity is not None:
            warnings.append(Code.BEFORE_ON_INSERT.value)
        if event.op == "update":
            if identity is None:
                warnings.append(Code.OLD_MISSING.value)
            else:
                keys = self._before(event, identity, after, keys=keys, warnings=warnings)
            self._mark_unsent(event, after, warnings)
        event.key_columns = keys

    def _mark_unsent(self, event: Event, after: Row, warnings: list[str]) -> None:
        """Marks an update that lacks declared columns, since large values that did not change are
        not sent."""
        names = (event.db, event.schema, event.table)
        declared = declared_for(self._options.columns, self._options.completed(names))
        unsent = lacking(declared, (*after, *(event.unavailable or ()))) if declared else []
        if unsent:
            event.unavailable = [*(event.unavailable or ()), *unsent]
            if event.after_image != "partial":
                event.after_image = "partial"
                warnings.append(Code.PARTIAL_IMAGE.value)

    def _before(
        self,
        event: Event,
        identity: Row,
        after: Row,
        *,
        keys: tuple[str, ...] | None,
        warnings: list[str],
    ) -> tuple[str, ...] | None:
        """Gives an update the row before, or its key columns if they are known."""
        event.before = identity
        unsent = [name for name in identity if name not in after]
        if unsent:
            event.unavailable = unsent
            event.after_image = "partial"
            warnings.append(Code.PARTIAL_IMAGE.value)
        whole = identity.keys() >= after.keys()
        if keys is None and not (self._full or whole):
            keys = tuple(identity)
        if keys is not None and set(keys) == identity.keys():
            event.before_image = "key"
        else:
            event.before_image = "full" if whole else "partial"
            if not whole:
                warnings.append(Code.PARTIAL_IMAGE.value)
        return keys

    def _row(self, event: Event, columns: list[Column] | None, warnings: list[str]) -> Row | None:
        if not columns:
            return None
        row: dict[str, Any] = {}
        types = []
        for column in columns:
            name, value = column.name, column.value
            if value.__class__ is dict or value.__class__ is list or value is msgspec.UNSET:
                got = "none" if value is msgspec.UNSET else f"{value!r:.80}"
                raise DecodeError(Code.BAD_SHAPE, f"expected one value in column {name}, got {got}")
            row[name] = value
            if column.type is not None:
                types.append((name, column.type))
        if len(row) < len(columns):
            warnings.append(Code.DUP_KEY.value)
        key = tuple(types)
        rows = self._tables.of(
            (event.db, event.schema, event.table), key=key, sent=lambda: dict(key)
        )
        rows.texts(row, b"", warnings)
        # For an update, those of the row after count, which is read last.
        event.types = rows.types
        return row


def _converter(encoding: ValueEncoding) -> Callable[[str], Convert | None]:
    """SQL type -> converter; bytea comes as hexadecimal digits, and times in the form of the
    DateStyle."""
    by_sql_type = sql_converter(encoding)

    def convert(source_type: str) -> Convert | None:
        kind = _spark_type(source_type)
        if kind == "binary":
            return _bytes
        if _is_bits(source_type):
            return _truth if kind == "boolean" else _bits
        found = by_sql_type(source_type)
        return _dated(found) if found is not None and kind in _DATES else found

    return convert


def _is_bits(source_type: str) -> bool:
    """Whether a type is `bit(n)`; without n (include-typmod off) it may have any length."""
    type_ = parse_type(source_type)
    return type_.name == "bit" and bool(type_.numbers)


def _spark_type(source_type: str) -> str:
    if _is_bits(source_type):
        return bits_type(parse_type(source_type))
    return spark_type(source_type, _POSTGRES)


def _bits(value: Any, warnings: list[str]) -> str:
    """The integer that zeros and ones spell, as other formats send it; more than 64 digits stay as
    they are."""
    text = plain(value)
    if not text or text.strip("01"):
        warnings.append(Code.VALUE_NOT_OF_TYPE.value)
        return text
    return canonical.bits_of(text)


def _truth(value: Any, warnings: list[str]) -> str:
    text = plain(value)
    if text not in _WORDS:
        warnings.append(Code.VALUE_NOT_OF_TYPE.value)
    return _WORDS.get(text, text)


def _dated(convert: Convert) -> Convert:
    def of(value: Any, warnings: list[str]) -> str | None:
        text = plain(value)
        if text[4:5] != "-":
            # `02-04-2013` in another DateStyle than ISO, `infinity`, or a year beyond 9999.
            warnings.append(Code.VALUE_NOT_OF_TYPE.value)
            return text
        return convert(text, warnings)

    return of


def _bytes(value: Any, warnings: list[str]) -> str:
    text = plain(value)
    try:
        return canonical.base64_of(bytes.fromhex(text.removeprefix("\\x")))
    except ValueError:
        warnings.append(Code.VALUE_NOT_OF_TYPE.value)
        return text


_ACTIONS = {
    "I": "insert",
    "U": "update",
    "D": "delete",
    "T": "truncate",
    "B": "begin",
    "C": "commit",
    "M": "other",
}
_KINDS = {
    "insert": "insert",
    "update": "update",
    "delete": "delete",
    "truncate": "truncate",
    "message": "other",
}
_TRANSACTION = frozenset(("xid", "timestamp", "lsn", "nextlsn", "origin"))
_ROWS = (b'"I"', b'"U"', b'"D"')
_TRUNCATE = _TRANSACTION | {"action", "schema", "table"}
_MARKS = frozenset(("xid", "lsn", "nextlsn", "origin"))
"""Names that appear in no other format's messages with an action or change."""
_ENDS = (b'"B"', b'"C"')


class _Tuple(msgspec.Struct, gc=False):
    """One message of version 2."""

    action: str | None = None
    schema: str | None = None
    table: str | None = None
    columns: list[Column] | None = None
    identity: list[Column] | None = None
    pk: list[Column] | None = None
    xid: Scalar = None
    timestamp: str | None = None
    lsn: str | None = None
    nextlsn: str | None = None
    change: msgspec.Raw = msgspec.Raw(b"")


class _OldKeys(msgspec.Struct, gc=False):
    keynames: list[str]
    keyvalues: list[Any]
    keytypes: list[str] | None = None


class _Change(msgspec.Struct, gc=False):
    """One change of version 1."""

    kind: str | None = None
    schema: str | None = None
    table: str | None = None
    columnnames: list[str] | None = None
    columntypes: list[str] | None = None
    columnvalues: list[Any] | None = None
    oldkeys: _OldKeys | None = None
    pk: PrimaryKey | None = None


_TUPLE = jsontext.decoder(_Tuple)
_CHANGES = jsontext.decoder(list[_Change])


# PostgreSQL prints the negative zero of float8 as `-0`; as an integer it would lose its sign.
_ENDS_OF_ZERO = (b"-0,", b"-0}", b"-0]", b"-0\n")
_SIGNED_ZERO = re.compile(rb'"(?:[^"\\]++|\\.)*+"?|(?<![\w.+-])-0(?![\d.eE])', re.DOTALL)


def _as_text(match: re.Match[bytes]) -> bytes:
    return match[0] if match[0].startswith(b'"') else b'"-0"'


def decoder(options: FormatOptions) -> Decoder:
    """Decodes one message of either version."""
    rows = Rows(options)
    clock = Clock(options.time_zone)

    def decode(message: Message) -> Iterator[Event]:
        warnings: list[str] = []
        value = message.value or b""
        if any(end in value for end in _ENDS_OF_ZERO):
            value = _SIGNED_ZERO.sub(_as_text, value)
        sent = jsontext.parse(value, _TUPLE.decode, warnings)
        lsn = sent.lsn or sent.nextlsn
        shared = Event(
            op="commit",
            kind="control",
            db=options.default_database,
            scn=lsn,
            order=_order(lsn),
            event_time=clock.micros(sent.timestamp, warnings),
            tx_id=text_of(sent.xid),
            warnings=warnings,
        )
        if sent.action is None:
            yield from _transaction(shared, sent, rows)
            return
        event = shared
        event.op = _named(_ACTIONS, sent.action, "action")
        event.kind = KIND_OF[event.op]
        event.op_raw = sent.action
        if event.kind != "change" or event.op == "truncate":
            refuse_rows(sent.action, sent.columns, sent.identity)
        if event.kind == "change":
            event.schema, event.table = sent.schema, sent.table
            if event.op != "truncate":
                names = tuple([column.name for column in sent.pk]) if sent.pk else None
                rows.fill(event, Change(sent.columns, sent.identity or None, names))
                # The rows of one COPY have one position.
                event.crowded = True
        yield event

    return decode


def _transaction(shared: Event, sent: _Tuple, rows: Rows) -> list[Event]:
    """The changes of a message of version 1, which is a transaction; if it has none, its commit."""
    text = bytes(sent.change)
    if not text:
        raise DecodeError(Code.UNKNOWN_OP, "expected an action or an array change, got neither")
    changes = jsontext.parse(text, _CHANGES.decode, [])
    if not changes:
        shared.op_raw = "change"
        return [shared]
    found = []
    for change in changes:
        op = _named(_KINDS, change.kind, "kind")
        event = Event(
            op=op,
            kind=KIND_OF[op],
            op_raw=change.kind,
            db=shared.db,
            scn=shared.scn,
            order=shared.order,
            event_time=shared.event_time,
            tx_id=shared.tx_id,
            warnings=list(shared.warnings or ()),
        )
        if event.kind == "change":
            event.schema, event.table = change.schema, change.table
        if event.kind == "change" and op != "truncate":
            rows.fill(event, _unzipped(change))
        else:
            old = change.oldkeys
            refuse_rows(change.kind, change.columnvalues, old and old.keyvalues)
        found.append(event)
    last = next((event for event in reversed(found) if event.kind == "change"), None)
    if last is not None and last.tx_id is not None:
        last.extra = COMMITS
    return found


def _unzipped(change: _Change) -> Change:
    old = change.oldkeys
    return Change(
        _columns(change.columnnames, change.columntypes, change.columnvalues),
        None if old is None else _columns(old.keynames, old.keytypes, old.keyvalues),
        change.pk.pknames if change.pk is not None else None,
    )


def _columns(
    names: list[str] | None, types: list[str] | None, values: list[Any] | None
) -> list[Column] | None:
    """Columns from lists of names, types and values side by side. Raises image_count."""
    if names is None and values is None:
        return None
    names, values = names or [], values or []
    kinds: list[str] | list[None] = [None] * len(names) if types is None else types
    if not len(names) == len(values) == len(kinds):
        raise DecodeError(
            Code.IMAGE_COUNT,
            f"expected a type and a value for each column, got {len(names)} names, {len(kinds)} "
            f"types, {len(values)} values",
        )
    return [Column(*given) for given in zip(names, kinds, values, strict=True)]


def _named(words: dict[str, str], given: str | None, what: str) -> str:
    op = words.get(given or "")
    if op is None:
        raise DecodeError(Code.UNKNOWN_OP, f"expected {what} {', '.join(words)}; got {given!r}")
    return op


def _order(lsn: str | None) -> tuple[int, ...] | None:
    """`16/B374D848`, the upper and the lower half in hexadecimal digits, as one number."""
    upper, _, lower = (lsn or "").partition("/")
    try:
        number = (int(upper, 16) << 32) + int(lower, 16)
    except ValueError:
        return None
    return (number,) if 0 <= number < 2**63 else None


def _are_columns(raw: bytes) -> bool:
    """Whether all are columns as wal2json writes them: a name, a type and a value."""
    columns = msgspec.json.decode(raw, type=list[dict[str, msgspec.Raw]])
    return all(column.keys() >= {"name", "type", "value"} for column in columns)


def _are_changes(raw: bytes, top: TopLevel) -> bool:
    """Whether all are changes of version 1, judged by their names, or by the message's if there are
    none."""
    changes = msgspec.json.decode(raw, type=list[dict[str, msgspec.Raw]])
    known = not _MARKS.isdisjoint(top)
    if not changes:
        return known
    for change in changes:
        kind = bytes(change.get("kind", b""))
        if kind == b'"delete"':
            if "oldkeys" not in change or b'"keynames"' not in bytes(change["oldkeys"]):
                return False
        elif kind == b'"truncate"':
            if not known:
                return False
        elif kind == b'"message"':
            if "prefix" not in change:
                return False
        elif not change.keys() >= {"kind", "table", "columnnames", "columnvalues"}:
            return False
    return True


def _recognise(top: TopLevel) -> bool:
    if "change" in top:
        return top.keys() - {"change"} <= _TRANSACTION and _are_changes(bytes(top["change"]), top)
    if "action" not in top:
        return False
    action = bytes(top["action"])
    if action == b'"D"':
        return "table" in top and "identity" in top and _are_columns(bytes(top["identity"]))
    if action in _ROWS:
        return "table" in top and ("columns" in top or "identity" in top)
    if action == b'"T"':
        return {"schema", "table"} <= top.keys() <= _TRUNCATE
    if action == b'"M"':
        return "prefix" in top and "content" in top
    return action in _ENDS and top.keys() - {"action"} <= _TRANSACTION


FORMAT = Format(
    decoder=decoder,
    order="source",
    summary="wal2json, PostgreSQL's logical decoding as JSON, format versions 1 and 2",
    source="https://github.com/eulerto/wal2json (00fffae)",
    recognised="version 2: action, one letter of B, C, I, U, D, T, M, with its members; "
    "version 1: an array change beside nothing but xid, nextlsn, timestamp",
    ordered="by lsn (version 2) or nextlsn (version 1) of include-lsn; a source without them needs "
    "order: arrival",
    recognise=_recognise,
    ends="the record C of include-transaction=true, its default (version 2), or the end of the "
    "message (version 1)",
    dialect="postgres",
    envelope=("change", "change.oldkeys", "change.pk", "columns", "identity", "pk"),
    options={
        "replica_identity": Option(
            "choice",
            "key",
            "what identity (oldkeys) holds where the message names no primary key (include-pk): "
            "the key's columns, or the whole row of REPLICA IDENTITY FULL",
            ("key", "full"),
        ),
    },
    impossible={
        "db": "a message names schema and table; set default_database",
        "id": "a message has no number of its own",
        "sequenceId": "the message has no such field",
        "storeDataSequence": "the message has no such field",
        "sent_time": "timestamp is the commit's; no field holds the time of sending",
        "ddl": "logical decoding does not see DDL",
        "columns": "DDL is not sent; types come with each row",
        "snapshot": "the plugin decodes changes only; it has no initial rows",
    },
    losses=(
        Loss("NaN and infinite numbers", "NaN, Infinity and -Infinity come as null"),
        Loss("truncates", "version 1 does not send them"),
        Loss(
            "PostgreSQL's timetz, hstore and money",
            "their text is PostgreSQL's own, as its settings have it; Debezium's is another: times "
            "in UTC, a hstore as JSON, money as a number",
        ),
        Loss(
            "PostgreSQL's intervals",
            "are PostgreSQL's own text; Debezium's are microseconds or ISO 8601",
        ),
        Loss("one text of arrays", "they are PostgreSQL's own text; Debezium's are JSON"),
        Loss(
            "nulls of the row before",
            "version 1 leaves them out under REPLICA IDENTITY FULL: declare keys:, and "
            "replica_identity: full",
        ),
        repeats_without_key("the rows of one COPY have one position (version 2)"),
        Loss(
            "PostgreSQL's schema changes",
            "are not decoded: values of a new column come with the next change of a row, and those "
            "of a dropped or renamed one stay; UPDATE t SET id = id sends all rows again",
        ),
    ),
)
