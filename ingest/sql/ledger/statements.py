"""The statements of a source's log that silver has: schema changes and truncates."""

from __future__ import annotations

from ingest.position import source_part
from ingest.sql.query import query
from ingest.sql.quoting import sql_text


def in_batches(silver: str, *, source: str, first: int, last: int) -> str:
    """The statements of some batches, in order of position: (db, schema, table, ddl, dialect, op,
    format, pos, micros). Copies with the same place and time count once: by arrival, several
    statements may have one place, and by the source's order, copies may come several times."""
    columns = "db, schema, `table`, ddl, dialect, op, format"
    return query(
        statements=f"SELECT * FROM {silver} WHERE source = {sql_text(source)} "
        f"AND batch BETWEEN {first} AND {last} "
        "AND (kind = 'ddl' OR (kind = 'change' AND op = 'truncate'))",
        once=f"""SELECT {columns}, min(pos) AS pos, unix_micros(event_time) AS micros
FROM statements
GROUP BY {columns}, {source_part("pos")}, event_time ORDER BY pos""",
    )
