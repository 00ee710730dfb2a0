"""Damaged messages: a decoder answers with events or says why not, and never fails."""

from __future__ import annotations

import random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ingest.arrow import record_batch
from ingest.formats import FORMATS
from ingest.formats.format import Message
from ingest.reader import Reader
from ingest.readings import reading
from tests.messages import golden, mutated
from tests.silver_promises import broken

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
    rows = chance.choice(READERS[name]).rows(message)
    assert broken(message, rows) == [], message
    assert record_batch(rows).num_rows == len(rows)


VALUES = {name: tuple(m.value for _, m in golden(name) if m.value) for name in FORMATS}
MESSAGE_KEYS = {name: tuple({m.key for _, m in golden(name) if m.key}) for name in FORMATS}
READERS = {
    name: [
        Reader(reading(source))
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
    rows = [reader.rows(Message(mutated(VALUES[name], chance)))[-1] for _ in range(300)]
    kinds = [row[0] for row in rows]
    assert kinds.count("change") > 30
    assert kinds.count("reject") > 30
