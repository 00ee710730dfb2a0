"""One stream of messages in ten formats, told apart by each, beside the formats alone."""

from __future__ import annotations

import statistics
from collections.abc import Iterator

from ingest.formats.format import Message
from ingest.reader import Reader
from ingest.readings import reading
from ingest.sources import Source
from tests.bench.avro_cost import changes, cost
from tests.bench.figures import Bench, Figure, ratio
from tests.bench.wire import COLUMNS
from tests.changes import DB, TABLE
from tests.encoded_cells import ZONE
from tests.encoders import WIRES

FORMATS = (
    *("canal", "cloudcanal", "oms_default", "oms_dataworks", "oms_shareplex"),
    *("dataworks", "debezium", "maxwell", "ogg", "ticdc_simple"),
)
TYPES = {
    name: "varchar(200)" if type_.startswith("varchar") else type_
    for name, type_ in COLUMNS.items()
}
"""Those of the columns, as the producers of the tests know them."""
_MESSAGES = 5_000
_ROUNDS = 5


def run(bench: Bench) -> Iterator[Figure]:
    """CPU of a message to its rows of silver, in turns."""
    count = bench.sized(_MESSAGES)
    sent = {
        name: [
            Message(
                WIRES[name].encode(change._replace(columns=TYPES)),
                topic="crops",
                offset=change.number,
            )
            for change in changes(bench, count)
        ]
        for name in FORMATS
    }
    streams = {name: (_reader(WIRES[name].format), messages) for name, messages in sent.items()}
    mixed = [sent[FORMATS[n % len(FORMATS)]][n] for n in range(count)]
    streams["mixed"] = (_reader("auto"), mixed)
    costs: dict[str, list[float]] = {name: [] for name in streams}
    for turn in range(_ROUNDS + 1):
        for name, (reader, messages) in streams.items():
            taken = cost(lambda m, r=reader: list(r.rows(m)), messages)
            if turn:
                costs[name].append(taken)
    alone = {name: statistics.median(costs[name]) for name in FORMATS}
    dearest = max(alone, key=lambda name: alone[name])
    yield Figure(
        "decode ten formats mixed, auto, in Python",
        1.0,
        ratio(costs["mixed"], costs[dearest]),
        f"{statistics.median(costs['mixed']):.1f} µs a message; alone "
        + ", ".join(f"{name} {of:.1f}" for name, of in alone.items()),
    )


def _reader(format_: str) -> Reader:
    source = {
        "name": "farm",
        "kafka": {"bootstrap_servers": "broker:9092", "topics": ["crops"]},
        "format": format_,
        "time_zone": ZONE,
        "keys": {f"{DB}.{TABLE}": ["id"]},
        "columns": {f"{DB}.{TABLE}": TYPES},
    }
    return Reader(reading(Source.model_validate(source)))
