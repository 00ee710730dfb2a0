"""The edge: reads, calls `ingest`, writes. Everything that needs a session or a disk is here.

    from ingest import load
    from pipelines import Warehouse, run, spark

    config = load("conf")
    session = spark(warehouse=Path(config.settings.warehouse))
    warehouse = Warehouse(config, session)
    outcome = run(warehouse)

The names below are the library's (`pipelines.library` says what each does); what else
the packages hold is theirs and may change. Each is imported when it is first asked for.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pipelines.library import as_of, rebuild, reconcile, run
    from pipelines.platform.session import spark
    from pipelines.platform.warehouse import Warehouse
    from pipelines.runs.outcome import Outcome

__all__ = ["Outcome", "Warehouse", "as_of", "rebuild", "reconcile", "run", "spark"]
_HOMES = {
    "Outcome": "pipelines.runs.outcome",
    "Warehouse": "pipelines.platform.warehouse",
    "as_of": "pipelines.library",
    "rebuild": "pipelines.library",
    "reconcile": "pipelines.library",
    "run": "pipelines.library",
    "spark": "pipelines.platform.session",
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return __all__
