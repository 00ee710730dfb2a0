"""A time of a change that cannot be read is left out, and the row says so."""

from __future__ import annotations

import json

import pytest

from ingest.decode.source import SourceDecoder
from ingest.decode.spec import decode_spec
from tests.formats.test_sent_times import AT, changed
from tests.support.messages import golden, is_json

HAPPENED = {
    "canal": ("es",),
    "cloudcanal": ("execTs",),
    "dataworks": ("payload", "timestamp", "eventTime"),
    "debezium": ("source", "ts_ms"),
    "dms": ("metadata", "commit-timestamp"),
    "maxwell": ("ts",),
    "ogg": ("op_ts",),
    "oms_dataworks": ("payload", "timestamp", "eventTime"),
    "oms_default": ("allMetaData", "timestamp"),
    "oms_shareplex": ("meta", "time"),
    "wal2json": ("timestamp",),
}
"""Where each format has the time of a change."""


@pytest.mark.parametrize("name", HAPPENED)
def test_a_time_that_cannot_be_read_is_left_out(name: str) -> None:
    count = 0
    for source, message in golden(name):
        if not is_json(message.value or b""):
            continue
        reader = SourceDecoder(decode_spec(source))
        try:
            value = json.loads(message.value or b"")
        except ValueError:
            continue  # a text that only a lenient reading takes
        plain = reader.rows(message, source.epoch, 0)
        if plain[-1][AT["kind"]] != "change" or not plain[-1][AT["event_time"]]:
            continue
        path = HAPPENED[name]
        if name == "debezium" and isinstance(value, dict) and "payload" in value:
            path = ("payload", *path)
        inner = value.get("source") if isinstance(value, dict) else None
        if isinstance(inner, dict):
            inner.pop("ts_us", None)
        odd = changed(value, path, "soon")
        if odd is None:
            continue
        sent = message._replace(value=json.dumps(odd).encode())
        row = SourceDecoder(decode_spec(source)).rows(sent, source.epoch, 0)[-1]
        if row[AT["kind"]] == "reject":
            # Of some the time orders them; and a lone surrogate is no JSON.
            assert row[AT["error_code"]] in ("order_key_missing", "bad_json")
            continue
        assert "event_time_unread" in row[AT["warnings"]], sent.value
        assert row[AT["event_time"]] in (None, row[AT["sent_time"]])
        count += 1
    assert count > 1
