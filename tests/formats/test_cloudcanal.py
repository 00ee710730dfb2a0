"""CloudCanal JSON: the vendor's example, and what no golden folder can show."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ingest.errors import DecodeError
from ingest.formats.detect import recognised
from ingest.wire.contract import Message
from tests.support.decoding import code_of, decoder, events, events_of

MESSAGE: dict[str, Any] = {
    "action": "UPDATE",
    "before": [{"id": "1", "name": "nib"}],
    "bid": 0,
    "data": [{"id": "1", "name": "pen"}],
    "db": "shop",
    "dbValType": {"id": "bigint", "name": "varchar(22)"},
    "isDdl": False,
    "entryType": "ROWDATA",
    "execTs": 1735689600000,
    "jdbcType": {"id": -5, "name": 12},
    "pks": [],
    "schema": "shop",
    "sendTs": 1735689601377,
    "sql": "",
    "table": "items",
}


def test_vendor_example(shared: Path) -> None:
    folder = shared / "samples" / "peers" / "cloudcanal-json"
    want = json.loads((folder / "seed-dml-ddl.expected.json").read_text())["rows"]
    found = events_of(decoder("cloudcanal"), folder / "seed-dml-ddl.jsonl")
    got: list[dict[str, Any]] = [
        {"op": event.op, "before": event.before, "after": event.after} for event in found[:3]
    ]
    statement = found[3]
    got.append(
        {"op": statement.op, "sql": statement.ddl, "keys": list(statement.key_columns or ())}
    )
    assert got == want
    assert [column.name for column in statement.columns or ()] == ["col1", "col2", "col_pk"]
    assert {(event.db, event.schema, event.table) for event in found} == {
        ("db_test", "db_test", "table_test")
    }
    assert [event.key_columns for event in found[:3]] == [None, None, None]
    assert found[0].event_time == 1669789152000000
    assert found[0].sent_time == 1669789153377000


def test_the_end_of_a_transaction_is_known_without_an_action() -> None:
    """Java's writers of JSON leave out what is null."""
    sent = {"bid": 0, "entryType": "TRANSACTIONEND", "execTs": 1735689600000, "sendTs": 1}
    value = json.dumps(sent).encode()
    assert recognised(Message(value)).name == "cloudcanal"
    assert [event.op for event in events(decoder("cloudcanal"), value)] == ["commit"]
    for other in ({**sent, "entryType": "ROWDATA"}, {"entryType": "TRANSACTIONEND", "id": 1}):
        with pytest.raises(DecodeError, match="unknown_format"):
            recognised(Message(json.dumps(other).encode()))


def test_page_as_printed_is_refused(shared: Path) -> None:
    """The page's DML example stands for three operations at once: its action is none of them."""
    page = next((shared / "seeds").glob("003_*.txt")).read_text()
    start = page.index('{\n"action":"INSERT/DELETE/UPDATE"')
    example = page[start : page.index("DDL operation example", start)].strip()
    assert code_of(decoder("cloudcanal"), example.encode()) == "unknown_op"
    named = example.replace("INSERT/DELETE/UPDATE", "UPDATE").encode()
    (event,) = events(decoder("cloudcanal"), named)
    assert event.warnings == ["lenient_json"]
    assert event.before == {"col1": "22", "col2": "22", "col_pk": "22"}
    assert event.after == {"col1": "11", "col2": "11", "col_pk": "11"}


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text() | st.sampled_from([1.5, "²", "--1"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)


@settings(max_examples=300, deadline=None)
@given(st.sampled_from([*sorted(MESSAGE), "ddl", "tableChanges"]), VALUES, VALUES, st.booleans())
def test_any_field_decodes_or_is_refused(name: str, value: Any, cell: Any, deleted: bool) -> None:
    message = {**MESSAGE, "data": [{"id": cell, "name": "pen"}], name: value}
    if deleted:
        message["action"] = "DELETE"
    try:
        found = events(decoder("cloudcanal"), message)
    except DecodeError:
        return
    assert found
    for event in found:
        for image in (event.before, event.after):
            assert all(text is None or isinstance(text, str) for text in (image or {}).values())
