"""Queues read by offset: how batches are planned, what a task reads, and a stream through kills."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, cast

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from ingest.config.sources import Source
from ingest.errors import SourceError
from ingest.files.record import GAP_HEADER, Record
from pipelines.bronze import queues
from pipelines.bronze.by_offset.source import (
    Gone,
    Lost,
    Offsets,
    Partition,
    Recreated,
    Span,
    Stopped,
    _Reader,
    _was_empty,
    planned,
    stopped,
    stream,
)
from pipelines.bronze.far_times import append_apart, far_times
from pipelines.bronze.stream import append_stream
from pipelines.bronze.transport import Sampling, Waiting
from pipelines.platform.warehouse import Warehouse, create_bronze
from tests.support.tables import tables_in

ORDERS, ITEMS = Partition("orders", 0), Partition("items/eu", 1)


class Folder:
    """Queues in a folder, a file each: the lowest offset and the values from it on."""

    def __init__(self, folder: Path) -> None:
        self.folder = str(folder)

    def put(self, place: Partition, values: list[str], *, lowest: int = 0) -> None:
        file = Path(self.folder, str(place).replace("/", "~"))
        file.write_text(json.dumps([str(place), lowest, values]))

    def spans(self) -> Mapping[Partition, Span]:
        found = (json.loads(file.read_text()) for file in Path(self.folder).iterdir())
        return {
            Partition.named(name): Span(lowest, lowest + len(values))
            for name, lowest, values in found
        }

    def read(self, partition: Partition, *, start: int, end: int) -> Iterator[Record]:
        _, lowest, values = json.loads(
            Path(self.folder, str(partition).replace("/", "~")).read_text()
        )
        if start < lowest:
            raise Gone(lowest)
        for offset in range(start, min(end, lowest + len(values))):
            value = values[offset - lowest]
            headers = (("secret", None), ("n", b"\x00"))
            yield Record(value.encode(), b"k", headers, offset=offset, timestamp=1000 + offset)


def stopped_text(error: Exception) -> str:
    found = stopped(error)
    assert found is not None
    return found.text


HELD = {ORDERS: Span(3, 10), ITEMS: Span(0, 100)}


def test_a_batch_takes_all_there_is() -> None:
    assert planned(HELD, {}, most=None, starting="earliest") == {
        "orders/0": [3, 10],
        "items/eu/1": [0, 100],
    }


def test_what_was_there_may_be_passed_over_and_what_comes_later_is_read() -> None:
    first = planned({ORDERS: Span(3, 10)}, {}, most=None, starting="latest")
    assert first == {"orders/0": [10, 10]}
    then = planned({**HELD, ORDERS: Span(3, 12)}, first, most=None, starting="latest")
    assert then == {"orders/0": [10, 12], "items/eu/1": [0, 100]}


def test_a_bounded_batch_takes_of_each_its_share() -> None:
    assert planned(HELD, {}, most=20, starting="earliest") == {
        "orders/0": [3, 4],
        "items/eu/1": [0, 18],
    }
    assert planned(HELD, {}, most=1, starting="earliest") == {
        "orders/0": [3, 4],
        "items/eu/1": [0, 1],
    }
    start = {"orders/0": [3, 10], "items/eu/1": [0, 40]}
    assert planned(HELD, start, most=50, starting="earliest") == {
        "orders/0": [3, 10],
        "items/eu/1": [0, 90],
    }
    assert start == {"orders/0": [3, 10], "items/eu/1": [0, 40]}


def test_a_stream_may_begin_at_offsets() -> None:
    begun = planned(HELD, {}, most=None, starting={"orders/0": 7})
    assert begun == {"orders/0": [7, 10], "items/eu/1": [0, 100]}
    assert planned(HELD, begun, most=None, starting={"orders/0": 4}) == begun
    with pytest.raises(Stopped) as error:
        planned(HELD, {}, most=None, starting={"orders/0": 11})
    assert stopped_text(error.value) == "orders/0 ends at 10, below the offset 11 to begin at"


def test_where_spark_names_no_start_the_checkpoint_does(tmp_path: Path) -> None:
    """Spark 4.0 and 4.1: what a partition that does not answer now was read up to is kept."""
    client = Folder(tmp_path)
    client.put(ORDERS, ["a", "b"])
    reached = {"orders/0": [0, 1], "items/eu/1": [0, 9]}
    reader = _Reader(client, "latest", lost="fail", reached=reached)
    assert reader.latestOffset() == {"orders/0": [0, 2], "items/eu/1": [0, 9]}
    assert _Reader(client, "latest", lost="fail").latestOffset() == {"orders/0": [2, 2]}


def test_a_queue_made_anew_is_told() -> None:
    with pytest.raises(Recreated) as error:
        planned(HELD, {"orders/0": [0, 11]}, most=None, starting="earliest")
    assert stopped_text(error.value) == (
        "orders/0 was read up to 11 and ends at 10 now: it was deleted and made anew"
    )


def test_a_node_that_is_behind_is_asked_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stream of RabbitMQ is read from any node, and nobody says of which: what ends below the
    place that was reached is waited for before it is taken for another one."""
    slept: list[float] = []

    class Behind(Folder):
        def spans(self) -> Mapping[Partition, Span]:
            return {ORDERS: Span(0, 10 + len(slept)), ITEMS: Span(0, 4)}

    monkeypatch.setattr("pipelines.bronze.by_offset.source.time.sleep", slept.append)
    for fixed in (False, True):
        slept.clear()
        reader = _Reader(Behind(tmp_path), "earliest", lost="fail")
        if fixed:
            reader.prepareForTriggerAvailableNow()
        begin = {"orders/0": [0, 12], "items/eu/1": [0, 0]}
        assert reader.latestOffset(begin) == {"orders/0": [0, 12], "items/eu/1": [0, 4]}
        assert len(slept) == 2
    with pytest.raises(Recreated, match="orders/0 was read up to 99 and ends at"):
        reader.latestOffset({"orders/0": [0, 99]})
    assert 5 <= sum(slept) <= 30


def test_a_replica_that_is_behind_has_nothing_new() -> None:
    """And is no topic made anew, whose messages would be others; the master's end tells of one."""
    begin = {"orders/0": [0, 11], "items/eu/1": [0, 90]}
    held = {ORDERS: Span(3, 10, replica=True), ITEMS: Span(0, 100)}
    for most in (None, 4):
        assert planned(held, begin, most=most, starting="earliest") == {
            "orders/0": [0, 11],
            "items/eu/1": [0, 100 if most is None else 94],
        }


@pytest.mark.parametrize(
    ("error", "advice"),
    [
        (Lost("a/0 was made anew, it seems"), "set kafka.lost: go_on;"),
        (Recreated("a/0 is not read yet"), "raise the source's epoch, remove the folder /c"),
        (Stopped("a/0: made anew and not read yet"), "not read yet"),
    ],
)
def test_what_is_advised_follows_from_what_happened(error: Exception, advice: str) -> None:
    """And not from the words in which it is told, a topic's name among them."""
    kafka = {"bootstrap_servers": "h:1", "topics": ["a"]}
    source = Source.model_validate({"name": "shop", "kafka": kafka})
    handed_on = PySparkException(f"terminated\npipelines.bronze.queues.X: {error}\n at x")
    said = str(queues.explained(handed_on, source, "/c"))
    assert advice in said and "\n" not in said
    assert ("go_on" in said, "epoch" in said) == (
        type(error) is Lost,
        type(error) is Recreated,
    )


def test_a_sample_is_of_all_partitions(tmp_path: Path) -> None:
    client = Folder(tmp_path)
    client.put(ORDERS, [f"o{n}" for n in range(5)], lowest=2)
    client.put(ITEMS, ["i0", "i1", "i2"])
    newest = queues.sampled(client, Sampling(3, newest=True))
    assert [(m.topic, m.offset, m.value) for m in newest] == [
        ("orders", 4, b"o2"),
        ("orders", 5, b"o3"),
        ("orders", 6, b"o4"),
    ]
    oldest = queues.sampled(client, Sampling(4, newest=False))
    assert [(m.topic, m.offset) for m in oldest] == [
        *(("items/eu", 0), ("items/eu", 1)),
        *(("items/eu", 2), ("orders", 2)),
    ]
    assert len(queues.sampled(client, Sampling(99, newest=True))) == 8


def slices(reader: Any, start: Offsets, end: Offsets) -> list[Any]:
    return [tuple(part.value) for part in reader.partitions(start, end)]


def test_a_batch_done_again_has_the_same_slices(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pipelines.bronze.by_offset.source.TASK_MESSAGES", 4)
    reader = _Reader(Folder(tmp_path), "earliest", lost="fail")
    end = {"orders/0": [3, 12], "items/eu/1": [0, 2]}
    first = [((ORDERS, 3, 7),), ((ORDERS, 7, 11),), ((ORDERS, 11, 12), (ITEMS, 0, 2))]
    assert slices(reader, {}, end) == first
    assert slices(reader, {"orders/0": [3, 11]}, end) == first[2:]
    assert slices(reader, end, end) == []


def read(client: Folder, lost: str, start: int, end: int) -> list[tuple[Any, ...]]:
    reader = _Reader(client, "earliest", lost=lost)
    (part,) = reader.partitions({"orders/0": [0, start]}, {"orders/0": [0, end]})
    rows = [row for batch in reader.read(part) for row in batch.to_pylist()]
    return [(row["offset"], row["value"], row["headers"][0]["key"]) for row in rows]


def test_messages_gone_before_they_were_read(tmp_path: Path) -> None:
    client = Folder(tmp_path)
    client.put(ORDERS, ["a", "b"], lowest=5)
    assert read(client, "go_on", 2, 7) == [
        (2, None, GAP_HEADER),
        (5, b"a", "secret"),
        (6, b"b", "secret"),
    ]
    assert read(client, "go_on", 1, 4) == [(1, None, GAP_HEADER)]
    assert read(client, "fail", 5, 6) == [(5, b"a", "secret")]
    with pytest.raises(Lost) as error:
        read(client, "fail", 2, 7)
    assert stopped_text(error.value) == (
        "orders/0 no longer holds its messages 2-4, which were not read yet"
    )


@pytest.mark.parametrize(
    ("reached", "span", "lost", "text"),
    [
        (7, Span(5, 9), "fail", None),
        (9, Span(9, 9), "fail", None),
        (2, Span(5, 9), "go_on", None),
        (12, Span(5, 9, replica=True), "fail", None),
        (2, Span(5, 9), "fail", "orders/0 no longer holds its messages 2-4, which were not read"),
        (12, Span(5, 9), "go_on", "orders/0 was read up to 12 and ends at 9 now: it was deleted"),
    ],
)
def test_what_waits_is_told_only_where_a_run_could_read_it(
    reached: int, span: Span, lost: Any, text: str | None
) -> None:
    source = Source.model_validate({"name": "shop", "files": {"path": "-"}})
    held, read = {ORDERS: span, ITEMS: Span(3, 5)}, {"orders/0": [0, reached]}
    if text is None:
        count = queues.unread(held, read, source=source, lost=lost, checkpoint="/c")
        assert count == 2 + max(0, span.following - max(reached, span.lowest))
    else:
        with pytest.raises(SourceError, match=f"^source shop: {text}"):
            queues.unread(held, read, source=source, lost=lost, checkpoint="/c")


@pytest.mark.parametrize("client", ["rabbitmq_streams", "rocketmq_topics"])
def test_what_is_imported_anew_for_each_stream_is_little(client: str) -> None:
    """The configuration's modules cost more than pyspark's, in each of four processes."""
    loaded = f"import sys, pipelines.bronze.by_offset.{client}; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", loaded], capture_output=True, text=True)
    modules = set(done.stdout.split())
    assert "pipelines.bronze.by_offset.source" in modules
    assert not modules & {"pydantic", "msgspec", "ingest.config", "ingest.formats", "pika"}


def test_a_stream_goes_on_where_it_ended(
    spark: SparkSession, warehouse: Path, tmp_path: Path
) -> None:
    """Bounded batches, a batch given up half way, new messages and a new queue; then a loss."""
    folder = tmp_path / "queues"
    folder.mkdir()
    client = Folder(folder)
    tables = tables_in(warehouse, spark)
    create_bronze(tables)
    source = Source.model_validate({"name": "shop", "files": {"path": "-"}})
    checkpoint = tables.checkpoint("bronze", "shop")

    def run(lost: Any = "fail") -> int:
        messages = stream(spark, client, checkpoint=checkpoint, lost=lost)
        return append_stream(tables, source, messages, checkpoint=checkpoint, stop=lambda: False)

    def held() -> list[tuple[Any, ...]]:
        columns = ["topic", "partition", "offset", "value", "unix_millis(timestamp)"]
        found = tables.read("bronze", "messages").selectExpr(*columns)
        return sorted(tuple(row) for row in found.collect())

    client.put(ORDERS, [f"o{n}" for n in range(7)])
    assert run() == 7
    assert run() == 0
    # What a killed run leaves: the batch is planned, and not known to be done.
    for note in Path(checkpoint, "commits").iterdir():
        note.unlink()
    client.put(ORDERS, [f"o{n}" for n in range(9)])
    client.put(ITEMS, ["i0"])
    run()
    whole = [("orders", 0, n, b"o%d" % n, 1000 + n) for n in range(9)]
    assert held() == [("items/eu", 1, 0, b"i0", 1000), *whole]
    client.put(ORDERS, ["o12"], lowest=12)
    with pytest.raises(PySparkException) as error:
        run()
    assert isinstance(stopped(error.value), Lost)
    assert stopped_text(error.value) == (
        "orders/0 no longer holds its messages 9-11, which were not read yet"
    )
    assert run("go_on") == 2
    assert held()[-2:] == [("orders", 0, 9, None, None), ("orders", 0, 12, b"o12", 1012)]


def test_a_lost_checkpoint_passes_over_nothing(
    spark: SparkSession, warehouse: Path, tmp_path: Path
) -> None:
    """`starting_offsets: latest` is for a source that begins: once bronze has something of its
    topics, what came since would be passed over."""
    folder = tmp_path / "queues"
    folder.mkdir()
    client = Folder(folder)
    tables = tables_in(warehouse, spark)
    create_bronze(tables)
    declared = {"name_servers": "h:1", "topics": ["orders"], "starting_offsets": "latest"}
    source = Source.model_validate({"name": "shop", "rocketmq": declared})

    def run(starting: Any = "latest") -> int:
        stop, lost = (lambda: False), cast(Any, "fail")
        return queues.append(
            tables, source, client, starting=starting, lost=lost, stop=stop
        ).messages

    client.put(ORDERS, ["old"])
    assert run() == 0
    client.put(ORDERS, ["old", "new"])
    assert run() == 1
    shutil.rmtree(tables.checkpoint("bronze", "shop"))
    client.put(ORDERS, ["old", "new", "newer"])
    with pytest.raises(SourceError) as error:
        run()
    assert str(error.value) == (
        "source shop: expected the checkpoint of what bronze has of orders, got none, and"
        " `rocketmq.starting_offsets: latest` would pass over what came since; set it to earliest"
        " and run again: what bronze has comes once more, as copies that count once, and by"
        " earliest what was passed over before"
    )
    assert run("earliest") == 3
    assert run() == 0


def test_what_comes_after_an_empty_beginning_is_no_past(tmp_path: Path) -> None:
    """`starting_offsets: latest` passes over what is there, and nothing was."""
    (tmp_path / "queues").mkdir()
    client = Folder(tmp_path / "queues")
    assert _was_empty(client, tmp_path / "begun")
    client.put(ORDERS, ["a"])
    assert _was_empty(client, tmp_path / "begun")
    assert not _was_empty(client, tmp_path / "new")


class Times:
    """A partition whose messages have these times; an offset without one holds no message."""

    def __init__(self, *times: int | None) -> None:
        self.times = times
        self.read_to = 0

    def spans(self) -> Mapping[Partition, Span]:
        return {ORDERS: Span(0, len(self.times))}

    def read(self, partition: Partition, *, start: int, end: int) -> Iterator[Record]:
        for offset in range(start, min(end, len(self.times))):
            self.read_to = offset + 1
            if self.times[offset] is not None:
                yield Record(b"%d" % offset, offset=offset, timestamp=self.times[offset])


NANOS = 1_700_000_000_000_000_000


@pytest.mark.parametrize(
    ("times", "planned", "found"),
    [
        ((1, 2, 3), {}, False),
        ((1, -1, None, NANOS), {}, True),
        ((1, -NANOS, 2), {}, True),
        # Spark's own microseconds still hold these.
        ((9_223_372_036_854_774,), {}, False),
        # Behind the end of the batch that failed nothing is looked through.
        ((1, 2, NANOS), {ORDERS: 2}, False),
    ],
)
def test_times_that_spark_cannot_hold_are_found(
    times: tuple[int | None, ...], planned: dict[Partition, int], found: bool
) -> None:
    waits = [Waiting(*ORDERS, 0, len(times))]
    assert far_times(Times(*times), waits, planned) == (waits if found else [])


def test_times_that_spark_cannot_hold_are_the_calendars_last(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """In portions; what is in bronze when a run is to stop stays."""
    monkeypatch.setattr("pipelines.bronze.far_times._BATCH_MESSAGES", 2)
    appended: list[list[Record]] = []

    def append(*_: object, records: list[Record]) -> None:
        appended.append(records)

    monkeypatch.setattr("pipelines.bronze.far_times._append", append)
    waits = [Waiting(*ORDERS, 1, 5)]
    source = Source.model_validate({"name": "shop", "files": {"path": "-"}})

    def run(stop: Any) -> int:
        client = Times(0, 1, NANOS, None, -NANOS)
        return append_apart(cast(Warehouse, None), source, client, waits=waits, stop=stop)

    assert run(lambda: False) == 3
    kept = [(one.offset, one.timestamp, one.headers) for part in appended for one in part]
    assert kept == [
        (1, 1, None),
        (2, 253_402_300_799_999, (("kafka.timestamp", b"%d" % NANOS),)),
        (4, -62_135_596_800_000, (("kafka.timestamp", b"-%d" % NANOS),)),
    ]
    assert [len(part) for part in appended] == [2, 1]
    assert run(lambda: len(appended) > 2) == 2
