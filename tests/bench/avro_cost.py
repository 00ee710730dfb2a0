"""Decoding Avro messages to events against fastavro's own schemaless read of the same bytes."""

from __future__ import annotations

import gc
import io
import json
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

import fastavro

from ingest.formats import FORMATS
from ingest.wire.contract import Decoder, FormatOptions, Message
from tests.bench.figures import Bench, Figure, ratio
from tests.bench.generator import Row, Table
from tests.bench.wire import COLUMNS, debezium_with_schema
from tests.support import avro_encoders
from tests.support.avro_schemas import DTS_15, OB
from tests.support.changes import Change
from tests.support.connect_avro import SchemaFiles

_MESSAGES = 20_000
_ROUNDS = 7


class Sent(NamedTuple):
    """Messages of a format, the options that read them, and how fastavro reads one."""

    format: str
    options: dict[str, Any]
    values: list[bytes]
    read: Callable[[bytes], Any]


def debezium_avro(bench: Bench, count: int) -> Sent:
    """Debezium of MySQL in Confluent framing, schemas in files."""
    folder = bench.folder / "schemas"
    folder.mkdir(parents=True)
    files = SchemaFiles(folder)
    table = Table(keys=count // 5, seed=bench.seed)
    framed = (files.framed(json.loads(debezium_with_schema(c))) for c in table.changes(count))
    values = [value for value in framed if value is not None]
    schemas = {int(file.stem): _parsed(file) for file in folder.glob("*.avsc")}

    def read(value: bytes) -> Any:
        schema = schemas[int.from_bytes(value[1:5], "big")]
        return fastavro.schemaless_reader(io.BytesIO(value[5:]), schema)

    return Sent("debezium_avro", {"schema_folder": str(folder)}, values, read)


def dts(bench: Bench, count: int) -> Sent:
    """Aliyun DTS of MySQL, 15 fields."""
    return _bare("dts", avro_encoders.dts, DTS_15, bench, count)


def ob_avro(bench: Bench, count: int) -> Sent:
    """OceanBase's AvroRecord, bare."""
    return _bare("ob_avro", avro_encoders.ob_avro, OB, bench, count)


def _bare(
    name: str, encode: Callable[[Change], bytes], schema: Any, bench: Bench, count: int
) -> Sent:
    def read(value: bytes) -> Any:
        return fastavro.schemaless_reader(io.BytesIO(value), schema)

    return Sent(name, {}, [encode(change) for change in changes(bench, count)], read)


def changes(bench: Bench, count: int) -> Iterator[Change]:
    """The generator's changes as the producers of the tests take them."""
    for number, change in enumerate(Table(keys=count // 5, seed=bench.seed).changes(count)):
        before, after = _row(change.before), _row(change.after)
        yield Change(_OPS[change.op], COLUMNS, before, after, number=number)


_OPS = {"c": "insert", "u": "update", "d": "delete"}


def _row(row: Row | None) -> dict[str, Any] | None:
    if row is None:
        return None
    times = {
        name: datetime.fromtimestamp(getattr(row, name) / 1000, UTC).replace(tzinfo=None)
        for name in ("created_at", "updated_at")
    }
    return {**row._asdict(), **times, "amount": Decimal(row.amount).scaleb(-2)}


def _parsed(file: Path) -> Any:
    return fastavro.parse_schema(json.loads(file.read_text()))


TARGETS: dict[str, tuple[Callable[[Bench, int], Sent], float]] = {
    "debezium_avro": (debezium_avro, 1.3),
    "dts": (dts, 1.6),
    "ob_avro": (ob_avro, 1.6),
}


def run(bench: Bench) -> Iterator[Figure]:
    """One figure a format."""
    for name, (make, target) in TARGETS.items():
        sent = make(bench, bench.sized(_MESSAGES))
        format_ = FORMATS[sent.format]
        defaults = {key: option.default for key, option in format_.options.items()}
        decode = format_.decoder(FormatOptions(options={**defaults, **sent.options}))
        messages = [Message(value) for value in sent.values]
        ours: list[float] = []
        theirs: list[float] = []
        for turn in range(_ROUNDS + 1):
            both = _cost(_decoding(decode), messages), _cost(sent.read, sent.values)
            if turn:
                ours.append(both[0])
                theirs.append(both[1])
        size = sum(map(len, sent.values)) / len(sent.values)
        yield Figure(
            f"decode {name}, in Python",
            target,
            ratio(ours, theirs),
            f"{min(ours):.1f} µs a message of {size:.0f} B, fastavro's read {min(theirs):.1f}",
        )


def _decoding(decode: Decoder) -> Callable[[Message], Any]:
    return lambda message: list(decode(message))


def _cost(work: Callable[[Any], Any], items: list[Any]) -> float:
    """Microseconds of CPU an item."""
    gc.disable()
    try:
        began = time.process_time()
        for item in items:
            work(item)
        return (time.process_time() - began) / len(items) * 1e6
    finally:
        gc.enable()
