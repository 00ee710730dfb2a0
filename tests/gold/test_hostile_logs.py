"""Random logs in the worst of names and spellings, over every mode, order and epoch.

Whatever order they arrive in, gold, history, as-of, rebuild and reconcile agree with what the
simulated tables went through; nothing of a message meets the environment.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from tests.support.databases import Database, LoggedChange
from tests.support.hostile_logs import (
    CANARY,
    KEY_KINDS,
    KEYS_OF_A_LOG,
    LOGICAL,
    METADATA_NAMES,
    START,
    Dress,
    Line,
    StepByStep,
    by_arrival,
    by_source,
    comes_in_halves,
    in_batches,
    together,
)
from tests.support.merge_scenarios import plain
from tests.support.project import Project

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.usefixtures("spark", "short_spans")

SECRET = "c4n4ry-of-the-driver"
MODES: Mapping[str, Mapping[str, Any]] = {
    "rows": {},
    "marked": {"deletes": "soft"},
    "versions": {"stored_as_scd_type": 2},
    "ended": {"stored_as_scd_type": 2, "deletes": "soft"},
    "appended": {"stored_as_scd_type": "append"},
}
SOURCES = ("log", "log_anew", "arriving", "arriving_anew")
"""By the source's order or by arrival; those that begin anew get a second epoch."""
CHANGES, PARTITIONS = 14, 3
FEW, MANY = 16, 80
"""Logs of a table: what a batch costs is the MERGE of each table, however many logs share it."""
EACH = tuple((source, mode) for source in SOURCES for mode in MODES)
HALF = EACH[:9:2] + EACH[11::2]
"""Every mode in two of the sources, one of either order."""
Rows = list[tuple[Any, ...]]


class Table(NamedTuple):
    """A table, how it is kept, and what it went through; `logs` says of how many logs it is.

    The changes `anew`, by number, come in another epoch of its source.
    """

    target: str
    source: str
    mode: str
    dress: Dress
    lived: Database
    logs: int
    anew: frozenset[int] = frozenset()

    @property
    def in_order(self) -> list[int]:
        """The numbers of its changes as history has them: what was read stands first in its epoch
        where the source's order counts. A change of the key that came in two messages is two."""
        debezium = not self.source.startswith("arriving")
        return [
            logged.number
            for logged in sorted(
                self.lived.changes,
                key=lambda t: (t.number in self.anew, debezium and t.op != "snapshot", t.number),
            )
            for _ in range(2 if debezium and comes_in_halves(logged) else 1)
        ]


def tables(
    chance: random.Random, pairs: Sequence[tuple[str, str]], *, logs_each: int
) -> list[Table]:
    """One for each pair of a source and a mode, of `logs_each` logs, or of one with truncates."""
    made: list[Table] = []
    for number, (source, mode) in enumerate(pairs):
        canal = source.startswith("arriving")
        truncates = number % 3 == 1
        kind = StepByStep if canal else Database
        logs = []
        for _ in range(1 if truncates else logs_each):
            # No image of Canal lacks a column.
            log = kind(chance, partials=not canal and number % 2 == 0, truncates=truncates)
            log.live(CHANGES)
            logs.append(log)
        kinds = [k for k in KEY_KINDS if not canal or k not in ("date", "timestamp")]
        dress = Dress.at_random(number, chance, kinds)
        lived = together(logs, chance)
        made.append(Table(f"t{number:02d}", source, mode, dress, lived, len(logs)))
    for place, table in enumerate(made):
        if table.source.endswith("anew"):
            made[place] = table._replace(anew=_anew(table.lived.changes))
    return made


def _anew(changes: Sequence[LoggedChange]) -> frozenset[int]:
    """The numbers of the later changes of each log, which are of the second epoch."""
    logs: dict[int, list[LoggedChange]] = {}
    for logged in changes:
        row = logged.after or logged.before
        logs.setdefault(row["id"] // KEYS_OF_A_LOG if row else 0, []).append(logged)
    return frozenset(t.number for log in logs.values() for t in log[_seam(log) :])


def _seam(log: Sequence[LoggedChange]) -> int:
    """A place near the middle of a log at which an epoch may begin: no transaction that changes
    keys goes on beyond it, since none has positions in two numberings of its source."""
    middle = len(log) // 2
    met: dict[int, list[int]] = {}
    for place, logged in enumerate(log):
        if logged.before and logged.after and logged.before["id"] != logged.after["id"]:
            met.setdefault(logged.transaction, []).append(place)
    spans = [(min(places), max(places)) for places in met.values()]
    fit = [n for n in range(1, 2 * middle) if all(not first < n <= last for first, last in spans)]
    return min(fit, key=lambda n: abs(n - middle), default=middle)


def configure(
    project: Project, made: list[Table], *, epoch: int, resting: Collection[str] = ()
) -> None:
    """Sources and tables files; those that begin anew are in `epoch`. What comes for targets that
    rest waits in silver."""
    for source in SOURCES:
        own = [table for table in made if table.source == source]
        canal = source.startswith("arriving")
        given: dict[str, Any] = {
            "name": source,
            "format": "canal" if canal else "debezium",
            "order": "arrival" if canal else "source",
            "time_zone": "UTC",
            "files": {"path": f"landing/{source}/*.jsonl", "framing": "kcat", "order": "path"},
        }
        if source.endswith("anew"):
            given["epoch"] = epoch
        entries = [
            {
                "from": f"*.*_{table.target}",
                "target": table.target,
                "keys": [table.dress.names["id"]],
                "columns": table.dress.types(),
                **MODES[table.mode],
                **({"merge_every": "1 day"} if table.target in resting else {}),
            }
            for table in own
        ]
        tables_file = {"source": source, "tables": entries}
        # JSON is YAML.
        for name, value in (
            (f"conf/sources/{source}.yml", given),
            (f"conf/tables/{source}.yml", tables_file),
        ):
            project.write(name, json.dumps(literal(value), ensure_ascii=False))


def literal(value: Any) -> Any:
    """YAML's values, not its keys, are filled in from the environment: nothing here may be."""
    if isinstance(value, dict):
        return {name: literal(each) for name, each in value.items()}
    if isinstance(value, list):
        return [literal(each) for each in value]
    return value.replace("${", "$${") if isinstance(value, str) else value


def arriving(made: list[Table], chance: random.Random) -> Iterator[dict[str, list[str]]]:
    """The lines of each source, batch by batch; in the third the epochs begin anew."""
    batches: dict[str, list[list[str]]] = {}
    for source in SOURCES:
        own = [table for table in made if table.source == source]
        anew = source.endswith("anew")

        def lines(later: bool, own: Any = own, source: str = source) -> list[Line]:
            logs = [
                (table.dress, [t for t in table.lived.changes if later == (t.number in table.anew)])
                for table in own
            ]
            if source.startswith("arriving"):
                return by_arrival(logs, chance, partitions=PARTITIONS)
            return by_source(logs, chance, partitions=PARTITIONS, halves=True)

        doubled = source.startswith("arriving")
        if anew:
            earlier, later = lines(False), lines(True)
            batches[source] = [
                *in_batches(earlier, chance, batches=2, doubled=doubled),
                *in_batches(later, chance, batches=1, doubled=doubled),
            ]
        else:
            batches[source] = in_batches(lines(False), chance, batches=3, doubled=doubled)
    for number in range(3):
        yield {source: batches[source][number] for source in SOURCES}


def number_of(text: str | None) -> int | None:
    """Which change a time is of."""
    if text is None:
        return None
    since = datetime.fromisoformat(text) - datetime(1970, 1, 1, tzinfo=UTC)
    return since // timedelta(milliseconds=1) - START


def named(table: Table) -> dict[str, str]:
    """Logical column -> its name in gold: one that any target adds itself stands aside."""
    return {
        column: f"{name}_source" if name in METADATA_NAMES else name
        for column, name in table.dress.names.items()
    }


def expected(table: Table, until: int | None = None) -> Rows:
    """What must be held, as of change `until`."""
    last = until if until is not None else 10**9
    rows: Rows = []
    if table.mode == "appended":
        for logged in table.lived.changes:
            if logged.after is not None and logged.number <= last:
                rows.append((*values(table, logged.after), logged.number))
        return ordered(rows)
    versions = sorted(table.lived.versions, key=lambda version: version.begin)
    versions = [version for version in versions if version.begin <= last]
    if table.mode in ("rows", "marked"):
        versions = list({version.row["id"]: version for version in versions}.values())
    for version in versions:
        end = version.end if version.end is not None and version.end <= last else None
        found = values(table, version.row)
        if table.mode == "rows":
            if end is None:
                rows.append(found)
        elif table.mode == "marked":
            rows.append((*found, end))
        elif table.mode == "versions":
            rows.append((*found, version.begin, end))
        else:
            after = {v.row["id"] for v in versions if v.begin == end}
            marked = None if version.row["id"] in after else end
            rows.append((*found, version.begin, end, marked))
    return ordered(rows)


def values(table: Table, row: Mapping[str, Any]) -> tuple[Any, ...]:
    """The row's values as `--json` prints them."""
    found = {c: table.dress.value(c, row[c]) if c in row else None for c in LOGICAL}
    return tuple(plain(found).values())


def ordered(rows: Rows) -> Rows:
    return sorted(rows, key=str)


def held(table: Table, records: list[dict[str, Any]]) -> Rows:
    """Printed rows with the numbers of the changes that began, ended or marked them."""
    times = {
        "appended": ("_event_time",),
        "versions": ("_valid_from", "_valid_to"),
        "ended": ("_valid_from", "_valid_to", "_deleted_at"),
        "marked": ("_deleted_at",),
    }.get(table.mode, ())
    names = named(table)
    rows = []
    for record in records:
        if "_current" in times:
            assert record["_current"] == (record["_valid_to"] is None)
        found = tuple(
            value.replace("+00:00", "Z") if isinstance(value, str) else value
            for value in (record[names[column]] for column in LOGICAL)
        )
        rows.append((*found, *(number_of(record[name]) for name in times)))
    return ordered(rows)


def play(project: Project, chance: random.Random, *, logs_each: int, all_of_it: bool) -> int:
    """Random tables, delivered in three batches and looked at; gives how many logs there were.

    Half of the tables are not merged with the second batch, and half of those not with the third.

    `all_of_it`: every mode in every source, each table looked at in every way; else half of the
    pairs, each looked at in one way beside gold, in turn.
    """
    made = tables(chance, EACH if all_of_it else HALF, logs_each=logs_each)
    resting = [table.target for table in made]
    for number, batch in enumerate(arriving(made, chance)):
        resting = random.Random(number).sample(resting, len(resting) // 2) if number else resting
        configure(project, made, epoch=int(number == 2), resting=resting)
        for source, lines in batch.items():
            file = project.folder / f"landing/{source}/{number}.jsonl"
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text("".join(f"{line}\n" for line in lines))
        run = project.ingest("run")
        assert (run.code, SECRET in run.out + run.err) == (0, False), run.err
    configure(project, made, epoch=1)
    assert project.ingest("run").code == 0
    wrong = []
    for number, table in enumerate(made):
        # Rebuilding comes last: it mends what reconcile is to find.
        looks = LOOKS if all_of_it else LOOKS[:1] + LOOKS[number % 4 + 1 :][:1]
        for look in looks:
            if (found := look(project, table, chance)) is not None:
                wrong.append(f"{look.__name__} of {told_of(table)}: {found}")
    assert wrong == [], "\n".join(wrong)
    return sum(table.logs for table in made)


def told_of(table: Table) -> str:
    """The table in a few words."""
    names = ", ".join(table.dress.names.values())
    return f"{table.target} ({table.source}, {table.mode}, key {table.dress.key.type}, {names})"


def gold(project: Project, table: Table, chance: random.Random) -> str | None:
    """How gold differs from what was lived through, if it does."""
    records = project.ingest("--json", "sql", f"SELECT * FROM gold.{table.target}").records
    return differing(held(table, records), expected(table))


def history(project: Project, table: Table, chance: random.Random) -> str | None:
    """How history does: each change once, in order."""
    records = project.ingest("--json", "history", table.target).records
    numbers = [number_of(record["event_time"]) for record in records]
    return differing(numbers, table.in_order)


def as_of(project: Project, table: Table, chance: random.Random) -> str | None:
    """How the table as it stood at some change does."""
    until = chance.randrange(len(table.lived.changes))
    moment = datetime.fromtimestamp(0, UTC) + timedelta(milliseconds=START + until)
    then = project.ingest("--json", "as-of", table.target, "--time", moment.isoformat())
    return differing(held(table, then.records), expected(table, until))


def reconcile(project: Project, table: Table, chance: random.Random) -> str | None:
    """What `ingest reconcile` finds."""
    compared = project.ingest("reconcile", table.target)
    return compared.out + compared.err if compared.code else None


def rebuild(project: Project, table: Table, chance: random.Random) -> str | None:
    """How gold differs once it is made anew."""
    rebuilt = project.ingest("rebuild", table.target)
    assert rebuilt.code == 0, rebuilt.err
    return gold(project, table, chance)


LOOKS = (gold, history, as_of, reconcile, rebuild)


def differing(got: list[Any], wanted: list[Any]) -> str | None:
    """What one has and the other has not, if anything."""
    if got == wanted:
        return None
    more = list((Counter(got) - Counter(wanted)).elements())
    less = list((Counter(wanted) - Counter(got)).elements())
    return f"{len(got)} where {len(wanted)} are expected; more {more[:4]}, less {less[:4]}"


def test_a_hundred_hostile_logs(
    spark: SparkSession,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(CANARY, SECRET)
    project = Project(tmp_path, capsys.readouterr)
    assert play(project, random.Random(20260303), logs_each=FEW, all_of_it=False) >= 100


@pytest.mark.long
@pytest.mark.parametrize("seed", range(2))
def test_two_thousand_hostile_logs(
    spark: SparkSession,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    seed: int,
) -> None:
    monkeypatch.setenv(CANARY, SECRET)
    project = Project(tmp_path, capsys.readouterr)
    assert play(project, random.Random(seed), logs_each=MANY, all_of_it=True) >= 1_000
