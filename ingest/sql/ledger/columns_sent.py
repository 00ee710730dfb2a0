"""Which columns the changes of a source table have, since when and until when.

`changes` is SQL of silver rows of kind change of one source table; names of columns are in lower
case.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ingest.position import Pos
from ingest.sql.query import query
from ingest.sql.quoting import sql_text, sql_texts
from ingest.sql.silver import above_pos, below_pos

_SENT = "map_keys(after)"
_KNOWN = "concat(coalesce(map_keys(after), array()), coalesce(unavailable, array()))"


def last_known(changes: str, names: Sequence[str]) -> str:
    """The highest position of a change that has each of the columns, or says that the column was
    not supplied: (name, pos)."""
    return query(
        changes=changes,
        named=_each(_KNOWN, names),
        last="SELECT name, max(pos) FROM named GROUP BY name",
    )


def first_sent(changes: str, names: Sequence[str]) -> str:
    """The lowest position of a change that has each of the columns: (name, pos)."""
    return query(
        changes=changes,
        named=_each(_SENT, names),
        first="SELECT name, min(pos) FROM named GROUP BY name",
    )


def _each(known: str, names: Sequence[str]) -> str:
    lower, wanted = f"transform({known}, k -> lower(k))", sql_texts(names)
    return f"SELECT pos, explode(array_intersect({lower}, array({wanted}))) AS name FROM changes"


def new_rows_above(changes: str, positions: Iterable[Pos]) -> str:
    """A row: above each of the positions, the position of the first new row."""
    each = ", ".join(f"min(pos) FILTER (WHERE {above_pos(pos)})" for pos in positions)
    return query(
        changes=changes,
        first=f"SELECT {each} FROM changes "
        "WHERE op IN ('insert', 'snapshot') AND after_image = 'full'",
    )


def first_position(changes: str, where: str) -> str:
    """The lowest position of a change for which `where` is true."""
    return query(changes=changes, first=f"SELECT min(pos) FROM changes WHERE {where}")


def sends(*names: str) -> str:
    """True for changes that have one of the columns."""
    return f"exists(map_keys(after), k -> lower(k) IN ({sql_texts(names)}))"


def typed_as(name: str, type_: str, *, schemas: str) -> str:
    """True for changes whose schema, one of `schemas` (silver rows), gives the column this type."""
    typed = f"lower(c.name) = {sql_text(name)} AND c.type = {sql_text(type_)}"
    of_type = query(
        schemas=schemas,
        typed=f"SELECT schema_id FROM schemas WHERE exists(columns, c -> {typed})",
    )
    return f"schema_id IN ({of_type})"


def schema_of_last(changes: str, *, below: Pos) -> str:
    """Position and schema, `last`, of the last change `below` a position that came with types."""
    return query(
        changes=changes,
        last="SELECT max(struct(pos, schema_id)) AS last FROM changes "
        f"WHERE schema_id IS NOT NULL AND {below_pos(below)}",
    )


def columns_of_schema(schemas: str, schema_id: str) -> str:
    """The columns of one of some schemas (silver rows)."""
    return query(
        schemas=schemas,
        listed=f"SELECT columns FROM schemas WHERE schema_id = {sql_text(schema_id)} LIMIT 1",
    )


def schema_behind(changes: str, schemas: str, *, above: Pos) -> str:
    """The columns of a schema, one of `schemas` (silver rows): that of the first change `above` a
    position that came with one."""
    return query(
        changes=changes,
        behind="SELECT min_by(schema_id, pos) AS first FROM changes "
        f"WHERE schema_id IS NOT NULL AND {above_pos(above)}",
        schemas=schemas,
        listed="SELECT columns FROM schemas WHERE schema_id = (SELECT first FROM behind) LIMIT 1",
    )
