"""What a value costs to decode in a row of 200 columns, compared with one of 15."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

import orjson
import pyarrow as pa

from ingest.config.checks import checked_source
from ingest.decode.batches import decode
from ingest.decode.spec import decode_spec
from ingest.formats import FORMATS
from tests.bench.figures import Bench, Figure, ratio

_VALUES = 1_000_000
_WIDE, _NARROW, _CHANGED = 200, 15, 3
_ROUNDS = 5
_HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


def run(bench: Bench) -> Iterator[Figure]:
    """Updates that change three columns, in turns, in this process and without Spark."""
    values = bench.sized(_VALUES, least=50_000)
    for name in ("debezium", "canal"):
        wide = [_micros(name, _WIDE, values) for _ in range(_ROUNDS)]
        narrow = [_micros(name, _NARROW, values) for _ in range(_ROUNDS)]
        yield Figure(
            f"decode a value of {name} in a row of {_WIDE} columns, compared with {_NARROW}",
            1.0,
            ratio(wide, narrow),
            f"{min(wide):.3f} µs a value and {min(narrow):.3f}",
        )


def _micros(name: str, columns: int, values: int) -> float:
    source = {"name": "s", "format": name, "files": {"path": "-"}, "keys": {"shop.t": ["c0"]}}
    checked, _ = checked_source(source, "s.yml", FORMATS)
    assert checked is not None
    run_ = decode({"s": decode_spec(checked)})
    batch = _batch([_MESSAGES[name](number, columns) for number in range(values // columns)])
    began = time.process_time()
    rows = sum(decoded.num_rows for decoded in run_(iter([batch])))
    spent = time.process_time() - began
    assert rows >= batch.num_rows
    return spent / float(batch.num_rows * columns) * 1e6


def _batch(messages: Sequence[bytes]) -> pa.RecordBatch:
    count = len(messages)
    return pa.RecordBatch.from_pydict(
        {
            "source": ["s"] * count,
            "topic": ["t"] * count,
            "partition": pa.array([0] * count, pa.int32()),
            "offset": list(range(count)),
            "timestamp": pa.array([1_700_000_000_000_000] * count, pa.timestamp("us", "UTC")),
            "key": pa.nulls(count, pa.binary()),
            "value": pa.array(messages, pa.binary()),
            "headers": pa.nulls(count, _HEADERS),
            "epoch": [0] * count,
        }
    )


def _row(number: int, columns: int) -> dict[str, str]:
    return {f"c{place}": f"value {number + place}" for place in range(columns)}


def _debezium(number: int, columns: int) -> bytes:
    after = _row(number, columns)
    before = {**after, **{f"c{place + 1}": "before" for place in range(_CHANGED)}}
    source = {"connector": "mysql", "db": "shop", "table": "t", "file": "b.1", "pos": number}
    return orjson.dumps(
        {
            **{"op": "u", "before": before, "after": after, "ts_ms": 1_700_000_000_000},
            "source": {**source, "row": 0, "ts_ms": 1_700_000_000_000, "snapshot": "false"},
        }
    )


def _canal(number: int, columns: int) -> bytes:
    old = {f"c{place + 1}": "before" for place in range(_CHANGED)}
    row = _row(number, columns)
    return orjson.dumps(
        {
            **{"data": [row], "old": [old], "database": "shop", "table": "t", "type": "UPDATE"},
            **{"es": 1_700_000_000_000 + number, "ts": 1_700_000_000_000, "id": number},
            **{"isDdl": False, "sql": "", "pkNames": ["c0"]},
            "mysqlType": dict.fromkeys(row, "varchar(40)"),
        }
    )


_MESSAGES = {"debezium": _debezium, "canal": _canal}
