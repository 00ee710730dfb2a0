"""A table emptied, as each wire tells it where it can: the encoders of truncates.

Each starts from the message of a row, so that positions and names are the wire's own.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from tests.support.changes import TABLE, Change
from tests.support.connect_avro import completed
from tests.support.connect_avro_wires import FILES
from tests.support.encoders import WIRES

SQL = f"TRUNCATE TABLE {TABLE}"


def _row(wire: str, change: Change) -> dict[str, Any]:
    """The message of a row inserted where the table is emptied."""
    inserted = Change("insert", {"id": "int"}, None, {"id": 1}, number=change.number)
    found: dict[str, Any] = json.loads(WIRES[wire].encode(inserted))
    return found


def _with(wire: str, **members: Any) -> Callable[[Change], bytes]:
    """The message of a row with some members set anew, and left out where they are `...`."""

    def encode(change: Change) -> bytes:
        found = {**_row(wire, change), **members}
        return json.dumps(
            {name: value for name, value in found.items() if value is not ...}
        ).encode()

    return encode


def _debezium(change: Change) -> dict[str, Any]:
    found = _row("debezium", change)
    found["payload"] |= {"op": "t", "after": None}
    return found


def _debezium_avro(change: Change) -> bytes:
    return FILES.framed(completed(_debezium(change))) or b""


def _dms(change: Change) -> bytes:
    metadata = _row("dms", change)["metadata"]
    metadata |= {"record-type": "control", "operation": "truncate-table"}
    return json.dumps({"metadata": metadata}).encode()


def _inside(wire: str, **members: Any) -> Callable[[Change], bytes]:
    """The same inside `payload`."""

    def encode(change: Change) -> bytes:
        found = _row(wire, change)
        found["payload"] |= members
        return json.dumps(found).encode()

    return encode


_CANAL = {"type": "TRUNCATE", "isDdl": True, "data": None, "old": None, "sql": SQL}
_GONE = {"before": None, "after": None}
TRUNCATES: dict[str, Callable[[Change], bytes]] = {
    "canal": _with("canal", **_CANAL),
    "canal_of_oms": _with("canal_of_oms", **_CANAL),
    "cloudcanal": _with("cloudcanal", action="TRUNCATE", isDdl=True, data=[], before=[], sql=SQL),
    "debezium": lambda change: json.dumps(_debezium(change)).encode(),
    "debezium_schemaless": _with("debezium_schemaless", op="t", after=None),
    "debezium_avro": _debezium_avro,
    "oms_dataworks": _inside("oms_dataworks", op="TRUNCATE", **_GONE),
    "dataworks": _inside("dataworks", op="TRUNCATE", **_GONE),
    "dataworks_declared": _inside("dataworks", op="TRUNCATE", **_GONE),
    "ogg": _with("ogg", op_type="T", **_GONE),
    "wal2json": _with("wal2json", action="T", columns=..., identity=..., pk=...),
    "dms": _dms,
}
"""By wire; the others tell of a statement in ways that their own tests look at, or not at all."""
