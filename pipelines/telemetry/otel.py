"""Spans and metrics of a run for OpenTelemetry, if somebody collects them.

A pass over the sources is a trace: the span `ingest run` (or the stage that was asked for), with
one span below it for each piece of work of a stage. The metrics are those of
`pipelines.telemetry.metrics`, by the same names. Both use OpenTelemetry's own API: they go to the
providers of the process, or else by OTLP over HTTP to the address in the variables
OTEL_EXPORTER_OTLP_…. Without either, nothing is imported and nothing is sent. Spans and metrics
hold only names, counts and sentences without secrets.

Source: https://opentelemetry.io/docs/specs/otel/configuration/sdk-environment-variables/
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, NamedTuple

from ingest.addresses import wrong_address
from ingest.errors import PlatformError

if TYPE_CHECKING:
    from opentelemetry.metrics import Meter
    from opentelemetry.trace import Span, Tracer

    from pipelines.telemetry.reading import Reading

NAME = "delta-cdc-ingest"
_VARIABLES = "OTEL_EXPORTER_OTLP_"
_HEADER = re.compile(r"[ \t]*[!#-'*+\-.0-9A-Z^-z|~]+[ \t]*=[ !#-+\--:<-\[\]-~\t]*")
"""A header that OpenTelemetry accepts (opentelemetry.util.re)."""
_GAUGES = ("gauge", "info")

Attributes = Mapping[str, str | int | float | bool]


def _said() -> bool:
    """Whether the variables say where to send something."""
    return any(name.startswith(_VARIABLES) and text for name, text in os.environ.items())


class Telemetry(NamedTuple):
    """Where spans and metrics are sent."""

    tracer: Tracer
    meter: Meter


def check_variables(environ: Mapping[str, str]) -> None:
    """Raises PlatformError for a value that OpenTelemetry would reject and print in full, since it
    may be a secret or contain one."""
    for name, text in environ.items():
        if not name.startswith(_VARIABLES) or not text:
            continue
        parts = text.split(",") if name.endswith("HEADERS") else ()
        if not all(_HEADER.fullmatch(part) for part in parts if part.strip()):
            raise PlatformError(
                f"{name}: expected name=value, with commas between several, got something else "
                "(not shown)"
            )
        if name.endswith("ENDPOINT") and (wrong := wrong_address(text)):
            raise PlatformError(f"{name}: expected an address like http://host:4318: {wrong}")


def connected() -> Telemetry | None:
    """Where they are sent; None if nobody collects them.

    Raises PlatformError if the variables name an address, but OpenTelemetry is not installed or
    would not understand them.
    """
    disabled = os.environ.get("OTEL_SDK_DISABLED", "").lower() == "true"
    said = _said() and not disabled
    if disabled or not (said or "opentelemetry.sdk.trace" in sys.modules):
        return None
    try:
        from opentelemetry import metrics, trace
        from opentelemetry.sdk.metrics import MeterProvider
        from opentelemetry.sdk.trace import TracerProvider
    except ModuleNotFoundError:
        raise PlatformError(
            f"{_VARIABLES}… says where to send spans and metrics, and OpenTelemetry is not "
            f"installed: pip install '{NAME}[otel]', or unset it"
        ) from None
    check_variables(os.environ if said else {})
    own = version(NAME)
    if not said and not isinstance(trace.get_tracer_provider(), TracerProvider):
        # The library is installed, but nobody has set it up.
        return None
    if not isinstance(trace.get_tracer_provider(), TracerProvider):
        trace.set_tracer_provider(_traces(TracerProvider, own))
    if said and not isinstance(metrics.get_meter_provider(), MeterProvider):
        metrics.set_meter_provider(_metrics(MeterProvider, own))
    return Telemetry(trace.get_tracer(NAME, own), metrics.get_meter(NAME, own))


def _traces(provider: type[Any], own: str) -> Any:
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    made = provider(resource=_resource(own))
    made.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    return made


def _metrics(provider: type[Any], own: str) -> Any:
    from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
    from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader

    reader = PeriodicExportingMetricReader(OTLPMetricExporter())
    return provider(metric_readers=[reader], resource=_resource(own))


def _resource(own: str) -> Any:
    from opentelemetry.sdk.resources import Resource

    # OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES take precedence over these.
    return Resource({"service.name": NAME, "service.version": own}).merge(Resource.create())


@contextmanager
def span(
    telemetry: Telemetry | None, name: str, attributes: Attributes | None = None
) -> Iterator[Span | None]:
    """A span around the block; nothing if nobody collects."""
    if telemetry is None:
        yield None
        return
    with telemetry.tracer.start_as_current_span(name, attributes=attributes or {}) as begun:
        yield begun


def failed(telemetry: Telemetry | None, text: str) -> None:
    """Mark the current span as failed, with the sentence that says why, which has no secrets."""
    if telemetry is None:
        return
    from opentelemetry.trace import Status, StatusCode, get_current_span

    get_current_span().set_status(Status(StatusCode.ERROR, text))


class Instruments:
    """The metrics of the newest reading, as observable instruments of a meter."""

    def __init__(self, meter: Meter) -> None:
        self._meter = meter
        self._held: dict[str, list[tuple[float, dict[str, str]]]] = {}

    def show(self, reading: Reading) -> None:
        """Take over a reading; metrics that are new get their instruments."""
        from pipelines.telemetry.metrics import families

        for family in families(reading):
            if family.type == "histogram":
                # Its buckets are made already, and no instrument accepts these.
                continue
            held = [
                (sample.value, dict(sample.labels))
                for sample in family.samples
                if not sample.name.endswith("_created")
            ]
            made = family.name in self._held
            self._held[family.name] = held
            if not made:
                gauge = family.type in _GAUGES
                make = (
                    self._meter.create_observable_gauge
                    if gauge
                    else self._meter.create_observable_counter
                )
                make(family.name, [self._observed(family.name)], description=family.documentation)

    def _observed(self, name: str) -> Any:
        from opentelemetry.metrics import Observation

        def observe(_: object) -> Iterable[Observation]:
            return [Observation(value, labels) for value, labels in self._held[name]]

        return observe
