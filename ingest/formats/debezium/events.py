"""Events of Debezium without a row image, and what every event takes from its source block."""

from __future__ import annotations

import re
from typing import NamedTuple

from ingest.codes import Code
from ingest.errors import DecodeError
from ingest.events import KIND_OF, Event, Types
from ingest.formats.debezium.envelope import (
    CASSANDRA,
    OPS,
    Inner,
    Source,
    Transaction,
    is_snapshot_row,
    micros,
    named_by_topic,
    names_of,
    sent_micros,
    with_collection,
)
from ingest.formats.debezium.order import crowded, order_of
from ingest.wire.contract import TableName

_TXID_LSN = re.compile(r"([0-9]+):[0-9]+")


class Heading(NamedTuple):
    """What an envelope says of a change, besides its images.

    `op_raw`: the operation as sent. `sent_time`: when Debezium sent it, in microseconds.
    `warnings`: what is noted of the message while it is read.
    """

    op: str
    op_raw: str | None
    source: Source
    names: TableName
    sent_time: int | None
    warnings: list[str]
    transaction: Transaction | None = None


def heading_of(
    inner: Inner, topic: str, *, names: TableName | None = None, warnings: list[str]
) -> Heading:
    """The heading of an envelope, of the table `names` or that which its source block names, or
    its topic where neither does.

    Raises unknown_op, and unsupported for what Cassandra's connector sends.
    """
    op = operation_of(inner)
    source = with_collection(inner.source or Source())
    if source.connector == "cassandra":
        raise DecodeError(Code.UNSUPPORTED, CASSANDRA)
    names = names or names_of(source)
    if op != "other":
        names = named_by_topic(names, source, topic)
    sent = sent_micros(inner, warnings)
    return Heading(op, inner.op or "", source, names, sent, warnings, inner.transaction)


def operation_of(inner: Inner) -> str:
    """What an envelope tells of. Raises unknown_op."""
    word = inner.op or ""
    op = OPS.get(word)
    if op is None:
        raise DecodeError(
            Code.UNKNOWN_OP, f"expected op of c r u d t m, i of CloudCanal, got {word[:40]!r}"
        )
    return op


def op_of_images(*, before: bool, after: bool) -> str:
    """The operation of an envelope that names none, as Materialize's sinks write it: it follows
    from the rows that are there.

    Source: https://materialize.com/docs/sql/create-sink/kafka/ (Debezium envelope)
    """
    if not after:
        return "d"
    return "u" if before else "c"


def plain_event(heading: Heading) -> Event:
    """An event without images: a truncate, or a message of the source's log.

    A message of TiCDC or Spanner is a watermark: everything before its commit_ts, or its
    low_watermark, has been sent. Raises bad_value for an impossible time.
    """
    event = row_event(heading, key_columns=None, types=None)
    source = heading.source
    if event.op == "other" and (source.commit_ts is not None or source.connector == "spanner"):
        event.op = "checkpoint"
    event.kind = KIND_OF[event.op]
    return event


def row_event(
    heading: Heading, *, key_columns: tuple[str, ...] | None, types: Types | None
) -> Event:
    """A row change without its images. Raises bad_value for an impossible time."""
    op, op_raw, source, names, sent_time, warnings, transaction = heading
    return Event(
        op=op,
        op_raw=op_raw,
        db=names[0],
        schema=names[1],
        table=names[2],
        key_columns=key_columns,
        scn=scn_of(source),
        order=order_of(source, op),
        crowded=crowded(source),
        snapshot=is_snapshot_row(op, source),
        event_time=micros(source, warnings),
        sent_time=sent_time,
        tx_id=transaction_of(source, transaction),
        types=types,
        warnings=warnings,
    )


def scn_of(source: Source) -> str | None:
    """Oracle's log position, as sent."""
    return None if source.scn is None else str(source.scn)


def joined_id(text: str) -> str:
    """The id that a transaction's begin, rows and end have in common.

    PostgreSQL's is `txid:lsn`, each message with its own LSN (Debezium, PostgreSQL connector,
    "Transaction metadata").
    """
    found = _TXID_LSN.fullmatch(text)
    return found[1] if found is not None else text


def transaction_of(source: Source, transaction: Transaction | None) -> str | None:
    """The transaction: by its metadata, else by the connector's own name for it."""
    if transaction is not None and transaction.id is not None:
        return joined_id(str(transaction.id))
    if source.txId not in (None, ""):
        return str(source.txId)
    return source.gtid or None
