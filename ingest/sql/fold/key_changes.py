"""Keys that changes of the key link: pairs of keys, and the groups that the pairs form.

In the relations of pairs, and in those made from them, a key is an array of texts.
"""

from __future__ import annotations

from collections.abc import Sequence

from ingest.sql.casts import as_text, typed
from ingest.sql.projection import Projection, events, key_bytes
from ingest.sql.query import query
from ingest.sql.quoting import sql_text


def pairs(projection: Projection, changes: str) -> str:
    """The keys before and after the changes of the key among silver's rows, each pair once:
    `key_before`, `key`."""
    return query(
        changes=events(projection, changes),
        pairs="SELECT DISTINCT key_before, key FROM changes "
        "WHERE key IS NOT NULL AND key_before IS NOT NULL",
    )


def few_pairs(pairs: str, *, most: int, bytes_most: int) -> str:
    """At most `most` of the pairs and one more; both keys are NULL if one has more than
    `bytes_most` bytes."""
    sizes = (f"{key_bytes(key)} > {bytes_most}" for key in ("key_before", "key"))
    return query(
        pairs=pairs,
        first_ones=f"SELECT * FROM pairs LIMIT {most + 1}",
        measured=f"SELECT key_before, key, {' OR '.join(sizes)} AS large FROM first_ones",
        taken="SELECT IF(large, NULL, key_before) AS key_before, IF(large, NULL, key) AS key "
        "FROM measured",
    )


def pairs_with(pairs: str, keys: str) -> str:
    """Those of the pairs in which one of `keys`, a relation (`key`), stands."""
    return query(
        pairs=pairs,
        by_key="SELECT key_before, key, explode(array(key_before, key)) AS either FROM pairs",
        met=f"SELECT p.key_before, p.key FROM by_key p LEFT SEMI JOIN {keys} k ON k.key = p.either",
    )


def edges(pairs: str) -> str:
    """The pairs as edges of a graph, each once: `key`, and the lower one that it is `tied_to`."""
    return query(
        pairs=pairs,
        edges="SELECT DISTINCT greatest(key_before, key) AS key, least(key_before, key) AS tied_to "
        "FROM pairs WHERE key_before <> key",
    )


def checksum(edges: str) -> str:
    """A row that is the same for the same edges, a relation, and most likely for no others."""
    return f"SELECT count(*), bit_xor(xxhash64(key, tied_to)) FROM {edges}"


def contracted(edges: str) -> str:
    """The edges, a relation, after a large star and a small star."""
    return query(
        edges=f"SELECT * FROM {edges}",
        both_ways="SELECT key, tied_to AS neighbour FROM edges "
        "UNION ALL SELECT tied_to AS key, key AS neighbour FROM edges",
        around="SELECT key, neighbour, "
        "least(key, min(neighbour) OVER (PARTITION BY key)) AS lowest FROM both_ways",
        large_star="SELECT DISTINCT neighbour AS key, lowest AS tied_to FROM around "
        "WHERE neighbour > key",
        below="SELECT key, tied_to, min(tied_to) OVER (PARTITION BY key) AS lowest FROM large_star",
        each="SELECT explode(array(key, tied_to)) AS key, lowest FROM below",
        small_star="SELECT DISTINCT key, lowest AS tied_to FROM each WHERE key <> lowest",
    )


def components(edges: str) -> str:
    """All keys of edges, a relation, that tie each to the lowest of its group; with the group's
    `component`."""
    return query(
        tied=f"SELECT key, to_json(tied_to) AS component FROM {edges}",
        lowest=f"SELECT DISTINCT tied_to AS key, to_json(tied_to) AS component FROM {edges}",
        every="SELECT * FROM tied UNION ALL SELECT * FROM lowest",
    )


def not_told_apart(projection: Projection, changes: str, *, new: Sequence[str]) -> str:
    """A row about silver's changes: how many values of the columns `new`, in lower case, belonged
    to several keys (`several`), and how many keys have changes that lack one of these columns
    (`unknown`)."""
    places = {key.lower(): place for place, key in enumerate(projection.keys)}
    types = {name.lower(): (name, type_) for name, type_ in projection.columns.items()}
    values = []
    for name in new:
        held, type_ = types[name]
        sent = f"coalesce(image[{sql_text(held)}], before[{sql_text(held)}])"
        text = as_text(typed(sent, type_, projection.zone), type_)
        values.append(f"key[{places[name]}]" if name in places else text)
    return query(
        events=events(projection, changes),
        named=f"SELECT key, array({', '.join(values)}) AS named FROM events WHERE key IS NOT NULL",
        by_new="SELECT count(DISTINCT key) AS keys, exists(named, v -> v IS NULL) AS unknown "
        "FROM named GROUP BY named",
        counted="SELECT count_if(keys > 1 AND NOT unknown) AS several, "
        "coalesce(sum(IF(unknown, keys, 0)), 0) AS unknown FROM by_new",
    )
