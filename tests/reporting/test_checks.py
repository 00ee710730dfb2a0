"""`checks:` and who is told when what fails changes."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from ingest.config.alerts import Checks
from ingest.config.load import load
from ingest.errors import ConfigError
from pipelines.platform.secrets import without_any
from pipelines.reporting import webhook
from pipelines.reporting.checks import Finding, findings

SOURCE: dict[str, Any] = {"source": "shop", "lag_seconds": 0, "rejects": 0, "gaps": 0}
SOURCE["error"] = None
TABLE: dict[str, Any] = {
    "table": "shop_orders",
    "age_seconds": 60,
    "lag_seconds": 0,
    "rejected": 0,
    "pending_ddl": 0,
    "parked": False,
    "error": None,
}


def checks(**given: Any) -> Checks:
    return Checks.model_validate(given)


def test_nothing_is_bounded_unless_somebody_says_so() -> None:
    row = {**TABLE, "age_seconds": 10**9, "lag_seconds": 10**9, "rejected": 9, "pending_ddl": 9}
    assert findings(checks(), [{**SOURCE, "rejects": 9, "lag_seconds": 9}], [row]) == []
    # A parked target is never well.
    [found] = findings(checks(), [], [{**TABLE, "parked": True, "error": "no key"}])
    assert found == Finding(
        "parked", "table shop_orders", None, None, "table shop_orders is parked: no key"
    )


@pytest.mark.parametrize(
    ("given", "row", "text"),
    [
        (
            {"freshness": "1 hour"},
            {"age_seconds": 7201},
            "table shop_orders: its newest change happened 2 h ago; freshness allows 1 h",
        ),
        (
            {"lag": "15 minutes"},
            {"lag_seconds": 7200},
            "table shop_orders: its oldest change has waited 2 h; lag allows 15 min",
        ),
        (
            {"rejects": 0},
            {"rejected": 1200},
            "table shop_orders: 1,200 changes are set aside; rejects allows 0",
        ),
        (
            {"pending_ddl": 1},
            {"pending_ddl": 2},
            "table shop_orders: 2 schema changes wait for a decision; pending_ddl allows 1",
        ),
        ({"freshness": "1 hour"}, {"age_seconds": None}, None),
        ({"freshness": "1 hour"}, {"age_seconds": 3600}, None),
    ],
)
def test_bounds(given: dict[str, Any], row: dict[str, Any], text: str | None) -> None:
    found = findings(checks(**given), [SOURCE], [{**TABLE, **row}])
    assert [finding.text for finding in found] == ([text] if text is not None else [])


def test_a_source_that_cannot_be_asked_is_never_well() -> None:
    error = "no Kafka broker answers at h:1 (Connection refused)"
    for said in (error, f"source shop: {error}"):
        [found] = findings(checks(), [{**SOURCE, "error": said}], [])
        assert found == Finding("failing", "source shop", None, None, f"source shop: {error}")


def test_sources_have_bounds_too() -> None:
    row = {**SOURCE, "rejects": 2, "lag_seconds": 130}
    found = findings(checks(rejects=1, lag="2 minutes"), [row], [])
    assert [finding.text for finding in found] == [
        "source shop: its oldest message has waited 2.17 min for silver; lag allows 2 min",
        "source shop: 2 messages are set aside; rejects allows 1",
    ]


@pytest.mark.parametrize(
    ("given", "gaps", "text"),
    [
        ({}, 0, None),
        ({}, 1, "source shop: 1 span of messages was gone before it was read; gaps allows 0"),
        ({"gaps": 2}, 2, None),
        (
            {"gaps": 2},
            3,
            "source shop: 3 spans of messages were gone before they were read; gaps allows 2",
        ),
        ({"gaps": None}, 3, None),
    ],
)
def test_what_was_lost_is_not_well_unless_somebody_says_so(
    given: dict[str, Any], gaps: int, text: str | None
) -> None:
    found = findings(checks(**given), [{**SOURCE, "gaps": gaps}], [])
    assert [finding.text for finding in found] == ([text] if text is not None else [])


def test_the_last_pattern_counts_key_by_key() -> None:
    said = checks(
        freshness="1 hour",
        rejects=0,
        tables={"shop_*": {"rejects": 5}, "SHOP_O*": {"freshness": None}, "other": {"rejects": 9}},
    )
    assert said.of("shop_orders").model_dump() == {
        "freshness": None,
        "lag": None,
        "rejects": 5,
        "pending_ddl": None,
    }
    assert said.of("items").freshness == 3600


@pytest.mark.parametrize(
    ("text", "mistake"),
    [
        ("checks: {freshness: 90}", "expected a time like `15 minutes`"),
        ("checks: {freshness: 0 hours}", "expected a time like `15 minutes`"),
        ("checks: {rejects: -1}", "expected 0 or more"),
        ("checks: {gaps: -1}", "expected 0 or more"),
        ("checks: {tables: {x: {gaps: 1}}}", "gaps"),
        ("checks: {fresh: 1 hour}", "nearest: freshness"),
        ("checks: {tables: {x: {webhook: y}}}", "webhook"),
        ("checks: {webhook: 'file:///s3cret'}", "it has to begin with http:// or https://"),
    ],
)
def test_mistakes_are_named(tmp_path: Path, text: str, mistake: str) -> None:
    (tmp_path / "sources").mkdir()
    (tmp_path / "sources/shop.yml").write_text("name: shop\nfiles: {path: x}\n")
    (tmp_path / "ingest.yml").write_text(text)
    with pytest.raises(ConfigError) as error:
        load(tmp_path, environ={})
    assert mistake in str(error.value) and "s3cret" not in str(error.value)


def test_the_webhook_is_a_secret_from_the_environment(tmp_path: Path) -> None:
    (tmp_path / "sources").mkdir()
    (tmp_path / "sources/shop.yml").write_text("name: shop\nfiles: {path: x}\n")
    (tmp_path / "ingest.yml").write_text("checks: {webhook: '${HOOK}', lag: 1 minute}")
    url = "https://hooks.example/services/s3cret"
    environ = {"HOOK": url, "INGEST_CHECKS__REJECTS": "4"}
    config = load(tmp_path, environ=environ)
    assert (config.settings.checks.webhook, config.settings.checks.rejects) == (url, 4)
    assert "s3cret" not in repr(config) and "s3cret" not in without_any(f"at {url}!", config)


@pytest.fixture
def server() -> Iterator[tuple[str, list[Any], list[int]]]:
    """An address, what was posted there, and the codes that it answers, the last one for ever."""
    got: list[Any] = []
    codes = [200]

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            got.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            code = codes.pop(0) if len(codes) > 1 else codes[0]
            self.send_response(code)
            if 300 <= code < 400:
                self.send_header("Location", "/login")
            self.end_headers()

        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as listening:
        thread = threading.Thread(target=listening.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{listening.server_port}/s3cret", got, codes
        listening.shutdown()
        thread.join()


def test_who_is_told_is_told_once(
    tmp_path: Path, server: tuple[str, list[Any], list[int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(webhook, "_PAUSE", 0.0)
    url, got, codes = server
    warehouse = cast(Any, SimpleNamespace(checkpoint=lambda *parts: str(tmp_path.joinpath(*parts))))
    failing = [Finding("lag", "table x", 60, 70, "x is behind")]

    def tell(found: list[Finding]) -> str | None:
        return webhook.tell(warehouse, url, found, warehouse_name="lake")

    assert tell([]) is None and got == []
    codes[:] = [503, 200]
    assert tell(failing) is None and len(got) == 2
    assert got[1]["failing"] == [failing[0]._asdict()] and got[1]["text"] == "lake: x is behind"
    # It fails as before, with another number: nobody is told again.
    assert tell([failing[0]._replace(found=90)]) is None and len(got) == 2
    # Another thing, which the server does not take: it is told the next time.
    two = [*failing, Finding("parked", "table y", None, None, "y is parked")]
    codes[:] = [500]
    text = "the webhook at 127.0.0.1 could not be told: it answered 500"
    assert tell(two) == text and len(got) == 2 + webhook.TRIES
    codes[:] = [404]
    assert tell(two) == text.replace("500", "404") and len(got) == 3 + webhook.TRIES
    # A redirect is followed without what was posted, and the page that it leads to takes nothing.
    for number, code in enumerate((301, 302, 303, 307, 308), 4):
        codes[:] = [code]
        elsewhere = f"{code}, a redirect: give the address that it leads to"
        assert tell(two) == text.replace("500", elsewhere), code
        assert len(got) == number + webhook.TRIES
    codes[:] = [200]
    assert tell(two) is None and tell([]) is None
    assert got[-1]["text"] == "lake: every check passes" and got[-1]["failing"] == []
    # A damaged note may be of what failed: who was told of that hears that it ended.
    count = len(got)
    (tmp_path / "alerted.json").write_bytes(b"{")
    assert tell([]) is None and len(got) == count + 1


def test_an_answer_in_another_language_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An SSH server behind the port, or an address with a space in it."""
    monkeypatch.setattr(webhook, "_PAUSE", 0.0)
    warehouse = cast(Any, SimpleNamespace(checkpoint=lambda *parts: str(tmp_path.joinpath(*parts))))
    failing = [Finding("lag", "table x", 60, 70, "x is behind")]

    def greet(listener: socket.socket) -> None:
        for _ in range(webhook.TRIES):
            connection, _ = listener.accept()
            with connection:
                connection.recv(65_536)
                connection.sendall(b"SSH-2.0-OpenSSH_9.6\r\n")

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=greet, args=(listener,), daemon=True)
        thread.start()
        host = f"http://127.0.0.1:{listener.getsockname()[1]}"
        said = webhook.tell(warehouse, f"{host}/s3cret", failing, warehouse_name="lake")
        thread.join()
    assert said == "the webhook at 127.0.0.1 could not be told: BadStatusLine"
    said = webhook.tell(warehouse, f"{host}/s3 cret", failing, warehouse_name="lake")
    assert said == "the webhook at 127.0.0.1 could not be told: InvalidURL"


def test_nobody_answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(webhook, "_PAUSE", 0.0)
    warehouse = cast(Any, SimpleNamespace(checkpoint=lambda *parts: str(tmp_path.joinpath(*parts))))
    failing = [Finding("lag", "table x", 60, 70, "x is behind")]
    said = webhook.tell(warehouse, "http://127.0.0.1:1/s3cret", failing, warehouse_name="lake")
    assert said is not None and "127.0.0.1 could not be told: " in said and "s3cret" not in said
