"""What is peculiar to wal2json; the golden folders under formats/wal2json hold the rest."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.support.decoding import code_of, decoder, events


@pytest.mark.parametrize(
    ("type_", "sent", "text", "kind", "warnings"),
    [
        ("bit(1)", "1", "true", "boolean", []),
        ("bit(1)", "0", "false", "boolean", []),
        ("bit(5)", "10110", "22", "decimal(20,0)", []),
        ("bit(64)", "1" * 64, str(2**64 - 1), "decimal(20,0)", []),
        ("bit(70)", "01" * 35, "01" * 35, "string", []),
        ("bit varying(9)", "000000001", "000000001", "string", []),
        ("bit", "0101", "0101", "string", []),
        ("bit(5)", "abc", "abc", "decimal(20,0)", ["value_not_of_type"]),
        ("bit(1)", "t", "t", "boolean", ["value_not_of_type"]),
    ],
)
def test_bits_are_those_of_other_formats(
    type_: str, sent: str, text: str, kind: str, warnings: list[str]
) -> None:
    column = {"name": "a", "type": type_, "value": sent}
    value = {"action": "I", "schema": "wms", "table": "crates", "lsn": "0/1", "columns": [column]}
    (event,) = events(decoder("wal2json"), value)
    assert event.after == {"a": text}
    assert event.types is not None and event.types.columns[0].type == kind
    assert event.warnings == warnings


def test_an_identity_of_nulls_alone_spares_the_other_changes() -> None:
    table = {"schema": "wms", "table": "notes"}
    names: dict[str, Any] = {"columnnames": ["a", "b"], "columntypes": ["integer", "text"]}
    nothing: dict[str, list[Any]] = {"keynames": [], "keytypes": [], "keyvalues": []}
    sent = [
        {"kind": "delete", **table, "oldkeys": nothing},
        {"kind": "update", **table, **names, "columnvalues": [None, "x"], "oldkeys": nothing},
        {"kind": "insert", **table, **names, "columnvalues": [7, None]},
    ]
    for identity in ("key", "full"):
        decode = decoder("wal2json", options={"replica_identity": identity})
        found = events(decode, {"nextlsn": "0/1", "change": sent})
        assert [(e.op, e.before, e.after, e.key_columns) for e in found] == [
            ("delete", None, None, None),
            ("update", None, {"a": None, "b": "x"}, None),
            ("insert", None, {"a": "7", "b": None}, None),
        ]
        assert [event.warnings for event in found] == [["old_missing"], ["old_missing"], []]


def test_version_2_always_names_a_deleted_row() -> None:
    value = {"action": "D", "schema": "wms", "table": "notes", "lsn": "0/1", "identity": []}
    assert code_of(decoder("wal2json"), value) == "no_image"


def test_a_negative_zero_keeps_its_sign() -> None:
    table = {"schema": "wms", "table": "notes"}
    column = '{"name":"%s","type":"double precision","value":%s}'
    columns = ",".join(column % pair for pair in [("a", "-0"), ("b", "0"), ("c", "-0.5")])
    note = '{"name":"n","type":"text","value":"[-0,{\\"a\\":-0}"}'
    value = '{"action":"I","lsn":"0/1","schema":"wms","table":"notes","columns":[%s,%s]}'
    (event,) = events(decoder("wal2json"), (value % (columns, note)).encode())
    assert event.after == {"a": "-0", "b": "0", "c": "-0.5", "n": '[-0,{"a":-0}'}
    names = {"columnnames": ["a", "b"], "columntypes": ["real", "real"], "columnvalues": [7, 8]}
    first = {"nextlsn": "0/1", "change": [{"kind": "insert", **table, **names}]}
    sent = json.dumps(first).replace("[7, 8]", "[-0, -0]").encode()
    assert [event.after for event in events(decoder("wal2json"), sent)] == [{"a": "-0", "b": "-0"}]
