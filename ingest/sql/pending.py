"""What silver has of a source's tables above a batch: statistics, and the rows that describe their
columns."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from ingest.names import SourceTable
from ingest.position import Pos
from ingest.sql.projection import CHANGES_KEY, LEAVES_KEY, Projection
from ingest.sql.query import query
from ingest.sql.quoting import sql_text, sql_texts
from ingest.sql.sequence import sequence_position
from ingest.sql.silver import above_pos, below_pos, of_table

_WIDTH = " + ".join(
    f"coalesce(octet_length(array_join(map_values({image}), '')), 0)"
    for image in ("before", "after")
)
"""The bytes of a change's values."""
LOWEST = -(2**63) + 1
"""The `oldest` where some change has no time."""
_TWICE = "size(array_distinct(transform(i, n -> lower(n)))) < size(i)"
_BY_SCHEMA = """min(struct(batch, `partition`, offset)) FILTER (WHERE kind = 'schema') AS came,
  min_by(columns, struct(batch, `partition`, offset)) FILTER (WHERE kind = 'schema') AS columns,
  max(struct(batch, offset, `partition`, key_columns)) FILTER (WHERE kind <> 'change'
    AND size(key_columns) > 0) AS last_key"""
"""What messages of schemas say of a table: its columns' types, its key."""
_TABLE = "db, schema, `table`"


def _of_images(tenants: Collection[str]) -> str:
    """The figures of images that are worked out before anything is grouped, so that they are
    compiled together with the reading of the files, and no image has to be passed on."""
    either = sql_texts(tenants)
    return f"""({CHANGES_KEY} OR {LEAVES_KEY}) AS changes_key,
  IF(kind = 'change', map_keys(coalesce(after, before)), NULL) AS names,
  {_WIDTH} AS width, op = 'update' AND map_values(before) = map_values(after) AS no_op,
  unix_micros(event_time) AS happened,
  IF(format IN ({either}), extra['tenant'], NULL) AS tenant"""


def _listed(images: int) -> str:
    """If there are very many lists of names (`met`): each name, and a list with a name in two
    spellings."""
    return f"""IF(size(met) <= {images}, met, concat(transform(array_distinct(flatten(met)),
    n -> array(n)), slice(filter(met, i -> {_TWICE}), 1, 1)))"""


def part(apart: Mapping[SourceTable, int], above: int | None) -> str:
    """Which part of its table's batches a row belongs to: whether it lies above the batch that is
    given for all tables, if there is one, and above the batch that is given for its own."""
    parts = [f"CAST(batch > {above} AS int)"] if above is not None else []
    if apart:
        cases = " ".join(
            f"WHEN {of_table(table)} THEN CAST(batch > {batch} AS int)"
            for table, batch in apart.items()
        )
        parts.append(f"CASE {cases} ELSE 0 END")
    return " + 2 * ".join(parts) or "0"


def statistics(silver: str, where: str, *, part: str, images: int, tenants: Collection[str]) -> str:
    """Rows by table, part, schema, kind, operation and format, with their figures. `images`: how
    many lists of names are told one by one; `tenants`: the formats that name a tenant.

    Silver's rows are grouped by what tells them apart, instead of each figure having a condition of
    its own, and they are grouped once: Spark then has half as much to plan for every batch.
    """
    groups = f"{_TABLE}, part, schema_id, kind, op, format"
    return query(
        pending=f"SELECT *, {part} AS part, {_of_images(tenants)} FROM {silver} "
        f"WHERE {where} AND kind IN ('change', 'ddl', 'schema')",
        grouped=f"""SELECT {groups},
  count(1) AS rows, min(batch) AS first, max(batch) AS last, min(pos) AS lowest,
  max(pos) AS highest, max(struct(batch, pos)) AS newest_row, collect_set(tenant) AS tenants,
  count_if(after_image = 'partial') AS partials, count_if(changes_key) AS key_changes,
  max(IF(changes_key, pos, NULL)) AS last_key_change, collect_set(names) AS met,
  collect_set(key_columns) AS key_columns,
  count_if(array_contains(warnings, 'zero_date')) AS zero_dates,
  max(happened) AS newest, min(coalesce(happened, {LOWEST})) AS oldest,
  count_if(no_op) AS no_ops, count_if(key_columns IS NULL) AS keyless,
  count_if(key_hash IS NULL) AS unhashed, sum(width) AS image_bytes, max(width) AS widest,
  {_BY_SCHEMA}
FROM pending GROUP BY {groups}""",
        listed=f"SELECT * EXCEPT (met), size(met) > {images} AS many, "
        f"{_listed(images)} AS images FROM grouped",
    )


def changes_of_batches(silver: str, *, source: str, batches: str) -> str:
    """The changes of a source in silver's batches (SQL that is true for their rows), in one part:
    who folds them needs no shuffle."""
    where = f"source = {sql_text(source)} AND kind = 'change' AND {batches}"
    return f"SELECT /*+ COALESCE(1) */ * FROM {silver} WHERE {where}"


def schema_hints(silver: str, where: str) -> str:
    """What messages of schemas say of tables, a row a schema."""
    return (
        f"SELECT {_TABLE}, schema_id, {_BY_SCHEMA} FROM {silver} "
        f"WHERE {where} AND kind IN ('ddl', 'schema') GROUP BY {_TABLE}, schema_id"
    )


def key_changes(projection: Projection, changes: str, *, number: int) -> str:
    """A row with the `number` of a table: how many of its changes gave their rows other keys, or
    are a half of such a change, and the highest position of one."""
    return (
        f"SELECT {number} AS number, count(*) AS key_changes, max(pos) AS top FROM ({changes}) "
        f"WHERE {projection.changes_key} OR {LEAVES_KEY}"
    )


def sequence_positions(projection: Projection, changes: str, *, number: int) -> str:
    """A row with the `number` of a table: the lowest and the highest place of its changes in the
    order of the projection's `sequence`, that of the last removal, and how many have none
    (`missing`)."""
    voids = str(projection.truncates).lower()
    return query(
        placed=f"SELECT *, {sequence_position(projection)} AS p FROM ({changes})",
        listed=f"SELECT {number} AS number, min(p) AS lowest, max(p) AS highest, "
        "count_if(p IS NULL) AS missing, "
        f"max(p) FILTER (WHERE op = 'delete' OR {projection.may_change_key}) AS last_removal "
        f"FROM placed WHERE op <> 'truncate' OR {voids}",
    )


def between(above: Pos, below: Pos | None) -> str:
    """True for rows above a position, and below another one where that is given."""
    return above_pos(above) + (f" AND {below_pos(below)}" if below is not None else "")


def of_tables(tables: Collection[SourceTable]) -> str:
    """True for rows of these tables of one source; for all of it where there are none."""
    either = " OR ".join(f"({of_table(table)})" for table in tables)
    return f"({either})" if either else "true"
