"""Which tables a truncate empties, where the message tells it by its statement alone."""

from __future__ import annotations

from msgspec.structs import replace

from ingest.codes import Code
from ingest.ddl import parse
from ingest.errors import DecodeError
from ingest.events import Event

_DIALECTS = ("mysql", "postgres")
"""They differ in what a name in double quotes is; between them they read every database's."""


def emptied(event: Event, *, default: str | None) -> list[Event]:
    """The event itself; of a truncate that names no table, one for each of its statement.

    `default`: the table of messages that name none. Raises bad_shape where nobody names one.
    """
    if event.op != "truncate" or event.table is not None:
        return [event]
    known = (event.dialect,) if event.dialect is not None else _DIALECTS
    for dialect in known if event.ddl else ():
        said = parse(event.ddl or "", dialect=dialect, db=event.db, schema=event.schema)
        tables = [clause.table for clause in said.clauses if clause.kind == "truncate"]
        if tables and all(table.name for table in tables):
            return [
                replace(event, db=table.db, schema=table.schema, table=table.name)
                for table in tables
            ]
    if default is None:
        raise DecodeError(
            Code.BAD_SHAPE,
            "expected the table that is emptied, got none in the message and none that can be read "
            f"in its statement {(event.ddl or '')[:80]!r}; set default_table for the source",
        )
    return [event]
