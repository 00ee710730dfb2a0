"""What is wrong in a warehouse: targets that are parked, and values that `checks:` does not
allow."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from ingest.config.alerts import Checks
from pipelines.terminal.console import counted


class Finding(NamedTuple):
    """One thing that is wrong: the check, the source or target, the bound and the value that was
    found (seconds, or a number), and the sentence on it."""

    check: str
    on: str
    bound: int | None
    found: int | None
    text: str


def findings(
    checks: Checks, sources: Iterable[Mapping[str, Any]], tables: Iterable[Mapping[str, Any]]
) -> list[Finding]:
    """The findings in rows of `ingest status`; what cannot be looked up is a finding, too. The
    bounds `lag` and `rejects` also apply to sources, and `gaps` only to them."""
    found = []
    for row in sources:
        name = f"source {row['source']}"
        if row["error"] is not None:
            # Some errors name their source themselves.
            text = row["error"].removeprefix(f"{name}: ").removeprefix(f"{name} ")
            found.append(Finding("failing", name, None, None, f"{name}: {text}"))
        if _above(row["lag_seconds"], checks.lag):
            text = f"its oldest message has waited {_time(row['lag_seconds'])} for silver"
            found.append(
                _finding("lag", name, bound=checks.lag, found=row["lag_seconds"], text=text)
            )
        if _above(row["rejects"], checks.rejects):
            text = f"{counted(row['rejects'], 'messages', 'are')} set aside"
            found.append(
                _finding("rejects", name, bound=checks.rejects, found=row["rejects"], text=text)
            )
        if _above(row["gaps"], checks.gaps):
            gone = "was gone before it was" if row["gaps"] == 1 else "were gone before they were"
            text = f"{counted(row['gaps'], 'spans')} of messages {gone} read"
            found.append(_finding("gaps", name, bound=checks.gaps, found=row["gaps"], text=text))
    for row in tables:
        found += _of_table(checks, row)
    return found


def _of_table(checks: Checks, row: Mapping[str, Any]) -> list[Finding]:
    bounds, name = checks.of(row["table"]), f"table {row['table']}"
    age, lag = row["age_seconds"], row["lag_seconds"]
    found = []
    if row["parked"]:
        found.append(
            _finding("parked", name, bound=None, found=None, text=f"is parked: {row['error']}")
        )
    if _above(age, bounds.freshness):
        text = f"its newest change happened {_time(age)} ago"
        found.append(_finding("freshness", name, bound=bounds.freshness, found=age, text=text))
    if _above(lag, bounds.lag):
        text = f"its oldest change has waited {_time(lag)}"
        found.append(_finding("lag", name, bound=bounds.lag, found=lag, text=text))
    if _above(row["rejected"], bounds.rejects):
        text = f"{counted(row['rejected'], 'changes', 'are')} set aside"
        found.append(
            _finding("rejects", name, bound=bounds.rejects, found=row["rejected"], text=text)
        )
    if _above(row["pending_ddl"], bounds.pending_ddl):
        text = f"{counted(row['pending_ddl'], 'schema changes', 'wait')} for a decision"
        found.append(
            _finding(
                "pending_ddl", name, bound=bounds.pending_ddl, found=row["pending_ddl"], text=text
            )
        )
    return found


def _above(found: int | None, bound: int | None) -> bool:
    return bound is not None and found is not None and found > bound


def _finding(check: str, on: str, *, bound: int | None, found: int | None, text: str) -> Finding:
    if bound is None:
        return Finding(check, on, bound, found, f"{on} {text}")
    allowed = _time(bound) if check in ("freshness", "lag") else f"{bound:,}"
    return Finding(check, on, bound, found, f"{on}: {text}; {check} allows {allowed}")


def _time(seconds: int) -> str:
    """A number of seconds, in the largest unit that loses little."""
    for size, unit in ((86_400, "d"), (3600, "h"), (60, "min")):
        if seconds >= 2 * size or seconds == size:
            return f"{float(f'{seconds / size:.3g}'):,g} {unit}"
    return f"{seconds} s"
