"""A simulated database's log as Debezium messages, with MySQL positions."""

from __future__ import annotations

import json
import random
from typing import Any

from tests.support.databases import LoggedChange, Row, spellings

_OPS = {"insert": "c", "update": "u", "delete": "d", "snapshot": "r", "truncate": "t"}
UNAVAILABLE = "__debezium_unavailable_value"
COLUMNS = ("id", "a", "b", "c")


def message(logged: LoggedChange, table: str) -> str:
    """One change as a message without schema; columns not touched are unavailable.

    The key comes in any spelling of its number, the same ones whenever the change is delivered.
    """
    chance = random.Random(f"{table} {logged.number}")
    before, after = _spelt(logged.before, chance), _spelt(logged.after, chance)
    if logged.partial and after is not None:
        after = {name: after.get(name, UNAVAILABLE) for name in COLUMNS}
    value: dict[str, Any] = {
        "before": before,
        "after": after,
        "source": {
            "connector": "mysql",
            "ts_ms": 1_700_000_000_000 + logged.number,
            "snapshot": "true" if logged.op == "snapshot" else "false",
            "db": "lab",
            "table": table,
            "file": f"binlog.{999_990 + logged.number // 7:06d}",
            "pos": 10 + logged.number % 7,
            "row": 0,
            "gtid": None,
        },
        "op": _OPS[logged.op],
        "transaction": {
            "id": f"tx{logged.transaction}",
            "total_order": logged.number,
            "data_collection_order": logged.number,
        },
    }
    return json.dumps(value, ensure_ascii=False)


def _spelt(row: Row | None, chance: random.Random) -> Row | None:
    return None if row is None else {**row, "id": chance.choice(spellings(row["id"]))}


def captured(text: str, *, topic: str, partition: int, offset: int) -> str:
    """A message as `kcat -J` prints it."""
    return json.dumps(
        {
            "topic": topic,
            "partition": partition,
            "offset": offset,
            "ts": 1_700_000_000_000 + offset,
            "key": None,
            "payload": text,
        },
        ensure_ascii=False,
    )
