"""Nothing of a person is left: the files of before removed, and those there are looked through.

1. Delta removes every file that no current version has (VACUUM with a retention of nothing), so
   that nobody can read an earlier version. The log of gold's tables has the least and the greatest
   value of each file's columns: a checkpoint is written, and the log before it removed.
2. Every file of the tables' folders is read, data and logs: no cell may have a text that the person
   alone had, bronze none of its messages, and no file may be of an earlier version.

In a catalog the files are the platform's: there the tables are asked, and the log keeps its least
and greatest values for as long as the table's log retention says.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import unquote, urlparse

import pyarrow as pa
import pyarrow.parquet as pq

from ingest.errors import TableError
from ingest.sql.casts import sql_text
from ingest.sql.delivery import MESSAGE, same
from pipelines.gold.reconstruction import Reconstruction
from pipelines.platform.rows import rows
from pipelines.platform.warehouse import Warehouse
from pipelines.privacy import record
from pipelines.privacy.person import Person, messages_table
from pipelines.privacy.record import Erasure

_CHECK = "spark.databricks.delta.retentionDurationCheck.enabled"
_CHECKPOINT = re.compile(r"(\d{20})\.checkpoint.*\.parquet")


def prove(history: Reconstruction, person: Person, erasure: Erasure) -> Erasure:
    """Remove the files of before and look through those that are left; raises TableError where
    something of the person is found."""
    warehouse = history.warehouse
    tables = [
        ("bronze", "messages"),
        ("silver", "cdc"),
        ("gold", history.target),
        ("gold", "_rejects"),
    ]
    tables = [table for table in tables if warehouse.exists(*table)]
    for layer, table in tables:
        _vacuum(warehouse, layer, table)
        if warehouse.local and layer == "gold":
            _forget_log(warehouse, layer, table)
    left = _messages_left(history, erasure)
    said = [f"{len(erasure.went):,} messages in none of bronze"]
    if warehouse.local:
        files, cells, found = _looked_through(warehouse, tables, person.texts)
        left += found
        said.append(f"{files:,} files, {cells:,} rows and {len(person.texts):,} texts of its own")
    else:
        said.append("the files are the platform's and were not read")
    if left:
        raise TableError(f"expected nothing of the person to be left, got: {'; '.join(left)}")
    proof = f"looked through after VACUUM: {', '.join(said)}: nothing found"
    proved = replace(erasure, status="proved", proof=proof, proved_at=datetime.now(UTC))
    return record.write(warehouse, proved)


def _vacuum(warehouse: Warehouse, layer: str, table: str) -> None:
    name = warehouse.name(layer, table)
    if not warehouse.local:
        # Rows may be marked as gone beside their file.
        warehouse.execute(f"REORG TABLE {name} APPLY (PURGE)")
    with _unchecked(warehouse):
        warehouse.execute(f"VACUUM {name} RETAIN 0 HOURS")


@contextmanager
def _unchecked(warehouse: Warehouse) -> Iterator[None]:
    """Let Delta remove files that are younger than a week."""
    conf = warehouse.session.conf
    before = conf.get(_CHECK, None)
    conf.set(_CHECK, "false")
    try:
        yield
    finally:
        if before is None:
            conf.unset(_CHECK)
        else:
            conf.set(_CHECK, before)


def _forget_log(warehouse: Warehouse, layer: str, table: str) -> None:
    """Remove the log before a checkpoint of now: who reads the table needs no more of it."""
    name = warehouse.name(layer, table)
    interval = "delta.checkpointInterval"
    for _ in range(2):
        # The second commit, at the latest, is one with a checkpoint.
        warehouse.execute(f"ALTER TABLE {name} SET TBLPROPERTIES ('{interval}' = '1')")
    warehouse.execute(f"ALTER TABLE {name} UNSET TBLPROPERTIES ('{interval}')")
    log = warehouse.folder(layer, table) / "_delta_log"
    found = [match for file in log.iterdir() if (match := _CHECKPOINT.fullmatch(file.name))]
    newest = max((int(match[1]) for match in found), default=0)
    for file in log.iterdir():
        number = file.name.lstrip(".")[:20]
        if number.isdigit() and int(number) < newest:
            file.unlink()


def _messages_left(history: Reconstruction, erasure: Erasure) -> list[str]:
    """What bronze still has of the messages that went."""
    warehouse = history.warehouse
    held = history.frames.view(messages_table(erasure.went))
    [[number]] = rows(
        warehouse.session.sql(
            f"SELECT count(*) FROM {warehouse.name('bronze', 'messages')} b JOIN {held} m "
            f"ON {same('b', 'm', MESSAGE)} WHERE source = {sql_text(history.source)}"
        )
    )
    return [f"{number:,} of its messages in bronze"] if number else []


def _looked_through(
    warehouse: Warehouse, tables: list[tuple[str, str]], texts: list[str]
) -> tuple[int, int, list[str]]:
    """How many files and rows were read, and what they had."""
    pattern = _pattern(texts)
    files = cells = 0
    found: list[str] = []
    for layer, table in tables:
        folder = warehouse.folder(layer, table)
        current = {
            Path(unquote(urlparse(file).path)).name
            for file in warehouse.read(layer, table).inputFiles()
        }
        for file in sorted(file for file in folder.rglob("*") if file.is_file()):
            files += 1
            in_log = "_delta_log" in file.parts
            if file.suffix == ".parquet":
                if not in_log and file.name not in current:
                    found.append(f"{file.name} in {layer}.{table}, a file of an earlier version")
                number, hit = _read(file, pattern)
                cells += number
            else:
                hit = pattern is not None and pattern.search(file.read_bytes()) is not None
            if hit:
                found.append(f"a text of its own in {layer}.{table}, {file.name}")
    return files, cells, found


def _pattern(texts: list[str]) -> re.Pattern[bytes] | None:
    """What finds any of the texts, as they are or as JSON writes them."""
    written = {
        form.encode()
        for text in texts
        for form in (text, json.dumps(text)[1:-1], json.dumps(text, ensure_ascii=False)[1:-1])
    }
    return re.compile(b"|".join(map(re.escape, sorted(written)))) if written else None


def _read(file: Path, pattern: re.Pattern[bytes] | None) -> tuple[int, bool]:
    """How many rows a file of Parquet has, and whether some cell has what is looked for."""
    count, hit = 0, False
    for batch in pq.ParquetFile(file).iter_batches():
        count += batch.num_rows
        if pattern is not None and not hit:
            hit = any(_holds(column, pattern) for column in batch.columns)
    return count, hit


def _holds(array: pa.Array, pattern: re.Pattern[bytes]) -> bool:
    if isinstance(array, pa.DictionaryArray):
        return _holds(array.dictionary, pattern)
    if isinstance(array, pa.MapArray):
        return _holds(array.keys, pattern) or _holds(array.items, pattern)
    if isinstance(array, pa.StructArray):
        return any(_holds(field, pattern) for field in array.flatten())
    if isinstance(array, pa.ListArray | pa.LargeListArray):
        return _holds(array.flatten(), pattern)
    kind = array.type
    if not (pa.types.is_string(kind) or pa.types.is_binary(kind)):
        return False
    return any(
        pattern.search(cell.as_buffer()) is not None for cell in array if cell.as_py() is not None
    )
