"""The report as one page of HTML that needs nothing else: no script, no request, no font.

All text from messages or tables passes the template's escaping. The page also forbids scripts and
requests to the browser (Content-Security-Policy), so that a slip would have no effect.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from importlib.metadata import version
from importlib.resources import files
from importlib.util import find_spec
from typing import Any

from ingest.errors import PlatformError
from pipelines.reporting.checks import Finding
from pipelines.reporting.facts import EXAMPLE, Facts
from pipelines.reporting.plots import bars, lines
from pipelines.reporting.states import WELL, source_state, table_state
from pipelines.telemetry.activity import STAGES
from pipelines.terminal.console import clean, counted
from pipelines.terminal.layout import colour_of

_TEMPLATE = files("pipelines.reporting") / "report.html.j2"
"""A resource of the package, which may be zipped."""
_LINE = 32


def page(facts: Facts, findings: Sequence[Finding], *, warehouse_name: str) -> str:
    """The page; `warehouse_name` says what it is of."""
    from jinja2 import Environment, StrictUndefined
    from markupsafe import Markup

    rendering = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    rendering.filters.update(
        number=number,
        ago=ago,
        size=size,
        seconds=seconds,
        time=moment,
        example=example,
        counted=counted,
        source_state=source_state,
        table_state=table_state,
        colour=colour_of,
    )
    # pygal escapes the names of series and labels.
    drawn = {name: Markup(svg) for name, svg in plots(facts).items()}
    return rendering.from_string(_TEMPLATE.read_text(encoding="utf-8")).render(
        facts=facts,
        findings=findings,
        warehouse_name=warehouse_name,
        plots=drawn,
        version=version("delta-cdc-ingest"),
        stages=STAGES,
        well=WELL,
    )


def check_libraries() -> None:
    """Raise PlatformError if the libraries of the page are not installed."""
    missing = [name for name in ("jinja2", "pygal") if find_spec(name) is None]
    if missing:
        raise PlatformError(
            f"`ingest report` needs {' and '.join(missing)}: install the extra `report`, "
            "pip install 'delta-cdc-ingest[report]'"
        )


def plots(facts: Facts) -> dict[str, str]:
    """The plots, as SVG, that have something to show."""
    drawn = {}
    labels = [f"{run['ended']:%m-%d %H:%M}" for run in facts.runs]
    if facts.runs:
        counts = {name: [run[name] for run in facts.runs] for name in ("messages", "events")}
        drawn["throughput"] = lines(labels, counts)
        spent = {stage: [run["seconds"][stage] for run in facts.runs] for stage in STAGES}
        drawn["seconds"] = bars(labels, spent)
    for name in ("latency", "arrival_latency"):
        named = {
            part: [run[f"{name}_{part}"] for run in facts.runs] for part in ("p50", "p95", "p99")
        }
        if any(value is not None for value in named["p50"]):
            drawn[name] = lines(labels, named, unit=seconds)
    if any(hour["late"] or hour["stale"] for hour in facts.applied):
        hours = [f"{hour['hour']:%m-%d %H:00}" for hour in facts.applied]
        late = {
            "folded again": [hour["late"] for hour in facts.applied],
            "overtaken": [hour["stale"] for hour in facts.applied],
        }
        drawn["late"] = bars(hours, late)
    return drawn


def number(value: Any) -> str:
    """`1,234`; empty for None."""
    if value is None:
        return ""
    return f"{value:,.1f}" if isinstance(value, float) else f"{value:,}"


def seconds(value: float | None) -> str:
    """A number of seconds, in the unit that people would use."""
    if value is None:
        return ""
    for most, per, unit in ((120, 1, "s"), (7200, 60, "min"), (172_800, 3600, "h")):
        if value < most:
            return f"{value / per:.3g} {unit}"
    return f"{value / 86_400:,.0f} days"


def ago(value: float | None) -> str:
    """How long ago, or never."""
    return "never" if value is None else f"{seconds(value)} ago"


def size(value: int | None) -> str:
    """A number of bytes."""
    if value is None:
        return ""
    for power, unit in ((3, "GiB"), (2, "MiB"), (1, "KiB")):
        if value >= 1024**power:
            return f"{value / 1024**power:.1f} {unit}"
    return f"{value} B"


def moment(value: datetime | None) -> str:
    """A time in UTC."""
    return "" if value is None else f"{value:%Y-%m-%d %H:%M:%S} UTC"


def example(found: Mapping[str, Any] | None) -> str:
    """The beginning of a message: its text, or its bytes in hexadecimal if it is no text."""
    value = None if found is None else found["value"]
    if not value:
        return ""
    try:
        text = clean(value.decode("utf-8"))
    except UnicodeDecodeError as error:
        # The cut may go through a letter.
        if error.start >= len(value) - 3 and len(value) == EXAMPLE:
            text = clean(value[: error.start].decode("utf-8"))
        else:
            text = " ".join(value[at : at + _LINE].hex(" ") for at in range(0, len(value), _LINE))
    more = found["bytes"] - len(value) if found is not None else 0
    return f"{text} … and {counted(more, 'bytes')} more" if more > 0 else text
