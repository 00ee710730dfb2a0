"""Hostile logs of Debezium in which changes of the key come in two messages, decoded and folded.

However the messages are mixed and doubled, all at once and batch by batch, the rows are those of
the simulated tables. What SQL does of it, the typed key and the before image without it, is done
here by a few lines, so that hundreds of logs cost seconds.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest

from ingest.decode.keys import keyed
from ingest.events import Event, Row
from ingest.fold.fold import Change, Key, fold
from ingest.formats.debezium.json import FORMAT, decoder
from ingest.identity import digests
from ingest.position import HALF, position
from ingest.wire.contract import FormatOptions, Message
from tests.fold.test_lateness import Gold
from tests.support.databases import Database
from tests.support.hostile_logs import KEY_KINDS, Dress, Line, by_source, together

LOGS, CHANGES, BATCHES = 8, 14, 3


def typed(type_: str, text: str) -> str:
    """One text for all that a key's value may be spelt as."""
    if type_ in ("int", "bigint"):
        return str(int(text))
    if type_.startswith("decimal"):
        return str(Decimal(text).quantize(Decimal("1.00")))
    if type_ == "date":
        return "-".join(f"{int(part):02d}" for part in text.split("-"))
    if type_ == "timestamp":
        return str(datetime.fromisoformat(text.replace("Z", "+00:00")).astimezone(UTC))
    return text


def decoded(line: Line, key: str) -> Iterator[Event]:
    """The changes of a captured message."""
    payload, name, headers = line.sent
    told = [(n, v.encode()) for n, v in zip(headers[::2], headers[1::2], strict=True)]
    options = {name: option.default for name, option in FORMAT.options.items()}
    message = Message(payload.encode(), name.encode() if name is not None else None, told)
    for event in decoder(FormatOptions(options=options))(message):
        if event.kind == "change":
            keyed(event, (key,))
            yield event


def change(event: Event, line: Line, *, key: str, type_: str) -> Change:
    """The event as the fold takes it."""
    pos = position(
        epoch=0,
        snapshot=event.snapshot,
        order=event.order or (),
        stream=line.partition,
        offset=line.offset,
        row=0,
        half=event.half,
    )

    def named(row: Row | None) -> Key | None:
        return None if row is None else (typed(type_, str(row[key])),)

    own = None if event.op == "truncate" else named(event.key)
    moved = named(event.key_before) if event.op in ("insert", "update") else None
    moved = moved if moved != own else None
    leaves_key = moved is not None or (event.op == "delete" and pos[HALF] == 0)
    before = None
    if event.before is not None:
        before = {n: v for n, v in event.before.items() if not (leaves_key and n == key)}
    image = event.after if event.op in ("insert", "update", "snapshot") else None
    happened = repr((event.op, event.key, event.key_before, event.before, event.after))
    return Change(
        op=event.op,
        pos=pos,
        table="t",
        key=own,
        key_before=moved,
        image=image,
        before=before,
        partial=event.after_image == "partial",
        transaction=event.tx_id,
        digest=digests([happened.encode()])[0],
    )


@pytest.mark.parametrize("kind", KEY_KINDS)
@pytest.mark.parametrize("truncates", [False, True])
def test_rows_are_those_of_the_tables(kind: str, truncates: bool) -> None:
    for seed in range(8):
        chance = random.Random(seed)
        dress = Dress.at_random(seed, chance, [kind])
        logs = []
        for _ in range(1 if truncates else LOGS):
            log = Database(chance, partials=seed % 2 == 0, truncates=truncates)
            log.live(CHANGES)
            logs.append(log)
        lived = together(logs, chance)
        lines = by_source([(dress, lived.changes)], chance, partitions=3, halves=True)
        key, type_ = dress.names["id"], dress.key.type
        changes = [
            change(event, line, key=key, type_=type_)
            for line in lines
            for event in decoded(line, key)
        ]
        chance.shuffle(changes)
        gold = Gold()
        for number in range(BATCHES):
            gold.apply(changes[number::BATCHES])
        states = fold(changes).states
        folded = {key: state.row for key, state in states.items() if state.row is not None}
        merged = {key: held.row for key, held in gold.rows.items()}
        live = [dress.image(v.row, chance) or {} for v in lived.versions if v.end is None]
        wanted = {(typed(type_, str(row[key])),): beside(key, row) for row in live}
        assert {k: beside(key, row) for k, row in folded.items()} == wanted, seed
        assert {k: beside(key, row) for k, row in merged.items()} == wanted, seed


def beside(key: str, row: Mapping[str, Any]) -> dict[str, Any]:
    """A row's values beside its key, whose spelling says nothing."""
    return {name: value for name, value in row.items() if name != key}
