"""Events of Debezium that carry no row image, and what every event takes from its source block."""

from __future__ import annotations

import re

from ingest.events import KIND_OF, Event, Types
from ingest.formats.debezium.envelope import Source, Transaction, is_snapshot, micros
from ingest.formats.debezium.order import order_of
from ingest.wire.contract import TableName

_TXID_LSN = re.compile(r"([0-9]+):[0-9]+")


def plain_event(
    op: str,
    *,
    op_raw: str,
    source: Source,
    names: TableName,
    sent_time: int | None,
    warnings: list[str],
    transaction: Transaction | None = None,
) -> Event:
    """An event without images: a truncate, or a message of the source's log.

    TiCDC's message is a watermark: all before its commit_ts has been sent.
    """
    if op == "other" and source.commit_ts is not None:
        op = "checkpoint"
    return Event(
        kind=KIND_OF[op],
        op=op,
        op_raw=op_raw,
        db=names[0],
        schema=names[1],
        table=names[2],
        order=order_of(source),
        snapshot=is_snapshot(source),
        event_time=micros(source),
        sent_time=sent_time,
        scn=scn_of(source),
        tx_id=transaction_of(source, transaction),
        warnings=warnings,
    )


def row_event(
    op: str,
    *,
    op_raw: str | None,
    source: Source,
    names: TableName,
    key_columns: tuple[str, ...] | None,
    types: Types | None,
    sent_time: int | None,
    warnings: list[str] | None,
    transaction: Transaction | None,
) -> Event:
    """A row change without its images. Raises bad_value for a time that is none."""
    return Event(
        op=op,
        op_raw=op_raw,
        db=names[0],
        schema=names[1],
        table=names[2],
        key_columns=key_columns,
        scn=scn_of(source),
        order=order_of(source),
        snapshot=op == "snapshot" or is_snapshot(source),
        event_time=micros(source),
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
    """The transaction: by its metadata, else as the connector names it."""
    if transaction is not None and transaction.id is not None:
        return joined_id(str(transaction.id))
    if source.txId is not None:
        return str(source.txId)
    return source.gtid or None
