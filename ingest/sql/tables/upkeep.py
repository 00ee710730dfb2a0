"""Statements on a table's files and log: to look at them, compact them and clean them up."""

from __future__ import annotations

from collections.abc import Sequence

from ingest.sql.query import query
from ingest.sql.quoting import quoted_list, sql_text


def history(table: str, *, most: int | None = None) -> str:
    """The commits, the newest first, at most so many."""
    return f"DESCRIBE HISTORY {table}" + ("" if most is None else f" LIMIT {most}")


def version_of(table: str, version: int) -> str:
    """The table as it was at a version, to stand in the place of its name."""
    return f"{table} VERSION AS OF {version}"


def detail(table: str) -> str:
    """A row on the table: `numFiles`, `sizeInBytes` and others."""
    return f"DESCRIBE DETAIL {table}"


def file_sizes(table: str, source: str | None) -> str:
    """The `size` of each file that has rows, of one source if it is given."""
    return (
        f"SELECT _metadata.file_size AS size FROM {table}{_of(source)} "
        "GROUP BY _metadata.file_path, _metadata.file_size"
    )


def optimize(table: str, *, source: str | None = None, cluster: Sequence[str] = ()) -> str:
    """Compact small files, of one source if it is given, so that rows with near values of the
    columns `cluster` lie beside each other."""
    by = f" ZORDER BY ({quoted_list(cluster)})" if cluster else ""
    return f"OPTIMIZE {table}{_of(source)}{by}"


def vacuum(table: str, *, all_: bool = False) -> str:
    """Remove files that the table has not used for a week or, with `all_`, does not use now."""
    return f"VACUUM {table}" + (" RETAIN 0 HOURS" if all_ else "")


def purge(table: str) -> str:
    """Rewrite files that have rows which are only marked as deleted."""
    return f"REORG TABLE {table} APPLY (PURGE)"


def _of(source: str | None) -> str:
    return "" if source is None else f" WHERE source = {sql_text(source)}"


def past_progress(progress: str, *, before: str) -> str:
    """Records of progress from `before` a moment (SQL) that are not the newest of their source and
    target: (source, target, version)."""
    newest = "max(version) OVER (PARTITION BY source, target) AS newest"
    return query(
        records=f"SELECT source, target, version, at, {newest} FROM {progress}",
        past="SELECT source, target, version FROM records "
        f"WHERE version < newest AND at < {before}",
    )


def without_progress(progress: str, past: str) -> str:
    """The MERGE that deletes records of progress (SQL of `past_progress`)."""
    return (
        f"MERGE INTO {progress} p USING ({past}) d ON p.source = d.source "
        "AND p.target = d.target AND p.version = d.version WHEN MATCHED THEN DELETE"
    )
