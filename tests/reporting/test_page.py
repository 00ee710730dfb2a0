"""The page of the report, whatever it is told: hostile texts, nothing at all, or a great deal."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from pipelines.reporting.checks import Finding
from pipelines.reporting.facts import Facts
from pipelines.reporting.page import ago, example, page, seconds, size
from tests.support.browser import Page, browser, chromium

AT = datetime(2026, 3, 4, 5, 6, 7, tzinfo=UTC)
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
        **dict.fromkeys(("pending_ddl", "messages", "lag", "rejects", "unread_files"), 5),
        **{"parked": True, "newest": AT},
    }
    spent = {"bronze": 1.0, "silver": 2.0, "gold": 3.0, "upkeep": 0.1}
    run: dict[str, Any] = {
        **dict.fromkeys(("run", "verb", "who", "host", "outcome"), name),
        **dict.fromkeys(("messages", "events", "rejects", "part"), 7),
        **dict.fromkeys(("latency_p50", "latency_p95", "latency_p99"), 1.5),
        **{"errors": [name], "seconds": spent},
    }
    hour = {"events": 5, "late": 2, "stale": 1, "keys_refolded": 3, "rejected": 0}
    done = {**hour, "target": name, "batches": 3, "seconds": 1.5, "median": 0.5, "longest": 1.0}
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
        slowest=[done] * min(many, 50),
        rejects=[reject] * min(many, 50),
        ddl=[{**dict.fromkeys(names, name), "waiting_rows": 5}] * many,
        storage=[{"table": name, "files": 70, "bytes": 5_000, "small": True}] * many,
        failed=[name],
    )


@pytest.fixture(scope="module")
def window(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    if chromium() is None:
        pytest.skip("no Chromium is installed")
    with browser(tmp_path_factory.mktemp("browser")) as opened:
        yield opened


def opened(window: Page, folder: Path, html: str, **how: Any) -> None:
    file = folder / "report.html"
    file.write_text(html, encoding="utf-8")
    window.open(file, **how)


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
