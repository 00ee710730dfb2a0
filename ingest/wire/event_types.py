"""The event types that OMS DataWorks and StreamX share (Canal's EventType), with their meanings."""

from __future__ import annotations

from ingest.codes import Code
from ingest.ddl.parse import empties
from ingest.errors import DecodeError
from ingest.events import Row

ROWS = {"INSERT": "insert", "UPDATE": "update", "DELETE": "delete"}
CONTROLS = {
    "TRANSACTION_BEGIN": "begin",
    "BEGIN": "begin",
    "TRANSACTION_END": "commit",
    "COMMIT": "commit",
    "XACOMMIT": "commit",
    "ROLLBACK": "rollback",
    "XAROLLBACK": "rollback",
    "HEARTBEAT": "heartbeat",
    "MHEARTBEAT": "heartbeat",
    "GTID": "other",
}
STATEMENTS = frozenset(
    ("CREATE", "ALTER", "ERASE", "RENAME", "TRUNCATE", "CINDEX", "DINDEX", "QUERY", "DDL")
)
"""ERASE is Canal's word for DROP."""
_NOUNS = {"insert": "an insert", "update": "an update", "snapshot": "a snapshot"}


def statement_op(word: str, sql: str | None, warnings: list[str]) -> str:
    """`truncate`, `ddl`, or `query` for a QUERY without text; warns `ddl_text_missing`."""
    if not sql:
        if word == "QUERY":
            return "query"
        warnings.append(Code.DDL_TEXT_MISSING.value)
    return "truncate" if empties(word, sql) else "ddl"


def paired(
    op: str, before: Row | None, after: Row | None, *, warnings: list[str]
) -> tuple[Row | None, Row | None]:
    """The images that `op` has; raises no_image or image_count if the images do not fit it."""
    if op == "delete":
        if before is None:
            raise DecodeError(Code.NO_IMAGE, "expected the row before a delete, got no image")
        if after is not None:
            raise DecodeError(
                Code.IMAGE_COUNT, "expected no row after a delete, got one with columns"
            )
        return before, None
    if after is None:
        raise DecodeError(Code.NO_IMAGE, f"expected the row after {_NOUNS[op]}, got no image")
    if op == "update":
        if before is None:
            warnings.append(Code.OLD_MISSING.value)
        return before, after
    if before is not None:
        warnings.append(Code.BEFORE_ON_INSERT.value)
    return None, after
