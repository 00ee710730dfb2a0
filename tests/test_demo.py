"""The demo of conf/: what its messages must come to, worked out by hand."""

from __future__ import annotations

import gzip
import json
import os
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from ingest.config.load import load
from ingest.formats import FORMATS
from ingest.position import stream_number
from pipelines.cli import status
from pipelines.operations import listings
from pipelines.operations.listings import REJECT, ddl, rejects
from pipelines.platform.rows import records
from pipelines.platform.warehouse import Warehouse
from tests.support.demo import ROOT, Demo, ingest

# Each event's time: Shanghai is eight hours ahead.
INES = datetime(2024, 3, 4, 1, 15, tzinfo=UTC)
BO = datetime(2024, 3, 4, 2, 5, tzinfo=UTC)
INES_S, BO_S = 1709514900, 1709517900
SEQUENCE = 1709514000589000000
WITH_SCHEMA = stream_number("demo.debezium.orders", 0)
PLAIN = stream_number("demo.debezium_plain.orders", 0)


def mixed(name: str, ines: list[int], bo: list[int]) -> tuple[str, str, list[int], list[int]]:
    """A topic of the source `mixed`: s1… of each of the two rows, which came first and fourth."""
    stream = stream_number(f"demo.{name}.orders", 0)
    table = f"{'public' if name == 'wal2json' else name}.orders"
    ines, bo = ([0, 1, *order, *[0] * (5 - len(order)), stream] for order in (ines, bo))
    return "mixed", table, [*ines, 0, 0, 1], [*bo, 3, 0, 1]


# target -> source, source table, pos of each of its two rows. Files are numbered from 0 in order of
# path, their records likewise; the update of Bo's order is the fourth event.
ORDERS: dict[str, tuple[str, str, list[int], list[int]]] = {
    "canal_orders": (
        *("canal", "canal.orders"),
        [0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 1],
        [0, 1, 0, 0, 0, 0, 0, 0, 3, 0, 1],
    ),
    "cloudcanal_orders": (
        *("cloudcanal", "cloudcanal.cloudcanal.orders"),
        [0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 1],
        [0, 1, 0, 0, 0, 0, 0, 0, 3, 0, 1],
    ),
    # The update's second half, the fifth message.
    "dataworks_orders": (
        *("dataworks", "dataworks.orders"),
        [0, 1, SEQUENCE, 0, 0, 0, 0, 0, 0, 0, 1],
        [0, 1, SEQUENCE + 3, 0, 0, 0, 0, 0, 4, 0, 1],
    ),
    # The first row is one of the snapshot: below every stream event.
    "debezium_orders": (
        *("debezium", "debezium.orders"),
        [0, 0, 7, 400, 0, 0, 0, WITH_SCHEMA, 0, 0, 1],
        [0, 1, 7, 730, 0, 0, 0, WITH_SCHEMA, 3, 0, 1],
    ),
    "debezium_plain_orders": (
        *("debezium", "debezium_plain.orders"),
        [0, 1, 7, 400, 0, 0, 0, PLAIN, 0, 0, 1],
        [0, 1, 7, 730, 0, 0, 0, PLAIN, 3, 0, 1],
    ),
    "oms_dataworks_orders": (
        *("oms", "oms_dataworks.orders"),
        [0, 1, INES_S * 1000, 0, 0, 0, 0, 0, 0, 0, 1],
        [0, 1, BO_S * 1000, 0, 0, 0, 0, 0, 3, 0, 1],
    ),
    "oms_default_orders": (
        *("oms", "oms_default.orders"),
        [0, 1, INES_S, 1, 0, 0, 0, 1, 0, 0, 1],
        [0, 1, BO_S, 4, 0, 0, 0, 1, 3, 0, 1],
    ),
    "ogg_orders": mixed("ogg", [0, 9514900], [0, 9517900]),
    # By arrival, 600 ms after the change.
    "maxwell_orders": mixed("maxwell", [INES_S * 1000 + 600], [BO_S * 1000 + 600]),
    "dms_orders": mixed("dms", [INES_S * 1000 + 600], [BO_S * 1000 + 600]),
    "wal2json_orders": mixed("wal2json", [0x17B3B50 + 9514900], [0x17B3B50 + 9517900]),
    "ticdc_open_orders": mixed("ticdc_open", [INES_S * 1000 << 18, 1], [BO_S * 1000 << 18, 1]),
    "ticdc_simple_orders": mixed("ticdc_simple", [INES_S * 1000 << 18, 1], [BO_S * 1000 << 18, 1]),
    "dts_orders": mixed("dts", [7, 9518900], [7, 9521900]),
    "debezium_avro_orders": mixed("debezium_avro", [7, 9518900], [7, 9521900]),
    "ob_avro_orders": mixed("ob_avro", [9584900], [9587900]),
    "oms_shareplex_orders": (
        *("oms", "oms_shareplex.orders"),
        [0, 1, INES_S, 1, 0, 0, 0, 2, 0, 0, 1],
        [0, 1, BO_S, 4, 0, 0, 0, 2, 3, 0, 1],
    ),
}


@pytest.fixture(scope="module")
def tables(demo: Demo, spark: SparkSession) -> Warehouse:
    """The demo's warehouse."""
    return Warehouse(load(demo.folder / "conf", environ={}), spark)


def rows(tables: Warehouse, target: str, key: str) -> list[dict[str, Any]]:
    return records(tables.read("gold", target).orderBy(key))


@pytest.mark.parametrize("target", ORDERS)
def test_the_same_events_give_the_same_rows_in_every_format(tables: Warehouse, target: str) -> None:
    source, table, ines, bo = ORDERS[target]
    assert rows(tables, target, "order_id") == [
        {
            "order_id": 1002,
            "customer": "Bo Lindqvist",
            "amount": Decimal("24.90"),
            "placed_at": datetime(2024, 3, 4, 9, 20),
            "note": "gift wrap",
            "_pos": bo,
            "_event_time": BO,
            "_source": source,
            "_source_table": table,
        },
        {
            "order_id": 9007199254740993,
            "customer": "Ines Okoro",
            "amount": Decimal("1250.00"),
            "placed_at": datetime(2024, 3, 4, 9, 15),
            "note": None,
            "_pos": ines,
            "_event_time": INES,
            "_source": source,
            "_source_table": table,
        },
    ]


def test_a_key_change_an_added_column_and_a_dropped_one(tables: Warehouse) -> None:
    named = ("customer_id", "name", "city", "postcode", "points", "_event_time")
    common = {"_source": "canal", "_source_table": "canal.customers"}
    expected = [
        (1, "Ines Okoro", "Lagos", 101233, 40, (1, 1), datetime(2024, 3, 4, 23, 10, tzinfo=UTC)),
        (3, "Mei Tanaka", "Osaka", 5300001, 0, (0, 7), datetime(2024, 3, 4, 0, 2, tzinfo=UTC)),
        (5, "Ada Novak", None, 11000, 0, (1, 3), datetime(2024, 3, 5, 0, 10, tzinfo=UTC)),
        (20, "Bo Lindqvist", "Malmö", 21119, 0, (0, 8), datetime(2024, 3, 4, 4, 0, tzinfo=UTC)),
    ]
    assert rows(tables, "canal_customers", "customer_id") == [
        {
            **dict(zip(named, (*values, at), strict=True)),
            "_pos": [0, 1, place[0], 0, 0, 0, 0, *place, 0, 1],
            **common,
        }
        for *values, place, at in expected
    ]


def test_a_late_update_does_not_bring_a_deleted_row_back(tables: Warehouse) -> None:
    assert rows(tables, "oms_default_stock", "sku") == [
        {
            "sku": "PEN-1",
            "on_hand": 38,
            "price": Decimal("1.50"),
            "counted_at": datetime(2024, 3, 4, 1, 0, 0, 250_000, tzinfo=UTC),
            "_pos": [0, 1, 1709535600, 1, 0, 0, 0, 1, 7, 0, 1],
            "_event_time": datetime(2024, 3, 4, 7, 0, tzinfo=UTC),
            "_source": "oms",
            "_source_table": "oms_default.stock",
        }
    ]
    runs = tables.read("gold", "_progress").where("target = 'oms_default_stock'").orderBy("batch")
    assert [(row["events"], row["late"], row["keys_refolded"]) for row in records(runs)] == [
        (4, 0, 0),
        (1, 1, 1),
    ]


def test_a_value_that_was_not_sent_stays(tables: Warehouse) -> None:
    assert rows(tables, "oms_dataworks_reviews", "review_id") == [
        {
            "review_id": 1,
            "stars": 5,
            "body": "Good pens, slow post.",
            "_pos": [0, 1, 1709550000000, 0, 0, 0, 0, 0, 6, 0, 1],
            "_event_time": datetime(2024, 3, 4, 11, 0, tzinfo=UTC),
            "_source": "oms",
            "_source_table": "oms_dataworks.reviews",
        }
    ]


def test_a_truncate_removes_what_came_before_it(tables: Warehouse) -> None:
    assert rows(tables, "dataworks_carts", "cart_id") == [
        {
            "cart_id": 3,
            "items": 2,
            "_pos": [0, 1, SEQUENCE + 13, 0, 0, 0, 0, 0, 9, 0, 1],
            "_event_time": datetime(2024, 3, 4, 16, 10, tzinfo=UTC),
            "_source": "dataworks",
            "_source_table": "dataworks.carts",
        }
    ]


def test_a_table_without_a_key_is_appended_to(tables: Warehouse) -> None:
    assert rows(tables, "canal_page_views", "page") == [
        {
            "page": "/cart",
            "seen_at": datetime(2024, 3, 5, 8, 12),
            "_pos": [0, 1, 1, 0, 0, 0, 0, 1, 4, 0, 1],
            "_event_time": datetime(2024, 3, 5, 0, 12, tzinfo=UTC),
            "_source": "canal",
            "_source_table": "canal.page_views",
        }
    ]


def test_there_are_no_other_gold_tables(tables: Warehouse) -> None:
    folder = tables.folder("gold", "_").parent
    assert {path.name for path in folder.iterdir() if (path / "_delta_log").is_dir()} == {
        *ORDERS,
        *("canal_customers", "canal_page_views", "dataworks_carts"),
        *("oms_dataworks_reviews", "oms_default_stock"),
        *("_ddl", "_progress", "_rejects", "_runs"),
    }


def test_every_format_has_spoken(tables: Warehouse) -> None:
    found = tables.read("silver", "cdc").where("kind = 'change'").select("format").distinct()
    assert {row["format"] for row in records(found)} == set(FORMATS)


def test_every_message_has_a_silver_row(tables: Warehouse, demo: Demo) -> None:
    sent = {
        source.name: sum(map(_messages, (demo.folder / "conf" / "demo" / source.name).iterdir()))
        for source in load(demo.folder / "conf", environ={}).sources.values()
    }
    place = ["source", "topic", "partition", "offset"]
    bronze = tables.read("bronze", "messages").select(place)
    silver = tables.read("silver", "cdc").select(place).distinct()
    assert Counter(row["source"] for row in records(bronze)) == sent
    assert records(bronze.join(silver, place, "left_anti")) == []
    assert silver.count() == sum(sent.values()) == 111


def _messages(path: Path) -> int:
    data = path.read_bytes()
    return (gzip.decompress(data) if path.suffix == ".gz" else data).count(b"\n")


def test_what_was_set_aside(tables: Warehouse) -> None:
    found = [dict(zip(REJECT, row, strict=True)) for row in rejects(tables)]
    for row in found:
        row["topic"] = row["topic"].removeprefix("conf/demo/")
    named = ("stage", "status", "source", "topic", "partition", "offset", "target", "code")
    assert [tuple(row[name] for name in named) for row in found] == [
        ("gold", "open", "canal", "canal/1-monday.jsonl", 0, 9, "canal_customers", "type_mismatch"),
        ("decode", "open", "canal", "canal/2-tuesday.jsonl", 1, 5, None, "bad_json"),
        ("decode", "open", "oms", "oms/1-monday-dataworks.jsonl", 0, 7, None, "unknown_format"),
    ]
    assert found[2]["value"] == b'{"status":"ok","service":"stock-scanner"}'


def test_the_ledger(tables: Warehouse) -> None:
    found = ddl(tables)
    named = ("source", "db", "schema", "table", "target", "status", "class", "kind", "statement")
    customers = "gold.canal_customers"
    assert [
        tuple(row[name] for name in (*named, "proposed", "pos", "event_time")) for row in found
    ] == [
        (
            *("canal", "canal", None, "customers", "canal_customers"),
            *("applied", "additive", "add_column"),
            "ALTER TABLE `customers` ADD COLUMN `points` int NOT NULL DEFAULT 0",
            f"ALTER TABLE {customers} ADD COLUMNS (`points` int)",
            [0, 1, 1, 0, 0, 0, 0, 1, 0, 0, 1],
            datetime(2024, 3, 4, 23, 0, tzinfo=UTC),
        ),
        (
            *("canal", "canal", None, "customers", "canal_customers"),
            *("pending", "destructive", "drop_column"),
            "ALTER TABLE `customers` DROP COLUMN `city`",
            f"ALTER TABLE {customers} DROP COLUMN `city`",
            [0, 1, 1, 0, 0, 0, 0, 1, 2, 0, 1],
            datetime(2024, 3, 5, 0, 0, tzinfo=UTC),
        ),
        (
            *("dataworks", "dataworks", None, "carts", "dataworks_carts"),
            *("ignored", "none", "truncate"),
            "TRUNCATE TABLE carts",
            None,
            [0, 1, SEQUENCE + 12, 0, 0, 0, 0, 0, 8, 0, 1],
            datetime(2024, 3, 4, 15, 59, tzinfo=UTC),
        ),
    ]


def test_history_tells_who_changed_what(demo: Demo) -> None:
    lines = ingest(demo, "history oms_default_stock --key sku=INK-7 --json").splitlines()
    found = [json.loads(line) for line in lines]
    named = ("op", "event_time", "sku", "on_hand", "price", "before", "offset")
    image = {"sku": "INK-7", "price": "7.00", "counted_at": "2024-03-04T01:00:00Z"}
    assert [tuple(row[name] for name in named) for row in found] == [
        ("insert", "2024-03-04T01:00:01Z", "INK-7", 12, "7.00", None, 6),
        ("update", "2024-03-04T08:00:00Z", "INK-7", 0, "7.00", {**image, "on_hand": "12"}, 0),
        ("delete", "2024-03-04T09:00:00Z", "INK-7", 0, "7.00", {**image, "on_hand": "0"}, 8),
    ]


SCREENS = ROOT / "tests" / "cli" / "screens"


@pytest.fixture(scope="module")
def looks(demo: Demo) -> Iterator[Callable[[str], str]]:
    """Prints a verb's screen; what it is made of is asked for once, however wide the screens are,
    and the clock stands."""
    noon = datetime(2024, 3, 5, 12, tzinfo=UTC)
    held: dict[str, Any] = {}

    def once(module: Any, name: str) -> Any:
        found = getattr(module, name)

        def kept(*given: Any, **named: Any) -> Any:
            if name not in held:
                held[name] = found(*given, **named)
                held[name] = list(held[name]) if name == "rejects" else held[name]
            return held[name]

        return kept

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(status, "_now", lambda: noon)
        for module, name in ((status, "_look"), (listings, "rejects"), (listings, "ddl")):
            patch.setattr(module, name, once(module, name))
        yield lambda words: ingest(demo, words)


@pytest.mark.parametrize("width", [80, 120, 200])
@pytest.mark.parametrize(
    "words",
    ["status", "ddl list", "rejects list", "history canal_customers", "inspect FILE", "formats"],
)
def test_screens(
    words: str, width: int, looks: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What people are shown of the demo. `SCREENS=write` writes them anew."""
    monkeypatch.setenv("COLUMNS", str(width))
    printed = looks(words.replace("FILE", "conf/demo/canal/2-tuesday.jsonl"))
    golden = SCREENS / f"{words.split()[0]}-{width}.txt"
    if os.environ.get("SCREENS") == "write":
        golden.write_text(printed, encoding="utf-8")
    assert printed == golden.read_text(encoding="utf-8")
    assert all(len(line) <= width for line in printed.splitlines())


def test_played_again_it_adds_nothing(tables: Warehouse, demo: Demo) -> None:
    before = _stands(tables)
    found = [json.loads(line) for line in ingest(demo, "run --json").splitlines()]
    assert [(row["kind"], row["messages"], row["rows"]) for row in found] == [
        ("source", 0, 0) for _ in range(6)
    ]
    assert _stands(tables) == before


def _stands(tables: Warehouse) -> dict[str, int]:
    """How many rows silver has, and how many commits every other table."""
    folder = Path(tables.settings.warehouse)
    stands = {
        str(log.parent.relative_to(folder)): len(list(log.glob("*.json")))
        for log in folder.glob("*/*/_delta_log")
    }
    return {**stands, "silver/cdc": tables.read("silver", "cdc").count()}
