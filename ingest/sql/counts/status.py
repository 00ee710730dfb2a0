"""The figures of `ingest status`, by source and by target."""

from __future__ import annotations

from collections.abc import Collection

from ingest.codes import Code
from ingest.position import EPOCH
from ingest.sql.delivery import MESSAGE, origin
from ingest.sql.query import query, select, union_all
from ingest.sql.quoting import sql_text, sql_texts
from ingest.sql.rejects.rows import DECODE_ID

GAP = "kind = 'control' AND op_raw = 'gap'"


def by_source(relation: str) -> str:
    """How many rows a relation has: (source, n)."""
    return f"SELECT source, count(*) AS n FROM {relation} GROUP BY source"


def decoded_and_gaps(silver: str) -> str:
    """How many rows of the table `silver` come from messages that could be decoded, and how many
    are gaps: (source, decoded, gaps)."""
    return (
        f"SELECT source, count_if(kind <> 'reject' AND NOT coalesce({GAP}, false)) AS decoded, "
        f"count_if({GAP}) AS gaps FROM {silver} GROUP BY source"
    )


def decoded_changes(silver: str, source: str) -> str:
    """The changes of a source, or of a part of it, in the table `silver`."""
    return select(silver, f"source = {sql_text(source)} AND kind IN ('change', 'fragment')")


def messages_known(relations: Collection[str]) -> str:
    """How many different messages some tables know together: (source, n).

    Offsets are counted, in bitmaps: exactly, and without memory of their own.
    """
    names = f"source, {origin(names=MESSAGE)}"
    return query(
        messages=union_all(f"SELECT {names} FROM {relation}" for relation in relations),
        bitmaps="SELECT source, bitmap_construct_agg(bitmap_bit_position(offset)) AS bits "
        "FROM messages GROUP BY source, epoch, topic, `partition`, bitmap_bucket_number(offset)",
        counted="SELECT source, sum(bitmap_count(bits)) AS n FROM bitmaps GROUP BY source",
    )


def open_decode_rejects(silver: str, rejects: str | None) -> str:
    """How many rejects of the table `silver` are neither resolved nor dismissed in the table
    `rejects`: (source, n)."""
    found = {
        "rejects": f"SELECT DISTINCT source, {DECODE_ID} AS id FROM {silver} WHERE kind = 'reject'"
    }
    if rejects is None:
        return query(**found, counted=by_source("rejects"))
    return query(
        **found,
        closed=f"SELECT id FROM {rejects} WHERE status <> 'open'",
        opened="SELECT s.* FROM rejects s LEFT ANTI JOIN closed r ON r.id = s.id",
        counted=by_source("opened"),
    )


def stepped_back(silver: str, sources: Collection[str]) -> str:
    """How many messages of some sources came with a timestamp that is not their place: (source,
    n)."""
    names = sql_texts(sorted(sources))
    code = sql_text(Code.CLOCK_STEPPED_BACK.value)
    return (
        f"SELECT source, count(DISTINCT {origin(names=MESSAGE)}) AS n FROM {silver} "
        f"WHERE source IN ({names}) AND array_contains(warnings, {code}) GROUP BY source"
    )


def gaps(silver: str, *, most: int) -> str:
    """The newest gaps: (source, topic, partition, offsets)."""
    return (
        f"SELECT source, topic, `partition`, extra['offsets'] AS offsets FROM {silver} "
        f"WHERE {GAP} ORDER BY batch DESC, offset DESC LIMIT {most}"
    )


def open_rejects(rejects: str) -> str:
    """How many rejects are open: (target, n)."""
    return query(
        newest="SELECT target, max_by(status, version) AS status "
        f"FROM {rejects} GROUP BY id, target",
        counted="SELECT target, count(*) AS n FROM newest WHERE status = 'open' GROUP BY target",
    )


def last_runs(progress: str, *, but: str) -> str:
    """The newest row of each target except one: (target, source, status, error, last_pos,
    freshness, state, late), `late` being the sum of all its runs."""
    last = "struct(source, status, error, last_pos, freshness, state)"
    return query(
        by_target=f"SELECT target, sum(late + stale) AS late, max_by({last}, version) AS last "
        f"FROM {progress} WHERE target <> {sql_text(but)} GROUP BY target",
        runs="SELECT target, last.*, late FROM by_target",
    )


def rows_of_epochs(target: str, *, below: int) -> str:
    """A row: how many rows a target has, and how many of them are of epochs `below` one."""
    old = f"count_if(element_at(_pos, {EPOCH}) < {below})" if below else "0"
    return f"SELECT count(*), {old} FROM {target}"
