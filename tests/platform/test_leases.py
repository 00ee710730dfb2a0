"""One writer at a time: of two that take a lease at once one has it, and the other knows who."""

from __future__ import annotations

import dataclasses
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from ingest.config.settings import Settings
from ingest.config.sources import Source
from ingest.errors import LeaseHeld, LeaseLost, PlatformError
from pipelines.operations import replay
from pipelines.platform import leases, table_layout
from pipelines.platform.checkpoints import write_whole
from pipelines.platform.leases import (
    FolderLog,
    Holder,
    Patience,
    held,
    lease,
    lease_on_all,
    lease_on_part,
)
from pipelines.platform.table_layout import upgrade
from pipelines.platform.warehouse import create_bronze, writable
from tests.support.tables import tables_in

ROOT = Path(__file__).parents[2]
WORK = """
import os, sys, time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from pipelines.platform.leases import FolderLog, Patience, held
folder, busy, meet = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])
log = FolderLog(folder)
(folder.parent / f"{os.getpid()}.ready").touch()
while len(list(folder.parent.glob("*.ready"))) < meet:
    time.sleep(0.01)
with held(log, "gold", Patience(say=lambda text: print(text, flush=True))):
    os.close(os.open(busy, os.O_CREAT | os.O_EXCL))
    print("works", os.getpid(), flush=True)
    time.sleep(float(sys.argv[4]))
    os.unlink(busy)
"""


def _driver(folder: Path, *, meet: int = 1, seconds: float = 0.3) -> subprocess.Popen[str]:
    """A process that works for so many seconds under the lease, once so many have come."""
    arguments = [str(folder / "gold"), str(folder / "busy"), str(meet), str(seconds)]
    return subprocess.Popen(
        [sys.executable, "-c", WORK, *arguments],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def _together(folder: Path, rounds: int) -> None:
    """Two drivers, started at once: one works, the other says who does, and works after it."""
    for number in range(rounds):
        place = folder / str(number)
        place.mkdir()
        both = [_driver(place, meet=2, seconds=1) for _ in range(2)]
        said = [one.communicate(timeout=60)[0].splitlines() for one in both]
        assert [one.returncode for one in both] == [0, 0], said
        first, second = sorted(said, key=len)
        assert first[0].startswith("works "), said
        pid = first[0].removeprefix("works ")
        assert second[0].startswith(f"waiting for gold, which is held by process {pid} on "), said
        assert second[1].startswith("works "), said


def test_two_drivers_started_at_once(tmp_path: Path) -> None:
    _together(tmp_path, 2)


@pytest.mark.long
def test_two_drivers_started_at_once_many_times(tmp_path: Path) -> None:
    _together(tmp_path, 50)


@pytest.mark.parametrize("linked", [True, False])
def test_of_many_one_has_the_lease(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, linked: bool
) -> None:
    """Whether or not the folder knows hard links."""
    if not linked:

        def refused(*_: object) -> None:
            raise OSError("not supported")

        monkeypatch.setattr(os, "link", refused)
    monkeypatch.setattr(leases, "_LOOK", 0.001)
    inside: list[int] = []
    most = []

    def work(number: int) -> None:
        for _ in range(20):
            with held(FolderLog(tmp_path), "gold", Patience()):
                inside.append(number)
                most.append(len(inside))
                inside.remove(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (max(most), len(most)) == (1, 120)
    assert len(list(tmp_path.iterdir())) <= leases._KEPT + 1


def test_who_does_not_wait_is_told_who_works(tmp_path: Path) -> None:
    process = _driver(tmp_path, seconds=30)
    try:
        assert process.stdout is not None
        process.stdout.readline()
        said: list[str] = []
        began = time.monotonic()
        with pytest.raises(LeaseHeld, match=f"gold is held by process {process.pid} on .* since 2"):
            with held(FolderLog(tmp_path / "gold"), "gold", Patience(most=0.5, say=said.append)):
                raise AssertionError("two have it")
        assert 0.4 < time.monotonic() - began < 10
        assert len(said) == 1
        with pytest.raises(LeaseHeld, match="asked to end while waiting"):
            with held(FolderLog(tmp_path / "gold"), "gold", Patience(stop=lambda: True)):
                raise AssertionError("two have it")
        # One that was killed has nothing any more.
        process.send_signal(signal.SIGKILL)
        process.wait()
        (tmp_path / "busy").unlink()
        with held(FolderLog(tmp_path / "gold"), "gold", Patience(most=0)):
            pass
    finally:
        process.kill()
        process.communicate()


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FolderLog]:
    """A lease that a driver on another machine has taken, which gives no sign of life."""
    monkeypatch.setattr(leases, "EXPIRY", 0.6)
    monkeypatch.setattr(leases, "_LOOK", 0.02)
    monkeypatch.setattr(leases, "BEAT", 0.05)
    log = FolderLog(tmp_path)
    there = Holder("another", 4711, "2024-01-01T00:00:00Z", "its boot", {"4711": "12"})
    assert log.create_record(1, there)
    yield log


def test_a_driver_elsewhere_that_gives_no_sign_of_life_is_followed(elsewhere: FolderLog) -> None:
    said: list[str] = []
    began = time.monotonic()
    with held(elsewhere, "gold", Patience(say=said.append)):
        assert time.monotonic() - began > 0.6
        assert elsewhere.newest().number == 2
    assert said == [
        "waiting for gold, which is held by process 4711 on another since 2024-01-01T00:00:00Z"
    ]
    assert elsewhere.newest().free


def test_a_driver_elsewhere_that_lives_is_waited_for(elsewhere: FolderLog) -> None:
    ended = threading.Event()

    def live() -> None:
        count = 0
        while not ended.wait(0.05):
            count += 1
            elsewhere.beat(1, count)

    thread = threading.Thread(target=live)
    thread.start()
    try:
        with pytest.raises(LeaseHeld):
            with held(elsewhere, "gold", Patience(most=1.5)):
                raise AssertionError("two have it")
    finally:
        ended.set()
        thread.join()


def test_a_record_that_was_not_finished_runs_out(elsewhere: FolderLog, tmp_path: Path) -> None:
    (tmp_path / f"{2:012}.json").write_text('{"host": "an')
    began = time.monotonic()
    with held(elsewhere, "gold", Patience()):
        assert time.monotonic() - began > 0.6


def test_who_holds_it_gives_signs_of_life(elsewhere: FolderLog) -> None:
    with held(elsewhere, "gold", Patience()):
        first = elsewhere.newest()
        deadline = time.monotonic() + 20
        while elsewhere.newest() == first:
            assert time.monotonic() < deadline
            time.sleep(0.02)


def test_who_lost_the_lease_commits_nothing_more(elsewhere: FolderLog) -> None:
    """As a machine that slept finds it when it wakes."""
    with held(elsewhere, "gold", Patience(), of="here"):
        (mine,) = leases._held["here"]
        mine.check()
        assert elsewhere.create_record(
            3, Holder("another", 1, "2024-01-01T00:00:00Z", "its boot", {})
        )
        with pytest.raises(LeaseLost, match="the lease on gold was taken over"):
            mine.check()
    # It is not given back in the other's name.
    assert not elsewhere.newest().free
    assert "here" in leases._held and not leases._held["here"]


def test_a_share_that_cannot_be_reached_costs_the_lease(
    elsewhere: FolderLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who cannot give signs of life stops before another may begin."""
    with held(elsewhere, "gold", Patience(), of="here"):
        (mine,) = leases._held["here"]

        def gone(_: FolderLog) -> None:
            raise OSError("stale file handle")

        with monkeypatch.context() as patch:
            patch.setattr(FolderLog, "newest", gone)
            deadline = time.monotonic() + 20
            while not mine._lost:
                assert time.monotonic() < deadline
                time.sleep(0.02)
        with pytest.raises(LeaseLost):
            mine.check()


def test_bronze_is_made_by_one_driver(tmp_path: Path) -> None:
    """The first run of each of two drivers: two that made one table at once both failed."""
    warehouse = tables_in(tmp_path)
    warehouse.patience = Patience(most=0)
    with held(FolderLog(tmp_path / "_leases" / "bronze"), "bronze", Patience()):
        with pytest.raises(LeaseHeld, match="bronze is held by process"):
            create_bronze(warehouse)


def test_all_of_bronze_is_held_beside_no_part_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor beside one that turns up meanwhile."""
    monkeypatch.setattr(leases, "_LOOK", 0.01)
    warehouse, other = tables_in(tmp_path), tables_in(tmp_path)
    other.patience = Patience(most=0)
    for name in ("till", "shop"):
        with lease_on_part(warehouse, "bronze", name), lease_on_part(other, "bronze", "web"):
            with pytest.raises(LeaseHeld, match=f"bronze/{name} is held by process"):
                with lease_on_all(other, "bronze"):
                    raise AssertionError("two have it")
    with lease_on_all(warehouse, "bronze"):
        for name in ("till", "new"):
            with pytest.raises(LeaseHeld, match="bronze is held by process"):
                with lease_on_part(other, "bronze", name):
                    raise AssertionError("two have it")
    with lease_on_part(other, "bronze", "new"), lease(other, "bronze"):
        pass


def test_parts_and_the_whole_exclude_each_other_however_they_meet(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leases, "_LOOK", 0.001)
    warehouse, inside, met = tables_in(tmp_path), list[str](), list[list[str]]()

    def work(name: str) -> None:
        for _ in range(20):
            whole = name == "all"
            with (
                lease_on_all(warehouse, "bronze")
                if whole
                else lease_on_part(warehouse, "bronze", name)
            ):
                inside.append(name)
                time.sleep(0.001)
                met.append(list(inside))
                inside.remove(name)

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(work, ["all", "all", "shop", "till"]))
    assert len(met) == 80
    assert [names for names in met if "all" in names and len(names) > 1] == []


def test_an_upgrade_waits_for_those_who_read_sources(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    warehouse = tables_in(tmp_path)
    warehouse.patience = Patience(most=0)
    write_whole(tmp_path / "_checkpoints" / "layout.json", b'{"layout": 1, "version": "0.1.0"}')
    warehouse.layout = 2
    monkeypatch.setattr(table_layout, "MIGRATIONS", {1: lambda _: pytest.fail("beside a run")})
    with lease_on_part(tables_in(tmp_path), "bronze", "shop"):
        with pytest.raises(LeaseHeld, match="bronze/shop is held by process"):
            upgrade(warehouse)


def test_who_was_at_work_before_an_upgrade_is_not_after_it(tmp_path: Path) -> None:
    """A continuous run opened the tables when they were its own."""
    warehouse = tables_in(tmp_path)
    for name in ("gold", "silver", "bronze/shop"):
        with lease(warehouse, name):
            pass
    write_whole(tmp_path / "_checkpoints" / "layout.json", b'{"layout": 9, "version": "7.1.0"}')
    for name in ("gold", "silver", "bronze/shop"):
        with pytest.raises(PlatformError, match=r"got layout 9, .* install 7\.1\.0 or a newer one"):
            with lease(warehouse, name):
                raise AssertionError("it writes by its own layout")


def test_rejects_are_noted_beside_no_run_of_gold(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of two statements that change gold._rejects at once Delta refuses one."""
    log = tmp_path / "silver" / "cdc" / "_delta_log"
    log.mkdir(parents=True)
    (log / f"{0:020}.json").touch()
    warehouse = tables_in(tmp_path)
    source = Source.model_validate({"name": "shop", "files": {"path": "*"}})
    warehouse.config = dataclasses.replace(warehouse.config, sources={"shop": source})
    warehouse.patience = Patience(most=0)
    with lease(tables_in(tmp_path), "gold"):
        with monkeypatch.context() as patch, pytest.raises(LeaseHeld, match="gold is held by"):
            patch.setattr(replay, "_decoded", lambda *_: pytest.fail("beside a run of gold"))
            replay.replay(warehouse, "shop", code=None)


def test_a_process_number_that_is_another_s_by_now() -> None:
    here = Holder.here()
    assert not here.gone
    assert here._replace(processes={str(os.getpid()): "1"}).gone
    # In another container the numbers say nothing.
    assert not here._replace(processes={"1": "1"}, machine="another").gone
    assert Holder(**json.loads(json.dumps(here._asdict()))) == here


def test_drivers_that_look_at_once_whether_they_can_write(tmp_path: Path) -> None:
    """Each looks by a file of its own: one took another's away and called the folder unwritable."""
    settings = Settings(warehouse=str(tmp_path))
    with ThreadPoolExecutor(8) as threads:
        for looked in [threads.submit(writable, settings) for _ in range(2_000)]:
            looked.result()
    assert list(tmp_path.iterdir()) == []
