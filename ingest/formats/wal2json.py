"""wal2json, PostgreSQL's logical decoding as JSON, format versions 1 and 2.

Vendor: https://github.com/eulerto/wal2json (README and regression tests, 00fffae). Version 2 is one
object a row, with the transaction's begin and end around them; version 1 one object a transaction.
Chunks of a transaction (write-in-chunks) are no JSON by themselves.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from ingest import jsontext
from ingest.codes import Code
from ingest.errors import DecodeError
from ingest.events import KIND_OF, Event
from ingest.formats.clock import Clock
from ingest.formats.envelope import Scalar, text_of
from ingest.formats.format import Decoder, Format, FormatOptions, Loss, Message, Option, TopLevel
from ingest.formats.wal2json_rows import Change, Column, PrimaryKey, Rows

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


def decoder(options: FormatOptions) -> Decoder:
    """Decodes one message of either version."""
    rows = Rows(options)
    clock = Clock(options.time_zone)

    def decode(message: Message) -> Iterator[Event]:
        warnings: list[str] = []
        sent = jsontext.parse(message.value or b"", _TUPLE.decode, warnings)
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
        if event.kind == "change":
            event.schema, event.table = sent.schema, sent.table
            if event.op != "truncate":
                names = tuple([column.name for column in sent.pk]) if sent.pk else None
                rows.fill(event, Change(sent.columns, sent.identity or None, names))
        yield event

    return decode


def _transaction(shared: Event, sent: _Tuple, rows: Rows) -> Iterator[Event]:
    """The changes of a message of version 1; its commit where it has none."""
    text = bytes(sent.change)
    if not text:
        raise DecodeError(Code.UNKNOWN_OP, "expected an action or an array change, got neither")
    changes = jsontext.parse(text, _CHANGES.decode, [])
    if not changes:
        shared.op_raw = "change"
        yield shared
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
            if op != "truncate":
                rows.fill(event, _unzipped(change))
        yield event


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
    """Columns of names, types and values side by side. Raises image_count."""
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


def _recognise(top: TopLevel) -> bool:
    if "change" in top:
        return top.keys() - {"change"} <= _TRANSACTION and bytes(top["change"]).startswith(b"[")
    if "action" not in top:
        return False
    action = bytes(top["action"])
    if action in _ROWS:
        return "table" in top and ("columns" in top or "identity" in top)
    if action == b'"T"':
        return "table" in top and "columns" not in top
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
            "nulls of the row before",
            "version 1 leaves them out under REPLICA IDENTITY FULL: declare keys:, and "
            "replica_identity: full",
        ),
        Loss(
            "equal rows of one COPY",
            "have one position, so without a key they count once: declare keys:, or order: arrival",
        ),
    ),
)
