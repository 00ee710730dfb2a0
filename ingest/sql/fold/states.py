"""The results of folds (`ingest.fold.arrow`) as the source of a MERGE; see
`ingest.sql.fold.merge`."""

from __future__ import annotations

from collections.abc import Sequence

from ingest.sql.casts import from_text, typed
from ingest.sql.projection import Projection
from ingest.sql.quoting import sql_text, sql_texts


def _typed_key(projection: Projection) -> str:
    """The key columns of results, `_k0`…."""
    return ", ".join(
        f"{from_text(f'key[{place}]', projection.columns[name])} AS {key}"
        for place, (name, key) in enumerate(projection.key_slots.items())
    )


def typed_keys(projection: Projection, results: str) -> str:
    """The keys of results, each once: `_k0`…."""
    return f"SELECT DISTINCT {_typed_key(projection)} FROM {results}"


def typed_states(projection: Projection, states: str, *, exact: bool) -> str:
    """States, a relation of results, as rows of the MERGE."""
    slots = projection.slots
    values = "".join(
        f"{typed(f'row[{sql_text(name)}]', type_, projection.zone)} AS {slots[name]}, "
        for name, type_ in projection.columns.items()
    )
    return (
        f"SELECT {_typed_key(projection)}, {values}gone AS _gone, "
        f"timestamp_micros(event_time) AS _event_time, pos AS _pos, "
        f"{str(exact).lower()} AS _exact, whole AS _whole, sets AS _sets, "
        f"label AS _source_table, timestamp_micros(deleted_at) AS _deleted_at FROM {states}"
    )


def no_states(projection: Projection, states: str) -> str:
    """No row at all, for a MERGE that only truncates; `states`: a relation of some states."""
    return f"{typed_states(projection, states, exact=True)} WHERE false"


def leaving_rows(states: str) -> str:
    """Those states that leave a row behind, as a relation for `typed_states`."""
    return f"{states} WHERE kind = 'state' AND NOT gone"


def as_states(projection: Projection, rows: str, *, sets: Sequence[str]) -> str:
    """Rows of `ingest.sql.fold.latest`, which have the columns `sets`, with all columns of
    `typed_states`; those that they lack are NULL."""
    keys = ", ".join(projection.key_slots.values())
    slots = projection.slots
    values = "".join(
        f"{slots[name] if name in sets else f'CAST(NULL AS {type_})'} AS {slots[name]}, "
        for name, type_ in projection.columns.items()
    )
    names = f"array({sql_texts(sets)})"
    return (
        f"SELECT {keys}, {values}_gone, _event_time, _pos, _exact, _whole, {names} AS _sets, "
        f"_source_table, _deleted_at FROM ({rows})"
    )


def not_gone(rows: str) -> str:
    """The rows that are not gone."""
    return f"SELECT * FROM ({rows}) WHERE NOT _gone"
