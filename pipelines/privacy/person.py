"""Whose rows are to be removed: every change of a key in silver, with the keys it had before and
later.

1. The key that is asked for is the person's at all positions.
2. A change of the key says which key the row had up to there, and which from there on. These
   changes are followed to their ends.
3. What was sent under a key within its span is the person's: changes, and the lone halves of
   updates. The shards of one message (OceanBase) hold parts of several rows, so all shards of a
   transaction count.
4. Messages of bronze that have a Kafka key or a text of the person but no row of it are removed
   too: tombstones, and messages of others that repeat the statement which changed them all.

Within one transaction keys may be passed from row to row (semantics.md, 39). A change of a key
whose before image is that of another row belongs to that row and is not followed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import pyarrow as pa
from pyspark.sql import functions as F

from ingest.errors import ConfigError, Mistake, TableError
from ingest.fold.fold import Key
from ingest.names import lowered
from ingest.position import Pos
from ingest.sql.casts import as_text, typed
from ingest.sql.delivery import DELIVERY, MESSAGE
from ingest.sql.privacy import person
from ingest.sql.projection import Projection, events
from ingest.sql.query import one_row
from ingest.sql.quoting import sql_text
from ingest.sql.silver import ROW_CHANGES, silver_changes
from ingest.sql.tables.upkeep import version_of
from pipelines.apply.batch import TableBatch
from pipelines.apply.frames import Frames
from pipelines.gold.reconstruction import Reconstruction
from pipelines.platform.rows import array_of, records, rows
from pipelines.privacy.texts import messages_with, texts_pattern

MOST = 100_000
"""The most changes that one person may have."""
_SHORTEST = 6
"""The fewest characters of a text that is searched for in files."""


class Span(NamedTuple):
    """A key that is the person's between two positions, both included; None: without an end."""

    label: str
    key: Key
    first: Pos | None
    last: Pos | None


class Move(NamedTuple):
    """A change of the key: from there on the row has `now`, up to there it had `was`."""

    pos: Pos
    now: Key
    was: Key
    change: Mapping[str, Any]


MessagePlace = tuple[int, str, int, int]
"""A message, by the columns MESSAGE."""


class Row(NamedTuple):
    """A row of silver, by where it came from; `mine`: it is removed, otherwise only its bytes
    are."""

    epoch: int
    topic: str
    partition: int
    offset: int
    row: int
    mine: bool


class Person(NamedTuple):
    """What silver has of a person: the spans of its keys; its rows, and with them all rows of
    silver that hold the bytes of its messages; and the texts that only the person has. `beside`:
    messages of bronze that have its key or its texts, but none of its rows."""

    spans: list[Span]
    rows: list[Row]
    texts: list[str]
    beside: list[MessagePlace]

    @property
    def messages(self) -> list[MessagePlace]:
        """The messages that it is in."""
        return sorted({*(row[:4] for row in self.rows), *self.beside})


def asked_key(history: Reconstruction, key: Mapping[str, str]) -> dict[str, Key]:
    """The key as the changes of each source table have it, by label; raises ConfigError if it is
    not the key of the target."""
    keys = {}
    for batch in history.batches:
        clear = _clear(batch.projection)
        names = [name for name in clear.keys if name != clear.shard]
        asked = {name.lower(): value for name, value in key.items()}
        if lowered(names) != asked.keys():
            text = f"`--key`: expected the key ({', '.join(names)}), got ({', '.join(key)})"
            raise ConfigError([Mistake("command line", None, text)])
        texts = [
            sql_text(clear.label)
            if name == clear.shard
            else as_text(
                typed(sql_text(asked[name.lower()]), clear.columns[name], clear.zone),
                clear.columns[name],
            )
            for name in clear.keys
        ]
        [found_values] = rows(history.warehouse.session.sql(one_row(texts)))
        for name, value in zip(clear.keys, found_values, strict=True):
            if value is None:
                text = f"`--key {name}`: expected {clear.columns[name]}, got another value"
                raise ConfigError([Mistake("command line", None, text)])
        keys[clear.label] = tuple(found_values)
    return keys


def find(
    history: Reconstruction, asked: Mapping[str, Key], *, went: Sequence[MessagePlace] = ()
) -> Person:
    """What silver has of the person with this key; raises TableError if that is too much.

    `went`: messages that bronze no longer has, since an earlier call removed them.
    """
    frames = history.frames
    spans, by_place, texts = _sent(frames, history.batches, asked)
    for batch in history.batches:
        for row in _beside(frames, batch, by_place.values()):
            by_place.setdefault(row[:5], row)
    own = _its_own(frames, history.batches, by_place.values(), texts=texts)
    beside = _messages_beside(history, by_place.values(), own) if by_place else []
    for row in _rejects_of(frames, history.batches, [*beside, *went]):
        by_place.setdefault(row[:5], row)
    return Person(spans, sorted(by_place.values()), own, beside)


def texts_before(
    history: Reconstruction,
    asked: Mapping[str, Key],
    versions: Iterable[int],
    *,
    mine: Iterable[Row],
) -> set[str]:
    """The texts that only the person had at some versions of silver, and that no row other than its
    own, `mine`, has now."""
    frames = history.frames
    found: set[str] = set()
    for version in versions:
        then = [
            replace(batch, silver=version_of(batch.silver, version)) for batch in history.batches
        ]
        _, by_place, texts = _sent(frames, then, asked)
        found.update(_its_own(frames, then, by_place.values(), texts=texts))
    return set(_its_own(frames, history.batches, mine, texts=found))


_Sent = tuple[list[Span], dict[tuple[Any, ...], Row], set[str]]


def _sent(frames: Frames, batches: Iterable[TableBatch], asked: Mapping[str, Key]) -> _Sent:
    """What was sent of the person: its spans, its rows by their places, and their texts."""
    spans: list[Span] = []
    by_place: dict[tuple[Any, ...], Row] = {}
    texts: set[str] = set()
    for batch in (replace(batch, only="true") for batch in batches):
        mine = _spans(frames, batch, asked[batch.projection.label])
        spans += mine
        for row, images in _rows(frames, batch, mine):
            by_place[row[:5]] = row
            texts |= images
    if len(by_place) > MOST:
        raise TableError(f"expected at most {MOST:,} changes of one key, got more")
    return spans, by_place, texts


def _clear(projection: Projection) -> Projection:
    """The projection without masks: keys as silver has them, of the types by which they are hashed
    if they are masked."""
    types = {name: mask.type or "string" for name, mask in projection.masks.items()}
    columns = {name: types.get(name, type_) for name, type_ in projection.columns.items()}
    return replace(projection, masks={}, columns=columns)


def _spans(frames: Frames, batch: TableBatch, asked: Key) -> list[Span]:
    """The spans of the person's keys in one source table."""
    projection = _clear(batch.projection)
    changes = events(projection, batch.history(batch.projection.may_change_key))
    return followed(Span(projection.label, asked, None, None), partial(_moves, frames, changes))


def _moves(frames: Frames, changes: str, keys: Sequence[Key]) -> Iterator[Move]:
    """Those changes of the key, among some events, that lead from or to these keys."""
    moved = frames.sql(person.changes_of_keys(changes, frames.key_view(keys)))
    for change in records(moved):
        now, was = tuple(change["key"]), tuple(change["key_before"])
        yield Move(tuple(change["pos"]), now, was, change)


def followed(asked: Span, moves_of: Callable[[Sequence[Key]], Iterable[Move]]) -> list[Span]:
    """The spans that changes of the key lead to from the one asked for, in both directions.

    All changes of the keys met are gone through again as long as they lead to further spans: a key
    that the person had twice is met in one of its spans, and the other may be found later.
    """
    spans: dict[Key, dict[Span, None]] = {asked.key: {asked: None}}
    known: dict[tuple[Pos, Key, Key], Move] = {}
    looked: set[Key] = set()
    while new := spans.keys() - looked:
        looked |= new
        known.update({move[:3]: move for move in moves_of(sorted(new))})
        moves, before = [known[place] for place in sorted(known)], -1
        while before < (before := sum(map(len, spans.values()))):
            _follow(asked.label, moves, spans)
    return [span for of_key in spans.values() for span in of_key]


def _follow(label: str, moves: Sequence[Move], spans: dict[Key, dict[Span, None]]) -> None:
    """Enter the spans that the changes, given in order, lead to: backwards from the last one,
    forwards from the first.

    What a change itself begins does not say who had the row's last key before the row did.
    """
    for move in reversed(moves):
        held = spans.get(move.now, {}).keys() - {Span(label, move.now, move.pos, None)}
        if _within(held, move.now, move.pos):
            spans.setdefault(move.was, {})[Span(label, move.was, None, move.pos)] = None
    begun: dict[Key, Mapping[str, Any]] = {}
    for move in moves:
        if _within(spans.get(move.was, ()), move.was, move.pos):
            if not _passed_on(begun.get(move.was), move.change):
                spans.setdefault(move.now, {})[Span(label, move.now, move.pos, None)] = None
                begun[move.now] = move.change


def _within(spans: Iterable[Span], key: Key, pos: Pos) -> bool:
    return any(
        span.key == key
        and (span.first is None or span.first <= pos)
        and (span.last is None or pos <= span.last)
        for span in spans
    )


def _passed_on(begun: Mapping[str, Any] | None, change: Mapping[str, Any]) -> bool:
    """Whether a change moves another row, which had the key until the person got it in the same
    transaction."""
    if begun is None or begun["tx"] != change["tx"]:
        return False
    had, moved = begun["image"] or {}, change["before"] or {}
    return any(had[name] != moved[name] for name in had.keys() & moved.keys())


def spans_table(spans: Sequence[Span]) -> pa.Table:
    """The spans as a relation: label, key, first, last."""
    positions = pa.list_(pa.int64())
    return pa.table(
        {
            "label": pa.array([span.label for span in spans], pa.string()),
            "key": array_of(span.key for span in spans),
            "first": pa.array([span.first for span in spans], positions),
            "last": pa.array([span.last for span in spans], positions),
        }
    )


def _rows(
    frames: Frames, batch: TableBatch, spans: Sequence[Span]
) -> Iterable[tuple[Row, set[str]]]:
    """Silver's rows in the spans, changes and lone halves, each with its texts."""
    projection = _clear(batch.projection)
    held = frames.view(spans_table(spans))
    halves = silver_changes(
        batch.silver, batch.names, "before IS NOT NULL", renamed=projection.renamed, kind="fragment"
    )
    for changes in (batch.history(ROW_CHANGES), halves):
        found = frames.sql(
            person.within(events(projection, changes), changes, spans=held, most=MOST + 1)
        )
        for *place, values in rows(found):
            yield Row._make([*place, True]), {text for text in values if text is not None}


def _beside(frames: Frames, batch: TableBatch, mine: Iterable[Row]) -> list[Row]:
    """Further rows from the person's messages that hold a whole message or a part of it: rejects
    lose their bytes, and shards of its transactions are removed."""
    source, held = batch.table.source, frames.view(rows_table(list(mine)))
    rejects = person.rejects_of_messages(batch.silver, held, source=source)
    shards = person.shards_of_transactions(batch.silver, held, source=source)
    found = [Row._make([*place, False]) for place in rows(frames.sql(rejects))]
    return found + [Row._make([*place, True]) for place in rows(frames.sql(shards))]


def _rejects_of(
    frames: Frames, batches: Sequence[TableBatch], messages: Sequence[MessagePlace]
) -> list[Row]:
    """The rejects of some messages; they lose their bytes."""
    if not batches or not messages:
        return []
    silver, source = batches[0].silver, batches[0].table.source
    held = frames.view(messages_table(messages))
    rejects = person.rejects_of_messages(silver, held, source=source)
    return [Row._make([*place, False]) for place in rows(frames.sql(rejects))]


def _messages_beside(
    history: Reconstruction, mine: Iterable[Row], texts: Sequence[str]
) -> list[MessagePlace]:
    """The messages of bronze that have something of the person, but no row of it: tombstones with
    the Kafka key of one of its messages, and messages with a text that only the person has, such as
    the statement that also changed other rows."""
    warehouse, frames = history.warehouse, history.frames
    bronze = warehouse.read("bronze", "messages").where(F.col("source") == history.source)
    names = list(MESSAGE)
    held = frames.view(messages_table(sorted({row[:4] for row in mine})))
    its = bronze.join(warehouse.session.table(held), names, "left_semi")
    keys = its.where("key IS NOT NULL").select("topic", "key").distinct()
    empty = bronze.where("value IS NULL OR octet_length(value) = 0")
    found = empty.join(keys, ["topic", "key"], "left_semi").select(*names)
    pattern = texts_pattern(texts)
    if pattern is not None:
        looked = bronze.select(*names, "key", "value")
        schema = bronze.select(*names).schema
        found = found.unionByName(looked.mapInArrow(partial(messages_with, texts=pattern), schema))
    places = found.join(warehouse.session.table(held), names, "left_anti").distinct()
    some = list(rows(places.limit(MOST + 1)))
    if len(some) > MOST:
        raise TableError(f"expected at most {MOST:,} messages with a person's texts, got more")
    return sorted((epoch, topic, number, offset) for epoch, topic, number, offset in some)


def messages_table(messages: Sequence[MessagePlace]) -> pa.Table:
    """Messages as a relation: the columns MESSAGE."""
    types = (pa.int64(), pa.string(), pa.int32(), pa.int64())
    columns = list(zip(*messages, strict=True)) if messages else [()] * len(types)
    return pa.table(
        {
            name: pa.array(values, type_)
            for name, values, type_ in zip(MESSAGE, columns, types, strict=True)
        }
    )


def rows_table(found: Sequence[Row]) -> pa.Table:
    """Rows of silver as a relation: DELIVERY and `mine`."""
    types = (pa.int64(), pa.string(), pa.int32(), pa.int64(), pa.int32(), pa.bool_())
    columns = list(zip(*found, strict=True)) if found else [()] * len(types)
    names = (*DELIVERY, "mine")
    return pa.table(
        {
            name: pa.array(values, type_)
            for name, values, type_ in zip(names, columns, types, strict=True)
        }
    )


def _its_own(
    frames: Frames, batches: Sequence[TableBatch], mine: Iterable[Row], *, texts: Iterable[str]
) -> list[str]:
    """Those of the texts that are long enough to be searched for and that no other row of silver
    has."""
    candidates = sorted({text for text in texts if len(text) >= _SHORTEST})
    if not candidates or not batches:
        return []
    batch = batches[0]
    asked = frames.view(pa.table({"text": pa.array(candidates, pa.string())}))
    held = frames.view(rows_table(list(mine)))
    others = person.texts_of_others(batch.silver, held, asked=asked, source=batch.table.source)
    shared: set[str] = {text for (text,) in rows(frames.sql(others))}
    return [text for text in candidates if text not in shared]
