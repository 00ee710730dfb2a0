"""One gold whatever the format: every table is what the simulated one holds, in one run of Spark.

Each wire is a table of its own, named by its number; the messages of all of them come mixed from a
few topics, told apart by themselves (`format: auto`): shuffled and twice where the messages say
their order, else in order, and again from some place on.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ingest.config.load import load
from ingest.formats import FORMATS
from ingest.wire.contract import Message
from pipelines.bronze import source as bronze
from pipelines.gold import run as gold
from pipelines.platform.warehouse import Warehouse
from pipelines.silver import stream
from tests.support.canonical import BOOLEANS, FRACTIONS, ZONELESS, image_of, lost_by
from tests.support.changes import DB, TABLE, Change
from tests.support.encoded_cells import ZONE
from tests.support.encoders import WIRES
from tests.support.farm import ADDED, COLUMNS, Farm
from tests.support.truncates import TRUNCATES
from tests.support.wires import message_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.usefixtures("spark")

CHANGES, PARTITIONS = 30, 3
SPARK_TYPES = {
    **{"int": "int", "bigint": "bigint", "bigint unsigned": "decimal(20,0)", "blob": "binary"},
    **{"decimal(10,2)": "decimal(10,2)", "boolean": "boolean", "date": "date"},
    **{"datetime": "timestamp_ntz", "datetime(6)": "timestamp_ntz"},
    **{"timestamp": "timestamp", "timestamp(6)": "timestamp"},
}
"""Of a column in gold; any other type is a string there."""
TYPED = {name: SPARK_TYPES.get(type_, "string") for name, type_ in COLUMNS.items()}
READ = {
    # Spark breaks base64 into lines.
    "binary": r"regexp_replace(base64({0}), '[\r\n]', '')",
    "timestamp": "cast(unix_micros({0}) as string)",
}
"""How a column of gold is looked at as text, where a cast would not do."""
# Without declared types its times are other times: shown in silver, no table to be compared.
COMPARED = [wire for wire in WIRES if ZONELESS not in lost_by(wire)]
ARRIVING = [wire for wire in COMPARED if FORMATS[WIRES[wire].format].order == "arrival"]


def one_of_each(wires: Sequence[str]) -> list[str]:
    """One wire of every format."""
    return list({WIRES[wire].format: wire for wire in reversed(wires)}.values())


def table_of(wire: str) -> str:
    """Its table: as long as the one that encoders write, so that one can stand for the other."""
    return f"t{list(WIRES).index(wire):03d}"


def captured(wire: str, change: Change, *, partition: int, offset: int) -> str:
    """The message of a change to the wire's own table, as kcat prints it."""
    if change.op == "truncate":
        message = Message(TRUNCATES[wire](change))
    else:
        message = message_of(wire, change)
    own = table_of(wire).encode()
    line: dict[str, Any] = {"topic": "crops", "partition": partition, "offset": offset}
    line["ts"] = 1_700_000_000_000 + offset
    line["payload_hex"] = (message.value or b"").replace(TABLE.encode(), own).hex()
    if message.key is not None:
        line["key_hex"] = message.key.replace(TABLE.encode(), own).hex()
    return json.dumps(line)


def shuffled(log: Sequence[Any], chance: random.Random) -> list[Any]:
    """In no order, a fifth of it twice."""
    sent = [*log, *chance.sample(log, len(log) // 5)]
    chance.shuffle(sent)
    return sent


def repeated(log: Sequence[Any], chance: random.Random) -> list[Any]:
    """In order; now and then what came last comes again."""
    sent: list[Any] = []
    for place, change in enumerate(log):
        sent.append(change)
        if chance.random() < 0.2:
            sent += log[max(0, place - chance.randrange(5)) : place + 1]
    return sent


def batches(
    farms: Mapping[str, Farm], chance: random.Random, *, ordered: bool, count: int
) -> Iterator[list[str]]:
    """The lines of one batch after the other; a wire that is not ordered keeps to a partition."""
    sent = {
        wire: (shuffled if ordered else repeated)(farm.log, chance) for wire, farm in farms.items()
    }
    offsets = [0] * (PARTITIONS if ordered else len(farms))
    for batch in range(count):
        lines = []
        for number, (wire, changes) in enumerate(sent.items()):
            size = len(changes) // count + 1
            for change in changes[batch * size : (batch + 1) * size]:
                partition = chance.randrange(PARTITIONS) if ordered else number
                at = offsets[partition]
                lines.append(captured(wire, change, partition=partition, offset=at))
                offsets[partition] += 1
        yield lines


def configure(root: Path, name: str, wires: Sequence[str], *, order: str) -> None:
    """A source of these wires and its tables."""
    options: dict[str, Any] = {}
    for wire in wires:
        options |= WIRES[wire].options
    columns = {**COLUMNS, **ADDED}
    source = {
        "name": name,
        "files": {"path": f"landing/{name}/*.jsonl", "framing": "kcat", "order": "path"},
        "order": order,
        "time_zone": ZONE,
        "options": options,
        "keys": {f"{DB}.{table_of(wire)}": ["id"] for wire in wires},
        "columns": {f"{DB}.{table_of(wire)}": columns for wire in wires if not WIRES[wire].typed},
    }
    entry = {"from": "*", "target": f"{name}_{{table}}", "columns": TYPED}
    tables = {"source": name, "tables": [entry]}
    for kind, given in (("sources", source), ("tables", tables)):
        file = root / "conf" / kind / f"{name}.yml"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(given, default=dict))


def held(farm: Farm, wire: str) -> list[dict[str, str | None]]:
    """What the table holds, as gold is looked at: by key, instants as microseconds."""
    # the tables file declares booleans
    lost = lost_by(wire) - {BOOLEANS}
    rows = []
    for key in sorted(farm.rows):
        row = farm.rows[key]
        texts = image_of(row, farm.columns, lost) or {}
        for name, value in row.items():
            if isinstance(value, datetime) and value.tzinfo is not None:
                since = value - datetime(1970, 1, 1, tzinfo=UTC)
                unit = 1_000 if FRACTIONS in lost else 1
                texts[name] = str(since // timedelta(microseconds=unit) * unit)
        rows.append(texts)
    return rows


@pytest.mark.slow
def test_gold_is_one_for_every_format(spark: SparkSession, tmp_path: Path) -> None:
    compare(spark, tmp_path, {"ordered": one_of_each(COMPARED)}, count=1)


@pytest.mark.long
def test_gold_is_one_for_every_wire(spark: SparkSession, tmp_path: Path) -> None:
    """In batches, so that what comes late meets what is there."""
    compare(spark, tmp_path, {"ordered": COMPARED, "arriving": ARRIVING}, count=3)


def compare(
    spark: SparkSession, tmp_path: Path, sources: Mapping[str, Sequence[str]], *, count: int
) -> None:
    """Send every wire's log to its source in `count` batches; hold gold against the models."""
    chance = random.Random(11)
    farms: dict[str, dict[str, Farm]] = {}
    for name, wires in sources.items():
        configure(tmp_path, name, wires, order="source" if name == "ordered" else "arrival")
        farms[name] = {wire: Farm(chance, truncates=wire in TRUNCATES) for wire in wires}
        for farm in farms[name].values():
            farm.live(CHANGES)
    config = load(tmp_path / "conf", environ={})
    warehouse = Warehouse(config, spark)
    arriving = {n: batches(farms[n], chance, ordered=n == "ordered", count=count) for n in sources}
    for batch in range(count):
        for name, source in config.sources.items():
            file = tmp_path / "landing" / name / f"{batch}.jsonl"
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text("\n".join(next(arriving[name])) + "\n")
            bronze.ingest_source(warehouse, source)
            stream.decode_source(warehouse, source)
        merged = gold.merge_tables(warehouse, sources=list(config.sources))
        assert [done for done in merged if done.error] == []
    rows = warehouse.read("silver", "cdc")
    rejected = rows.where("kind = 'reject'").select("source", "error_code", "error")
    assert [row.asDict() for row in rejected.collect()] == []
    told = rows.where("kind = 'change'").select("table", "format").distinct().collect()
    assert {(row["table"], row["format"]) for row in told} == {
        (table_of(wire), WIRES[wire].format) for wires in sources.values() for wire in wires
    }
    other = {}
    for name, wires in sources.items():
        for wire in wires:
            found = warehouse.read("gold", f"{name}_{table_of(wire)}")
            texts = [
                f"{READ.get(type_, 'cast({0} as string)').format(column)} as {column}"
                for column, type_ in {**TYPED, **dict.fromkeys(ADDED, "string")}.items()
            ]
            rows_found = [row.asDict() for row in found.orderBy("id").selectExpr(*texts).collect()]
            if rows_found != held(farms[name][wire], wire):
                other[name, wire] = rows_found, held(farms[name][wire], wire)
    assert other == {}
