"""All history of one source table, folded: quickly where one query of SQL is the fold.

The result has the target's keys as `_k0`…, its columns and what gold adds, whichever way it keeps
them: rows as they are, versions, or every image. Rows as they are come from SQL alone for keys that
have whole images only, with all the columns there are, and never changed; where few others are,
those alone go event by event through `ingest.fold` in Spark's workers, else all do.
"""

from __future__ import annotations

import pyarrow as pa

from ingest import append, trail
from ingest.fold import Key
from ingest.kin import linked
from ingest.latest import latest
from ingest.refold import OUTPUT, Run, fold_batches
from ingest.shape import column, events
from pipelines.key_history import array_of, moves
from pipelines.versions_table import Versions
from pipelines.work import Work

_ODD_MOST = 100_000
"""Keys that are looked after one by one; more, and all are."""


def quick_fold(work: Work) -> str | None:
    """SQL of all rows, most of them folded in SQL; None where too few could be.

    It raises SURPRISE where the newest change of a key was delivered more than once.
    """
    if work.mode == "append":
        return None
    if work.mode == "scd2":
        return Versions(work).of_batches() if work.whole else None
    folded = _quick_states(work)
    return None if folded is None else f"SELECT * FROM ({folded}) WHERE NOT _gone"


def sure_fold(work: Work) -> str:
    """SQL of all rows, folded event by event where that matters."""
    if work.mode == "append":
        rows = append.rows(work.shape, work.history(append.IMAGES), checked=False)
        keys = "".join(f"{column(key)} AS _k{i}, " for i, key in enumerate(work.shape.keys))
        return f"SELECT {keys}* FROM ({rows})"
    if work.mode == "scd2":
        versions = Versions(work)
        run = trail.retrace(by_arrival=work.shape.by_arrival, truncates=versions.truncates)
        return versions.of_history(f"(SELECT * FROM {_folded(work, run)} WHERE kind = 'state')")
    return f"SELECT * FROM ({_sure_states(work)}) WHERE NOT _gone"


def _quick_states(work: Work) -> str | None:
    if work.whole:
        return work.listed(latest(work.shape, work.changes(), sets=work.sets))
    odd = _odd_keys(work) if not work.reread else None
    if odd is None:
        return None
    keys = work.view(pa.table({"key": pa.array(odd, pa.list_(pa.string()))}))
    text = work.shape.key_text()
    plain = (
        f"SELECT c.* EXCEPT (_key) FROM (SELECT *, {text} AS _key FROM ({work.changes()})) c "
        f"LEFT ANTI JOIN {keys} o ON o.key = c._key WHERE c._key IS NOT NULL"
    )
    folded = work.listed(latest(work.shape, plain, sets=work.sets))
    if not odd:
        return folded
    return f"SELECT * FROM ({folded}) UNION ALL SELECT * FROM ({_sure_states(work, keys)})"


def _sure_states(work: Work, among: str | None = None) -> str:
    """The states of all keys, or those of the relation `among`."""
    run = fold_batches(soft=work.soft, by_arrival=work.shape.by_arrival, truncates=work.truncates())
    folded = _folded(work, run, among)
    return work.typed_states(f"{folded} WHERE kind = 'state' AND NOT gone", exact=True)


def _folded(work: Work, run: Run, among: str | None = None) -> str:
    """A relation of what `run` gives of the history of all keys, or those of `among`."""
    session = work.warehouse.session
    listed = events(work.shape, work.history("op <> 'truncate'"))
    chosen = f"SELECT h.* FROM ({listed}) h WHERE h.key IS NOT NULL AND size(h.misfits) = 0"
    if among is not None:
        chosen = f"SELECT h.* FROM ({chosen}) h LEFT SEMI JOIN {among} o ON o.key = h.key"
    linked_keys = _components(work)
    if linked_keys:
        groups = pa.table(
            {
                "key": array_of(linked_keys),
                "component": pa.array([str(number) for number in linked_keys.values()]),
            }
        )
        chosen = (
            f"SELECT /*+ BROADCAST(l) */ h.*, coalesce(l.component, to_json(h.key)) AS component "
            f"FROM ({chosen}) h LEFT JOIN {work.view(groups)} l ON l.key = h.key"
        )
    else:
        chosen = f"SELECT *, to_json(key) AS component FROM ({chosen})"
    spread = session.sql(chosen).repartition("component").sortWithinPartitions("component")
    return work.view(spread.mapInArrow(run, OUTPUT))


def _odd_keys(work: Work) -> list[list[str]] | None:
    """The keys that SQL alone cannot fold; None where there are too many to name."""
    few = work.total("partials") + work.total("moves")
    few += work.total("deletes") if work.soft else 0
    if few > _ODD_MOST:
        return None
    lacking = len(work.shape.columns) - len(work.sets)
    odd = (
        "partial OR key_before IS NOT NULL OR size(misfits) > 0 "
        f"OR (op <> 'delete' AND lacks > {lacking}) OR (op = 'delete' AND {str(work.soft).lower()})"
    )
    # Truncates mark the rows that were there where deletes are soft: which ones, the fold knows.
    if work.soft and work.cuts:
        return None
    changed = events(work.shape, work.changes())
    found = work.warehouse.session.sql(
        "SELECT DISTINCT explode(IF(key_before IS NULL, array(key), array(key, key_before))) "
        f"AS key FROM ({changed}) WHERE key IS NOT NULL AND ({odd}) LIMIT {_ODD_MOST + 1}"
    ).toArrow()
    keys = found["key"].to_pylist()
    return keys if len(keys) <= _ODD_MOST else None


def _components(work: Work) -> dict[Key, int]:
    """The keys that key changes link, each with its group's number."""
    if not work.total("moves"):
        return {}
    pairs = moves(work)
    return linked({key for pair in pairs for key in pair}, pairs)
