"""What a queue hands out again is known, however late that is."""

from __future__ import annotations

import re
import shutil
import time
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pyarrow as pa
import pytest

from ingest.config.sources import Source
from ingest.errors import PlatformError, SourceError
from ingest.files.record import Record
from pipelines.bronze import draining, rabbitmq
from pipelines.bronze.amqp.connection import Refused, Server, Unreachable
from pipelines.bronze.amqp.messages import Delivery
from pipelines.bronze.draining import REMEMBERED, Landing
from pipelines.platform.warehouse import Warehouse

SERVER = {"servers": "localhost:5672", "user": "u", "password": "p"}
SOURCE = Source.model_validate(
    {
        "name": "shop",
        "format": "canal",
        "rabbitmq": {**SERVER, "queues": ["q"], "queue_type": "quorum"},
    }
)


class Notes:
    """A warehouse, as far as the note goes."""

    local = True

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def checkpoint(self, *parts: str) -> str:
        return str(self._folder.joinpath(*parts))

    def folder(self, *parts: str) -> Path:
        return self._folder.joinpath(*parts)


def landing(folder: Path, appended: list[int], queue: str = "q") -> Landing:
    """What follows a run that was killed behind its append: bronze has what it was adding."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Landing, "_in_bronze", lambda *_: bool(appended))
        patch.setattr(Landing, "_after_bronze", lambda *_: 0)
        found = Landing(cast(Warehouse, Notes(folder)), SOURCE, queue)

    def append(batch: pa.RecordBatch) -> None:
        appended.append(batch.num_rows)

    cast(Any, found)._append = append
    return found


def delivered(*, again: bool) -> list[Delivery]:
    return [Delivery(number, again, Record(b"%d" % number)) for number in range(3)]


def test_what_was_appended_is_known_until_the_queue_was_read_without_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    appended: list[int] = []
    assert landing(tmp_path, appended).append(delivered(again=False)) == 3
    later = time.time() + 10 * REMEMBERED
    monkeypatch.setattr("pipelines.bronze.draining.time.time", lambda: later)
    killed = landing(tmp_path, appended)
    assert killed.append(delivered(again=True)) == 0
    # A table of a catalog knows who appended: who goes on is the same, who begins anew is not.
    first = landing(tmp_path, appended)
    assert killed._writer == first._writer != landing(tmp_path / "anew", appended)._writer
    killed.drained()
    assert landing(tmp_path, appended).append(delivered(again=True)) == 3
    assert appended == [3, 3]


class Queue:
    """A queue with a delivery limit of 1: what it handed out twice in vain is thrown away."""

    def __init__(self) -> None:
        self.waiting = delivered(again=False)
        self.returned = 0

    def take(self, most_bytes: int) -> list[Delivery]:
        self.returned += 1
        return [one._replace(again=self.returned > 1) for one in self.waiting]

    def acknowledge(self, last: Delivery, *, ends: bool) -> None:
        assert ends
        self.waiting = []


def test_a_queue_hands_out_nothing_while_bronze_cannot_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it handed out once is kept, and appended before anything else is asked of it."""
    queue, bronze, works = Queue(), list[int](), False

    def append(self: Landing, batch: pa.RecordBatch) -> None:
        if not works:
            raise OSError(5, "Input/output error")
        bronze.extend(batch.column("offset").to_pylist())

    monkeypatch.setattr(Landing, "_append", append)
    monkeypatch.setattr(Landing, "_in_bronze", lambda _, offset: offset in bronze)
    monkeypatch.setattr(Landing, "_after_bronze", lambda *_: 7)
    monkeypatch.setattr(draining, "connect", lambda _: nullcontext())
    monkeypatch.setattr(draining, "check_type", lambda *_: None)
    monkeypatch.setattr(draining, "counted", lambda *_: len(queue.waiting))
    monkeypatch.setattr(draining, "Drain", lambda *_, **__: queue)

    def drain() -> int:
        notes, server = cast(Warehouse, Notes(tmp_path)), cast(Server, None)
        return draining.drain(notes, SOURCE, server, stop=lambda: False)

    for _ in range(5):
        with pytest.raises(OSError, match="Input/output error"):
            drain()
    assert queue.returned == 1
    # They may be nowhere else: damaged, they are not taken for lost.
    [kept] = tmp_path.rglob("*.rows")
    whole = kept.read_bytes()
    kept.write_bytes(whole[:-9])
    with pytest.raises(SourceError, match=rf"^source shop: .* {re.escape(str(kept))} cannot be "):
        drain()
    kept.write_bytes(whole)
    works = True
    assert (drain(), bronze, queue.waiting) == (3, [7, 8, 9], [])
    # By a queue that threw them away, too.
    works, queue.waiting, queue.returned = False, delivered(again=False), 0
    with pytest.raises(OSError, match="Input/output error"):
        drain()
    works, queue.waiting = True, []
    assert (drain(), bronze) == (3, list(range(7, 13)))
    assert drain() == 0


def test_a_queue_hands_out_nothing_that_there_is_no_room_to_keep(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=1 << 20))
    with pytest.raises(OSError, match="No space left on device"):
        landing(tmp_path, []).prepare()


@pytest.mark.parametrize("queue", ["shop.orders", "订" * 32, "订" * 85])
def test_a_queue_of_any_name_has_a_note(tmp_path: Path, queue: str) -> None:
    """AMQP's names have up to 255 bytes, and spelled for a file three times as many."""
    others = [landing(tmp_path, [], name) for name in (queue[:-1] + "a", queue)]
    for one in others:
        assert one.append(delivered(again=False)) == 3
    assert len(list((tmp_path / "bronze/shop/drained").glob("*.json"))) == 2


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (Unreachable("there:1 (refused)"), "RabbitMQ does not answer at there:1 (refused);"),
        (Refused("there:1 refuses"), "there:1 refuses."),
        (
            OSError(28, "No space left on device", "/c/q.json"),
            "expected to keep what queues hand out in /c/q.json, got: No space left on device;",
        ),
        (OSError(28, "No space left on device"), "drained, got: No space left on device; make"),
    ],
)
def test_what_fails_is_told_of_the_side_on_which_it_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: OSError, text: str
) -> None:
    def fail(*_: object, **__: object) -> int:
        raise error

    monkeypatch.setattr(rabbitmq, "drain", fail)
    with pytest.raises(PlatformError) as told:
        rabbitmq.append(cast(Warehouse, Notes(tmp_path)), SOURCE, lambda: False)
    assert str(told.value).startswith("source shop: ") and text in str(told.value)
    assert ("does not answer" in str(told.value)) == isinstance(error, Unreachable)
