"""A run's numbers for Prometheus: as a file for node_exporter, or over HTTP.

They show a reading that the run takes between passes, so that a request does not disturb the run.
Labels are only names of sources and targets. docs/monitoring.md lists the metrics.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.metrics_core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import Collector
from prometheus_client.samples import Sample

from pipelines.platform.checkpoints import write_whole
from pipelines.telemetry.latency import BOUNDS, Latency
from pipelines.telemetry.reading import Reading

_ADDING = ("counter", "histogram")
_OF_TARGETS = (
    "ingest_table_parked",
    "ingest_table_freshness_timestamp_seconds",
    "ingest_table_pending_ddl",
)
_OF_TABLE = {
    "events": "Changes applied or set aside.",
    "inserted": "Rows inserted.",
    "updated": "Rows updated.",
    "deleted": "Rows deleted.",
    "late": "Keys whose changes came after newer ones and were folded again.",
    "stale": "Changes that newer ones had overtaken.",
    "rejected": "Changes set aside.",
}


def families(reading: Reading) -> Iterator[Metric]:
    """The metrics of a reading."""
    yield _gauge("build_info", "The version at work.", {(_version(),): 1}, labels=("version",))
    yield _gauge("run_started_timestamp_seconds", "When the run began.", _time(reading.began))
    yield _gauge("last_pass_timestamp_seconds", "When a pass last ended.", _time(reading.at))
    yield _counter("passes", "Passes over the sources.", {(): reading.passes})
    stages = {(stage,): spent for stage, spent in reading.seconds.items()}
    yield _counter("stage_seconds", "Seconds spent in a stage.", stages, labels=("stage",))
    for name, text in (
        ("messages", "Messages appended to bronze."),
        ("rows", "Rows appended to silver."),
        ("rejects", "Messages set aside by silver."),
    ):
        by_source = {(source,): done[name] for source, done in reading.sources.items()}
        yield _counter(f"source_{name}", text, by_source, labels=("source",))
    failing = {(source,): int(fails) for source, fails in reading.failing.items()}
    yield _gauge(
        "source_failing", "1: the last pass could not read it.", failing, labels=("source",)
    )
    labels = ("source", "table")
    for name, text in _OF_TABLE.items():
        counts = {table: done[name] for table, done in reading.tables.items()}
        yield _counter(f"table_{name}", text, counts, labels=labels)
    spent = {table: done["seconds"] for table, done in reading.tables.items()}
    yield _counter("table_seconds", "Seconds spent on a target.", spent, labels=labels)
    parked = {table: int(is_parked) for table, is_parked in reading.parked.items()}
    yield _gauge("table_parked", "1: the target is parked.", parked, labels=labels)
    fresh = {table: at / 1e6 for table, at in reading.freshness.items() if at is not None}
    text = "When the newest change happened that was applied."
    yield _gauge("table_freshness_timestamp_seconds", text, fresh, labels=labels)
    text = "Schema changes that wait for a decision."
    yield _gauge("table_pending_ddl", text, reading.pending, labels=labels)
    text = "Seconds from the source to gold, of each change."
    yield _latency("latency_seconds", text, reading.latency)
    text = "Seconds from arrival in a topic or queue to gold, of each change."
    yield _latency("arrival_latency_seconds", text, reading.arrival_latency)


def _version() -> str:
    return version("delta-cdc-ingest")


def _time(at: datetime) -> dict[tuple[str, ...], float]:
    return {(): at.timestamp()}


def _gauge(
    name: str, text: str, values: Mapping[Any, float], *, labels: Iterable[str] = ()
) -> Metric:
    return _filled(GaugeMetricFamily(f"ingest_{name}", text, labels=list(labels)), values)


def _counter(
    name: str, text: str, values: Mapping[Any, float], *, labels: Iterable[str] = ()
) -> Metric:
    return _filled(CounterMetricFamily(f"ingest_{name}", text, labels=list(labels)), values)


def _filled(family: GaugeMetricFamily | CounterMetricFamily, values: Mapping[Any, float]) -> Metric:
    for own, value in values.items():
        family.add_metric(list(own), value)
    return family


def _latency(name: str, text: str, latency: Latency) -> Metric:
    buckets, below = [], 0
    for number, bound in enumerate(BOUNDS):
        below += latency.below[number]
        buckets.append((str(bound), float(below)))
    buckets.append(("+Inf", float(latency.count)))
    return HistogramMetricFamily(f"ingest_{name}", text, buckets=buckets, sum_value=latency.seconds)


class Readings(Collector):
    """The newest reading, for whoever collects it; `before` is added to the counters."""

    def __init__(self, before: Mapping[Series, float]) -> None:
        self.newest: Reading | None = None
        self._before = before
        self.registry = CollectorRegistry()
        self.registry.register(self)

    def collect(self) -> Iterator[Metric]:
        """The families, as prometheus_client asks for them; none before the first reading."""
        for family in families(self.newest) if self.newest is not None else ():
            if family.type in _ADDING:
                family.samples = _added(family, self._before)
            elif family.name in _OF_TARGETS and self.newest and not self.newest.looked_through:
                family.samples = _kept(family, self._before)
            yield family

    def write(self, file: Path) -> None:
        """Write the file of node_exporter's textfile collector, completely or not at all."""
        write_whole(file, generate_latest(self.registry))


Series = tuple[str, frozenset[tuple[str, str]]]
"""Name and labels of a sample."""


def _added(family: Metric, before: Mapping[Series, float]) -> list[Sample]:
    """The samples of a counter, with those of before that this run does not have."""
    ours = {_series(sample): sample for sample in family.samples}
    samples = [
        sample._replace(value=sample.value + before.get(series, 0.0))
        for series, sample in ours.items()
    ]
    names = {f"{family.name}{ending}" for ending in ("_total", "_bucket", "_sum", "_count")}
    samples += [
        Sample(name, dict(labels), value)
        for (name, labels), value in before.items()
        if name in names and (name, labels) not in ours
    ]
    return samples


def _kept(family: Metric, before: Mapping[Series, float]) -> list[Sample]:
    """The samples of a family as they were."""
    return [
        Sample(name, dict(labels), value)
        for (name, labels), value in before.items()
        if name == family.name
    ]


def _series(sample: Sample) -> Series:
    return sample.name, frozenset(sample.labels.items())


def written_before(file: Path) -> dict[Series, float]:
    """What an earlier run wrote, so that the runs of a scheduler continue its counters. A file that
    is none of ours, or is damaged, counts as empty."""
    try:
        found = list(text_string_to_metric_families(file.read_text(encoding="utf-8")))
    except (OSError, ValueError, KeyError, IndexError):
        return {}
    return {
        _series(sample): sample.value
        for family in found
        if family.name.startswith("ingest_")
        for sample in family.samples
    }
