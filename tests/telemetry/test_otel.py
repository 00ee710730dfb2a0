"""What OpenTelemetry is told of a run, by its own in-memory exporters."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import DataPointT, InMemoryMetricReader, NumberDataPoint
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.util.re import parse_env_headers

from ingest.errors import PlatformError
from pipelines.telemetry import otel
from pipelines.telemetry.activity import Activity
from pipelines.telemetry.metrics import families
from tests.telemetry.test_metrics import HOSTILE, reading


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("OTEL_EXPORTER_OTLP_HEADERS", "authorization: Bearer canary-4711"),
        ("OTEL_EXPORTER_OTLP_HEADERS", "x=1, canary-4711"),
        ("OTEL_EXPORTER_OTLP_TRACES_HEADERS", "token=canary-4711;x"),
        ("OTEL_EXPORTER_OTLP_METRICS_HEADERS", "token=canary-4711\u00e9"),
        ("OTEL_EXPORTER_OTLP_ENDPOINT", "me:canary-4711@collector:4318"),
        ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://me:canary-4711@collector:port"),
    ],
)
def test_what_may_be_a_secret_is_refused_and_not_repeated(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, name: str, text: str
) -> None:
    monkeypatch.setenv(name, text)
    with pytest.raises(PlatformError, match=f"^{name}: expected ") as raised:
        otel.connected()
    assert "canary" not in f"{raised.value}{caplog.text}"


@pytest.mark.parametrize(
    "text", ["a=b", " a = b c , d=e==,", "authorization=Bearer%20x,x-scope=a/b:c", ""]
)
def test_headers_as_opentelemetry_reads_them(caplog: pytest.LogCaptureFixture, text: str) -> None:
    otel.check_variables({"OTEL_EXPORTER_OTLP_HEADERS": text})
    parse_env_headers(text, liberal=True)
    assert caplog.text == ""


class Collected:
    """Providers of a process, and what came to them."""

    def __init__(self) -> None:
        self.spans, self.reader = InMemorySpanExporter(), InMemoryMetricReader()
        self._traces = TracerProvider()
        self._traces.add_span_processor(SimpleSpanProcessor(self.spans))
        self._metrics = MeterProvider(metric_readers=[self.reader])
        self.telemetry = otel.Telemetry(
            self._traces.get_tracer(otel.NAME), self._metrics.get_meter(otel.NAME)
        )

    def numbers(self) -> dict[str, list[tuple[float, dict[str, Any]]]]:
        """The points of each metric."""
        data = self.reader.get_metrics_data()
        assert data is not None
        return {
            metric.name: [_number(point) for point in metric.data.data_points]
            for resource in data.resource_metrics
            for scope in resource.scope_metrics
            for metric in scope.metrics
        }

    def close(self) -> None:
        self._traces.shutdown()
        self._metrics.shutdown()


def _number(point: DataPointT) -> tuple[float, dict[str, Any]]:
    assert isinstance(point, NumberDataPoint)
    return point.value, dict(point.attributes or {})


@pytest.fixture
def collected() -> Iterator[Collected]:
    found = Collected()
    yield found
    found.close()


def test_a_pass_is_a_trace_with_its_stages(collected: Collected) -> None:
    activity = Activity("run", sources=["shop"])
    activity.telemetry = collected.telemetry
    for _ in range(2):
        with activity.passing():
            with activity.timed("bronze", source="shop"):
                otel.failed(activity.telemetry, "no broker answers at 127.0.0.1:1")
            with activity.timed("gold"):
                pass
    bronze, gold, run, *again = collected.spans.get_finished_spans()
    assert [each.name for each in (bronze, gold, run)] == [
        *("ingest bronze", "ingest gold", "ingest run"),
    ]
    assert dict(run.attributes or {}) == {"ingest.run": activity.run, "ingest.pass": 1}
    assert dict(bronze.attributes or {}) == {"ingest.source": "shop"}
    assert run.parent is None and run.context is not None
    assert [each.parent and each.parent.span_id for each in (bronze, gold)] == (
        [run.context.span_id] * 2
    )
    assert bronze.status.description == "no broker answers at 127.0.0.1:1"
    assert gold.status.is_unset and run.status.is_unset
    assert len(again) == 3 and again[-1].context is not None
    assert again[-1].context.trace_id != run.context.trace_id
    assert activity.passes == 2


def test_metrics_are_those_of_prometheus(collected: Collected) -> None:
    instruments = otel.Instruments(collected.telemetry.meter)
    instruments.show(reading(messages=5))
    instruments.show(reading(messages=9))
    found = collected.numbers()
    assert found["ingest_source_messages"] == [(9, {"source": "shop"})]
    assert found["ingest_table_parked"] == [(1, {"source": "shop", "table": HOSTILE})]
    told = {family.name for family in families(reading()) if family.type != "histogram"}
    assert found.keys() == {name for name in told if name in found} and len(found) >= len(told) - 1


def test_nothing_is_sent_unless_somebody_collects(monkeypatch: pytest.MonkeyPatch) -> None:
    # Imported, and at work for nobody.
    assert otel.connected() is None
    for name in [name for name in sys.modules if name.startswith("opentelemetry")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.delenv("OTEL_EXPORTER_OTLP_ENDPOINT", raising=False)
    assert otel.connected() is None
    assert "opentelemetry" not in sys.modules
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1")
    monkeypatch.setenv("OTEL_SDK_DISABLED", "true")
    assert otel.connected() is None
    monkeypatch.delenv("OTEL_SDK_DISABLED")
    monkeypatch.setitem(sys.modules, "opentelemetry", None)
    with pytest.raises(PlatformError, match=r"pip install 'delta-cdc-ingest\[otel\]'"):
        otel.connected()
