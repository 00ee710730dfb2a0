"""The groups of pending changes added up: the statistics of a source table over everything it sent.

Spark aggregates only by kind, operation, format and column types. Which of these groups counts for
which figure is decided here, over a few rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from ingest.names import lowered

IMAGES = 64
"""How many lists of column names of a table are kept one by one."""
Group = dict[str, Any]
"""A row of the query on pending changes."""
_OF = ("db", "schema", "table", "part")
_REMOVING = ("delete", "truncate")


def tallied(groups: Iterable[Group]) -> list[Group]:
    """A row a source table and part: the fields of BatchStats, with `logged_first` and
    `logged_last`, `last` (the last batch with changes or statements), `types` (the lists of column
    types, each with where it came first) and `last_key` (the key that was named last)."""
    apart: dict[tuple[Any, ...], list[Group]] = {}
    for group in groups:
        apart.setdefault(tuple(group[name] for name in _OF), []).append(group)
    return [{**dict(zip(_OF[:3], of, strict=False)), **_tally(its)} for of, its in apart.items()]


def schemas(groups: Sequence[Group]) -> Group:
    """What the schema messages among the groups of a table say: `types` and `last_key`."""
    keys = [group["last_key"] for group in groups if group["last_key"] is not None]
    return {
        "types": [group for group in groups if group["came"] is not None],
        "last_key": max(keys)["key_columns"] if keys else None,
    }


def _tally(groups: Sequence[Group]) -> Group:
    changes = [group for group in groups if group["kind"] == "change"]
    rows = [group for group in changes if group["op"] != "truncate"]
    statements = [group for group in groups if group["kind"] == "ddl"]
    truncates = [group for group in groups if group["op"] == "truncate"]
    logged = [*statements, *truncates]
    changed, stated = _highest(changes, "last"), _highest(statements, "last")
    begun = _lowest(changes, "first")
    removed = [group["highest"] for group in groups if group["op"] in _REMOVING]
    return {
        "first": begun if begun is not None else _lowest(statements, "first"),
        "batch": changed if changed is not None else stated,
        "changed": changed,
        "logged_first": _lowest(logged, "first"),
        "logged_last": _highest(logged, "last"),
        "last": max((last for last in (changed, stated) if last is not None), default=None),
        "format": max(groups, key=_newest)["format"],
        "formats": {group["format"] for group in changes} - {None},
        "tenants": {name for group in groups for name in group["tenants"]},
        "changes": _sum(changes, "rows"),
        "ddl": _sum(statements, "rows"),
        "lowest": _lowest(changes, "lowest"),
        "highest": _highest(changes, "highest"),
        "deletes": _sum((group for group in groups if group["op"] == "delete"), "rows"),
        "truncates": _sum(truncates, "rows"),
        "partials": _sum(changes, "partials"),
        "key_changes": _sum(groups, "key_changes"),
        "last_removal": max(
            (pos for pos in (*removed, _highest(groups, "last_key_change")) if pos is not None),
            default=None,
        ),
        "images": _images([group for group in changes if group["op"] != "delete"]),
        "deleted": _images([group for group in changes if group["op"] == "delete"]),
        "key_columns": _distinct(names for group in changes for names in group["key_columns"]),
        "zero_dates": _sum(groups, "zero_dates"),
        "newest": _highest(changes, "newest"),
        "no_ops": _sum(groups, "no_ops"),
        "oldest": _lowest(changes, "oldest"),
        "keyless": _sum(rows, "keyless"),
        "unhashed": _sum(rows, "unhashed"),
        "image_bytes": _sum(groups, "image_bytes"),
        "widest": _highest(groups, "widest"),
        **schemas(groups),
    }


def _images(groups: Sequence[Group]) -> list[Sequence[str]]:
    """The lists of column names. If they are very many: each name by itself, and one of the lists
    that have a name in two spellings."""
    lists = _distinct(names for group in groups for names in group["images"])
    if len(lists) <= IMAGES and not any(group["many"] for group in groups):
        return lists
    twice = (names for names in lists if len(lowered(names)) < len(names))
    return [*_distinct([name] for names in lists for name in names), *list(twice)[:1]]


def _newest(group: Group) -> tuple[bool, int, list[int], str]:
    batch, pos = group["newest_row"]
    # A message without a position comes before those of its batch that have one.
    return group["kind"] == "change", batch, pos or [], group["format"] or ""


def _distinct(lists: Iterable[Sequence[str]]) -> list[Sequence[str]]:
    return list(dict.fromkeys(map(tuple, lists)))


def _sum(groups: Iterable[Group], name: str) -> int:
    return sum(_known(groups, name))


def _lowest(groups: Iterable[Group], name: str) -> Any:
    return min(_known(groups, name), default=None)


def _highest(groups: Iterable[Group], name: str) -> Any:
    return max(_known(groups, name), default=None)


def _known(groups: Iterable[Group], name: str) -> Iterator[Any]:
    return (group[name] for group in groups if group[name] is not None)
