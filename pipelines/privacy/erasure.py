"""`ingest erase TARGET --key …`: one person out of bronze, silver, gold and what was set aside.

1. Find what silver has of the key (`person`); that says in which messages it came.
2. Note the erasure (`record`), and append a row to silver which says that it took place, since
   silver numbers its appends by the highest number in it, whatever is removed. Further rows say how
   many changes of which transactions are removed, since the end of a transaction says how many it
   had.
3. Remove the rows from the target, from its rejects, from bronze, and from silver last: a process
   that is killed on the way finds the same rows in silver when it is called again.
4. With `vacuum`, let Delta remove the earlier files, and search what is left (`absence`). What to
   look for is stored nowhere: for rows that an earlier call removed, the texts are in the version
   of silver from before, as long as no VACUUM has removed it.

A message that the person is in is removed from bronze as a whole, since it cannot be kept as it was
received. Other rows that came in it stay in silver. Whatever decodes bronze again keeps the rows of
messages that bronze no longer has, so replay, redecode and rebuild neither lose a neighbour nor
bring the person back. Rejects of other rows of such a message stay, without the message's bytes.
"""

from __future__ import annotations

import json
import operator
import re
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import NamedTuple

import pyarrow as pa
from pyspark.sql import functions as F

from ingest.errors import TableError
from ingest.events import COMMITS
from ingest.fold.fold import Key
from ingest.sql.privacy import erasure as texts
from ingest.sql.privacy.person import LOST_BYTES
from ingest.sql.quoting import equal
from ingest.sql.silver import ERASURES
from ingest.sql.tables.upkeep import history as history_of
from pipelines.gold.known_targets import KnownTarget
from pipelines.gold.reconstruction import Reconstruction, reconstruct
from pipelines.platform.failures import cause
from pipelines.platform.leases import lease, lease_on_all
from pipelines.platform.rows import array_of, rows
from pipelines.platform.warehouse import Warehouse
from pipelines.privacy import absence, record
from pipelines.privacy.person import (
    Person,
    asked_key,
    find,
    messages_table,
    rows_table,
    spans_table,
    texts_before,
)
from pipelines.privacy.record import Erasure
from pipelines.silver.history import identity
from pipelines.silver.stream import last_batch
from pipelines.targets.progress import progress_of

ERASED = ("kind", "what", "rows")
_GONE = re.compile("FileNotFound|FILE_NOT_EXIST|FILE_NOT_FOUND|VERSION_NOT_FOUND|VersionNotFound")
"""What Spark and Delta say about a version that VACUUM, or the retention of the log, has
removed."""


class Erased(NamedTuple):
    """What an erasure removed, or would remove: how many of each kind of thing. `shared`: rows of
    others that came in the same messages and stay; `erasure`: what is noted of it, with its proof;
    None if nothing was removed."""

    counts: dict[str, int]
    shared: int
    erasure: Erasure | None = None

    def rows(self) -> list[tuple[str | int, ...]]:
        """As rows of ERASED."""
        return [("erased", what, number) for what, number in self.counts.items()]


def erase(
    warehouse: Warehouse,
    target: KnownTarget,
    *,
    key: Mapping[str, str],
    reason: str | None,
    confirmed: bool,
    vacuum: bool,
) -> Erased:
    """Take a person out, as described above; unless `confirmed`, only say what would be removed.

    Raises ConfigError for what is no key of the target, and TableError if silver lags behind
    bronze.
    """
    source = target.source
    with (
        lease(warehouse, "gold"),
        lease(warehouse, "silver"),
        # Otherwise Delta would remove files that another source's commit is about to name.
        lease_on_all(warehouse, "bronze") if vacuum else lease(warehouse, f"bronze/{source}"),
        _history(warehouse, target) as history,
    ):
        _check_decoded(warehouse, source, vacuum=vacuum)
        secret = warehouse.config.mask_secret
        erasure = record.opened(
            warehouse, source, target.name, key=key, reason=reason, secret=secret
        )
        asked = asked_key(history, key)
        person = find(history, asked, went=erasure.went)
        counted = _counted(history, person)
        begun = erasure.status != "begun" or bool(erasure.went)
        if not confirmed or not (person.rows or begun):
            return counted
        sought = _sought(history, asked, person, erasure=erasure) if vacuum else None
        if person.rows:
            erasure = _removed(history, person, found=counted, erasure=erasure)
        elif erasure.status == "begun":
            # Everything was removed, and the call that removed the last of it was killed before it
            # noted that.
            erasure = record.write(warehouse, replace(erasure, status="erased"))
        if vacuum:
            erasure = absence.prove(history, sought, erasure)
    return counted._replace(erasure=erasure)


def _history(warehouse: Warehouse, target: KnownTarget) -> Reconstruction:
    """Everything that silver has of the target's source tables; raises TableError if no key tells
    whose a row is."""
    progress = progress_of(warehouse, target.source, target.name)
    # If a table may be of another kind, nobody knows by which key its rows are to be removed.
    if progress.outdated in ("decoding", "rebuilding"):
        raise TableError(progress.why_outdated)
    history = reconstruct(warehouse, target, before=progress.contract)
    if not history.keys:
        raise TableError(
            f"{target.name} has no key, so that nothing tells whose a row is; set keys for it"
        )
    return history


def _check_decoded(warehouse: Warehouse, source: str, *, vacuum: bool) -> None:
    """Raise TableError if a message that silver does not know of may hold the person, or if
    `vacuum` would remove files of bronze from which messages of another source are still to be
    read."""
    bronze, silver = warehouse.name("bronze", "messages"), warehouse.name("silver", "cdc")
    asked = texts.undecoded(bronze, silver, source=None if vacuum else source)
    waiting: dict[str, int] = dict(rows(warehouse.session.sql(asked)))
    if source in waiting:
        raise TableError(
            f"expected silver to have decoded all messages of {source}, got {waiting[source]:,} "
            f"that wait; run `ingest silver --source {source}` first"
        )
    if waiting:
        raise TableError(_behind_vacuum(waiting))


def _behind_vacuum(waiting: Mapping[str, int]) -> str:
    """Why no earlier file of bronze may be removed: how many messages of each source wait."""
    named = ", ".join(f"{name} with {number:,} that wait" for name, number in waiting.items())
    return (
        "expected silver to have decoded all messages of bronze before its earlier files go, which "
        f"silver may still have to read, got {named}; run `ingest silver` for them first, in their "
        "own project, or leave out --vacuum until then"
    )


def _sought(
    history: Reconstruction, asked: Mapping[str, Key], person: Person, *, erasure: Erasure
) -> list[str] | None:
    """The texts to look for: those of rows that are there, and those of rows that an earlier call
    removed, which only earlier versions of silver have; None if these are gone. Texts of an erasure
    whose search is finished were found nowhere."""
    if erasure.proof is not None:
        return person.texts
    gone = erasure.status != "begun" or not person.rows
    versions = _marked(history.warehouse, erasure)
    if gone and not (versions and history.batches):
        return None
    try:
        before = texts_before(history, asked, versions, mine=person.rows)
    except Exception as error:
        if not _GONE.search(f"{error} {cause(error)}"):
            raise
        return None
    return sorted({*person.texts, *before})


def _marked(warehouse: Warehouse, erasure: Erasure) -> list[int]:
    """The versions of silver from just before rows of the erasure were removed."""
    log = warehouse.session.sql(history_of(warehouse.name("silver", "cdc")))
    own = log.where(F.col("userMetadata").startswith(f"{_writer(erasure)}/"))
    return sorted(version for (version,) in rows(own.select("version")))


def _writer(erasure: Erasure) -> str:
    """The name in the table's log under which the marker of an erasure is appended."""
    return f"silver/erase/{erasure.id}"


def _counted(history: Reconstruction, person: Person) -> Erased:
    """How many rows of each table are the person's."""
    warehouse, frames, source = history.warehouse, history.frames, history.source
    session = warehouse.session
    own_rows = frames.view(rows_table(person.rows))
    messages = history.frames.view(messages_table(person.messages))

    def count(query: str) -> int:
        [[number]] = rows(session.sql(query))
        return int(number)

    counts = {}
    if warehouse.exists("gold", history.target):
        name, spans = warehouse.name("gold", history.target), _gold_spans(history, person)
        counts[f"gold.{history.target}"] = count(
            texts.number_in_gold(name, spans, _of_gold(history))
        )
    if warehouse.exists("gold", "_rejects"):
        name = warehouse.name("gold", "_rejects")
        counts["gold._rejects"] = count(texts.number_of_deliveries(name, own_rows, source=source))
    counts["silver.cdc"] = sum(row.mine for row in person.rows)
    counts["rejects of others, which lose the bytes of their message"] = sum(
        not row.mine for row in person.rows
    )
    bronze, silver = warehouse.name("bronze", "messages"), warehouse.name("silver", "cdc")
    counts["bronze.messages"] = count(
        texts.number_of_deliveries(bronze, messages, source=source, by_message=True)
    )
    shared = count(texts.number_of_others(silver, own_rows, messages=messages, source=source))
    return Erased({what: number for what, number in counts.items() if number}, shared)


def _removed(
    history: Reconstruction, person: Person, *, found: Erased, erasure: Erasure
) -> Erasure:
    """Remove everything from the tables."""
    warehouse, source = history.warehouse, history.source
    known = {
        "gold": found.counts.get(f"gold.{history.target}", 0),
        "silver": found.counts.get("silver.cdc", 0),
        "rejects": found.counts.get("gold._rejects", 0),
        "bronze": found.counts.get("bronze.messages", 0),
    }
    # An erasure that was cut short has left everything in silver, and elsewhere only a part.
    both = max if erasure.status == "begun" else operator.add
    counts = {name: both(getattr(erasure, name), number) for name, number in known.items()}
    went = [list(place) for place in sorted({*erasure.went, *person.messages})]
    erasure = record.write(
        warehouse,
        replace(
            erasure,
            status="begun",
            proof=None,
            messages=json.dumps(went),
            **counts,
        ),
    )
    own_rows = history.frames.view(rows_table(person.rows))
    _mark(warehouse, source, own_rows, erasure=erasure)
    messages = history.frames.view(messages_table(person.messages))
    if warehouse.exists("gold", history.target):
        name, spans = warehouse.name("gold", history.target), _gold_spans(history, person)
        warehouse.execute(texts.from_gold(name, spans, _of_gold(history)))
    _take_from_sentences(history, person, erasure=erasure)
    error = f"{LOST_BYTES} (gold._erasures, {erasure.id[:12]})"
    if warehouse.exists("gold", "_rejects"):
        rejects = warehouse.name("gold", "_rejects")
        warehouse.execute(texts.from_rejects(rejects, own_rows, source=source, error=error))
    bronze, silver = warehouse.name("bronze", "messages"), warehouse.name("silver", "cdc")
    warehouse.execute(texts.from_bronze(bronze, messages, source=source))
    warehouse.execute(texts.from_silver(silver, own_rows, source=source, error=error))
    return record.write(warehouse, replace(erasure, status="erased"))


def _take_from_sentences(history: Reconstruction, person: Person, *, erasure: Erasure) -> None:
    """Remove from the sentences on failures those that contain a key or a text of the person, such
    as the one on a key that two source tables claim."""
    warehouse = history.warehouse
    held = {*(text for span in person.spans for text in span.key), *person.texts} - {""}
    relation = history.frames.view(pa.table({"text": pa.array(sorted(held), pa.string())}))
    instead = f"what was said here had a value of a person who was erased ({erasure.id[:12]})"
    about = {"held": relation, "instead": instead}
    for table, (column, status) in absence.SENTENCES.items():
        own = equal(source=history.source, status=status)
        if warehouse.exists("gold", table):
            name = warehouse.name("gold", table)
            warehouse.execute(texts.from_sentences(name, column, own=own, **about))
    if warehouse.exists("gold", "_runs"):
        name = warehouse.name("gold", "_runs")
        warehouse.execute(texts.from_lists(name, "errors", **about))


def _mark(warehouse: Warehouse, source: str, own_rows: str, *, erasure: Erasure) -> None:
    """Append the rows of silver which say that the erasure took place, and how much of which
    transactions it removes: these are complete without that."""
    number = last_batch(warehouse) + 1
    silver = warehouse.read("silver", "cdc")
    change = identity(warehouse.config.sources.values())
    marks = texts.marks(warehouse.name("silver", "cdc"), own_rows, source=source, change=change)
    erased = F.create_map(F.lit("erased"), F.col("n").cast("string"))
    committed = F.create_map(*(F.lit(text) for pair in COMMITS.items() for text in pair))
    marker = {
        "kind": F.lit("control"),
        "source": F.lit(source),
        "topic": F.lit(ERASURES),
        "partition": F.lit(0),
        "offset": F.lit(number),
        "row": F.col("number"),
        "op": F.lit("other"),
        "op_raw": F.lit(f"erase {erasure.id}"),
        "tx_id": F.col("tx_id"),
        "after": F.when(F.col("n").isNotNull(), erased),
        "extra": F.when(F.col("last"), committed),
        "warnings": F.array().cast("array<string>"),
        "epoch": F.col("epoch"),
        "decoded_at": F.lit(datetime.now(UTC)),
        "batch": F.lit(number),
    }
    rows_ = warehouse.session.sql(marks).select(
        *(
            marker.get(field.name, F.lit(None)).cast(field.dataType).alias(field.name)
            for field in silver.schema.fields
        )
    )
    once = (_writer(erasure), warehouse.next_version("silver", "cdc"))
    warehouse.append(rows_, "silver", "cdc", once=once, note=number)


def _gold_spans(history: Reconstruction, person: Person) -> str:
    """The person's spans as a relation, keys as gold has them."""
    masked = {
        number
        for batch in history.batches
        for number, name in enumerate(batch.projection.keys)
        if name in batch.projection.masks
    }
    table = spans_table(person.spans)
    if masked:
        secret = history.warehouse.config.mask_secret
        assert secret is not None, "checked by the configuration"
        keys = [
            tuple(secret.digest(text) if i in masked else text for i, text in enumerate(span.key))
            for span in person.spans
        ]
        table = table.set_column(1, "key", array_of(keys))
    return history.frames.view(table)


def _of_gold(history: Reconstruction) -> str:
    return texts.in_a_span({name: history.columns[name] for name in history.keys})
