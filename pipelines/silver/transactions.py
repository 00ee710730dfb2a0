"""Transactions in silver: which are complete, and how far gold may publish only whole ones.

A transaction is complete when its end was seen and, if the end says how many events there were, all
of these. Events that name no transaction belong to none and wait for none.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import NamedTuple

from ingest.formats import FORMATS
from ingest.names import SourceTable, label_of
from ingest.position import Pos, pos_literal
from ingest.sql.history import transactions as texts
from ingest.sql.silver import of_table, past_horizon
from pipelines.platform.warehouse import Warehouse
from pipelines.silver.history import identity
from pipelines.targets.progress import load_progress, source_cursor, targets_of
from pipelines.terminal.console import counted


class Open(NamedTuple):
    """A transaction that is not complete: the position of its lowest event, how many events are
    here, and how many there are (None: its end was not seen, or did not say)."""

    tx_id: str
    first: Pos
    events: int
    expected: int | None

    def __str__(self) -> str:
        events = counted(self.events, "events")
        if self.expected is not None:
            events = f"{self.events:,} of {counted(self.expected, 'events')}"
        return f"transaction {self.tx_id} ({events} so far)"


class PublishLimit(NamedTuple):
    """How far gold may go: `only` is SQL that is true for the rows that may be published, `last`
    the last batch that may be published completely (None: all may), `newest` the last batch there
    is. `waits` is the transaction that gold waits for."""

    only: str = "true"
    last: int | None = None
    newest: int | None = None
    waits: Open | None = None

    @property
    def below(self) -> Pos | None:
        """The position that gold may not reach."""
        return self.waits.first if self.waits is not None else None


EVERYTHING = PublishLimit()


def transactions(warehouse: Warehouse) -> str:
    """SQL of the transactions: begin, end, whether complete, distinct events, tables."""
    change = identity(warehouse.config.sources.values())
    return texts.transactions(warehouse.name("silver", "cdc"), change=change)


def publish_limit(warehouse: Warehouse, source: str, *, above: int) -> PublishLimit:
    """How far gold may go in what silver has of `source` above batch `above`."""
    if warehouse.config.tables[source].publish != "transaction":
        return EVERYTHING
    waits = _lowest_open(warehouse, source, above=above)
    if waits is None:
        return EVERYTHING
    later = f"pos >= {pos_literal(waits.first)}"
    silver = warehouse.name("silver", "cdc")
    batches = texts.batches_from(silver, source=source, above=above, first=waits.first)
    first = warehouse.session.sql(batches).first()
    assert first is not None
    return PublishLimit(f"coalesce(NOT ({later}), true)", int(first[0]) - 1, int(first[1]), waits)


def _lowest_open(warehouse: Warehouse, source: str, *, above: int) -> Open | None:
    """The open transaction with the lowest position among those with changes above the batch."""
    session, silver = warehouse.session, warehouse.name("silver", "cdc")
    all_of_source = partial(
        texts.transactions,
        silver,
        change=identity(warehouse.config.sources.values()),
        source=source,
        published=above,
        without=_beyond_horizons(warehouse, source),
    )
    met = texts.that_wait(all_of_source(above=above))
    if session.sql(met).isEmpty():
        return None
    newest = session.sql(texts.newest_epoch(silver, source=source, above=above)).first()
    assert newest is not None
    # A transaction that is not complete above the batch may be complete with earlier batches: its
    # end may have come before its events, or events may have come twice. Nothing comes any more of
    # an earlier epoch: a transaction that the new epoch cut short stays incomplete.
    of_now = all_of_source(among=met, epoch=newest[0])
    row = session.sql(texts.lowest_waiting(of_now)).first()
    return Open(row[0], tuple(row[1]), row[2], row[3]) if row is not None else None


def unpublished(warehouse: Warehouse, source: str, *, until: str) -> Open | None:
    """The transaction whose rest gold waits for, if it holds back any change for which SQL `until`
    is true."""
    cursor = source_cursor(load_progress(warehouse), source)
    limit = publish_limit(warehouse, source, above=cursor.whole)
    if limit.waits is None or limit.last is None:
        return None
    silver = warehouse.name("silver", "cdc")
    held = texts.held_back(silver, source=source, above=limit.last, only=limit.only, until=until)
    return None if warehouse.session.sql(held).isEmpty() else limit.waits


def _beyond_horizons(warehouse: Warehouse, source: str) -> str:
    """SQL of the changes that gold sets aside because the history that they belong to was trimmed:
    it publishes nothing more of a transaction of that time."""
    progress_by_target = load_progress(warehouse)
    known = [*targets_of(progress_by_target, source).values()]
    terms = []
    for progress in (*known, source_cursor(progress_by_target, source)):
        for names in progress.tables:
            table = SourceTable(source, *names)
            own = progress.watermarks.get(label_of(table))
            # A renamed table is known by its first name.
            marks = progress.watermarks.values() if own is None else [own]
            terms += [
                f"({of_table(table)} AND {past_horizon(each.pos, each.batch)})"
                for each in dict.fromkeys(each for mark in marks for each in mark.horizons)
            ]
    return " OR ".join(terms)


def waiting(warehouse: Warehouse, sources: Iterable[str]) -> list[str]:
    """A sentence for each thing that gold waits for because it publishes only whole transactions,
    or that keeps it from doing so."""
    there = warehouse.exists("silver", "cdc")
    tables = warehouse.config.tables
    sources = [name for name in sources if there and tables[name].publish == "transaction"]
    progress_by_target = load_progress(warehouse) if sources else {}
    sentences = []
    for source in sources:
        cursor = source_cursor(progress_by_target, source)
        waits = publish_limit(warehouse, source, above=cursor.whole).waits
        if waits is not None:
            never = _never(warehouse, source, waits)
            sentences.append(f"source {source}: gold waits for the rest of {waits}{never}")
        elif (text := _nothing_held(warehouse, source)) is not None:
            sentences.append(f"source {source}: {text}")
    return sentences


_WITHOUT = "take `publish: transaction` out of its tables file"


def _never(warehouse: Warehouse, source: str, waits: Open) -> str:
    """Why gold may wait for ever, and what to do, if no end of a transaction was ever told."""
    silver = warehouse.name("silver", "cdc")
    if not warehouse.session.sql(texts.any_end(silver, source=source)).isEmpty():
        return ""
    row = warehouse.session.sql(texts.any_change(silver, source=source, tx_id=waits.tx_id)).first()
    ends = FORMATS[row[0]].ends if row is not None and row[0] in FORMATS else ""
    if row is not None and not ends:
        return f"; messages of {row[0]} do not tell where a transaction ends: {_WITHOUT}"
    told = f", which {ends} would" if ends else ""
    return f"; no message has told the end of a transaction yet{told}: if none will, {_WITHOUT}"


def _nothing_held(warehouse: Warehouse, source: str) -> str | None:
    """The sentence that no change waits for others, because none names a transaction."""
    silver = warehouse.name("silver", "cdc")
    if not warehouse.session.sql(texts.any_change(silver, source=source, named=True)).isEmpty():
        return None
    row = warehouse.session.sql(texts.any_change(silver, source=source)).first()
    if row is None:
        return None
    return (
        f"`publish: transaction` holds nothing back, since no change of {row[0]} names its "
        f"transaction; let the producer send that, or {_WITHOUT}"
    )
