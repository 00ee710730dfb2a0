"""A snapshot of a source table, read by Spark from wherever it was put, with the types of a
target."""

from __future__ import annotations

import re
from pathlib import Path

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame

from ingest.config.mistakes import unknown_word
from ingest.errors import ConfigError, Mistake
from ingest.sql.history.compare import as_target, with_texts
from ingest.sql.masks import masked
from ingest.sql.metadata import gold_name
from ingest.sql.query import select
from ingest.sql.quoting import quoted, sql_text
from pipelines.gold.reconstruction import Reconstruction
from pipelines.platform.failures import gist
from pipelines.platform.warehouse import Warehouse

FORMATS = {
    "delta": {},
    "parquet": {},
    "orc": {},
    "csv": {"header": "true", "escape": '"', "multiLine": "true"},
    "json": {"primitivesAsString": "true"},
}
"""Format -> how Spark reads it; texts stay texts."""
_TEXTS = "_ingest_masked_texts"
_TABS = re.compile(r"\.tsv(\.(bz2|deflate|gz|lz4|snappy|zst))?/?$", re.IGNORECASE)
"""The end of the name of a CSV file with tabs between its values, compressed or not."""
_BY_SUFFIX = {"jsonl": "json", "ndjson": "json", "tsv": "csv"}


def snapshot_rows(
    warehouse: Warehouse,
    reconstruction: Reconstruction,
    *,
    path: str,
    format_: str | None,
) -> tuple[str, list[str]]:
    """SQL of the snapshot's rows, and its columns, both as the target has them, masks included.

    Columns are matched without case; those that only one side has are left out. Raises ConfigError.
    """
    frame = _read(warehouse, path, format_)
    types = {gold_name(field.name).lower(): field for field in frame.schema.fields}
    columns = [name for name in reconstruction.columns if name.lower() in types]
    missing = [key for key in reconstruction.keys if key not in columns]
    if missing:
        raise _wrong(f"expected the key column {', '.join(missing)}, got {', '.join(types)}")
    zone = warehouse.config.sources[reconstruction.source].time_zone
    # All batches of a target have its masks; without any history there are no rows to compare.
    of_target = next((batch.projection.masks for batch in reconstruction.batches), {})
    masks = {name: mask for name, mask in of_target.items() if name in columns}
    listed, texts = [], []
    for name in columns:
        field, type_ = types[name.lower()], reconstruction.columns[name]
        held = "string" if name in masks else type_
        value = as_target(quoted(field.name), field.dataType.simpleString(), held, zone=zone)
        if name in masks:
            texts.append((name, value))
            value = f"CAST({_TEXTS}[{sql_text(name)}] AS {type_})"
        listed.append(f"{value} AS {quoted(name)}")
    rows = reconstruction.frames.view(frame)
    if masks:
        rows = masked(with_texts(rows, texts, named=_TEXTS), masks, zone=zone, maps=[_TEXTS])
        rows = f"({rows})"
    return f"({select(rows, columns=', '.join(listed))})", columns


def _read(warehouse: Warehouse, path: str, format_: str | None) -> DataFrame:
    found = format_ if format_ is not None else _format_of(path)
    if found not in FORMATS:
        raise _wrong(unknown_word("--format", found, FORMATS))
    try:
        options = FORMATS[found] | ({"sep": "\t"} if found == "csv" and _TABS.search(path) else {})
        return warehouse.session.read.format(found).options(**options).load(path)
    except AnalysisException as error:
        raise _wrong(str(error).strip().split("\n")[0]) from None
    except Exception as error:
        # Files are opened to learn their columns, and Spark raises many types of errors.
        text = f"expected {found} in {path}, got what cannot be read so: {gist(error)}"
        raise _wrong(text) from None


def _format_of(path: str) -> str:
    """By the name's ending, a Delta table by its log; else Parquet."""
    if (Path(path) / "_delta_log").is_dir():
        return "delta"
    suffix = Path(path).suffix.lower().removeprefix(".")
    suffix = _BY_SUFFIX.get(suffix, suffix)
    return suffix if suffix in FORMATS else "parquet"


def _wrong(text: str) -> ConfigError:
    return ConfigError([Mistake("snapshot", None, text)])
