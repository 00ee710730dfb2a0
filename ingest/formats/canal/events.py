"""What a FlatMessage says of its event besides the rows."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from ingest.codes import Code
from ingest.events import KIND_OF, Event
from ingest.formats.canal.envelope import Envelope
from ingest.formats.ticdc.tso import place_of
from ingest.wire.contract import FormatOptions
from ingest.wire.scalars import micros_of, number_of, sent_micros_of, text_of
from ingest.wire.table_changes import read as read_table_changes


def event_of(envelope: Envelope, op: str, options: FormatOptions, *, warnings: list[str]) -> Event:
    """What all rows of the message share. Raises bad_value for an impossible time.

    s1 and s2 are `es` in milliseconds and `id`, the number of Canal's batch. TiCDC's `id` is always
    0; there, `order_key` is its commitTs, and s3 puts deletes first. A source is ordered by one of
    the two (semantics.md, 75).
    """
    by_commit = options.options["order_key"] == "commit_ts"
    happened = micros_of(envelope.es, warnings, 1000)
    number = envelope.id
    tidb = envelope.tidb
    scn: str | None = None
    if tidb is not None:
        scn = text_of(tidb.commitTs) or text_of(tidb.watermarkTs)
    if by_commit:
        second = None if scn is None else number_of(scn)
    elif scn is not None:
        second = None
    else:
        second = 0 if number is None else number_of(number)
    kind = KIND_OF[op]
    place: tuple[int, ...] | None = None
    if happened is not None and second is not None:
        place = happened // 1000, *(place_of(second, op) if by_commit else (second,))
    return Event(
        op=op,
        kind=kind,
        op_raw=envelope.type,
        db=envelope.database or options.default_database,
        schema=envelope.schema_name or options.default_schema,
        table=envelope.table or (None if kind == "control" else options.default_table),
        key_columns=(envelope.pkNames or None) if kind != "control" else None,
        id=text_of(envelope.id),
        scn=scn,
        order=place,
        snapshot=op == "snapshot",
        broadcast=tidb is not None,
        # Rows of one transaction have one commit time, and rows of one batch of Canal one id.
        crowded=True,
        event_time=happened,
        sent_time=sent_micros_of(envelope.ts, warnings),
        tx_id=envelope.gtid or None,
        warnings=warnings,
    )


def add_statement(
    event: Event,
    sql: str | None,
    *,
    table_changes: msgspec.Raw,
    spark: Callable[[str], str],
    warnings: list[str],
) -> None:
    """Gives a schema change its statement, and the table after it if the message describes it.

    `spark`: SQL type -> Spark type. Raises bad_shape for `tableChanges` of another shape.
    """
    event.ddl = sql or None
    if event.ddl is None:
        warnings.append(Code.DDL_TEXT_MISSING.value)
    change = read_table_changes(table_changes, spark)
    event.columns = change.columns
    event.key_columns = event.key_columns or change.keys
