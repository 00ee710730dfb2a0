"""The layout of the tables, a number that says which versions of the product can work with them.

It is in a note beside the checkpoints, which is looked at whenever a command opens the warehouse,
and, in case that is lost, in a property of bronze and silver. Tables that say nothing are of the
first layout. Columns that a version adds do not make another layout.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple

from ingest.errors import PlatformError
from ingest.sql.tables.definition import set_properties
from pipelines.platform.checkpoints import write_whole
from pipelines.platform.leases import lease, lease_on_all
from pipelines.platform.warehouse import (
    LAYOUT_NOTE,
    LAYOUT_PROPERTY,
    PRODUCT,
    LayoutNote,
    Warehouse,
    newer_layout,
    noted_layout,
)

_FIRST = 1
_TABLES = (("silver", "cdc"), ("bronze", "messages"))

MIGRATIONS: Mapping[int, Callable[[Warehouse], None]] = {}
"""Layout -> what makes the next layout of it.

Each can be repeated if it was cut short: a layout is recorded only when its step is complete, so
the next upgrade begins with the step that was under way.
"""


class Layout(NamedTuple):
    """A layout, and the first version of the product that had it."""

    number: int
    version: str

    def __str__(self) -> str:
        written = f", which {PRODUCT} {self.version} wrote" if self.version else ""
        return f"layout {self.number}{written}"


def found_layout(warehouse: Warehouse) -> Layout | None:
    """The layout of the existing tables; None: there are none."""
    noted = noted_layout(warehouse)
    if noted is not None:
        return Layout(noted["layout"], noted["version"])
    there = [table for table in _TABLES if warehouse.exists(*table)]
    if not there:
        return None
    held = warehouse.table_property(*there[0], LAYOUT_PROPERTY) or ""
    number, _, written = held.partition(" ")
    return Layout(int(number), written) if number.isdigit() else Layout(_FIRST, "")


def check_layout(warehouse: Warehouse) -> None:
    """Raise PlatformError where this version cannot work with the tables; nothing is touched."""
    found = found_layout(warehouse)
    if found is None:
        return
    if found.number > warehouse.layout:
        raise newer_layout(*found, most=warehouse.layout)
    if found.number < warehouse.layout:
        own = f"{PRODUCT} {version(PRODUCT)}"
        raise PlatformError(
            f"expected tables of layout {warehouse.layout}, which {own} works with, got {found}; "
            "let no run be at work, copy the tables, and run `ingest upgrade`"
        )


def note_layout(warehouse: Warehouse) -> None:
    """Write the note of the layout, which saves a query whenever the warehouse is opened."""
    if _file(warehouse).exists():
        return
    found = found_layout(warehouse)
    if found is not None:
        # A user who may only read the tables does without the note.
        with suppress(OSError):
            _note(warehouse, found)


def upgrade(warehouse: Warehouse) -> str:
    """Bring the tables to this version's layout; gives the sentence on what was done.

    Raises PlatformError if there is no way there; steps that were done stay done.
    """
    layout = found_layout(warehouse)
    if layout is None:
        return "there are no tables yet"
    if layout.number >= warehouse.layout:
        return _nothing_to_do(warehouse, layout)
    with lease(warehouse, "gold"), lease(warehouse, "silver"), lease_on_all(warehouse, "bronze"):
        # Another upgrade may have ended while this one waited.
        layout = found_layout(warehouse) or layout
        if layout.number >= warehouse.layout:
            return _nothing_to_do(warehouse, layout)
        for number in range(layout.number, warehouse.layout):
            step = MIGRATIONS.get(number)
            if step is None:
                keep = f"work on with {PRODUCT} {layout.version}" if layout.version else "keep them"
                raise PlatformError(
                    f"expected a way from layout {number} of the tables to {number + 1}, got none: "
                    f"{keep}, or make new tables in another warehouse, from the messages that "
                    "there still are"
                )
            step(warehouse)
            _record(warehouse, Layout(number + 1, version(PRODUCT)))
    return f"the tables were of {layout}, and are of layout {warehouse.layout} now"


def _nothing_to_do(warehouse: Warehouse, found: Layout) -> str:
    check_layout(warehouse)
    note_layout(warehouse)
    return f"the tables are of {found}, as this version has them: nothing to do"


def _record(warehouse: Warehouse, layout: Layout) -> None:
    held = {LAYOUT_PROPERTY: f"{layout.number} {layout.version}"}
    for table in _TABLES:
        if warehouse.exists(*table):
            warehouse.execute(set_properties(warehouse.name(*table), held))
    _note(warehouse, layout)


def _note(warehouse: Warehouse, layout: Layout) -> None:
    noted = LayoutNote(layout=layout.number, version=layout.version)
    write_whole(_file(warehouse), json.dumps(noted).encode())


def _file(warehouse: Warehouse) -> Path:
    return Path(warehouse.checkpoint(LAYOUT_NOTE))
