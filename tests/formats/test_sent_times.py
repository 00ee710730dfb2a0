"""No event is refused for the time when its message was sent, whatever stands there."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ingest.decode.source import SourceDecoder
from ingest.decode.spec import decode_spec
from tests.support.messages import golden, is_json
from tests.support.silver_promises import NAMES

AT = {name: index for index, name in enumerate(NAMES)}
SENT = {
    "canal": ("ts",),
    "cloudcanal": ("sendTs",),
    "dataworks": ("payload", "timestamp", "systemTime"),
    "debezium": ("ts_ms",),
    "dms": ("metadata", "timestamp"),
    "ogg": ("current_ts",),
    "oms_dataworks": ("payload", "timestamp", "systemTime"),
    "oms_shareplex": ("meta", "posttime"),
    "ticdc_simple": ("buildTs",),
}
"""Where each format has the time of sending."""
UNREADABLE = (1700000000.5, True, [1], {"a": 1}, 10**30, -(10**30), "soon", "²")


def changed(value: Any, path: tuple[str, ...], sent: Any) -> Any:
    """The message with another time of sending; None where it has none."""
    name, *rest = path
    if not isinstance(value, dict) or name not in value:
        return None
    value.pop("ts_us", None)  # Debezium's second one
    inner = changed(value[name], tuple(rest), sent) if rest else sent
    return None if inner is None else {**value, name: inner}


@pytest.mark.parametrize("name", SENT)
@pytest.mark.parametrize("sent", UNREADABLE, ids=repr)
def test_a_time_that_cannot_be_read_is_left_out(name: str, sent: Any) -> None:
    count = 0
    for source, message in golden(name):
        if not is_json(message.value or b""):
            continue
        reader = SourceDecoder(decode_spec(source))
        try:
            value = changed(json.loads(message.value or b""), SENT[name], sent)
        except ValueError:
            continue  # a text that only a lenient reading takes
        plain = reader.rows(message, source.epoch, 0)
        # A heartbeat of Debezium's is told by its time alone.
        if value is None or plain[-1][AT["kind"]] != "change" or not plain[-1][AT["sent_time"]]:
            continue
        odd = message._replace(value=json.dumps(value).encode())
        rows = SourceDecoder(decode_spec(source)).rows(odd, source.epoch, 0)
        assert [row[AT["op"]] for row in rows] == [row[AT["op"]] for row in plain], odd.value
        assert rows[-1][AT["sent_time"]] is None
        assert "sent_time_unread" in rows[-1][AT["warnings"]]
        count += 1
    assert count > 3
