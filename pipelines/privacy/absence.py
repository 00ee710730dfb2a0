"""Nothing of a person is left: earlier files are removed, and the present ones are searched.

1. Delta removes every file that no current version has (VACUUM with a retention of nothing), so
   that nobody can read an earlier version; silver comes last. The log of gold's tables has the
   least and the greatest value of each file's columns, so a checkpoint is written and the log
   before it removed.
2. Every file in the folders of the tables is read, data and logs: no cell may have a text that only
   the person had, bronze none of its messages, and no file may be of an earlier version.
3. Once nothing is found, that is noted, and silver's earlier versions are removed too. Until then
   they tell another call what to look for; if they are gone without that note, nothing is called
   proved.

In a catalog the files are the platform's. There the tables are queried, and the log keeps its least
and greatest values for as long as the table's log retention says.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlparse

import pyarrow.parquet as pq

from ingest.errors import TableError
from ingest.sql.privacy.erasure import number_of_messages
from ingest.sql.tables import upkeep
from ingest.sql.tables.definition import set_properties
from pipelines.gold.reconstruction import Reconstruction
from pipelines.platform.rows import rows
from pipelines.platform.scratch import drop_older
from pipelines.platform.session import having
from pipelines.platform.warehouse import CHECKPOINTS, Warehouse
from pipelines.privacy import record
from pipelines.privacy.person import messages_table
from pipelines.privacy.record import Erasure
from pipelines.privacy.texts import Texts, holding_cells, texts_pattern
from pipelines.terminal.console import counted

SENTENCES = {"_progress": ("error", "parked"), "_ddl": ("why", "failed")}
"""Tables of gold whose rows of some status have, in some column, a sentence on what failed. No file
of an earlier version of these stays. Their other columns have words and numbers that may happen to
equal a person's, and are not searched."""
_CHECK = "spark.databricks.delta.retentionDurationCheck.enabled"
_PLACE = ("topic", "partition", "offset")
_MOST = 10
"""How many places a sentence names."""
_AT_WORK = timedelta(hours=1)
"""How old a table may be with which another command is still at work."""
_CHECKPOINT = re.compile(r"(\d{20})\.checkpoint.*\.parquet")


def prove(history: Reconstruction, texts: list[str] | None, erasure: Erasure) -> Erasure:
    """Remove earlier files and search those that are left for the person's texts. Raises TableError
    if something of the person is found, or if nobody knows its texts."""
    warehouse = history.warehouse
    if erasure.proof is None:
        said = _nothing_found(history, texts, erasure)
        if texts is not None:
            # Noted before silver's earlier versions are removed, since without them nobody can
            # search again.
            erasure = record.write(warehouse, replace(erasure, proof=said))
    # Silver comes last: until nothing is found, its earlier versions say what to look for.
    _vacuum(warehouse, "silver", "cdc")
    silver = ("silver", "cdc")
    if warehouse.local:
        _check_nothing(_named(_earlier(warehouse, *silver), *silver))
    if erasure.proof is None:
        raise TableError(
            "expected an earlier version of silver, which has the texts to look for, got none: "
            "VACUUM has removed it since the rows went. They, their messages and all earlier "
            "versions are gone, but whether other rows hold a text of the person is not proved; "
            "search for what you know of it, and next time give --vacuum within a week of --yes"
        )
    proved = replace(erasure, status="proved", proved_at=datetime.now(UTC))
    return record.write(warehouse, proved)


def _nothing_found(history: Reconstruction, texts: list[str] | None, erasure: Erasure) -> str:
    """The sentence on what was searched, while silver's earlier versions are still there; raises
    TableError if something of the person is left."""
    warehouse = history.warehouse
    tables = [
        ("bronze", "messages"),
        ("silver", "cdc"),
        ("gold", history.target),
        ("gold", "_rejects"),
    ]
    tables = [table for table in tables if warehouse.exists(*table)]
    said_in = [("gold", table) for table in SENTENCES if warehouse.exists("gold", table)]
    for layer, table in [*tables, *said_in]:
        if layer != "silver":
            _vacuum(warehouse, layer, table)
        if warehouse.local and layer == "gold":
            _forget_log(warehouse, layer, table)
    left = _messages_left(history, erasure)
    if warehouse.local:
        left += [text for name in said_in for text in _named(_earlier(warehouse, *name), *name)]
    left += [f"rows set down in silver.{name}" for name in drop_older(warehouse, _AT_WORK)]
    said = [f"{counted(len(erasure.went), 'messages')} in none of bronze"]
    if warehouse.local:
        files, cells, remains = _looked_through(warehouse, tables, texts or [])
        left += remains
        own = counted(len(texts or []), "texts")
        said.append(f"{counted(files, 'files')}, {counted(cells, 'rows')} and {own} of its own")
    else:
        said.append("the files are the platform's and were not read")
    _check_nothing(left)
    return f"looked through after VACUUM: {', '.join(said)}: nothing found"


def _check_nothing(left: Sequence[str]) -> None:
    """Raise TableError if something of the person is left."""
    if left:
        more = f"; and {len(left) - _MOST:,} more" if len(left) > _MOST else ""
        raise TableError(
            f"expected nothing of the person to be left, got: {'; '.join(left[:_MOST])}{more}; "
            "what is in messages of others was written there by them: correct it at the source, or "
            "erase those too; what was set down goes with the command that does it, or in an hour"
        )


def _vacuum(warehouse: Warehouse, layer: str, table: str) -> None:
    name = warehouse.name(layer, table)
    if not warehouse.local:
        # Rows may be marked as deleted in a file beside theirs.
        warehouse.execute(upkeep.purge(name))
    # Delta else keeps files that are younger than a week.
    with having(warehouse.session, {_CHECK: "false"}):
        warehouse.execute(upkeep.vacuum(name, all_=True))


def _forget_log(warehouse: Warehouse, layer: str, table: str) -> None:
    """Remove the log before a checkpoint that is written now; readers of the table need no more of
    it."""
    name = warehouse.name(layer, table)
    interval, usual = CHECKPOINTS
    held = warehouse.table_property(layer, table, interval) or usual
    # The second commit, at the latest, is one with a checkpoint.
    for every in ("1", "1", held):
        warehouse.execute(set_properties(name, {interval: every}))
    log = warehouse.folder(layer, table) / "_delta_log"
    found = [match for file in log.iterdir() if (match := _CHECKPOINT.fullmatch(file.name))]
    newest = max((int(match[1]) for match in found), default=0)
    for file in log.iterdir():
        number = file.name.lstrip(".")[:20]
        if number.isdigit() and int(number) < newest:
            file.unlink()


def _messages_left(history: Reconstruction, erasure: Erasure) -> list[str]:
    """What bronze still has of the removed messages."""
    warehouse = history.warehouse
    held = history.frames.view(messages_table(erasure.went))
    [[number]] = rows(
        warehouse.session.sql(
            number_of_messages(warehouse.name("bronze", "messages"), held, source=history.source)
        )
    )
    return [f"{number:,} of its messages in bronze"] if number else []


def _looked_through(
    warehouse: Warehouse, tables: list[tuple[str, str]], texts: list[str]
) -> tuple[int, int, list[str]]:
    """How many files and rows were read, and what was found in them."""
    pattern = texts_pattern(texts)
    files = cells = 0
    remains: list[str] = []
    for layer, table in tables:
        folder = warehouse.folder(layer, table)
        earlier = _earlier(warehouse, layer, table)
        if layer != "silver":
            remains += _named(earlier, layer, table)
        for file in sorted(file for file in folder.rglob("*") if file.is_file()):
            if file in earlier:
                continue
            files += 1
            if file.suffix == ".parquet":
                number, where = _read(file, pattern)
                cells += number
                remains += [f"a text of its own in {layer}.{table}, {place}" for place in where]
            elif pattern is not None and pattern.in_text(file.read_bytes()):
                remains.append(f"a text of its own in {layer}.{table}, {file.name}")
    return files, cells, remains


def _earlier(warehouse: Warehouse, layer: str, table: str) -> set[Path]:
    """The files of a table that have rows, and that no current version has."""
    current = {
        Path(unquote(urlparse(file).path)).name
        for file in warehouse.read(layer, table).inputFiles()
    }
    found = warehouse.folder(layer, table).rglob("*.parquet")
    return {file for file in found if "_delta_log" not in file.parts and file.name not in current}


def _named(earlier: Iterable[Path], layer: str, table: str) -> list[str]:
    """Such files, as sentences name them."""
    files = sorted(file.name for file in earlier)
    return [f"{name} in {layer}.{table}, a file of an earlier version" for name in files]


def _read(file: Path, texts: Texts | None) -> tuple[int, list[str]]:
    """How many rows a Parquet file has, and in which of them something was found: named by their
    messages if the file has these, otherwise only that there are some."""
    count = 0
    found: dict[str, None] = {}
    for batch in pq.ParquetFile(file).iter_batches():
        count += batch.num_rows
        if texts is None:
            continue
        held = {row for column in batch.columns for row in holding_cells(column, texts)}
        names = set(batch.schema.names)
        for row in sorted(held):
            place = [batch[name][row].as_py() for name in _PLACE] if names >= set(_PLACE) else None
            found[_message(place) if place else "some row"] = None
    return count, list(found)


def _message(place: Sequence[Any]) -> str:
    topic, partition, offset = place
    return f"the message {topic}/{partition}/{offset}"
