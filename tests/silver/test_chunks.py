"""Records split into shards: put together across messages, batches, runs and crashes, once."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ingest.decode.chunks import Part, State, waiting_from, walk
from ingest.formats.oceanbase.chunks import unbundled
from ingest.wire.contract import Message
from tests.support.avro_encoders import kcat, ob_record, ob_shards, written
from tests.support.avro_schemas import OB
from tests.support.messages import reader_of
from tests.support.project import Project
from tests.support.wires import as_dicts

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MOST, NOW = 600_000_000, 10**15
OLD = NOW - 2 * MOST


def parts(values: Iterable[bytes | Part], **given: Any) -> list[Part]:
    """Rows of the walk that the messages of one partition become, one offset behind the other."""
    found = []
    for offset, value in enumerate(values):
        if isinstance(value, Part):
            found.append(value._replace(offset=offset))
            continue
        [row] = as_dicts(reader_of("ob_avro").rows(Message(value)))
        row |= {"topic": "t", "offset": offset, "batch": offset, "decoded_at": NOW}
        row |= {"settled": False, "seen": False, "newest": None, **given}
        found.append(Part._make(row[name] for name in Part._fields))
    return found


def ends(rows: list[Part], most: int = MOST) -> list[tuple[str, list[int]]]:
    """What becomes of the runs: their state (`whole` where a record is complete), their offsets."""
    return [
        (
            "whole" if state is State.ENDED and run.whole else state.value,
            [part.offset for part in run.parts],
        )
        for state, run in walk(rows, now=NOW, most=most)
    ]


A, B, C = ob_shards("a" * 60, 3)
D, E = ob_shards("d" * 60, 2, start=90, xid="t2")
P, Q = ob_shards("p" * 60, 2, start=10)
S, T = ob_shards("s" * 60, 2, start=20)
ONE, TWO, THREE = ob_shards("o" * 60, 3, first=1, start=70)
COMMIT = parts([written(OB, ob_record(operation="COMMIT", xid="t1"))])[0]


@pytest.mark.parametrize(
    ("sent", "wanted"),
    [
        ([A, B, C], [("whole", [0, 1, 2])]),
        ([ONE, TWO, THREE], [("whole", [0, 1, 2])]),
        # Other tables' and transactions' shards may stand between.
        ([A, D, B, E, C], [("whole", [1, 3]), ("whole", [0, 2, 4])]),
        ([A, B], [("open", [0, 1])]),
        # A shard is missing: the record is given up when its last shard or its commit comes.
        ([A, C], [("ended", [0, 1])]),
        ([A, B, COMMIT], [("ended", [0, 1])]),
        ([C], [("ended", [0])]),
        ([B, C], [("open", [0, 1])]),
        ([B, A, C], [("ended", [0]), ("ended", [1, 2])]),
        # The producer began again.
        ([A, B, ONE, TWO, THREE], [("ended", [0, 1]), ("whole", [2, 3, 4])]),
        # Delivered twice, one by one or as a whole.
        ([A, A, B, B, C, C], [("whole", [0, 2, 4])]),
        ([A, B, C, A, B, C], [("whole", [0, 1, 2])]),
        ([A, B, A, B, C], [("whole", [0, 1, 4])]),
        ([A, A, C, C], [("ended", [0, 2])]),
        ([A, C, A, B, C], [("ended", [0, 1]), ("whole", [2, 3, 4])]),
        # The second time amid another record of the transaction, whose rest no record's is.
        ([P, Q, S, Q, S, T], [("whole", [0, 1]), ("whole", [2, 5])]),
        ([P, Q, S, T, Q, S, T], [("whole", [0, 1]), ("whole", [2, 3])]),
        ([P, S, Q, T], [("ended", [0]), ("ended", [1]), ("ended", [2]), ("open", [3])]),
    ],
)
def test_runs(sent: list[bytes | Part], wanted: list[tuple[str, list[int]]]) -> None:
    assert ends(parts(sent)) == wanted


def test_a_run_waits_by_either_clock() -> None:
    young = parts([A, B])
    assert ends(young) == [("open", [0, 1])]
    assert ends(parts([A, B], decoded_at=OLD)) == [("ended", [0, 1])]
    seconds = 1_700_000_000 * 10**6
    assert ends(parts([A, B], newest=seconds + MOST)) == [("open", [0, 1])]
    assert ends(parts([A, B], newest=seconds + MOST + 1)) == [("ended", [0, 1])]


def test_what_silver_has_is_held() -> None:
    rows = parts([A, B, C])
    assert ends([*rows[:2], rows[2]._replace(settled=True)]) == [("held", [0, 1, 2])]
    # The rest of a second delivery whose first is behind us.
    again = [part._replace(seen=True, decoded_at=OLD) for part in rows[1:]]
    assert ends(again) == [("held", [1, 2])]
    # Bytes that came before complete a record all the same.
    assert ends([rows[0]._replace(seen=True), *rows[1:]]) == [("whole", [0, 1, 2])]


def test_partitions_have_runs_of_their_own() -> None:
    first, second, third = parts([A, B, C])
    moved = [first, second, third._replace(partition=1)]
    assert ends(moved) == [("open", [0, 1]), ("ended", [2])]


@pytest.mark.parametrize(
    ("spans", "wanted"),
    [
        ([], 9),
        ([(2, 3, False)], 9),
        ([(2, 3, False), (4, 5, True)], 4),
        # A run that began earlier and ended later must be seen whole by the next walk.
        ([(2, 4, False), (4, 5, True)], 2),
        ([(1, 2, False), (2, 4, False), (4, 5, True)], 1),
    ],
)
def test_where_the_next_walk_begins(spans: list[tuple[int, int, bool]], wanted: int) -> None:
    assert waiting_from(spans, 9) == wanted


SOURCE = """
name: farm
format: ob_avro
files: {path: 'landing/*.jsonl', framing: kcat}
options: {shard_seconds: 600}
"""


class Farm:
    """A source whose messages, of one partition, land file by file."""

    def __init__(self, project: Project, spark: SparkSession) -> None:
        from ingest.config.load import load
        from pipelines.platform.warehouse import Warehouse

        self.project = project
        project.write("conf/sources/farm.yml", SOURCE)
        config = load(project.folder / "conf", environ={})
        self.warehouse = Warehouse(config, spark)
        self.source = config.sources["farm"]
        self.offset = 0
        self.file = 0

    def land(self, *values: bytes) -> None:
        """Put messages into one more file, and decode."""
        from pipelines.bronze.source import ingest_source
        from pipelines.silver.stream import decode_source

        lines = [kcat(value, self.offset + number) for number, value in enumerate(values)]
        self.offset += len(values)
        self.file += 1
        if lines:
            self.project.land(f"{self.file}.jsonl", lines)
            ingest_source(self.warehouse, self.source)
        decode_source(self.warehouse, self.source)

    def results(self) -> list[tuple[Any, ...]]:
        """Kind, offset and label (or error code) of what is not a fragment, in order."""
        found = self.warehouse.read("silver", "cdc").selectExpr(
            "kind", "offset", "coalesce(after['label'], error_code)", "batch"
        )
        rows = found.where("kind IN ('change', 'reject')").orderBy("offset", "kind", "batch")
        return [tuple(row)[:3] for row in rows.collect()]


@pytest.mark.slow
def test_across_batches_runs_and_crashes(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    project = Project(tmp_path, capsys.readouterr)
    farm = Farm(project, spark)
    a, b, c = ob_shards("one", 3)
    farm.land(a, b)
    assert farm.results() == []
    farm.land(c, *ob_shards("two", 2, start=60, xid="t2"))
    joined = [("change", 2, "one"), ("change", 4, "two")]
    assert farm.results() == joined

    # A note lost in a crash, everything delivered again in other batches: nothing twice.
    note = next(tmp_path.glob("warehouse/_checkpoints/silver/farm/shards"))
    note.unlink()
    farm.land(a, a, b)
    assert farm.results() == joined
    farm.land(b, c, c)
    assert farm.results() == joined

    # A broken run is one reject with all its shards; a waiting one is given up in time.
    x, _, z = ob_shards("three", 3, start=80, xid="t3")
    p, _ = ob_shards("four", 2, start=90, xid="t4")
    farm.land(x, z, p)
    assert farm.results()[2:] == [("reject", 12, "fragment_incomplete")]
    later = ob_record(id=99, operation="HEARTBEAT", timestamp=1_700_000_000 + 601)
    farm.land(written(OB, later))
    rejects = [("reject", offset, "fragment_incomplete") for offset in (12, 13)]
    assert farm.results()[2:] == rejects
    silver = farm.warehouse.read("silver", "cdc")
    held = silver.where("kind = 'reject'").orderBy("offset").select("value").collect()
    assert [unbundled(bytes(row[0])) for row in held] == [[x, z], [p]]
    before = silver.count()
    note.unlink()
    farm.land()
    assert farm.warehouse.read("silver", "cdc").count() == before

    answer = project.ingest("run")
    assert answer.code == 0, answer.err
    [row] = project.ingest("sql", "SELECT id, label FROM gold.farm_crop", "--json").records
    assert row == {"id": 7, "label": "two"}
    history = project.ingest("history", "farm_crop", "--json").records
    assert [row["label"] for row in history] == ["one", "two"]
