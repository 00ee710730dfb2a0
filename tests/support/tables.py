"""Tables of a configuration that has settings and no source, for what is tried below the verbs."""

from __future__ import annotations

from pathlib import Path
from typing import cast

from pyspark.sql import SparkSession

from ingest.config.load import Config
from ingest.config.settings import Settings
from pipelines.platform.warehouse import Warehouse

NOWHERE = Path("/nowhere")


def tables_of(
    settings: Settings, session: SparkSession | None, *, root: Path = NOWHERE
) -> Warehouse:
    """The tables of these settings and of the project in `root`; no session: nothing asks Spark."""
    config = Config(conf=root / "conf", settings=settings, sources={}, tables={})
    return Warehouse(config, cast("SparkSession", session))


def tables_in(
    folder: Path, session: SparkSession | None = None, *, root: Path = NOWHERE
) -> Warehouse:
    """The tables in a folder, their checkpoints beside them."""
    settings = Settings(warehouse=str(folder), checkpoints=str(folder / "_checkpoints"))
    return tables_of(settings, session, root=root)
