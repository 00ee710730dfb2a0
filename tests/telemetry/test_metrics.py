"""Metrics as a file and by HTTP, lines of JSON, and what a run shows while it is at work."""

from __future__ import annotations

import json
import re
import threading
import time
import urllib.error
import urllib.request
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import click
import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as openmetrics
from prometheus_client.parser import text_string_to_metric_families as textfile

from ingest.errors import PlatformError
from pipelines.cli.watching import WRITTEN_EVERY, watching
from pipelines.telemetry.endpoint import listening
from pipelines.telemetry.latency import Latency
from pipelines.telemetry.metrics import Readings, families, written_before
from pipelines.telemetry.reading import Reading
from pipelines.terminal.console import Console
from pipelines.terminal.log import JsonLog

AT = datetime(2026, 3, 4, 5, 6, 7, tzinfo=UTC)
HOSTILE = 'a"b\\c\nd{}'
COUNTS = ("events", "inserted", "updated", "deleted", "late", "stale", "rejected")


def reading(messages: int = 5) -> Reading:
    latency = Latency()
    latency.add(0, 4, [-2_000_000, -40_000_000])
    arrival = Latency()
    arrival.add(0, 3, [-1_500_000])
    return Reading(
        run="r",
        at=AT,
        began=AT,
        passes=2,
        ready=True,
        looked_through=True,
        seconds={"bronze": 1.5, "silver": 2.0, "gold": 0.0, "upkeep": 0.0},
        sources={"shop": {"messages": messages, "rows": 7, "rejects": 1}},
        failing={"shop": False},
        tables={("shop", HOSTILE): {**dict.fromkeys(COUNTS, 3), "seconds": 0.25}},
        parked={("shop", HOSTILE): True},
        freshness={("shop", HOSTILE): 1_700_000_000_000_000, ("shop", "never"): None},
        pending={("shop", HOSTILE): 2},
        latency=latency,
        arrival_latency=arrival,
    )


def samples(file: Path) -> dict[tuple[str, tuple[str, ...]], float]:
    return {
        (sample.name, tuple(sample.labels.values())): sample.value
        for family in textfile(file.read_text())
        for sample in family.samples
    }


def test_the_page_lists_every_metric() -> None:
    page = (Path(__file__).parents[2] / "docs/monitoring.md").read_text(encoding="utf-8")
    table = page[page.index("| metric |") : page.index("## OpenTelemetry")]
    suffix = {"counter": "_total", "info": "_info"}
    named = {family.name + suffix.get(family.type, "") for family in families(reading())}
    assert set(re.findall(r"`(ingest_\w+)`", table)) == named


def test_the_file_is_one_that_node_exporter_reads(tmp_path: Path) -> None:
    file = tmp_path / "deep" / "ingest.prom"
    readings = Readings({})
    readings.newest = reading()
    readings.write(file)
    found = samples(file)
    assert found["ingest_source_messages_total", ("shop",)] == 5
    assert found["ingest_stage_seconds_total", ("bronze",)] == 1.5
    assert found["ingest_table_events_total", ("shop", HOSTILE)] == 3
    assert found["ingest_table_parked", ("shop", HOSTILE)] == 1
    assert found["ingest_table_freshness_timestamp_seconds", ("shop", HOSTILE)] == 1_700_000_000
    assert found["ingest_table_pending_ddl", ("shop", HOSTILE)] == 2
    assert found["ingest_last_pass_timestamp_seconds", ()] == AT.timestamp()
    assert found["ingest_latency_seconds_bucket", ("2.5",)] == 2
    assert found["ingest_latency_seconds_bucket", ("60.0",)] == 4
    assert found["ingest_latency_seconds_count", ()] == 4
    assert found["ingest_latency_seconds_sum", ()] == pytest.approx(84)
    assert found["ingest_arrival_latency_seconds_bucket", ("1.0",)] == 0
    assert found["ingest_arrival_latency_seconds_bucket", ("2.5",)] == 3
    assert ("ingest_table_freshness_timestamp_seconds", ("shop", "never")) not in found
    # Nothing but the file is left, whoever reads it meanwhile.
    assert [path.name for path in file.parent.iterdir()] == ["ingest.prom"]


def test_counters_go_on_where_an_earlier_run_left_them(tmp_path: Path) -> None:
    file = tmp_path / "ingest.prom"
    for _ in range(3):
        readings = Readings(written_before(file))
        readings.newest = reading()
        readings.write(file)
        # Within a run they are not added once more.
        readings.write(file)
    found = samples(file)
    assert found["ingest_source_messages_total", ("shop",)] == 15
    assert found["ingest_latency_seconds_count", ()] == 12
    assert found["ingest_table_parked", ("shop", HOSTILE)] == 1
    # A run of another source, which had nothing to look at in gold: what was is still there.
    readings = Readings(written_before(file))
    other = Reading(run="s", at=AT, began=AT, sources={"b": reading().sources["shop"]})
    readings.newest = other
    readings.write(file)
    found = samples(file)
    assert found["ingest_source_messages_total", ("shop",)] == 15
    assert found["ingest_source_messages_total", ("b",)] == 5
    assert found["ingest_table_parked", ("shop", HOSTILE)] == 1


@pytest.mark.parametrize("content", [b"", b"{", b"\xff\xfe", b"ingest_x{ 1 1 1", b"other 5\n"])
def test_a_file_that_is_none_counts_as_nothing(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "ingest.prom"
    file.write_bytes(content)
    assert written_before(file) == {}
    assert written_before(tmp_path / "none") == {}


def get(port: int, path: str, **headers: str) -> tuple[int, str, str]:
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:
            return answer.status, answer.headers["Content-Type"], answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.headers["Content-Type"], error.read().decode()


def test_who_asks_by_http_is_answered() -> None:
    readings = Readings({})
    with listening("127.0.0.1", 0, readings) as port:
        # Before the first pass.
        assert get(port, "/metrics")[0] == 200
        assert get(port, "/health")[0] == 200
        assert get(port, "/ready")[0] == 503
        readings.newest = reading()
        code, kind, text = get(port, "/metrics", Accept="application/openmetrics-text")
        assert code == 200 and kind.startswith("application/openmetrics-text")
        [messages] = [f for f in openmetrics(text) if f.name == "ingest_source_messages"]
        assert [sample.value for sample in messages.samples] == [5]
        code, kind, text = get(port, "/metrics?x=1")
        assert kind.startswith("text/plain") and "ingest_source_messages_total" in text
        ready, _, state = get(port, "/ready")
        found = json.loads(state)
        assert ready == 200 and found.pop("seconds_since_pass") > 0
        assert found == {"status": "ok", "run": "r", "passes": 2, "failing": [], "parked": 1}
        readings.newest = replace(reading(), ready=False)
        assert get(port, "/ready")[0] == 503 and get(port, "/health")[0] == 200
        assert get(port, "/../etc/passwd")[0] == get(port, "/")[0] == 404
        with pytest.raises(PlatformError, match=f"cannot listen at 127.0.0.1:{port}: "):
            with listening("127.0.0.1", port, readings):
                pass
    assert [thread.name for thread in threading.enumerate() if thread.name == "metrics"] == []


def test_a_run_that_goes_on_writes_the_file_at_intervals(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    clock = [1000.0]
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    file = tmp_path / "ingest.prom"
    written = []
    with watching(Console(json=True), metrics=str(file), listen=None) as watch:
        assert watch is not None
        for number in range(100):
            watch(reading(number), False)
            written.append(samples(file)["ingest_source_messages_total", ("shop",)])
            clock[0] += WRITTEN_EVERY / 10
        watch(reading(100), True)
    assert sorted(set(written)) == [float(10 * n) for n in range(10)]
    assert samples(file)["ingest_source_messages_total", ("shop",)] == 100
    # A disk that cannot be written stops no run.
    with watching(Console(json=True), metrics="/dev/null/x.prom", listen=None) as watch:
        assert watch is not None
        watch(reading(), True)
    assert "metrics were not written to /dev/null/x.prom" in capsys.readouterr().err
    with watching(Console(json=True), metrics=None, listen=None) as watch:
        assert watch is None


def test_a_run_that_goes_on_answers_where_it_was_told_to(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with watching(Console(json=True), metrics=None, listen="127.0.0.1:0") as watch:
        assert watch is not None
        said = capsys.readouterr().err
        assert said.startswith("listening at 127.0.0.1:")
        port = int(said.rpartition(":")[2])
        assert (get(port, "/health")[0], get(port, "/ready")[0]) == (200, 503)
        watch(reading(7), False)
        assert 'ingest_source_messages_total{source="shop"} 7.0' in get(port, "/metrics")[2]
        assert get(port, "/ready")[0] == 200
    with pytest.raises(urllib.error.URLError):
        get(port, "/health")


@pytest.mark.parametrize("text", ["9188", "host", "host:", ":9188", "h:x", "h:70000", "h:-1"])
def test_an_address_that_is_none(text: str) -> None:
    with pytest.raises(click.UsageError, match="expected HOST:PORT"):
        with watching(Console(json=True), metrics=None, listen=text):
            pass


def test_lines_of_json(capsys: pytest.CaptureFixture[str]) -> None:
    console = Console(json=True)
    console.log = JsonLog()
    console.log.about["run"] = "r1"
    console.say("a\nb \x1b[31m", level="error", source="shop", target=None)
    with console.progress("run", 2) as advance:
        advance("bronze shop: 3 messages", True, source="shop")
        advance("silver shop: 0 rows", False, source="shop")
        advance.at("gold x")
    with console.waiting("starting Spark"):
        pass
    out, err = capsys.readouterr()
    first, second = map(json.loads, err.splitlines())
    assert out == "" and first.pop("time") <= second.pop("time")
    assert first == {"level": "error", "message": "a\nb \x1b[31m", "run": "r1", "source": "shop"}
    assert second == {
        "level": "info",
        "message": "bronze shop: 3 messages",
        "run": "r1",
        "source": "shop",
    }
    # A terminal is not given what it would obey.
    assert "\x1b" not in err
