"""Conditions and queries on silver: the rows of a source table, of some batches, its changes."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from ingest.events import COMMITS
from ingest.names import SourceTable
from ingest.position import SOURCE_PART, Pos, may_follow_sql, pos_literal, source_part
from ingest.sql.metadata import in_gold
from ingest.sql.quoting import sql_text, sql_texts

ROW_CHANGES, TRUNCATES = "op <> 'truncate'", "op = 'truncate'"
"""True for the changes of rows; true for truncates."""
_LISTED = 64
_ARRIVED = "coalesce(unix_millis(arrived), 0L)"
_MARKED = (f"extra[{sql_text(name)}] = {sql_text(text)}" for name, text in COMMITS.items())
LAST_CHANGE = f"coalesce({' AND '.join(_MARKED)}, false)"
"""True for a change that is the last of its transaction, if no message of its own says so."""
ERASURES = "_erasures"
"""The topic of rows that say that an erasure took place. Those with a `tx_id` say in `after` how
many changes of that transaction were `erased`, and in `extra` whether its last was among them."""


def of_table(table: SourceTable) -> str:
    """SQL that is true for silver's rows of a source table."""
    return " AND ".join(
        f"`{name}` = {sql_text(value)}" if value is not None else f"`{name}` IS NULL"
        for name, value in (("db", table.db), ("schema", table.schema), ("table", table.table))
    )


def above_pos(pos: Pos, *, of: str = "pos") -> str:
    """SQL that is true for rows above a position; `of`: SQL of a row's position."""
    return f"{of} > {pos_literal(pos)}"


def below_pos(pos: Pos) -> str:
    """SQL that is true for rows below a position."""
    return f"pos < {pos_literal(pos)}"


def after_pos(pos: Pos, *, by_arrival: bool) -> str:
    """SQL that is true for rows that may come after one at a position (`may_follow`)."""
    return may_follow_sql("pos", pos_literal(pos), by_arrival=by_arrival)


def tied_to(positions: Iterable[Pos], pos: str) -> str:
    """SQL that is true where `pos` has the place of one of the positions in the source's log."""
    places = ", ".join(pos_literal(each[:SOURCE_PART]) for each in positions)
    return f"{source_part(pos)} IN ({places})" if places else "false"


def past_horizon(pos: Pos, batch: int) -> str:
    """SQL that is true for rows that came too late: history below a position was trimmed when
    `batch` was the last one, so what they would need of it is gone."""
    return f"(batch > {batch} AND {below_pos(pos)})"


def up_to_batches(batches: Mapping[SourceTable, int]) -> str:
    """SQL that is true for silver's rows, except for rows of the given source tables above the
    batch of each."""
    above = [f"({of_table(table)} AND batch > {batch})" for table, batch in batches.items()]
    return f"coalesce(NOT ({' OR '.join(above)}), true)" if above else "true"


def among(batches: Collection[int]) -> str:
    """SQL that is true for silver's rows of `batches`, between the first and last of which silver
    has no others.

    The batches are given as a list, of at least two numbers: Spark keeps a list beside the code
    that it generates, while a single number is part of the code, which would be compiled anew for
    each batch. And the numbers of a list are neighbours, since Delta reads all files whose batches
    meet the span of a list, whatever lies within it.
    """
    if not batches or len(batches) > _LISTED:
        return f"batch BETWEEN {min(batches, default=0)} AND {max(batches, default=-1)}"
    if len(batches) == 1:
        (batch,) = batches
        return f"batch IN ({batch}, {batch + 1}) AND batch NOT IN ({batch + 1}, {batch + 2})"
    return f"batch IN ({', '.join(map(str, sorted(batches)))})"


def holds_value(name: str, digits: int | None) -> str:
    """SQL that is true for silver's rows with a value of column `name`, in any case, before or
    after; if `digits` is given, with a plain number that has so many digits behind its point."""
    value = "e.value IS NOT NULL"
    if digits is not None:
        point = f"[.][0-9]{{{digits}}}" if digits else ""
        value = f"e.value RLIKE {sql_text(f'^-?[0-9]+{point}$')}"
    of_column = f"e -> lower(e.key) = {sql_text(name.lower())} AND {value}"
    images = (f"exists(map_entries({image}), {of_column})" for image in ("before", "after"))
    return f"({' OR '.join(f'coalesce({found}, false)' for found in images)})"


def silver_changes(
    silver: str,
    tables: Sequence[SourceTable],
    where: str,
    *,
    renamed: bool = False,
    kind: str = "change",
) -> str:
    """SQL of the changes of one source table in `silver`, under all its names, narrowed by `where`.

    `renamed`: the columns have their names in gold. `kind`: rows of another kind instead.
    """
    names = " OR ".join(f"({of_table(table)})" for table in tables)
    silver = f"({in_gold(silver)})" if renamed else silver
    return (
        f"SELECT * FROM {silver} WHERE source = "
        f"{sql_text(tables[0].source)} AND ({names}) AND kind = {sql_text(kind)} AND {where}"
    )


def truncates(changes: str, *, number: int, above: int) -> str:
    """Where truncates stand, the first time (µs) that each happened, and whether one came in the
    batches `above` a number, or in those before: (number, pos, time, new, old)."""
    return (
        f"SELECT {number} AS number, pos, min(unix_micros(event_time)) AS time, "
        f"max(batch > {above}) AS new, max(batch <= {above}) AS old FROM ({changes}) GROUP BY pos"
    )


def last_batches(silver: str, *, source: str) -> str:
    """The highest batch with changes of each of a source's tables: (db, schema, table, batch)."""
    names = "db, schema, `table`"
    return (
        f"SELECT {names}, max(batch) FROM {silver} WHERE source = {sql_text(source)} "
        f"AND kind = 'change' AND `table` IS NOT NULL GROUP BY {names}"
    )


def newest_batch(silver: str) -> str:
    """The highest batch."""
    return f"SELECT max(batch) FROM {silver}"


def first_of(silver: str, table: SourceTable, where: str) -> str:
    """A row if a source table has one for which `where` is true."""
    own = f"source = {sql_text(table.source)} AND {of_table(table)}"
    return f"SELECT 1 FROM {silver} WHERE {own} AND {where} LIMIT 1"


def columns_among(changes: str, names: Iterable[str]) -> str:
    """Those of the names, in lower case, that are columns of some change."""
    sent = "transform(map_keys(coalesce(after, before, key)), k -> lower(k))"
    wanted = sql_texts(names)
    return f"SELECT DISTINCT explode(array_intersect({sent}, array({wanted}))) FROM ({changes})"


def tables_with_changes(silver: str, where: str) -> str:
    """The source tables with changes for which `where` is true: (source, db, schema, table)."""
    return (
        f"SELECT DISTINCT source, db, schema, table FROM {silver} "
        f"WHERE kind = 'change' AND table IS NOT NULL AND ({where})"
    )


def first_unapplied(silver: str, applied: Mapping[SourceTable, int], *, below: Pos) -> str:
    """A row, if silver has changes below a position that are not applied; `applied`: by name of one
    source's tables, the batch up to which they are."""
    later = " OR ".join(f"({of_table(name)} AND batch > {at})" for name, at in applied.items())
    source = next(iter(applied)).source
    return (
        f"SELECT 1 FROM {silver} WHERE source = {sql_text(source)} AND kind = 'change' "
        f"AND {below_pos(below)} AND ({later}) LIMIT 1"
    )


def above_cursors(cursors: Mapping[str, int]) -> str:
    """True for rows above a batch of their source, and for those of sources without one."""
    if not cursors:
        return "true"
    above = [
        f"(source = {sql_text(source)} AND batch > {batch})" for source, batch in cursors.items()
    ]
    return " OR ".join([*above, f"source NOT IN ({sql_texts(cursors)})"])


def arrivals(silver: str, *, source: str, where: str) -> str:
    """Where messages of a source, narrowed by `where`, were placed: (epoch, topic, partition,
    offset, ms)."""
    return (
        f"SELECT DISTINCT epoch, topic, `partition`, offset, {_ARRIVED} AS ms FROM {silver} "
        f"WHERE source = {sql_text(source)} AND ({where})"
    )


def last_arrivals(silver: str, *, source: str) -> str:
    """How far each partition of a source was decoded: (epoch, topic, partition, offset, ms)."""
    return (
        f"SELECT epoch, topic, `partition`, max(offset), max({_ARRIVED}) FROM {silver} "
        f"WHERE source = {sql_text(source)} GROUP BY ALL"
    )


def changes_per_message(silver: str) -> str:
    """By source, how many changes there are, and of how many messages."""
    return (
        "SELECT source, count_if(kind = 'change'), count_if(`row` = 0) "
        f"FROM {silver} GROUP BY source"
    )
