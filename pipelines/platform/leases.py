"""One writer at a time: silver's batches are numbered, and a gold table must not have two writers.

A lease lies where the tables are, so it holds between any two drivers that can write them, on
whatever machines, and whatever locks their file systems know. It is a log of numbered records, each
of which is made only if there is no record of its number: if two drivers take a lease at the same
time, one makes the record and the other finds it. The newest record says who holds the lease, or
that it is free.

- **In a folder** a record is a file, made by a hard link or, if there are none, by an exclusive
  create; both are one step on the server of a shared folder. In a catalog it is the version of a
  row in a table `_leases`, made by a MERGE, of which Delta lets only one of two succeed.
- **The holder of a lease gives signs of life.** A lease without one for EXPIRY seconds, by the
  clock of the one who waits, is taken over; at once, if its process was on this machine and is
  gone.
- **A lease may have parts** (`bronze/shop`), held side by side. Whoever takes one looks whether
  another holds the whole, and then lets go of it; whoever takes the whole waits for the parts.
- **Whoever lost a lease commits nothing more**: before each commit the newest record is looked at
  (`check`). What remains possible is a commit that had already begun: a batch of silver has its
  mark in the table's log, and applying a batch of gold twice changes nothing.
"""

from __future__ import annotations

import json
import os
import socket
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Protocol

from ingest.errors import LeaseHeld, LeaseLost, PlatformError
from ingest.sql.tables import leases as texts
from pipelines.platform.failures import mentions
from pipelines.platform.java import jvm_process

if TYPE_CHECKING:
    from pipelines.platform.warehouse import Warehouse

EXPIRY = 120.0
"""Seconds without a sign of life after which another may take a lease."""
BEAT = 15.0
"""Seconds between the signs of life that the holder of a lease gives."""
_LOOK = 0.25
_RELEASES = 5
_KEPT = 200
"""How many records are kept, so that a process which looked at one long ago finds those made
since."""


class Holder(NamedTuple):
    """Who holds a lease: its process, where that runs, and since when (ISO 8601, UTC).

    `machine` is equal for processes that can tell whether the other is alive. `processes` are its
    own and its JVM's, which may outlive it by a moment: number -> what tells a process from a later
    one with the same number.
    """

    host: str
    pid: int
    since: str
    machine: str
    processes: dict[str, str]

    @classmethod
    def here(cls) -> Holder:
        """This process, now."""
        now = datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
        pid = os.getpid()
        jvm = jvm_process()
        together = (pid,) if jvm is None else (pid, jvm.pid)
        processes = {str(of): _started(of) or "" for of in together}
        return cls(socket.gethostname(), pid, now, _machine(), processes)

    @property
    def gone(self) -> bool:
        """Whether the process is known to have ended."""
        machine = _machine()
        return bool(machine and self.machine == machine) and all(
            _started(int(pid)) != started for pid, started in self.processes.items()
        )

    def __str__(self) -> str:
        return f"process {self.pid} on {self.host} since {self.since}"


class Record(NamedTuple):
    """The newest record of a lease. `holder` None: it is free, or the record cannot be read. `beat`
    changes with each sign of life."""

    number: int
    free: bool
    holder: Holder | None
    beat: str


class LeaseLog(Protocol):
    """The records of one lease. `fresh`: for how many seconds a look at them may be relied on."""

    fresh: float

    def newest(self) -> Record:
        """The newest record; number 0, free, where there is none."""

    def create_record(self, number: int, holder: Holder | None) -> bool:
        """Make the record of this number; False if there is one."""

    def beat(self, number: int, count: int) -> None:
        """Give a sign of life."""

    def parts(self) -> list[str]:
        """The names of all leases on parts of this one that anybody ever took."""


class Patience(NamedTuple):
    """How long to wait for a lease, in seconds (None: until it is free), who is told what is waited
    for, and who may end the waiting."""

    most: float | None = None
    say: Callable[[str], None] = lambda _: None
    stop: Callable[[], bool] = lambda: False


@contextmanager
def lease(warehouse: Warehouse, name: str) -> Iterator[None]:
    """Hold the lease `name` of the warehouse's tables; waits for it as `warehouse.patience` says.

    Raises:
        LeaseHeld: it was not free in time.
        LeaseLost: another took it over, so the work that it covers has not been done.
        PlatformError: a newer version has upgraded the tables meanwhile.
    """
    with held(_log(warehouse, name), name, warehouse.patience, of=_tables_id(warehouse)):
        warehouse.check_not_upgraded()
        yield


@contextmanager
def lease_on_part(warehouse: Warehouse, of: str, part: str) -> Iterator[None]:
    """Hold the lease `of`/`part`, while others may hold other parts but nobody holds all of `of`;
    raises as `lease` does."""
    while True:
        with lease(warehouse, f"{of}/{part}"):
            # A holder of the whole made its record before it looked for this one.
            if _log(warehouse, of).newest().free:
                yield
                return
        with lease(warehouse, of):
            pass


@contextmanager
def lease_on_all(warehouse: Warehouse, of: str) -> Iterator[None]:
    """Hold `of` with all its parts, even those that nobody has taken yet: those who are at work on
    a part end first, and nobody begins. Raises as `lease` does."""
    with ExitStack() as held_here:
        held_here.enter_context(lease(warehouse, of))
        for name in _log(warehouse, of).parts():
            if not _log(warehouse, name).newest().free:
                held_here.enter_context(lease(warehouse, name))
        yield


def check(warehouse: Warehouse) -> None:
    """Raise LeaseLost if another has taken over a lease on these tables that this process holds."""
    for one in _held.get(_tables_id(warehouse), ()):
        one.check()


@contextmanager
def held(log: LeaseLog, name: str, patience: Patience, *, of: str = "") -> Iterator[None]:
    """Hold a lease by its log; see `lease`. `of` is the name by which `check` finds it."""
    mine = _Held(log, name, _taken(log, name, patience))
    with _holding:
        _held.setdefault(of, []).append(mine)
    mine.begin()
    try:
        yield
    finally:
        with _holding:
            _held[of].remove(mine)
        mine.release()


class _Held:
    """A lease that this process holds, by its record `number`."""

    def __init__(self, log: LeaseLog, name: str, number: int) -> None:
        self._log = log
        self._name = name
        self._number = number
        self._ended = threading.Event()
        self._lost = False
        self._seen = time.monotonic()

    def begin(self) -> None:
        """Give signs of life from now on."""
        threading.Thread(target=self._live, name=f"lease {self._name}", daemon=True).start()

    def _live(self) -> None:
        count = 0
        while not self._ended.wait(BEAT):
            count += 1
            try:
                self._look()
                self._log.beat(self._number, count)
            except Exception:
                # The shared folder may be back before the lease expires.
                self._lost |= time.monotonic() - self._seen > EXPIRY / 2
            if self._lost:
                return

    def _look(self) -> None:
        self._lost |= self._log.newest().number != self._number
        self._seen = time.monotonic()

    def check(self) -> None:
        """Raise LeaseLost if another has the lease now."""
        if not self._lost and time.monotonic() - self._seen >= self._log.fresh:
            self._look()
        if self._lost:
            raise LeaseLost(
                f"the lease on {self._name} was taken over, since this process gave no sign of "
                f"life for {EXPIRY:.0f} s; what it was about to write is left to the other"
            )

    def release(self) -> None:
        """Give up the lease."""
        self._ended.set()
        # A sign of life may be under way, with which this would conflict; if it fails, the lease
        # expires.
        with suppress(Exception):
            for _ in range(_RELEASES):
                if (
                    self._log.create_record(self._number + 1, None)
                    or self._log.newest().number > self._number
                ):
                    return


_held: dict[str, list[_Held]] = {}
_holding = threading.Lock()


def _taken(log: LeaseLog, name: str, patience: Patience) -> int:
    """Wait for a lease and take it; gives the number of the record that says so."""
    began = time.monotonic()
    met: Record | None = None
    since = began
    said = None
    while True:
        newest = log.newest()
        now = time.monotonic()
        if newest != met:
            met, since = newest, now
        gone = newest.holder is not None and newest.holder.gone
        if newest.free or gone or now - since > EXPIRY:
            if log.create_record(newest.number + 1, Holder.here()):
                if log.newest().number == newest.number + 1:
                    return newest.number + 1
                continue
            # Another process was first.
            newest = log.newest()
            if newest.free:
                continue
        who = str(newest.holder) if newest.holder is not None else "a process that does not say"
        if patience.most is not None and now - began >= patience.most:
            raise LeaseHeld(f"{name} is held by {who}; run again when it is free")
        if patience.stop():
            raise LeaseHeld(f"{name} is held by {who}; asked to end while waiting for it")
        if said != who:
            said = who
            patience.say(f"waiting for {name}, which is held by {who}")
        time.sleep(_LOOK)


class FolderLog:
    """A lease's records as files of a folder, which may be on another machine."""

    fresh = 0.0

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def newest(self) -> Record:
        """See LeaseLog."""
        try:
            names = [name for name in os.listdir(self._folder) if name.endswith(".json")]
        except FileNotFoundError:
            names = []
        if not names:
            return Record(0, True, None, "")
        number = max(int(name.removesuffix(".json")) for name in names)
        try:
            said = json.loads(self._file(number).read_bytes())
            holder = Holder(**said) if said else None
        except FileNotFoundError:
            return self.newest()
        except (ValueError, TypeError):
            # The file is being written, or was when the machine stopped.
            return Record(number, False, None, self._beat(number))
        return Record(number, holder is None, holder, self._beat(number) if holder else "")

    def create_record(self, number: int, holder: Holder | None) -> bool:
        """See LeaseLog."""
        text = json.dumps(holder._asdict() if holder is not None else {}).encode()
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            made = _put(self._file(number), text)
        except OSError as error:
            raise PlatformError(
                f"expected to keep a lease in {self._folder}, got: {error.strerror or error}; "
                "whoever writes the tables has to be able to write there"
            ) from error
        if made:
            for old in (".json", ".beat"):
                with suppress(OSError):
                    self._file(number - _KEPT, old).unlink()
        return made

    def beat(self, number: int, count: int) -> None:
        """See LeaseLog."""
        file = self._file(number, ".beat")
        draft = file.with_name(f"{file.name}.{uuid.uuid4().hex}.tmp")
        draft.write_text(str(count))
        draft.replace(file)

    def parts(self) -> list[str]:
        """See LeaseLog."""
        found = self._folder.iterdir() if self._folder.is_dir() else ()
        return sorted(f"{self._folder.name}/{part.name}" for part in found if part.is_dir())

    def _beat(self, number: int) -> str:
        try:
            # Opening the file shows what the server has; a listing may be older.
            return self._file(number, ".beat").read_text()
        except OSError:
            return ""

    def _file(self, number: int, suffix: str = ".json") -> Path:
        return self._folder / f"{number:012}{suffix}"


def _put(file: Path, text: bytes) -> bool:
    """Make a file with this content; False where there is one of its name."""
    draft = file.with_name(f"{file.name}.{uuid.uuid4().hex}.tmp")
    try:
        draft.write_bytes(text)
        try:
            os.link(draft, file)
            return True
        except FileExistsError:
            return False
        except OSError:
            # No hard links here.
            pass
    finally:
        draft.unlink(missing_ok=True)
    try:
        with file.open("xb") as made:
            made.write(text)
    except FileExistsError:
        return False
    return True


class TableLog:
    """A lease's newest record as a row of `_leases` in the schema of the tables that it is about,
    for tables of a catalog. Configurations that share only that schema exclude each other too."""

    # A look is a query.
    fresh = 10.0

    def __init__(self, warehouse: Warehouse, name: str) -> None:
        self._warehouse = warehouse
        self._name = name
        self._layer = name.partition("/")[0]

    def newest(self) -> Record:
        """See LeaseLog."""
        warehouse = self._warehouse
        if not warehouse.exists(self._layer, "_leases"):
            return Record(0, True, None, "")
        row = warehouse.session.sql(texts.newest(self._table, self._name)).first()
        if row is None:
            return Record(0, True, None, "")
        said = json.loads(row["holder"])
        holder = Holder(**said) if said else None
        return Record(row["number"], holder is None, holder, str(row["beat"]))

    def create_record(self, number: int, holder: Holder | None) -> bool:
        """See LeaseLog."""
        warehouse = self._warehouse
        warehouse.create(
            self._layer,
            "_leases",
            COLUMNS,
            # Two processes that take different leases do not conflict.
            partitioned_by=["lease"],
            properties={"delta.isolationLevel": "Serializable"},
        )
        said = json.dumps(holder._asdict() if holder is not None else {})
        return self._changed(texts.take(self._table, self._name, number=number, holder=said))

    def beat(self, number: int, count: int) -> None:
        """See LeaseLog."""
        self._changed(texts.beat(self._table, self._name, number=number, count=count))

    def parts(self) -> list[str]:
        """See LeaseLog."""
        found = self._warehouse.session.sql(texts.parts(self._table, self._name)).collect()
        return [row["lease"] for row in found]

    @property
    def _table(self) -> str:
        return self._warehouse.name(self._layer, "_leases")

    def _changed(self, statement: str) -> bool:
        """Whether a statement changed the row; if not, another process changed it at the same
        time."""
        try:
            row = self._warehouse.session.sql(statement).first()
        except Exception as error:
            # Delta's own, which pyspark does not translate.
            if mentions(error, "DELTA_CONCURRENT"):
                return False
            raise
        return row is not None and int(row[0]) == 1


COLUMNS = (
    ("lease", "string"),
    ("number", "bigint"),
    ("holder", "string"),
    ("beat", "bigint"),
)


def _log(warehouse: Warehouse, name: str) -> LeaseLog:
    if warehouse.local:
        return FolderLog(Path(_tables_id(warehouse), *name.split("/")))
    return TableLog(warehouse, name)


def _tables_id(warehouse: Warehouse) -> str:
    """What tells one warehouse from another."""
    settings = warehouse.settings
    if warehouse.local:
        return str(Path(settings.warehouse, "_leases"))
    return f"{settings.catalog}.{settings.schemas.bronze}"


def _machine() -> str:
    """What processes have in common that see each other's numbers; nothing if that is unknown."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot} {os.readlink('/proc/self/ns/pid')}"
    except OSError:
        return ""


def _started(pid: int) -> str | None:
    """When a process was started, in the kernel's ticks; None if it has ended."""
    try:
        # The name of the program, in brackets, may hold anything.
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] in "ZX" else fields[19]
