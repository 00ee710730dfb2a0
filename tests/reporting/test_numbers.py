"""Every number that `ingest report` shows, read by a real browser, is what SQL says of the tables.

Nothing is left out: a number that stands on the page and is neither compared here nor part of a
name, an id or a time fails a test.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from pyspark.sql import SparkSession

from ingest.config.load import load
from pipelines.platform.warehouse import Warehouse
from pipelines.reporting import facts
from pipelines.reporting.page import seconds, size
from pipelines.reporting.plots import short
from pipelines.terminal.console import Advance
from tests.support.browser import Page, browser
from tests.support.project import Project, canal, canal_ddl, project_in

pytestmark = pytest.mark.slow

T0 = 1_700_000_000_000
HOUR = 3_600_000
PEN = {"id": "1", "name": "pen", "price": "1.10"}
STOCKED = {"id": "int", "name": "varchar(20)", "price": "decimal(12,2)", "stock": "int"}
CONF = {
    "conf/ingest.yml": "checks: {rejects: 1, pending_ddl: 0}\n",
    "conf/sources/shop.yml": (
        "name: shop\nformat: canal\norder: source\n"
        "files: {path: 'landing/shop/*.jsonl', order: path}\n"
    ),
    "conf/sources/depot.yml": (
        "name: depot\nformat: canal\norder: source\n"
        "files: {path: 'landing/depot/*.jsonl', order: path}\n"
    ),
    "conf/sources/quiet.yml": (
        "name: quiet\nformat: canal\nfiles: {path: 'landing/quiet/*.jsonl'}\n"
    ),
    "conf/tables/depot.yml": (
        "source: depot\ndefaults: {ddl: {additive: review}}\ntables:\n"
        "  - {from: '*', target: 'depot_{table}'}\n"
        "  - {from: '*.moves', target: depot_moves, stored_as_scd_type: append}\n"
        "  - {from: '*.stock', target: depot_stock, stored_as_scd_type: 2}\n"
    ),
}


def item(op: str, at: int, *, table: str = "item", **values: Any) -> dict[str, Any]:
    """A message of Canal, `at` so many milliseconds after the first."""
    old = {"name": "before"} if op == "UPDATE" else None
    return canal(table, op, {**PEN, **values}, es=T0 + at, id_=at + 1, old=old)


def stock(op: str, at: int, **values: Any) -> dict[str, Any]:
    message = item(op, at, table="stock", **values)
    return {**message, "mysqlType": STOCKED} if "stock" in values else message


SHOP: list[list[dict[str, Any] | str]] = [
    [
        *(item("INSERT", n, id=str(n)) for n in range(1, 8)),
        item("INSERT", 10, id="11", price="much"),
        item("INSERT", 11, id="12", price="more"),
        item("INSERT", 12, id=None),
        "{no message",
        "{no message either",
        "{nor this",
        {**item("INSERT", 13), "type": "UPSIDE"},
        *(item("INSERT", 20 + n, table="odd", id=str(n)) for n in range(3)),
        canal_ddl("odd", "ALTER TABLE odd DROP COLUMN price", es=T0 + 30, id_=31),
        canal_ddl("odd", "ALTER TABLE odd DROP COLUMN name", es=T0 + 31, id_=32),
        # Both would become one target.
        item("INSERT", 40, table="pay 1"),
        item("INSERT", 41, table="pay-1"),
    ],
    [
        item("UPDATE", HOUR, id="1", name="new"),
        item("UPDATE", HOUR + 1, id="2", name="new"),
        item("DELETE", HOUR + 2, id="3"),
    ],
    [
        item("UPDATE", 200, id="1", name="late"),
        item("UPDATE", 201, id="2", name="late"),
        item("UPDATE", 202, id="3", name="late"),
        item("INSERT", HOUR + 3, id="50", name="other"),
    ],
]
DEPOT: list[list[dict[str, Any] | str]] = [
    [
        *(stock("INSERT", n, id=str(n)) for n in range(1, 5)),
        canal_ddl("stock", "ALTER TABLE stock ADD COLUMN stock int", es=T0 + 9, id_=10),
        *(stock("INSERT", 10 + n, id=str(10 + n), stock=str(n)) for n in range(3)),
        *({**item("INSERT", 50 + n, table="moves", id=str(n)), "pkNames": None} for n in range(6)),
        "{no message of the depot",
    ],
    [stock("UPDATE", HOUR, id="1", name="new"), stock("UPDATE", HOUR + 1, id="1", name="newer")],
    [stock("UPDATE", HOUR // 2, id="1", name="late"), stock("DELETE", HOUR + 9, id="4")],
]


class Made(NamedTuple):
    """A project and the report on it, which was written between two moments."""

    project: Project
    file: Path
    since: datetime
    until: datetime


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> Iterator[Made]:
    """Three runs, the last of which brought what is late; then messages that are read and not
    decoded, changes that are decoded and not applied, files that are not read; and a gap."""
    folder = tmp_path_factory.mktemp("numbers")
    with project_in(folder) as project:
        for name, text in CONF.items():
            project.write(name, text)
        for name in ("shop", "depot", "quiet"):
            (folder / "landing" / name).mkdir()
        for number, (shop, depot) in enumerate(zip(SHOP, DEPOT, strict=True)):
            project.land(f"shop/{number}.jsonl", shop)
            project.land(f"depot/{number}.jsonl", depot)
            assert project.ingest("run").code == 1
        chosen = ("--source", "shop", "--code", "bad_json", "--json")
        first = project.ingest("rejects", "list", *chosen).records[0]
        assert project.ingest("rejects", "dismiss", first["id"], "--why", "known").code == 0
        bronze = f"delta.`{folder}/warehouse/bronze/messages`"
        columns = (
            "source, topic, `partition`, 70 AS offset, timestamp, key, NULL AS value, "
            "array(struct('ingest.gap' AS key, CAST('70-72' AS BINARY) AS value)) AS headers"
        )
        gap = f"SELECT {columns}, epoch, ingested_at FROM {bronze} WHERE source = 'depot' LIMIT 1"
        spark.sql(f"INSERT INTO {bronze} {gap}")
        project.land("shop/unapplied.jsonl", [item("INSERT", 2 * HOUR + n, id="9") for n in (1, 2)])
        for verb in ("bronze", "silver"):
            assert project.ingest(verb).code == 0
        project.land("depot/undecoded.jsonl", [stock("INSERT", 2 * HOUR, id="9")] * 3)
        assert project.ingest("bronze", "--source", "depot").code == 0
        project.land("depot/unread.jsonl", [stock("INSERT", 2 * HOUR, id="9")])
        project.land("quiet/unread.jsonl", [item("INSERT", 2 * HOUR)])
        file = folder / "report.html"
        since = datetime.now(UTC)
        answer = project.ingest("report", "--out", str(file))
        assert answer.code == 0, answer.err
        yield Made(project, file, since, datetime.now(UTC))


@pytest.fixture(scope="module")
def page(a_browser: None, made: Made, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    """The report in a browser."""
    with browser(tmp_path_factory.mktemp("browser")) as opened:
        opened.open(made.file)
        yield opened


Cells = dict[str, dict[str, str]]


def sql(made: Made, query: str) -> list[dict[str, Any]]:
    with project_in(made.project.folder) as project:
        answer = project.ingest("sql", query, "--json")
    assert answer.code == 0, answer.err
    return answer.records


def by_key(made: Made, query: str) -> dict[str, dict[str, Any]]:
    """The rows of a query by their column `key`."""
    return {row.pop("key"): row for row in sql(made, query)}


def shown(page: Page, table: str) -> Cells:
    """All numbers of a table of the page, by row."""
    cells = "[...row.querySelectorAll('[data-name]')].map(c => [c.dataset.name, c.dataset.value])"
    rows = f"[...document.querySelectorAll('#{table} tr[data-row]')]"
    return dict(
        page.value(
            f"Object.fromEntries({rows}.map(row => [row.dataset.row, Object.fromEntries({cells})]))"
        )
    )


def text(rows: dict[str, dict[str, Any]]) -> Cells:
    """Rows as the page's attributes have them."""
    return {
        key: {name: "" if value is None else str(value) for name, value in row.items()}
        for key, row in rows.items()
    }


def taken(cells: Cells, *names: str) -> dict[str, list[str]]:
    """Take columns out of the cells of a table."""
    return {key: [row.pop(name) for name in names] for key, row in cells.items()}


def since(moment: str, made: Made) -> tuple[float, float]:
    """The least and the most seconds that may have passed from a moment to the report."""
    then = datetime.fromisoformat(moment)
    return int((made.since - then).total_seconds()), (made.until - then).total_seconds()


def within(value: str, moment: str | None, made: Made) -> bool:
    """Whether so many seconds passed from a moment to the report; 0 where there was none."""
    if moment is None:
        return value == "0"
    least, most = since(moment, made)
    return least <= float(value) <= most


OPEN = (
    "SELECT r.* FROM silver.rejects r LEFT ANTI JOIN "
    "(SELECT * FROM gold._rejects WHERE status <> 'open') c "
    "ON (c.source, c.topic, c.`partition`, c.offset) = (r.source, r.topic, r.`partition`, r.offset)"
)


def test_sources(made: Made, page: Page) -> None:
    cells = shown(page, "sources-table")
    ages = taken(cells, "newest", "lag_seconds")
    query = (
        "SELECT s.source AS key, "
        "(SELECT count(*) FROM bronze.messages m WHERE m.source = s.source) AS messages, "
        "(SELECT count(*) FROM undecoded m WHERE m.source = s.source) AS lag, "
        "(SELECT count(*) FROM opened m WHERE m.source = s.source) AS rejects, "
        "(SELECT count(*) FROM silver.cdc m WHERE m.source = s.source AND op_raw = 'gap') AS gaps, "
        "s.files - (SELECT count(DISTINCT topic) FROM bronze.messages m WHERE m.source = s.source)"
        " AS unread_files, NULL AS unread_messages "
        "FROM VALUES ('depot', 5), ('quiet', 1), ('shop', 4) AS s (source, files)"
    )
    undecoded = (
        "SELECT b.* FROM bronze.messages b LEFT ANTI JOIN silver.cdc s "
        "ON (s.source, s.topic, s.`partition`, s.offset) "
        "= (b.source, b.topic, b.`partition`, b.offset)"
    )
    ctes = f"WITH undecoded AS ({undecoded}), opened AS ({OPEN}) "
    found = text(by_key(made, ctes + query))
    assert cells == found
    assert {key: (row["lag"], row["unread_files"], row["gaps"]) for key, row in found.items()} == {
        "depot": ("3", "1", "1"),
        "quiet": ("0", "1", "0"),
        "shop": ("0", "0", "0"),
    }
    assert (found["shop"]["rejects"], found["depot"]["rejects"]) == ("3", "1")
    times = by_key(
        made,
        "WITH undecoded AS (SELECT source, min(ingested_at) AS waits "
        f"FROM ({undecoded}) GROUP BY 1), "
        "newest AS (SELECT source, max(ingested_at) AS newest FROM bronze.messages GROUP BY 1) "
        "SELECT source AS key, newest, waits FROM newest LEFT JOIN undecoded USING (source)",
    )
    assert ages.pop("quiet") == ["", "0"]
    for source, (newest, lag) in ages.items():
        assert within(newest, times[source]["newest"], made), source
        assert within(lag, times[source]["waits"], made), source
    assert ages["shop"][1] == "0" != ages["depot"][1]


TARGETS = ("depot_moves", "depot_stock", "shop_item", "shop_odd")


def test_tables(made: Made, page: Page) -> None:
    cells = shown(page, "tables-table")
    parked = {key for key in cells if key.startswith("shop_pay")}
    assert parked and set(cells) == {*TARGETS, *parked}
    assert all(cells.pop(key)["rows"] == "0" for key in parked)
    ages = taken(cells, "age_seconds", "lag_seconds")
    rejects = (
        "SELECT target, count(*) AS n FROM (SELECT id, target, max_by(status, version) AS status "
        "FROM gold._rejects WHERE stage = 'gold' GROUP BY 1, 2) WHERE status = 'open' GROUP BY 1"
    )
    counts = " UNION ALL ".join(
        f"SELECT '{target}' AS target, count(*) AS rows FROM gold.{target}" for target in TARGETS
    )
    query = (
        f"WITH rejected AS ({rejects}), counted AS ({counts}), "
        "late AS (SELECT target, sum(late + stale) AS late FROM gold._progress GROUP BY target), "
        "pending AS (SELECT target, count(*) AS n FROM gold._ddl WHERE status = 'pending' "
        "GROUP BY target) SELECT target AS key, rows, late, coalesce(rejected.n, 0) AS rejected, "
        "coalesce(pending.n, 0) AS pending_ddl FROM counted JOIN late USING (target) "
        "LEFT JOIN rejected USING (target) LEFT JOIN pending USING (target)"
    )
    found = by_key(made, query)
    assert cells == text(found)
    # There is something of each to count.
    assert {key: (r["rejected"], r["pending_ddl"]) for key, r in found.items()} == {
        "depot_moves": (0, 0),
        "depot_stock": (0, 1),
        "shop_item": (3, 0),
        "shop_odd": (0, 2),
    }
    assert found["shop_item"]["late"] >= 3 and found["depot_stock"]["late"] >= 1
    times = by_key(
        made,
        "SELECT concat(source, '_', table) AS key, max(event_time) FILTER "
        "(WHERE topic NOT LIKE '%unapplied%') AS newest, min(decoded_at) FILTER "
        "(WHERE topic LIKE '%unapplied%') AS waits FROM silver.changes GROUP BY 1",
    )
    for target, (age, lag) in ages.items():
        assert within(age, times[target]["newest"], made), target
        assert within(lag, times[target]["waits"], made), target
    assert ages["depot_stock"][1] == "0" != ages["shop_item"][1]


def test_flow_and_head(made: Made, page: Page) -> None:
    boxes = page.value(
        "Object.fromEntries([...document.querySelectorAll('#flow [data-name]')]"
        ".map(box => [box.dataset.name, box.dataset.value]))"
    )
    golds = " + ".join(f"(SELECT count(*) FROM gold.{target})" for target in TARGETS)
    [counts] = sql(
        made,
        "SELECT (SELECT count(*) FROM bronze.messages) AS bronze, "
        f"(SELECT count(*) FROM silver.cdc) AS silver, {golds} AS gold, 3 AS sources, "
        "(SELECT count(DISTINCT target) FROM gold._progress WHERE target LIKE 'shop_pay%' "
        "AND status = 'parked') AS parked",
    )
    counts["tables"] = len(TARGETS) + counts["parked"]
    kinds = sql(
        made, "SELECT concat('kind-', kind) AS kind, count(*) AS n FROM silver.cdc GROUP BY 1"
    )
    assert boxes == {
        name: str(number)
        for name, number in {**counts, **{row["kind"]: row["n"] for row in kinds}}.items()
    }
    assert {"kind-change", "kind-ddl", "kind-reject", "kind-control"} <= set(boxes)
    at, last = (
        page.value(f"document.querySelector('header [data-name={name}]').dataset.value")
        for name in ("at", "last_run")
    )
    assert made.since <= datetime.fromisoformat(at) <= made.until
    [ended] = sql(made, "SELECT max(ended) AS at FROM gold._runs")
    assert abs((datetime.fromisoformat(last) - datetime.fromisoformat(ended["at"])).seconds) < 5
    many = page.value("document.querySelector('#state [data-name]').dataset.value")
    with project_in(made.project.folder) as project:
        listed = project.ingest("status", "--check", "--json").records
    assert many == str(len(listed)) and len(listed) >= 5


def test_runs(made: Made, page: Page) -> None:
    stages = ("bronze", "silver", "gold", "upkeep")
    spent = ", ".join(f"seconds['{stage}'] AS `seconds-{stage}`" for stage in stages)
    runs = (
        f"SELECT concat(run, ' ', part) AS key, messages, events, rejects, {spent}, latency_p95, "
        "arrival_latency_p95 FROM gold._runs"
    )
    found = by_key(made, runs)
    assert shown(page, "runs-table") == text(found) and len(found) == 6
    summary = page.value("document.querySelector('summary').dataset.value")
    assert summary == str(len(found))


def test_what_came_of_targets(made: Made, page: Page) -> None:
    applied = "gold._progress WHERE events > 0 AND NOT contains(target, '*') "
    applied += "AND NOT contains(target, ':')"
    slowest = (
        "SELECT target AS key, count(*) AS batches, sum(events) AS events, sum(seconds) AS seconds,"
        f" percentile(seconds, 0.5) AS median, max(seconds) AS longest FROM {applied} GROUP BY 1"
    )
    assert shown(page, "slowest-table") == text(by_key(made, slowest))
    late = (
        "SELECT target AS key, sum(late) AS late, sum(stale) AS stale, "
        f"sum(keys_refolded) AS keys_refolded FROM {applied} GROUP BY 1 "
        "HAVING sum(late + stale) > 0"
    )
    found = text(by_key(made, late))
    assert shown(page, "late-table") == found
    assert {"shop_item", "depot_stock"} <= set(found)


def test_what_waits_and_what_was_set_aside(made: Made, page: Page) -> None:
    rows = (
        "SELECT id AS key, (SELECT count(*) FROM silver.changes c WHERE c.source = d.source AND "
        "c.table = d.table AND d.kind = 'add_column' AND c.after['stock'] IS NOT NULL "
        "AND c.topic NOT LIKE '%unapplied%') AS waiting_rows FROM gold._ddl d "
        "WHERE status = 'pending'"
    )
    found = by_key(made, rows)
    assert shown(page, "ddl-table") == text(found)
    assert sorted(row["waiting_rows"] for row in found.values()) == [0, 0, 3]
    rejects = (
        f"WITH opened AS ({OPEN}) SELECT concat_ws(' ', code, stage, source, target) AS key, "
        "count(*) AS rejects FROM (SELECT code, stage, source, target FROM gold._rejects "
        "WHERE stage = 'gold' AND status = 'open' UNION ALL "
        "SELECT error_code, 'decode', source, '' FROM opened) GROUP BY 1"
    )
    by_code = text(by_key(made, rejects))
    assert shown(page, "rejects-table") == by_code
    assert len(by_code) == 5 and by_code["bad_json decode shop "] == {"rejects": "2"}


def test_storage(made: Made, page: Page) -> None:
    cells = shown(page, "storage-table")
    targets = [*TARGETS, "_progress", "_ddl", "_rejects", "_runs"]
    assert set(cells) == {"bronze.messages", "silver.cdc", *(f"gold.{name}" for name in targets)}
    for name, row in cells.items():
        folder = f"{made.project.folder}/warehouse/{name.replace('.', '/')}"
        [detail] = sql(made, f"DESCRIBE DETAIL delta.`{folder}`")
        files, stored = detail["numFiles"], detail["sizeInBytes"]
        average = stored // files if files else ""
        assert row == {"bytes": str(stored), "files": str(files), "average": str(average)}, name


def test_plots(made: Made, page: Page) -> None:
    """What stands under the pointer, of each point and each bar."""
    assert "Pygal" not in page.value("document.body.textContent")
    drawn = page.value(
        "Object.fromEntries([...document.querySelectorAll('figure')].map(f => "
        "[f.querySelector('figcaption').textContent, "
        "[...f.querySelectorAll('svg .series title')].map(t => t.textContent)]))"
    )
    runs = sql(made, "SELECT * FROM gold._runs ORDER BY ended, part")
    labels = [f"{datetime.fromisoformat(run['ended']):%m-%d %H:%M}" for run in runs]

    def points(*series: list[Any], unit: Any = short) -> list[str]:
        return [
            f"{label}: {unit(value)}"
            for values in series
            for label, value in zip(labels, values, strict=True)
            if value is not None
        ]

    def column(name: str) -> list[Any]:
        return [run[name] for run in runs]

    spent = [
        [run["seconds"].get(stage, 0.0) for run in runs]
        for stage in ("bronze", "silver", "gold", "upkeep")
    ]
    latency = [column(f"latency_p{part}") for part in (50, 95, 99)]
    hours = sql(
        made,
        "SELECT date_format(date_trunc('hour', at), 'MM-dd HH:00') AS hour, sum(late) AS late, "
        "sum(stale) AS stale FROM gold._progress WHERE events > 0 AND NOT contains(target, '*') "
        "AND NOT contains(target, ':') GROUP BY 1 ORDER BY 1",
    )
    expected = {
        "Messages received and changes applied, by run": points(
            column("messages"), column("events")
        ),
        "Seconds by stage, by run": points(*spent),
        "Seconds from the source to gold, by run": points(*latency, unit=seconds),
        "Changes that came after newer ones, by hour": [
            f"{row['hour']}: {short(row[name])}" for name in ("late", "stale") for row in hours
        ],
    }
    assert {name: sorted(titles) for name, titles in drawn.items()} == {
        name: sorted(titles) for name, titles in expected.items()
    }


def test_no_other_number_stands_there(page: Page) -> None:
    """No text has a digit that is not compared above, and no plot, name, id or text of data."""
    found = page.value(
        """(() => {
          const left = [], walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
          const known = '[data-name], svg, pre, code, td.name, td.long, #state li, style';
          while (walk.nextNode()) {
            const at = walk.currentNode, text = at.textContent.replace(/^[.\\s]+|\\s+$/g, '');
            if (/\\d/.test(text) && !at.parentElement.closest(known)) left.push(text);
          }
          return left;
        })()"""
    )
    name = r"Change data in \S+|delta-cdc-ingest \d+\.\d+\.\d+\.?|p95 from \w+, s|[0-9a-f]{12}"
    time = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC"
    assert [text for text in found if not re.fullmatch(f"{name}|{time}", text)] == []
    # What people read is what was compared.
    same = page.value(
        "[...document.querySelectorAll('td[data-name]')].map(c => "
        "[c.dataset.name, c.dataset.value, c.textContent])"
    )
    for kind, value, said in same:
        assert said == as_people_read(kind, value), (kind, value)


def as_people_read(kind: str, value: str) -> str:
    """A value of the page in the words of the page."""
    if not value:
        return "never" if kind in ("newest", "age_seconds") else ""
    if kind in ("newest", "age_seconds"):
        return f"{seconds(float(value))} ago"
    if kind == "lag_seconds":
        return seconds(float(value))
    if kind in ("bytes", "average"):
        return size(int(value))
    return f"{float(value):,.1f}" if "." in value or "e" in value else f"{int(value):,}"


def test_late_changes_are_named_however_fast_their_table_is(
    made: Made, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(facts, "MOST", 1)
    warehouse = Warehouse(load(made.project.folder / "conf", environ={}), spark)
    found = facts.facts(warehouse, advance=Advance(lambda _, __: None))
    [most] = sql(
        made,
        "SELECT max_by(target, n) AS target FROM (SELECT target, sum(late + stale) AS n "
        "FROM gold._progress GROUP BY 1)",
    )
    assert [row["target"] for row in found.late] == [most["target"]]
