"""The rows that are to be erased (`pipelines.privacy.person`): what silver has under a key in its
spans.

A relation of spans has (label, key, first, last): between the positions `first` and `last` the key
is the person's. A relation of the person's rows has a delivery's columns and `mine`.
"""

from __future__ import annotations

from ingest.sql.delivery import MESSAGE, origin, same
from ingest.sql.query import query, select
from ingest.sql.quoting import sql_text

LOST_BYTES = "its message held a person who was erased"
"""How the error of a reject begins after the reject has lost the bytes of its message."""
_MAPS = ("before", "after", "key", "key_before")


def changes_of_keys(events: str, keys: str) -> str:
    """The events that give rows other keys, from or to those of a relation (`key`), in order: (key,
    key_before, pos, tx, before, image)."""
    return query(
        events=events,
        moved="SELECT e.key, e.key_before, e.pos, e.tx, e.before, e.image "
        f"FROM events e JOIN {keys} k ON k.key = e.key OR k.key = e.key_before "
        "WHERE e.key_before IS NOT NULL ORDER BY e.pos",
    )


def within(events: str, changes: str, *, spans: str, most: int) -> str:
    """The events within the spans, at most so many: their deliveries, and the `texts` of the
    changes (silver rows) that they are made of."""
    inside = "(h.first IS NULL OR h.first <= e.pos) AND (h.last IS NULL OR e.pos <= h.last)"
    return query(
        changes=changes,
        sent=f"SELECT {origin()}, {_texts()} AS texts FROM changes",
        events=events,
        keyed=f"SELECT e.key, e.pos, {origin('e')}, s.texts "
        f"FROM events e JOIN sent s ON {same('e', 's')}",
        within=f"SELECT {origin('e')}, e.texts FROM keyed e JOIN {spans} h ON h.key = e.key "
        f"AND {inside} LIMIT {most}",
    )


def _texts(alias: str = "") -> str:
    """All texts in a row's images and keys, in one list."""
    values = (f"coalesce(map_values({alias}{name}), array())" for name in _MAPS)
    return f"concat({', '.join(values)})"


def rejects_of_messages(silver: str, held: str, *, source: str) -> str:
    """Silver's rejects for the messages of a relation with a message's or a delivery's columns;
    rejects that have already lost their bytes are left out."""
    own = f"source = {sql_text(source)} AND kind = 'reject'"
    lost = f"startswith(coalesce(error, ''), {sql_text(LOST_BYTES)})"
    return query(
        rejects=select(silver, f"{own} AND NOT {lost}"),
        found=f"SELECT DISTINCT {origin('s')} FROM rejects s "
        f"JOIN {held} m ON {same('s', 'm', MESSAGE)}",
    )


def shards_of_transactions(silver: str, held: str, *, source: str) -> str:
    """The shards of large messages (OceanBase) that belong to the transactions of the person's
    rows, a relation."""
    own = f"source = {sql_text(source)} AND format = 'ob_avro'"
    return query(
        changes=select(silver, f"{own} AND kind = 'change' AND tx_id IS NOT NULL"),
        transactions="SELECT DISTINCT s.topic, s.`partition`, s.tx_id "
        f"FROM changes s JOIN {held} m ON {same('s', 'm')}",
        fragments=select(silver, f"{own} AND kind = 'fragment'"),
        shards=f"SELECT DISTINCT {origin('s')} FROM fragments s JOIN transactions t "
        "ON t.topic = s.topic AND t.`partition` = s.`partition` AND t.tx_id = s.tx_id",
    )


def texts_of_others(silver: str, held: str, *, asked: str, source: str) -> str:
    """Those of the texts `asked`, a relation (`text`), that also stand in rows of silver other than
    the person's rows `held`."""
    mine = f"s.source = {sql_text(source)} AND {same('s', 'm')}"
    return query(
        others=f"SELECT explode({_texts('s.')}) AS text FROM {silver} s "
        f"LEFT ANTI JOIN {held} m ON {mine}",
        shared=f"SELECT DISTINCT o.text FROM others o JOIN {asked} a ON a.text = o.text",
    )
