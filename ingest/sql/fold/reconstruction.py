"""The rows that a whole history makes, from the parts that folds give, one for each source table.

A part has the keys as `_k0`…, the columns by their slots, and what gold adds.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from ingest.sql.projection import LEAVES_KEY, NAMED_KEYS, Projection, key_slots, slots, that_fit
from ingest.sql.query import query
from ingest.sql.quoting import quoted, quoted_list, sql_text


def no_rows(types: Mapping[str, str]) -> str:
    """No row, with columns of these types."""
    nulls = [f"CAST(NULL AS {type_}) AS {quoted(name)}" for name, type_ in types.items()]
    return f"SELECT {', '.join(nulls)} WHERE false"


def typed(rows: str, types: Mapping[str, str]) -> str:
    """Rows, each column of its type."""
    listed = (f"CAST({quoted(name)} AS {type_}) AS {quoted(name)}" for name, type_ in types.items())
    return f"SELECT {', '.join(listed)} FROM ({rows})"


def placed(rows: str) -> str:
    """Rows that show their `_pos`, in which the fast way reports what it cannot fold."""
    return f"SELECT * FROM ({rows}) WHERE _pos IS NOT NULL"


def together(
    parts: Sequence[str],
    *,
    keys: Sequence[str],
    columns: Collection[str],
    added: Collection[str],
    source: str,
) -> str:
    """The rows of all parts: the columns by their slots, and what gold adds (`added`)."""
    of_keys = key_slots(keys)
    values = [
        f"{of_keys[name]} AS {slot}" if name in of_keys else slot
        for name, slot in slots(columns).items()
    ]
    ours = [f"{sql_text(source)} AS _source" if name == "_source" else name for name in added]
    listed = ", ".join([*values, *ours])
    return " UNION ALL ".join(f"SELECT {listed} FROM ({part})" for part in parts)


def one_owner(
    rows: str,
    *,
    keys: Sequence[str],
    columns: Collection[str],
    added: Collection[str],
    target: str | None,
) -> str:
    """For a key that several source tables have, only the rows (`together`) of one of them: the one
    from which the `target` has the key or, if it has none or there is no target, the one that
    brought it first. A row that is only marked as deleted gives way to any other; if all are
    marked, it is the target's or, if that has none, the one that was marked last."""
    places = slots(columns)
    listed = ", ".join([*places.values(), *added])
    by_key = f"PARTITION BY {', '.join(f's.{places[key]}' for key in keys)}"
    relations, beside, owner = {"found": rows}, "FROM found s", ""
    if target is not None:
        own = ", ".join(f"{quoted(key)} AS {places[key]}" for key in keys)
        relations["owners"] = (
            f"SELECT {own}, min(_source_table) AS _owner FROM {target} GROUP BY {quoted_list(keys)}"
        )
        on = " AND ".join(f"t.{places[key]} = s.{places[key]}" for key in keys)
        beside += f" LEFT JOIN owners t ON {on}"
        owner = "coalesce(t._owner <> s._source_table, false), "
    first = f"{owner}s._pos"
    if "_deleted_at" in added:
        marked = "s._deleted_at IS NOT NULL"
        first = f"{marked}, {owner}IF({marked}, NULL, s._pos), IF({marked}, s._pos, NULL) DESC"
    return query(
        **relations,
        claimed=f"SELECT s.*, first_value(s._source_table) OVER ({by_key} ORDER BY {first}) "
        f"AS _claim {beside}",
        owned=f"SELECT {listed} FROM claimed WHERE _claim = _source_table",
    )


def several_owners(rows: str, *, keys: Sequence[str]) -> str:
    """A key, as an array of texts, of which several source tables have a current version among the
    rows, and these tables; no row if there is no such key."""
    listed = quoted_list(keys)
    texts = ", ".join(f"CAST({quoted(key)} AS string)" for key in keys)
    return (
        f"SELECT array({texts}), sort_array(collect_set(_source_table)) FROM ({rows}) "
        f"WHERE _current GROUP BY {listed} HAVING count(DISTINCT _source_table) > 1 LIMIT 1"
    )


def with_own_names(rows: str, *, columns: Collection[str], added: Collection[str]) -> str:
    """Rows (`together`) under the names that the target's columns have."""
    names = [f"{slot} AS {quoted(name)}" for name, slot in slots(columns).items()]
    return f"SELECT {', '.join([*names, *added])} FROM ({rows})"


def with_keys(projection: Projection, images: str) -> str:
    """Images, whose keys are columns like any other, as a part."""
    columns = projection.slots
    keys = (f"{columns[name]} AS {key}, " for name, key in projection.key_slots.items())
    return f"SELECT {''.join(keys)}* FROM ({images})"


def changes_of_other_keys(changes: str, projection: Projection, keys: str) -> str:
    """The changes (silver rows, as the target sees them) whose key is not NULL and not among
    `keys`, a relation (`key`)."""
    return query(
        keyed=f"SELECT *, {projection.key_text()} AS _key FROM ({changes})",
        others=f"SELECT c.* EXCEPT (_key) FROM keyed c LEFT ANTI JOIN {keys} o ON o.key = c._key "
        "WHERE c._key IS NOT NULL",
    )


def events_that_fit(events: str, *, among: str | None, linked: str | None) -> str:
    """The events that fit (`that_fit`), each with its group (`component`); with `among`, only those
    of the keys of that relation. `linked`: a relation of all linked keys with their components."""
    found = {
        "events": events,
        "fitting": that_fit("events"),
    }
    chosen = "fitting"
    if among is not None:
        chosen = "chosen"
        found[chosen] = f"SELECT h.* FROM fitting h LEFT SEMI JOIN {among} o ON o.key = h.key"
    if linked is None:
        return query(**found, grouped=f"SELECT *, to_json(key) AS component FROM {chosen}")
    return query(
        **found,
        grouped="SELECT h.*, coalesce(l.component, to_json(h.key)) AS component "
        f"FROM {chosen} h LEFT JOIN {linked} l ON l.key = h.key",
    )


def keys_of_partial_images(events: str) -> str:
    """The keys of events that are partial images, and all keys that changes of the key link to
    them: the base of such an image is an event of one of these keys."""
    return query(
        events=events,
        keys=f"SELECT {NAMED_KEYS} AS key "
        "FROM events WHERE key IS NOT NULL AND (partial OR key_before IS NOT NULL)",
    )


def keys_to_fold_exactly(events: str, *, lacking: int, soft: bool, tied: str) -> str:
    """The keys of events that SQL alone cannot fold: of partial images, of images that lack more
    than `lacking` columns, of changed keys, of events that do not fit. `tied`: SQL that is true for
    events at the place of a truncate."""
    odd = (
        f"partial OR key_before IS NOT NULL OR {LEAVES_KEY} OR size(misfits) > 0 "
        f"OR (op <> 'delete' AND lacks > {lacking}) OR {tied}"
    ) + (" OR op = 'delete'" if soft else "")
    return query(
        events=events,
        odd=f"SELECT {NAMED_KEYS} AS key FROM events WHERE key IS NOT NULL AND ({odd})",
    )
