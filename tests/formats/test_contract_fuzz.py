"""Damaged messages: a decoder answers with events or says why not, and never fails."""

from __future__ import annotations

import random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ingest.decode.silver_rows import record_batch
from ingest.decode.source import SourceDecoder
from ingest.decode.spec import decode_spec
from ingest.formats import FORMATS
from ingest.wire.contract import Message
from tests.support.messages import golden, mutated
from tests.support.silver_promises import broken
from tests.support.ticdc import batch, events

EXAMPLES, MANY = 2_000, 100_000
KEYS = (None, b"", b"****", b"{", b"[1]", b"null", b'{"id":{}}', b"\xff")


def examples(most: int) -> settings:
    return settings(
        max_examples=most, deadline=None, suppress_health_check=list(HealthCheck), database=None
    )


@pytest.mark.parametrize("name", FORMATS)
@examples(EXAMPLES)
@given(seed=st.integers(0, 2**64 - 1))
def test_damage(name: str, seed: int) -> None:
    damaged(name, seed)


@pytest.mark.long
@pytest.mark.parametrize("name", FORMATS)
@examples(MANY)
@given(seed=st.integers(0, 2**64 - 1))
def test_much_damage(name: str, seed: int) -> None:
    damaged(name, seed)


def damaged(name: str, seed: int) -> None:
    """One damaged message of the format: its rows keep every promise."""
    chance = random.Random(seed)
    values = VALUES[name]
    keys = KEYS + MESSAGE_KEYS[name]
    key = chance.choice(keys)
    headers = (("__debezium.newkey", chance.choice(keys)), ("__debezium.oldkey", key))
    message = Message(
        mutated(values, chance),
        mutated((key,), chance) if key and chance.random() < 0.3 else key,
        headers if chance.random() < 0.2 else (),
        topic=chance.choice(("", "t", "a.b.c", "dir/file.jsonl")),
        offset=seed % 1_000,
        timestamp=chance.choice((None, -1, 0, 1_700_000_000_000)),
    )
    if name == "ticdc_open" and chance.random() < 0.8:
        # Whole batches of damaged events; else their bytes are torn, too.
        message = batch((message.key or b"{}", message.value or b""))
    rows = chance.choice(READERS[name]).rows(message)
    assert broken(message, rows) == [], message
    assert record_batch(rows).num_rows == len(rows)


def sent(name: str) -> list[tuple[bytes | None, bytes | None]]:
    """Key and value of every golden message; those of their events where messages are batches."""
    found = [(message.key, message.value) for _, message in golden(name)]
    if name != "ticdc_open":
        return found
    return [pair for key, value in found for pair in _events(key, value)]


def _events(key: bytes | None, value: bytes | None) -> list[tuple[bytes | None, bytes | None]]:
    try:
        return list(events(Message(value, key)))
    except ValueError:
        return [(key, value)]


VALUES = {name: tuple(value for _, value in sent(name) if value) for name in FORMATS}
MESSAGE_KEYS = {name: tuple({key for key, _ in sent(name) if key}) for name in FORMATS}
ROW_KEY = {"ticdc_open": b'{"ts":447984084414103554,"scm":"dock","tbl":"crates","t":1}'}
"""The key without which a value of the format says nothing."""
READERS = {
    name: [
        SourceDecoder(decode_spec(source))
        for source in {source.model_dump_json(): source for source, _ in golden(name)}.values()
    ]
    for name in FORMATS
}
"""The readers of every golden folder's source: each with its options, keys and types."""


@pytest.mark.parametrize("name", FORMATS)
def test_damage_reaches_beyond_the_parser(name: str) -> None:
    """A fuzz whose every message is refused at once would prove nothing."""
    chance = random.Random(7)
    reader = READERS[name][0]
    values = [mutated(VALUES[name], chance) for _ in range(400)]
    rows = [reader.rows(Message(value, ROW_KEY.get(name)))[-1] for value in values]
    kinds = [row[0] for row in rows]
    assert kinds.count("change") > 30
    assert kinds.count("reject") > 30
