"""What a queue hands out again is known, however late that is."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any, cast

import pytest

from ingest.config.sources import Source
from ingest.files.record import Record
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

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def checkpoint(self, *parts: str) -> str:
        return str(self._folder.joinpath(*parts))


def landing(folder: Path, appended: list[int]) -> Landing:
    """What follows a run that was killed behind its append: bronze has what it was adding."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Landing, "_in_bronze", lambda *_: bool(appended))
        patch.setattr(Landing, "_after_bronze", lambda *_: 0)
        found = Landing(cast(Warehouse, Notes(folder)), SOURCE, "q")

    def append(records: list[Record]) -> None:
        appended.append(len(records))

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
