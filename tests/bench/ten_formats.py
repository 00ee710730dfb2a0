"""One stream of messages in ten formats, told apart by each, beside the formats alone."""

from __future__ import annotations

import statistics
from collections.abc import Iterator

import pyarrow as pa

from ingest.config.sources import Source
from ingest.decode.batches import decode
from ingest.decode.silver_rows import SILVER_COLUMNS
from ingest.decode.spec import decode_spec
from tests.bench.avro_cost import changes
from tests.bench.figures import Bench, Figure, ratio
from tests.bench.processes import measured
from tests.bench.wire import COLUMNS
from tests.support.changes import DB, TABLE
from tests.support.encoded_cells import ZONE
from tests.support.encoders import WIRES

FORMATS = (
    *("canal", "cloudcanal", "oms_default", "oms_dataworks", "oms_shareplex"),
    *("dataworks", "debezium", "maxwell", "ogg", "ticdc_simple"),
)
TYPES = {
    name: "varchar(200)" if type_.startswith("varchar") else type_
    for name, type_ in COLUMNS.items()
}
"""Those of the columns, as the producers of the tests know them."""
_MESSAGES = 100_000
_ROUNDS = 3


def run(bench: Bench) -> Iterator[Figure]:
    """CPU of Spark's whole task from messages to rows of silver, in turns."""
    count = bench.sized(_MESSAGES)
    sent = {
        name: [WIRES[name].encode(c._replace(columns=TYPES)) for c in changes(bench, count)]
        for name in FORMATS
    }
    sent["mixed"] = [sent[FORMATS[n % len(FORMATS)]][n] for n in range(count)]
    tasks = {}
    for name, values in sent.items():
        folder = str(bench.folder / name)
        messages = bench.session.createDataFrame(_bronze(name, values))
        messages.repartition(1).sortWithinPartitions("offset").write.parquet(folder)
        source = _source(name, WIRES[name].format if name in WIRES else "auto")
        kept = bench.session.read.parquet(folder)
        tasks[name] = kept.mapInArrow(decode({name: decode_spec(source)}), SILVER_COLUMNS).write
    costs: dict[str, list[float]] = {name: [] for name in tasks}
    for turn in range(_ROUNDS + 1):
        for name, task in tasks.items():
            cost = measured(task.format("noop").mode("overwrite").save)
            if turn:
                costs[name].append(cost.cpu / count * 1e6)
    alone = {name: statistics.median(costs[name]) for name in FORMATS}
    dearest = max(alone, key=lambda name: alone[name])
    yield Figure(
        "decode ten formats mixed, auto",
        1.0,
        ratio(costs["mixed"], costs[dearest]),
        f"{statistics.median(costs['mixed']):.1f} µs a message; alone "
        + ", ".join(f"{name} {of:.1f}" for name, of in alone.items()),
    )


def _bronze(source: str, values: list[bytes]) -> pa.Table:
    """Messages as bronze has them."""
    size = len(values)
    headers = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
    return pa.table(
        {
            "source": pa.repeat(source, size),
            "topic": pa.repeat("crops", size),
            "partition": pa.repeat(pa.scalar(0, pa.int32()), size),
            "offset": pa.array(range(size), pa.int64()),
            "timestamp": pa.repeat(pa.scalar(1_717_200_000_000, pa.timestamp("ms", "UTC")), size),
            "key": pa.nulls(size, pa.binary()),
            "value": pa.array(values, pa.binary()),
            "headers": pa.nulls(size, headers),
            "epoch": pa.repeat(pa.scalar(0, pa.int64()), size),
        }
    )


def _source(name: str, format_: str) -> Source:
    return Source.model_validate(
        {
            "name": name,
            "kafka": {"bootstrap_servers": "broker:9092", "topics": ["crops"]},
            "format": format_,
            "time_zone": ZONE,
            "keys": {f"{DB}.{TABLE}": ["id"]},
            "columns": {f"{DB}.{TABLE}": TYPES},
        }
    )
