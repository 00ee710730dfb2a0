"""Random logs whose names, keys and values are the worst that a source may have.

A log is what `tests.support.databases` simulates. Here it gets hostile names (what SQL, Spark, a
shell or the product itself would take for its own), keys of several types, each spelt in any way
that means the same value, and a transport: Debezium in the order of the source's log, or Canal in
the order of arrival with clocks that step back. Several logs, each with keys of its own, share a
table.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any, NamedTuple

from tests.support.databases import Database, LoggedChange, Row, Version

START = 1_700_000_000_000
CANARY = "HOSTILE_CANARY"
DB = f"lab${{env:{CANARY}}}"
UNAVAILABLE = "__debezium_unavailable_value"
KEYS_OF_A_LOG = 8
LOGICAL = ("id", "a", "b", "c")
TABLE_NAMES = (
    *("price${list}", "or'der", "na`me", "select", "tä🌾ble", "a b", "$x", 'qu"ote', "semi;colon"),
    *("-- comment", "${system:user.dir}", "%s{0}", "\\back", "TABLE", "e", "${spark.app.name}"),
)
COLUMN_NAMES = (
    *("_gone", "_sets", "_whole", "_exact", "_k0", "_k1", "_act", "_n", "_from", "_to", "_next"),
    *("_before", "_last", "_open", "_clock", "_change", "key", "pos", "op", "after", "before"),
    *("s", "t", "e", "c", "l", "r", "label", "gone", "batch", "row", "_change_type", "value"),
    *("select", "order", "a.b", "a b", "a`b", "a'b", 'a"b', "a,b", "a;b", "a=b"),
    *("pay${x}", f"${{env:{CANARY}}}", "${system:user.dir}", "%(x)s", "{0}", "\\n", "naïve", "🌾"),
    *("x" * 255, "element", "struct", "_metadata", "true", "null", "1", "*", "_rescued_data"),
)
METADATA_NAMES = (
    *("_pos", "_event_time", "_source", "_source_table", "_valid_from", "_valid_to", "_current"),
    *("_deleted_at", "_POS"),
)
"""Of columns whose types nobody declares: what gold adds itself cannot be declared."""
TEXTS = ("", "x", "é'\\\"", "null")
"""What `tests.support.databases` writes beside numbered values; below, what stands for each."""
HOSTILE_TEXTS = {
    "": f"${{env:{CANARY}}} at ${{system:user.dir}}",
    "x": "'); DROP TABLE gold; --",
    "null": "${name} \\N NULL",
    "é'\\\"": "é'\\\" ` {0} %s \t",
}


class KeyKind(NamedTuple):
    """A type of key: its type in gold and in MySQL, the value of key `n`, and its spellings."""

    type: str
    source_type: str
    value: Callable[[int], Any]
    spellings: Callable[[int], Sequence[str]]


def _instants(number: int) -> Sequence[str]:
    at = _instant(number)
    summer = at.replace(tzinfo=None) + timedelta(hours=2)
    plain = at.strftime("%Y-%m-%d %H:%M:%S")
    return (
        f"{plain}Z",
        plain.replace(" ", "T") + "Z",
        f"{plain}.000Z",
        summer.strftime("%Y-%m-%d %H:%M:%S+02:00"),
    )


def _instant(number: int) -> datetime:
    """Half an hour after the other over an hour that Europe's clocks show twice."""
    return datetime(2024, 10, 27, tzinfo=UTC) + timedelta(minutes=30 * number)


def _day(number: int) -> date:
    return date(2024, 3, 1) + timedelta(days=number)


KEY_KINDS: Mapping[str, KeyKind] = {
    "int": KeyKind(
        "int",
        "int(5) unsigned zerofill",
        lambda n: n,
        lambda n: (str(n), f"{n:05d}", f"+{n}", f"0{n}"),
    ),
    "bigint": KeyKind(
        "bigint",
        "varchar(30)",
        lambda n: 2**40 + n,
        lambda n: (str(2**40 + n), f"0{2**40 + n}", f"+{2**40 + n}"),
    ),
    "decimal": KeyKind(
        "decimal(12,2)",
        "decimal(12,2)",
        lambda n: Decimal(n).scaleb(-1).quantize(Decimal("1.00")),
        lambda n: (f"{n / 10:.1f}", f"{n / 10:.2f}", f"0{n / 10:.1f}", f"{n}e-1"),
    ),
    "string": KeyKind(
        "string",
        "varchar(90)",
        lambda n: _text_key(n),
        lambda n: (_text_key(n),),
    ),
    "date": KeyKind(
        "date",
        "varchar(20)",
        _day,
        lambda n: (str(_day(n)), f"{_day(n).year}-{_day(n).month}-{_day(n).day}"),
    ),
    "timestamp": KeyKind("timestamp", "varchar(40)", _instant, _instants),
}


def _text_key(number: int) -> str:
    """Texts that only bytes tell apart, or that something may take for its own."""
    kinds = ("k", "K", "k ", " k", f"${{env:{CANARY}}}", "'", "k\u0301", "\\")
    return f"{kinds[number % len(kinds)]}{number // len(kinds)}"


class Dress(NamedTuple):
    """How a table's logical columns `id`, `a`, `b`, `c` look: names, and the kind of its key."""

    table: str
    names: Mapping[str, str]
    key: KeyKind

    @classmethod
    def at_random(cls, number: int, chance: random.Random, kinds: Sequence[str]) -> Dress:
        """The dress of table `number`."""
        chosen: list[str] = []
        for column in LOGICAL:
            names = (*COLUMN_NAMES, *METADATA_NAMES) if column in ("a", "b") else COLUMN_NAMES
            taken = {name.lower() for name in chosen}
            chosen.append(chance.choice([name for name in names if name.lower() not in taken]))
        table = f"{TABLE_NAMES[number % len(TABLE_NAMES)]}_t{number:02d}"
        return cls(table, dict(zip(LOGICAL, chosen, strict=True)), KEY_KINDS[chance.choice(kinds)])

    def types(self) -> dict[str, str]:
        """Column -> type in gold; `c` is an integer."""
        types = {"id": self.key.type, "a": "string", "b": "string", "c": "int"}
        named = {self.names[column]: type_ for column, type_ in types.items()}
        return {name: type_ for name, type_ in named.items() if name not in METADATA_NAMES}

    def source_types(self) -> dict[str, str]:
        """Column -> type in MySQL."""
        types = {"id": self.key.source_type, "a": "varchar(90)", "b": "text", "c": "int"}
        return {self.names[column]: type_ for column, type_ in types.items()}

    def image(self, row: Row | None, chance: random.Random) -> dict[str, str | None] | None:
        """The row as texts; the key in any of its spellings."""
        if row is None:
            return None
        image: dict[str, str | None] = {}
        for column, value in row.items():
            if value == UNAVAILABLE:
                image[self.names[column]] = UNAVAILABLE
            elif column == "id":
                image[self.names[column]] = chance.choice(self.key.spellings(value))
            else:
                image[self.names[column]] = _spelt(column, value)
        return image

    def value(self, column: str, value: Any) -> Any:
        """What gold must hold of a logical value."""
        if column == "id":
            return self.key.value(value)
        if column == "c":
            return _number(value)
        return HOSTILE_TEXTS.get(value, value)


def _number(value: str | None) -> int | None:
    if value is None:
        return None
    return TEXTS.index(value) if value in TEXTS else 100 + int(value[1:])


def _spelt(column: str, value: str | None) -> str | None:
    if value is None:
        return None
    if column == "c":
        number = _number(value)
        return f"{number:05d}" if number is not None and number % 2 else f"+{number}"
    return HOSTILE_TEXTS.get(value, value)


class StepByStep(Database):
    """Rows change their keys one after the other, as MySQL demands of a unique key."""

    def _move(self, pairs: list[tuple[int, int]]) -> None:
        if len(pairs) == 1:
            super()._move(pairs)


def together(logs: Sequence[Database], chance: random.Random) -> Database:
    """Several logs as one, interleaved at random; each keeps its order and has keys of its own."""
    waiting = [list(log.changes) for log in logs]
    turns = [place for place, logged in enumerate(waiting) for _ in logged]
    chance.shuffle(turns)
    numbers: list[dict[int | None, int | None]] = [{None: None} for _ in logs]
    merged = Database(chance)
    for place in turns:
        logged = waiting[place].pop(0)
        number = len(merged.changes)
        numbers[place][logged.number] = number
        sides = _moved(logged.before, place), _moved(logged.after, place)
        transaction = logged.transaction * len(logs) + place
        merged.changes.append(LoggedChange(logged.op, number, *sides, logged.partial, transaction))
    for place, log in enumerate(logs):
        for version in log.versions:
            row = _moved(version.row, place)
            begin, end = numbers[place][version.begin], numbers[place][version.end]
            assert row is not None and begin is not None
            merged.versions.append(Version(row, begin, end))
    return merged


def _moved(row: Row | None, place: int) -> Row | None:
    return None if row is None else {**row, "id": row["id"] + KEYS_OF_A_LOG * place}


class Sent(NamedTuple):
    """A message of Debezium: its value, its Kafka key and its headers."""

    payload: str
    key: str | None = None
    headers: tuple[str, ...] = ()


def debezium(
    logged: LoggedChange, dress: Dress, chance: random.Random, *, base: int, halves: bool = False
) -> list[Sent]:
    """A change as Debezium sends it, stamped anew each time; positions are counted from `base`.

    A change of the key is one update; with `halves`, in every second log of a table, a delete and a
    create that name each other's key. Values are spelt as the source's log has them, the same
    whenever they are sent.
    """
    spelling = random.Random(f"{dress.table} {logged.number}")
    before, after = logged.before, logged.after
    if logged.partial and after is not None:
        after = {name: after.get(name, UNAVAILABLE) for name in LOGICAL}
    old, new = dress.image(before, spelling), dress.image(after, spelling)
    if halves and old is not None and new is not None and comes_in_halves(logged):
        name = dress.names["id"]
        left, taken = (json.dumps({name: image[name]}) for image in (old, new))
        gone = _envelope("delete", old, None, logged=logged, dress=dress, chance=chance, base=base)
        come = _envelope("insert", None, new, logged=logged, dress=dress, chance=chance, base=base)
        return [
            Sent(gone, left, ("__debezium.newkey", taken)),
            Sent(come, taken, ("__debezium.oldkey", left)),
        ]
    return [
        Sent(_envelope(logged.op, old, new, logged=logged, dress=dress, chance=chance, base=base))
    ]


def comes_in_halves(logged: LoggedChange) -> bool:
    """Whether the change is one of the key, in every second log of a table."""
    before, after = logged.before, logged.after
    if before is None or after is None or before["id"] == after["id"]:
        return False
    return bool(before["id"] // KEYS_OF_A_LOG % 2 == 0)


def _envelope(
    op: str,
    before: Mapping[str, str | None] | None,
    after: Mapping[str, str | None] | None,
    *,
    logged: LoggedChange,
    dress: Dress,
    chance: random.Random,
    base: int,
) -> str:
    number = logged.number - base
    ops = {"insert": "c", "update": "u", "delete": "d", "snapshot": "r", "truncate": "t"}
    value = {
        "before": before,
        "after": after,
        "source": {
            "connector": "mysql",
            "ts_ms": START + logged.number,
            "snapshot": "true" if op == "snapshot" else "false",
            "db": DB,
            "table": dress.table,
            "file": f"binlog.{999_990 + number // 7:06d}",
            "pos": 10 + number % 7,
            "row": 0,
            "gtid": None,
        },
        "op": ops[op],
        "ts_ms": START + chance.randrange(10**6),
        "transaction": {
            "id": f"tx{logged.transaction}",
            "total_order": logged.number,
            "data_collection_order": logged.number,
        },
    }
    return json.dumps(value, ensure_ascii=False)


def canal(logged: LoggedChange, dress: Dress, chance: random.Random) -> str:
    """A change as Canal sends it."""
    before, after = dress.image(logged.before, chance), dress.image(logged.after, chance)
    row = before if logged.op == "delete" else after
    old = None
    if logged.op == "update" and before is not None and after is not None:
        key = dress.names["id"]
        assert logged.before is not None and logged.after is not None
        same_key = logged.before["id"] == logged.after["id"]
        old = {n: v for n, v in before.items() if (not same_key if n == key else v != after[n])}
    name = dress.table.replace("`", "``")
    truncate = logged.op == "truncate"
    value = {
        "data": None if truncate else [row],
        "old": None if old is None else [old],
        "database": DB,
        "table": dress.table,
        "type": "INSERT" if logged.op == "snapshot" else logged.op.upper(),
        "isDdl": truncate,
        "sql": f"TRUNCATE TABLE `{name}`" if truncate else "",
        "mysqlType": None if truncate else dress.source_types(),
        "pkNames": None if truncate else [dress.names["id"]],
        "es": START + logged.number,
        "ts": START + logged.number + 9,
        "id": logged.number,
    }
    return json.dumps(value, ensure_ascii=False)


class Line(NamedTuple):
    """A message with its place in the captured topic."""

    partition: int
    offset: int
    timestamp: int
    sent: Sent

    def captured(self) -> str:
        """As `kcat -J` prints it."""
        payload, key, headers = self.sent
        line = {"topic": "hostile", "ts": self.timestamp, "key": key, "payload": payload}
        if headers:
            line["headers"] = list(headers)
        return json.dumps({**line, "partition": self.partition, "offset": self.offset})


Logs = Sequence[tuple[Dress, Sequence[LoggedChange]]]


def by_arrival(logs: Logs, chance: random.Random, *, partitions: int) -> list[Line]:
    """The logs as a broker has them: each in one partition, the producer's clock stepping back."""
    lines: list[Line] = []
    offsets = [0] * partitions
    turns = [place for place, (_, logged) in enumerate(logs) for _ in logged]
    chance.shuffle(turns)
    waiting = [iter(logged) for _, logged in logs]
    for place in turns:
        lane, offset = place % partitions, offsets[place % partitions]
        clock = START + 20 * offset - chance.choice((0, 0, 7, 50, 3_000))
        text = canal(next(waiting[place]), logs[place][0], chance)
        lines.append(Line(lane, offset, clock, Sent(text)))
        offsets[lane] += 1
    return lines


def by_source(
    logs: Logs, chance: random.Random, *, partitions: int, halves: bool = False
) -> list[Line]:
    """The logs as a connector sends them: each delivery at a new place, some changes twice.

    Positions are counted from the first change of each log. `halves`: see `debezium`.
    """
    told = [(dress, logged, of_table[0].number) for dress, of_table in logs for logged in of_table]
    told += chance.sample(told, len(told) // 5)
    sent = [
        message
        for dress, logged, base in told
        for message in debezium(logged, dress, chance, base=base, halves=halves)
    ]
    chance.shuffle(sent)
    offsets = [0] * partitions
    lines = []
    for message in sent:
        lane = chance.randrange(partitions)
        lines.append(Line(lane, offsets[lane], START + chance.randrange(10**6), message))
        offsets[lane] += 1
    return lines


def in_batches(
    lines: Sequence[Line], chance: random.Random, *, batches: int, doubled: bool
) -> list[list[str]]:
    """The captured lines in any order; `doubled`: a fifth of them captured twice."""
    sent = [*lines, *(chance.sample(list(lines), len(lines) // 5) if doubled else ())]
    chance.shuffle(sent)
    size = len(sent) // batches + 1
    return [[line.captured() for line in sent[n * size : (n + 1) * size]] for n in range(batches)]
