"""The page of the report, whatever it is told: hostile texts, nothing at all, or a great deal."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from pipelines.reporting.checks import Finding, findings
from pipelines.reporting.facts import Facts
from pipelines.reporting.page import ago, example, page, seconds, size
from tests.reporting.test_checks import checks
from tests.support.browser import Page, browser
from tests.support.html_page import ParsedPage

PICTURE = Path(__file__).parents[2] / "docs/pictures/report.png"
AT = datetime(2026, 3, 4, 5, 6, 7, tzinfo=UTC)
LATENCIES = ("latency", "arrival_latency")
EVIL = (
    "</td></svg></style></script><script>document.title='taken'</script>"
    "<img src=http://127.0.0.1:9/x onerror=\"document.title='taken'\">{{ 7 * 7 }}{% raw %}&lt;"
)
NOTHING = Facts(
    at=AT,
    last_run=None,
    layers={"bronze": 0, "silver": 0, "gold": 0},
    kinds=[],
    sources=[],
    tables=[],
    runs=[],
    applied=[],
    slowest=[],
    late=[],
    rejects=[],
    ddl=[],
    storage=[],
    failed=[],
)


def told(name: str, many: int = 1) -> Facts:
    """A warehouse in which everything that has a name has this one."""
    table: dict[str, Any] = {
        **dict.fromkeys(("source", "table", "target", "error", "mode"), name),
        **dict.fromkeys(("rows", "age_seconds", "lag_seconds", "late", "rejected"), 5),
        **dict.fromkeys(("pending_ddl", "messages", "lag", "rejects", "gaps"), 5),
        **{"parked": True, "newest": AT, "unread_files": 5, "unread_messages": 5},
    }
    spent = {"bronze": 1.0, "silver": 2.0, "gold": 3.0, "upkeep": 0.1}
    run: dict[str, Any] = {
        **dict.fromkeys(("run", "verb", "who", "host", "outcome"), name),
        **dict.fromkeys(("messages", "events", "rejects", "part"), 7),
        **{f"{name}_{part}": 1.5 for name in LATENCIES for part in ("p50", "p95", "p99")},
        **{"errors": [name], "seconds": spent},
    }
    hour = {"events": 5, "late": 2, "stale": 1, "keys_refolded": 3, "rejected": 0}
    done = {"events": 5, "batches": 3, "seconds": 1.5, "median": 0.5, "longest": 1.0}
    late = {"target": name, "late": 2, "stale": 1, "keys_refolded": 3}
    value = name.encode()
    reject: dict[str, Any] = {
        **dict.fromkeys(("code", "stage", "source", "target"), name),
        "rejects": 3,
        "example": {"id": name, "error": name, "value": value, "bytes": len(value)},
    }
    names = ("id", "source", "target", "table", "class", "kind", "statement", "proposed", "why")
    return replace(
        NOTHING,
        last_run=AT - timedelta(minutes=3),
        layers={"bronze": 12, "silver": 1_234_567, "gold": 5},
        kinds=[{"kind": name, "rows": 5}],
        sources=[table] * many,
        tables=[table] * many,
        runs=[{**run, "ended": AT + timedelta(minutes=n)} for n in range(min(many, 120))],
        applied=[{**hour, "hour": AT + timedelta(hours=n)} for n in range(min(many, 50))],
        slowest=[{**done, "target": name}] * min(many, 50),
        late=[late] * min(many, 50),
        rejects=[reject] * min(many, 50),
        ddl=[{**dict.fromkeys(names, name), "waiting_rows": 5}] * many,
        storage=[{"table": name, "files": 70, "bytes": 5_000, "small": True}] * many,
        failed=[name],
    )


def invented() -> tuple[Facts, list[Finding]]:
    """A shop on an ordinary morning, with numbers of its own in every place."""
    sources = [
        {
            **{"source": "depot", "messages": 48_210, "lag": 0, "lag_seconds": 0, "rejects": 0},
            **{"unread_files": 3, "unread_messages": None, "gaps": 0, "error": None},
            **{"decoded_rows": 48_210},
            "newest": AT - timedelta(seconds=40),
        },
        {
            **{"source": "shop", "messages": 1_204_332, "lag": 310, "lag_seconds": 95.0},
            **{"unread_files": None, "unread_messages": 4_120, "gaps": 2, "rejects": 7},
            **{"decoded_rows": 1_204_000},
            **{"error": None, "newest": AT - timedelta(seconds=135)},
        },
    ]
    names = ("table", "source", "rows", "age_seconds", "late", "rejected", "pending_ddl", "mode")
    tables: list[dict[str, Any]] = [
        {**dict(zip(names, row, strict=True)), "lag_seconds": 0, "parked": False, "error": None}
        for row in (
            ("depot_stock", "depot", 9_412, 64, 12, 1, 0, "1"),
            ("shop_customers", "shop", 88_204, 71, 0, 0, 8, "2"),
            ("shop_orders", "shop", 212_090, 52, 231, 6, 0, "1"),
            ("shop_visits", "shop", 0, 5_400, 0, 0, 0, "append"),
        )
    ]
    why = (
        "expected no key, as when shop_visits was made, got (id); `ingest rebuild shop_visits "
        "--yes` makes it with that key, or take `keys` away"
    )
    tables[-1] |= {"parked": True, "error": why, "lag_seconds": 5_388.0}
    wave = [1_000 + 37 * (n * n % 13) + (2_600 if 30 < n < 36 else 0) for n in range(48)]
    runs = [
        {
            **{"run": f"r{n}", "part": 1, "verb": "run", "who": "ada", "host": "node1"},
            **{"messages": count, "events": count - 21 - n, "rejects": n % 5, "errors": []},
            **{
                "latency_p50": count / 250,
                "latency_p95": count / 120,
                "latency_p99": count / 80,
                "arrival_latency_p50": count / 500,
                "arrival_latency_p95": count / 300,
                "arrival_latency_p99": count / 200,
            },
            "seconds": {"bronze": 1.1, "silver": 1.6, "gold": count / 200 + n / 64, "upkeep": 0.2},
            **{"outcome": "done", "ended": AT - timedelta(minutes=2 * (47 - n), seconds=12)},
        }
        for n, count in enumerate(wave)
    ]
    slow = ("target", "events", "batches", "seconds", "median", "longest")
    slowest = [
        dict(zip(slow, row, strict=True))
        for row in (
            ("shop_orders", 231_877, 181, 402.5, 2.25, 9.75),
            ("depot_stock", 11_300, 96, 61.25, 0.5, 1.5),
        )
    ]
    late = [
        {"target": target, "late": count, "stale": 5, "keys_refolded": 9}
        for target, count in (("shop_orders", 226), ("depot_stock", 7))
    ]
    bad = b'{"op": "u", "after": {"id": 7, "total": "12,50"'
    reject = {"id": "3a0d3a72f1", "error": "expected one JSON value", "value": bad, "bytes": 47}
    rejects = [
        {"code": "bad_json", "stage": "decode", "source": "shop", "target": None, "rejects": 7}
        | {"example": reject},
    ]
    ddl = {
        **{
            "id": "7728b0749522",
            "source": "shop",
            "target": "shop_customers",
            "table": "customers",
        },
        **{"class": "destructive", "kind": "drop_column", "waiting_rows": 0},
        "statement": "ALTER TABLE `customers` DROP COLUMN `city`",
        "proposed": "ALTER TABLE gold.shop_customers DROP COLUMN `city`",
        "why": "its values go with it; added again it is a new column",
    }
    stored = (("silver.cdc", 212, 1_910_442_177), ("gold.shop_orders", 14, 48_100_233))
    facts = replace(
        NOTHING,
        last_run=AT - timedelta(seconds=12),
        layers={"bronze": 1_252_542, "silver": 1_260_871, "gold": 309_706},
        kinds=[{"kind": "change", "rows": 1_241_053}, {"kind": "control", "rows": 19_818}],
        sources=sources,
        tables=tables,
        runs=runs,
        applied=[
            {"hour": AT + timedelta(hours=n), "late": n % 7, "stale": n % 3} for n in range(24)
        ],
        slowest=slowest,
        late=late,
        rejects=rejects,
        ddl=[ddl],
        storage=[
            {"table": name, "files": files, "bytes": bytes_, "small": files > 50}
            for name, files, bytes_ in stored
        ],
    )
    bounds = checks(rejects=0, freshness="1 hour", lag="15 minutes")
    return facts, findings(bounds, sources, tables)


@pytest.fixture(scope="module")
def window(a_browser: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    with browser(tmp_path_factory.mktemp("browser")) as opened:
        yield opened


def opened(window: Page, folder: Path, html: str, **how: Any) -> None:
    file = folder / "report.html"
    file.write_text(html, encoding="utf-8")
    window.open(file, **how)


def test_no_text_becomes_an_element_or_an_attribute() -> None:
    """Without a browser, too: hostile names add nothing to what harmless ones make of the page."""

    def made(name: str) -> ParsedPage:
        finding = Finding(name, name, 1, 2, name)
        return ParsedPage(page(told(name), [finding], warehouse_name=name))

    hostile, harmless = made(EVIL), made("orders")
    assert [one.tag for one in hostile.elements] == [one.tag for one in harmless.elements]
    assert hostile.followed() == harmless.followed()
    assert all(address.startswith(("#", "data:,")) for address in hostile.followed())
    assert hostile.handlers() == set()
    assert hostile.title == f"Change data: {EVIL}" and hostile.text.count(EVIL) > 25
    [policy] = [
        one.attributes["content"] for one in hostile.elements if "http-equiv" in one.attributes
    ]
    assert policy.startswith("default-src 'none'; ") and "script-src" not in policy


def test_no_text_can_become_anything_else(window: Page, tmp_path: Path) -> None:
    finding = Finding(EVIL, EVIL, 1, 2, EVIL)
    opened(window, tmp_path, page(told(EVIL), [finding], warehouse_name=EVIL))
    assert window.said == []
    asked = [address for address in window.asked if not address.startswith("data:")]
    assert asked == [(tmp_path / "report.html").as_uri()]
    active = "script, img, iframe, object, embed, form, link:not([rel=icon])"
    assert window.value(f"document.querySelectorAll('{active}').length") == 0
    assert window.value("document.title") == f"Change data: {EVIL}"
    attributes = "[...document.querySelectorAll('*')].flatMap(e => [...e.attributes])"
    assert window.value(f"{attributes}.some(a => /^on/i.test(a.name))") is False
    # Each text is there, whole: in the heading, lists, cells, and under the pointer.
    text = window.value("document.body.textContent")
    assert text.count(EVIL) > 25


def test_each_number_stands_on_the_page() -> None:
    facts, found = invented()
    shown = ParsedPage(page(facts, found, warehouse_name="lake/warehouse")).rows

    def of(rows: Iterable[dict[str, Any]], key: str, *names: str) -> dict[str, dict[str, str]]:
        return {
            key.format(**row): {n: "" if row[n] is None else str(row[n]) for n in names}
            for row in rows
        }

    waits = ("lag", "lag_seconds", "unread_files", "unread_messages", "gaps")
    aged = [{**s, "newest": (facts.at - s["newest"]).total_seconds()} for s in facts.sources]
    counts = ("messages", "newest", *waits, "rejects")
    assert shown("sources-table") == of(aged, "{source}", *counts)
    assert shown("tables-table") == of(
        facts.tables,
        "{table}",
        "rows",
        "age_seconds",
        "lag_seconds",
        "late",
        "rejected",
        "pending_ddl",
    )
    spent = [
        {**run, **{f"seconds-{s}": t for s, t in run["seconds"].items()}} for run in facts.runs
    ]
    assert shown("runs-table") == of(
        spent,
        "{run} {part}",
        "messages",
        "events",
        "rejects",
        *(f"seconds-{stage}" for stage in facts.runs[0]["seconds"]),
        "latency_p95",
        "arrival_latency_p95",
    )
    did = ("batches", "events", "seconds", "median", "longest")
    assert shown("slowest-table") == of(facts.slowest, "{target}", *did)
    late = ("late", "stale", "keys_refolded")
    assert shown("late-table") == of(facts.late, "{target}", *late)
    assert shown("ddl-table") == of(facts.ddl, "{id}", "waiting_rows")
    assert shown("rejects-table") == {"bad_json decode shop ": {"rejects": "7"}}
    stored = [{**each, "average": each["bytes"] // each["files"]} for each in facts.storage]
    assert shown("storage-table") == of(stored, "{table}", "bytes", "files", "average")


TABLES = ("sources", "tables", "runs", "slowest", "late", "ddl", "rejects", "storage")


def test_a_browser_shows_what_stands_on_the_page(window: Page, tmp_path: Path) -> None:
    """`SCREENS=write` takes the picture of docs/report.md anew."""
    facts, found = invented()
    html = page(facts, found, warehouse_name="lake/warehouse")
    opened(window, tmp_path, html, height=1500)
    assert window.said == []
    cells = "[...row.querySelectorAll('[data-name]')].map(c => [c.dataset.name, c.dataset.value])"
    for table in (f"{name}-table" for name in TABLES):
        rows = f"[...document.querySelectorAll('#{table} tr[data-row]')]"
        each = f"{rows}.map(row => [row.dataset.row, Object.fromEntries({cells})])"
        assert window.value(f"Object.fromEntries({each})") == ParsedPage(html).rows(table)
    text = window.value("document.body.innerText")
    for said in ("40 s ago", "2.25 min ago", "8.6 MiB", "3.3 MiB", "many small files", "4,120"):
        assert said in text, said
    listed = window.value("[...document.querySelectorAll('#state li')].map(li => li.textContent)")
    assert listed == [finding.text for finding in found] and len(listed) == 7
    state = "document.querySelector('#{} tr[data-row={}] td:last-child').innerText"
    for row, said in (("depot", "behind"), ("shop", "2 gaps, behind")):
        assert window.value(state.format("sources-table", row)) == said
    for row, said in (
        ("depot_stock", "1 rejected keeps current rows"),
        ("shop_customers", "8 pending keeps every version"),
        ("shop_visits", f"parked: {facts.tables[-1]['error']}"),
    ):
        assert window.value(state.format("tables-table", row)) == said
    if os.environ.get("SCREENS") == "write":
        window.screenshot(PICTURE)


def test_nothing_is_there_yet(window: Page, tmp_path: Path) -> None:
    opened(window, tmp_path, page(NOTHING, [], warehouse_name="lake"))
    assert window.said == []
    text = window.value("document.body.innerText")
    for sentence in ("No run has ended yet.", "All is well", "Nothing is set aside."):
        assert sentence in text
    assert window.value("document.querySelectorAll('svg').length") == 0


def test_a_great_many_tables_on_a_phone(window: Page, tmp_path: Path) -> None:
    long = "shop_" + "orders_of_the_year_" * 9
    html = page(told(long, many=400), [], warehouse_name="lake")
    assert len(html) < 3_000_000
    opened(window, tmp_path, html, width=390, height=844, dark=True)
    assert window.said == []
    assert window.value("document.documentElement.scrollWidth") <= 390


def test_plots_leave_imports_as_they_were() -> None:
    # The plots' library needs it, and it has a finder of its own, of the packages installed.
    importlib.import_module("importlib_metadata")
    before = [type(finder).__name__ for finder in sys.meta_path]
    page(told("shop"), [], warehouse_name="lake")
    after = [type(finder).__name__ for finder in sys.meta_path]
    assert "PluginImportFixer" not in after and after == [n for n in before if n in after]


def test_times_and_sizes_are_in_units_of_people() -> None:
    assert [seconds(n) for n in (None, 0, 1.25, 119, 150, 7200, 200_000, 10**8)] == [
        *("", "0 s", "1.25 s", "119 s", "2.5 min", "2 h", "2 days", "1,157 days"),
    ]
    assert (ago(None), ago(61)) == ("never", "61 s ago")
    assert [size(n) for n in (None, 0, 1023, 1024, 3 * 2**20, 5 * 2**30)] == [
        *("", "0 B", "1023 B", "1.0 KiB", "3.0 MiB", "5.0 GiB"),
    ]


@pytest.mark.parametrize(
    ("value", "bytes_", "text"),
    [
        (b"", 0, ""),
        (None, None, ""),
        ("Größe\x1b[31m\u202e".encode(), 15, "Größe\\x1b[31m\\u202e"),
        (b"\x00\xff\xfe", 3, "00 ff fe"),
        (b"ab", 1000, "ab … and 998 bytes more"),
        # Cut within a letter of three bytes.
        (("x" * 398 + "€").encode()[:400], 500, "x" * 398 + " … and 100 bytes more"),
    ],
)
def test_an_example_is_text_or_bytes(value: bytes | None, bytes_: int | None, text: str) -> None:
    assert example({"value": value, "bytes": bytes_}) == text
