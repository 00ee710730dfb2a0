"""The state of a row of `ingest status` in one word or a few: `ok`, or what is wrong."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pipelines.terminal.console import counted

WELL = "ok"


def source_state(row: Mapping[str, Any]) -> str:
    """The state of a source: `failing` if its transport cannot be asked, or cannot be read from its
    position; that none of its messages could be decoded; that some were gone before they were read;
    `behind` while messages wait."""
    if row["error"] is not None:
        return "failing"
    matters = []
    if all_rejected(row):
        matters.append("all rejected")
    if row["gaps"]:
        matters.append(counted(row["gaps"], "gaps"))
    if row["lag"] or row["unread_files"] or row["unread_messages"]:
        matters.append("behind")
    return ", ".join(matters) or WELL


def all_rejected(row: Mapping[str, Any]) -> bool:
    """Whether messages of a source were set aside and none could ever be decoded."""
    # Rejects outlive their messages in bronze, so they may be more than the messages there now.
    return bool(row["rejects"]) and not row["decoded_rows"]


def table_state(row: Mapping[str, Any]) -> str:
    """The state of a target: parked, schema changes that wait, rejects that are open."""
    matters = ["parked"] if row["parked"] else []
    matters += [f"{row['pending_ddl']:,} pending"] if row["pending_ddl"] else []
    matters += [f"{row['rejected']:,} rejected"] if row["rejected"] else []
    return ", ".join(matters) or WELL
