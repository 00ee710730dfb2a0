"""`ingest report`: its numbers are SQL's, and nothing in it can run, in a real browser either."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Iterator
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.support.browser import Page, browser
from tests.support.html_page import parsed
from tests.support.project import Project, canal, canal_ddl, project_in

EVIL = "<script>document.title='taken'</script>"
IMAGE = "<img src=http://127.0.0.1:9/x onerror=\"document.title='taken'\">"
SOURCE = "name: shop\nformat: canal\norder: source\nfiles: {path: 'landing/*.jsonl', order: path}\n"
SETTINGS = "checks: {freshness: 90 days, rejects: 3, tables: {shop_item: {rejects: 0}}}\n"
T0 = 1_700_000_000_000
PEN = {"id": "1", "name": "pen", "price": "1.10"}
ODD = {"id": "int", EVIL: "varchar(20)"}
NOW = int(datetime.now(UTC).timestamp() * 1000)
FIRST: list[Any] = [
    canal("item", "INSERT", PEN, es=T0, id_=1),
    canal("item", "INSERT", {**PEN, "id": "2", "price": EVIL}, es=T0, id_=2),
    canal("item", "INSERT", {**PEN, "id": "3", "name": IMAGE}, es=NOW - 30_000, id_=3),
    f"{{no message {EVIL}{IMAGE} \u202e",
    "\x00\x01",
    canal("odd", "INSERT", {"id": "1", EVIL: IMAGE}, es=T0, id_=4, types=ODD),
    canal_ddl("odd", f"ALTER TABLE odd DROP COLUMN `{EVIL}`", es=T0 + 1000, id_=5),
    # Both would become one target.
    canal("pay<script>", "INSERT", PEN, es=T0, id_=6),
    canal('pay"script"', "INSERT", PEN, es=T0, id_=7),
]
LATER = [
    canal("item", "UPDATE", {**PEN, "price": "3.00"}, old={"price": "2.00"}, es=T0 + 9000, id_=9),
    canal("item", "DELETE", PEN, es=T0 + 10_000, id_=10),
]
LATEST = [canal("item", "UPDATE", PEN, old={"price": "0"}, es=T0 + 8000, id_=8)]


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> Project:
    """A project after three runs, the last of which brought what is late."""
    folder = tmp_path_factory.mktemp("filled")
    with project_in(folder) as project:
        project.write("conf/ingest.yml", SETTINGS)
        project.write("conf/sources/shop.yml", SOURCE)
        for number, messages in enumerate((FIRST, LATER, LATEST)):
            project.land(f"{number}.jsonl", messages)
            assert project.ingest("run").code == 1
    return project


@pytest.fixture(scope="module")
def file(filled: Project, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The report on it."""
    file = tmp_path_factory.mktemp("report") / "report.html"
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        assert filled.ingest("report", "--out", str(file)).code == 0
    return file


@pytest.fixture(scope="module")
def page(a_browser: None, file: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    """The report in a browser."""
    with browser(tmp_path_factory.mktemp("browser")) as opened:
        yield opened


@pytest.fixture
def project(filled: Project, capsys: pytest.CaptureFixture[str]) -> Project:
    return Project(filled.folder, capsys.readouterr)


def sql(project: Project, query: str) -> list[dict[str, Any]]:
    return project.ingest("sql", query, "--json").records


def test_numbers_are_those_of_sql(project: Project, file: Path) -> None:
    page = parsed(file)

    def shown(table: str, name: str) -> dict[str, str]:
        return {row: cells[name] for row, cells in page.rows(table).items()}

    def same(table: str, name: str, query: str) -> None:
        found = sql(project, query)
        wanted = {row["key"]: "" if row["n"] is None else str(row["n"]) for row in found}
        assert wanted and shown(table, name) == wanted, (table, name)

    [counts] = sql(
        project,
        "SELECT (SELECT count(*) FROM bronze.messages) AS bronze, "
        "(SELECT count(*) FROM silver.cdc) AS silver, (SELECT count(*) FROM gold.shop_item) "
        "+ (SELECT count(*) FROM gold.shop_odd) AS gold, 1 AS sources, "
        "(SELECT count(DISTINCT target) FROM gold._progress WHERE status = 'parked') AS parked",
    )
    counts["tables"] = 2 + counts["parked"]
    kinds = sql(project, "SELECT kind, count(*) AS n FROM silver.cdc GROUP BY kind")
    wanted = {**counts, **{f"kind-{row['kind']}": row["n"] for row in kinds}}
    assert page.named("flow") == {name: str(number) for name, number in wanted.items()}
    by_target = "FROM gold._progress WHERE events > 0 AND NOT contains(target, '*') GROUP BY target"
    same(
        "sources-table",
        "messages",
        "SELECT source AS key, count(*) AS n FROM bronze.messages GROUP BY 1",
    )
    same(
        "sources-table",
        "rejects",
        "SELECT source AS key, count(*) AS n FROM silver.rejects GROUP BY 1",
    )
    for name, sum_of in (
        ("events", "sum(events)"),
        ("batches", "count(*)"),
        ("seconds", "sum(seconds)"),
        ("longest", "max(seconds)"),
    ):
        same("slowest-table", name, f"SELECT target AS key, {sum_of} AS n {by_target}")
    late = "SELECT target AS key, sum({}) AS n FROM gold._progress GROUP BY 1 "
    late += "HAVING sum(late + stale) > 0"
    for name in ("late", "stale", "keys_refolded"):
        same("late-table", name, late.format(name))
    run = "SELECT concat(run, ' ', part) AS key, {} AS n FROM gold._runs"
    for name in ("messages", "events", "rejects", "latency_p95", "arrival_latency_p95"):
        same("runs-table", name, run.format(name))
    same("runs-table", "seconds-gold", run.format("seconds['gold']"))
    same(
        "rejects-table",
        "rejects",
        "SELECT concat_ws(' ', code, stage, source, target) AS key, count(*) AS n FROM ("
        "SELECT code, stage, source, target FROM gold._rejects WHERE stage = 'gold' UNION ALL "
        "SELECT error_code, 'decode', source, '' FROM silver.rejects) GROUP BY 1",
    )
    same(
        "ddl-table",
        "waiting_rows",
        "SELECT id AS key, 0 AS n FROM gold._ddl WHERE status = 'pending'",
    )
    tables = shown("tables-table", "rows")
    assert tables["shop_item"] == str(
        sql(project, "SELECT count(*) AS n FROM gold.shop_item")[0]["n"]
    )
    files = shown("storage-table", "files")
    for name in ("silver.cdc", "gold.shop_item", "gold._runs"):
        layer, _, table = name.partition(".")
        [detail] = sql(
            project, f"DESCRIBE DETAIL delta.`{project.folder}/warehouse/{layer}/{table}`"
        )
        assert files[name] == str(detail["numFiles"])
        assert shown("storage-table", "bytes")[name] == str(detail["sizeInBytes"])


HOSTILE = (EVIL, IMAGE, "pay<script>", 'pay"script"', "\\u202e")


def test_what_is_hostile_is_text(file: Path) -> None:
    page = parsed(file)
    assert not {one.tag for one in page.elements} & {"script", "img", "iframe", "object", "form"}
    assert page.handlers() == set()
    assert all(address.startswith(("#", "data:,")) for address in page.followed())
    for hostile in HOSTILE:
        assert hostile in page.text, hostile


def test_nothing_in_it_runs_or_is_fetched(file: Path, page: Page) -> None:
    for dark in (False, True):
        page.open(file, dark=dark)
        assert page.said == []
        assert [address for address in page.asked if not address.startswith("data:")] == [
            file.absolute().as_uri()
        ]
        assert page.value("document.title").startswith("Change data: ")
        active = "script, img, iframe, object, link:not([rel=icon])"
        assert page.value(f"document.querySelectorAll('{active}').length") == 0
        named = "[...document.querySelectorAll('*')].flatMap(e => [...e.attributes])"
        assert page.value(f"{named}.some(a => /^on/i.test(a.name))") is False
    # What is hostile is there, as text.
    text = page.value("document.body.textContent")
    assert all(hostile in text for hostile in HOSTILE)


def test_a_slip_would_be_seen(file: Path, page: Page, tmp_path: Path) -> None:
    """The same page with its text unescaped: the browser refuses to run it, and says so."""
    text = file.read_text(encoding="utf-8")
    slipped = (
        text.replace("&lt;", "<").replace("&gt;", ">").replace("&#39;", "'").replace("&#34;", '"')
    )
    (tmp_path / "slipped.html").write_text(slipped, encoding="utf-8")
    page.open(tmp_path / "slipped.html")
    assert any("Content Security Policy" in said for said in page.said)
    assert page.value("document.title").startswith("Change data: ")


def test_it_is_read_in_the_dark_and_on_a_phone(file: Path, page: Page) -> None:
    paper = "getComputedStyle(document.body).backgroundColor"
    page.open(file, width=390, height=844, dark=True)
    dark = page.value(paper)
    assert page.value("document.documentElement.scrollWidth") <= 390
    # Plots follow: their text has the page's ink.
    ink = page.value("getComputedStyle(document.querySelector('svg text')).fill")
    assert ink == page.value("getComputedStyle(document.body).color")
    page.open(file)
    assert page.value(paper) != dark
    assert page.value("document.querySelectorAll('svg').length") == 4
    assert page.value("[...document.querySelectorAll('svg')].every(s => s.clientHeight > 100)")


def test_it_is_small_and_names_what_fails(file: Path, page: Page, project: Project) -> None:
    assert file.stat().st_size < 300_000
    page.open(file)
    listed = page.value("[...document.querySelectorAll('#state li')].map(li => li.textContent)")
    answer = project.ingest("status", "--check", "--json")
    assert answer.code == 1, answer.err
    assert [record["text"] for record in answer.records] == listed == answer.err.splitlines()
    assert [(record["check"], record["on"], record["bound"]) for record in answer.records] == [
        ("rejects", "table shop_item", 0),
        ("freshness", "table shop_odd", 90 * 86_400),
        ("parked", "table shop_pay_script_", None),
    ]


@pytest.mark.slow
def test_how_long_what_waits_has_waited(project: Project) -> None:
    """The oldest message that silver lacks, the oldest change that a target lacks."""
    before = {row.get("table"): row for row in project.ingest("status", "--json").records}
    assert before["shop_item"]["lag_seconds"] == 0
    query = "SELECT min(decoded_at) AS since FROM silver.changes WHERE table LIKE 'pay%'"
    since = datetime.fromisoformat(sql(project, query)[0]["since"])
    waited = (datetime.now(UTC) - since).total_seconds()
    assert waited - 60 < before["shop_pay_script_"]["lag_seconds"] <= waited
    project.land("3.jsonl", [canal("item", "INSERT", {**PEN, "id": "7"}, es=NOW, id_=20)] * 2)
    assert project.ingest("bronze").code == 0
    [source] = [r for r in project.ingest("status", "--json").records if r["kind"] == "source"]
    query = "SELECT max(ingested_at) AS since FROM bronze.messages"
    since = datetime.fromisoformat(sql(project, query)[0]["since"])
    assert source["lag"] == 2
    assert 0 < source["lag_seconds"] <= (datetime.now(UTC) - since).total_seconds()
    assert project.ingest("silver").code == 0
    found = {row.get("table"): row for row in project.ingest("status", "--json").records}
    assert found[None]["lag"] == found[None]["lag_seconds"] == 0
    assert 0 < found["shop_item"]["lag_seconds"] < waited


def test_a_missing_library_is_one_sentence(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pipelines.reporting import page as module

    monkeypatch.setattr(module, "find_spec", lambda n: None if n == "pygal" else find_spec(n))
    answer = project.ingest("report")
    assert (answer.code, answer.err) == (
        2,
        "`ingest report` needs pygal: install the extra `report`, "
        "pip install 'delta-cdc-ingest[report]'\n",
    )
