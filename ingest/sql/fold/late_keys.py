"""Which keys of a batch come late, as SQL: what is stored of them, how they were judged, and what
earlier changes say of them (`ingest.fold.lateness`).

A relation of results has the columns of `ingest.fold.arrow`; in all relations a key is an array of
texts.
"""

from __future__ import annotations

from collections.abc import Sequence

from ingest.identity import identity_sql
from ingest.position import Pos, may_follow_sql, pos_literal
from ingest.sql.casts import as_text
from ingest.sql.projection import NAMED_KEYS, Projection, events, key_bytes
from ingest.sql.query import query
from ingest.sql.quoting import quoted, sql_text, sql_texts
from ingest.sql.silver import tied_to


def stored_rows(target: str, projection: Projection, *, soft: bool) -> str:
    """The target's keys, with each row's position and source table.

    `marked`: the row is a soft-deleted one. `of_another`: another source table brought it.
    """
    marked = "_deleted_at IS NOT NULL" if soft else "false"
    return (
        f"SELECT {_key_of_row(projection)} AS key, _pos, _source_table, {marked} AS marked, "
        f"NOT {_own(projection)} AS of_another FROM {target}"
    )


def held_by_others(target: str, projection: Projection, *, soft: bool, versions: bool) -> str:
    """The keys whose rows another source table holds: (key, _source_table, _pos)."""
    return query(
        held=f"SELECT * FROM {target}{' WHERE _current' if versions else ''}",
        stored=stored_rows("held", projection, soft=soft and not versions),
        of_others="SELECT key, _source_table, _pos FROM stored WHERE NOT marked AND of_another",
    )


def those_held(held: str, *, keys: str) -> str:
    """Those of `keys`, a relation, that are among the keys `held` (SQL with a column `key`)."""
    return query(
        held=held,
        those=f"SELECT k.key FROM {keys} k LEFT SEMI JOIN held h ON h.key = k.key",
    )


def stored_versions(target: str, projection: Projection, *, changes: str) -> str:
    """What is stored of the keys of events: where the newest version of each began, and the open
    one."""
    return query(
        versions=f"SELECT {_key_of_row(projection)} AS key, _pos, _current "
        f"FROM {target} WHERE {_own(projection)}",
        changed=f"SELECT key FROM ({changes})",
        stored="SELECT v.key, max(_pos) AS newest, max(_pos) FILTER (WHERE _current) AS opened "
        "FROM versions v LEFT SEMI JOIN changed c ON c.key = v.key GROUP BY v.key",
    )


def versions_below(target: str, projection: Projection, *, truncate: Pos, above: str | None) -> str:
    """The keys that have versions below a truncate; with `above` (SQL of silver's rows), only those
    that events there name."""
    below = (
        f"SELECT DISTINCT {_key_of_row(projection)} AS key FROM {target} "
        f"WHERE _pos < {pos_literal(truncate)} AND {_own(projection)}"
    )
    if above is None:
        return below
    return query(
        below=below,
        above=events(projection, above),
        named=f"SELECT {NAMED_KEYS} AS key FROM above",
        put_back="SELECT b.key FROM below b LEFT SEMI JOIN named n ON n.key = b.key",
    )


def rows_below(stored: str, projection: Projection, *, below: str, above: str) -> str:
    """The keys of those rows `stored` for which `below` is true, if there are events of the key in
    `above` (SQL of silver's rows)."""
    return query(
        stored=f"SELECT * FROM ({stored}) WHERE {below}",
        above=events(projection, above),
        put_back="SELECT DISTINCT s.key FROM above a JOIN stored s ON s.key = a.key",
    )


def keys_named(projection: Projection, changes: str) -> str:
    """The keys that changes (SQL of silver's rows) name."""
    return query(
        changed=events(projection, changes),
        named=f"SELECT {NAMED_KEYS} AS key FROM changed",
        known="SELECT DISTINCT key FROM named WHERE key IS NOT NULL",
    )


def rows_above(stored: str, below: str) -> str:
    """The rows `stored` for which `below` is not true."""
    return f"SELECT * FROM ({stored}) WHERE NOT ({below})"


def any_above(stored: str, below: str) -> str:
    """A row, if `below` is not true for some row `stored` that the source table brought."""
    return f"SELECT 1 FROM ({stored}) WHERE NOT of_another AND NOT ({below}) LIMIT 1"


def rows_at(stored: str, positions: Sequence[Pos], *, by_arrival: bool) -> str:
    """The keys of the rows `stored` that stand at these positions, or at the position of a copy of
    what stands there."""
    there = f"_pos IN ({', '.join(map(pos_literal, positions))})"
    return f"SELECT key FROM ({stored}) WHERE {there if by_arrival else tied_to(positions, '_pos')}"


def without_copies(
    changes: str, earlier: str, *, by_arrival: bool, digest: str, kept: str = "false"
) -> str:
    """The changes, rows of silver or events, without copies of changes in `earlier` (SQL of
    silver's rows).

    A copy stays if it stands lower than the earlier change, or has the before image that this
    lacks. `digest`: the column with the hash of what happened. `kept`: SQL that is true for changes
    `c` that stay in any case.
    """
    copy = "k.lowest <= c.pos AND (c.before IS NULL OR k.joined)"
    return query(
        known=f"SELECT {identity_sql(by_arrival)} AS change, min(pos) AS lowest, "
        f"bool_or(before IS NOT NULL) AS joined FROM ({earlier}) GROUP BY change",
        changes=f"SELECT *, {identity_sql(by_arrival, digest)} AS change FROM ({changes})",
        new="SELECT c.* FROM changes c LEFT JOIN known k ON k.change = c.change "
        f"WHERE {kept} OR NOT coalesce({copy}, false)",
    )


def to_judge(events: str, stored: str, *, columns: str, others: str | None) -> str:
    """Events with the `columns` of what is `stored` of their keys, their `component`, and whether
    each `fits`: its values fit, and none of `others`, the rows that other source tables hold, has
    its key."""
    fits = "e.key IS NOT NULL AND size(e.misfits) = 0"
    found = {"events": events, "stored": stored}
    beside = "FROM events e LEFT JOIN stored t ON t.key = e.key"
    if others is not None:
        found["others"] = others
        beside += " LEFT JOIN others o ON o.key = e.key"
        fits += " AND o.key IS NULL"
    return query(
        **found,
        judged=f"SELECT e.*, to_json(e.key) AS component, {columns}, {fits} AS fits {beside}",
    )


def named_verdicts(
    results: str, *, kinds: Sequence[str], named: Sequence[str], most: int, bytes_most: int
) -> str:
    """Results of some `kinds`, counted. For the kinds `named`, one row for each key: at most `most`
    and one more, with a NULL key if it has more than `bytes_most`. For the others, one row for each
    kind. Rows without a key come first."""
    by_key = f"kind IN ({sql_texts(named)}) AND {key_bytes('key')} <= {bytes_most}"
    columns = ", ".join(f"IF({by_key}, {name}, NULL) AS {name}" for name in ("key", "pos", "whole"))
    return query(
        results=f"SELECT kind, {columns}, stale FROM {results} WHERE kind IN ({sql_texts(kinds)})",
        verdicts="SELECT kind, key, pos, whole, sum(stale) AS stale FROM results "
        "GROUP BY kind, key, pos, whole ORDER BY key IS NOT NULL "
        f"LIMIT {most + len({*kinds} - {*named}) + 1}",
    )


def of_kinds(results: str, kinds: Sequence[str], columns: str = "*") -> str:
    """The results of some kinds."""
    return f"SELECT {columns} FROM {results} WHERE kind IN ({sql_texts(kinds)})"


def keys_of(results: str) -> str:
    """The keys of results, each once."""
    return f"SELECT DISTINCT key FROM {results}"


def without_keys(results: str, keys: str) -> str:
    """The results without those of some keys, a relation."""
    return f"SELECT r.* FROM {results} r LEFT ANTI JOIN {keys} k ON k.key = r.key"


def few_keys(keys: str, *, most: int, bytes_most: int) -> str:
    """The keys that SQL gives, each once: at most `most` and one more; NULL for a key of more than
    `bytes_most` bytes."""
    return query(
        first_ones=f"SELECT DISTINCT key FROM ({keys}) LIMIT {most + 1}",
        few=f"SELECT IF({key_bytes('key')} > {bytes_most}, NULL, key) FROM first_ones",
    )


def named_above(projection: Projection, keys: str, *, earlier: str) -> str:
    """Those of the keys, a relation (`key`, `pos`), that are named by a change in `earlier` (SQL of
    silver's rows) which may come after their position."""
    follows = may_follow_sql("n.pos", "k.pos", by_arrival=projection.by_arrival)
    return query(
        earlier=events(projection, earlier),
        named=f"SELECT {NAMED_KEYS} AS key, pos FROM earlier",
        late=f"SELECT DISTINCT k.key FROM {keys} k JOIN named n ON n.key = k.key AND {follows}",
    )


def with_groups(found: str, linked: str | None) -> str:
    """The keys `found`, a relation, with all keys that changes of the key link to them, each with
    its `component`. `linked`: a relation of all linked keys with their components."""
    if linked is None:
        return f"SELECT key, to_json(key) AS component FROM {found}"
    return query(
        met=f"SELECT l.component FROM {linked} l LEFT SEMI JOIN {found} f ON f.key = l.key",
        together="SELECT l.key, l.component "
        f"FROM {linked} l LEFT SEMI JOIN met m ON m.component = l.component",
        alone="SELECT f.key, to_json(f.key) AS component "
        f"FROM {found} f LEFT ANTI JOIN {linked} l ON l.key = f.key",
        grouped="SELECT * FROM alone UNION ALL SELECT * FROM together",
    )


def late_relation(grouped: str, *, found: str, brought: str) -> str:
    """Keys with their groups; whether the batch `brought` each (SQL of its keys), and whether each
    is `late` by itself, which means among those `found`, a relation."""
    return query(
        grouped=grouped,
        of_batch=brought,
        late="SELECT g.key, g.component, b.key IS NOT NULL AS brought, f.key IS NOT NULL AS late "
        f"FROM grouped g LEFT JOIN of_batch b ON b.key = g.key LEFT JOIN {found} f "
        "ON f.key = g.key",
    )


def highest(results: str) -> str:
    """A row: the highest position of results, a relation."""
    return f"SELECT max(pos) FROM {results}"


def number_of(late: str) -> str:
    """A row: how many keys `late_relation` gave, a relation, and how many of them are late."""
    return f"SELECT count(*), count_if(late) FROM {late}"


def counts_of_refolded(results: str, late: str) -> str:
    """A row about the results of late keys; both are relations. How many states there are, and how
    many of them leave a row; the highest position of a partial image without a base; how many of
    the keys that the batch brought have no result, and one of these keys."""
    return query(
        by_key="SELECT key, count_if(kind = 'state') AS states, "
        "count_if(kind = 'state' AND NOT gone) AS rows_left, "
        f"max(IF(kind = 'baseless', pos, NULL)) AS last_baseless FROM {results} GROUP BY key",
        of_late="SELECT l.key, l.brought AND r.key IS NULL AS lost, "
        f"r.states, r.rows_left, r.last_baseless FROM {late} l LEFT JOIN by_key r ON r.key = l.key",
        counted="SELECT coalesce(sum(states), 0), coalesce(sum(rows_left), 0), max(last_baseless), "
        "count_if(lost), min(IF(lost, key, NULL)) FROM of_late",
    )


def _key_of_row(projection: Projection) -> str:
    parts = ", ".join(as_text(quoted(key), projection.columns[key]) for key in projection.keys)
    return f"array({parts})"


def _own(projection: Projection) -> str:
    return f"_source_table = {sql_text(projection.label)}"
