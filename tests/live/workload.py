"""What happens on a server: a seeded load over its tables, with schema changes in its middle.

Two sessions change rows by turns, each its own, so that transactions overlap and commit in another
order than they began. Some are rolled back, wholly or to a savepoint; keys change, also two rows'
keys by turns; tables are truncated. What is there at the end is asked of the server.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.live.columns import (
    MYSQL,
    POSTGRESQL,
    PREPARED_POSTGRESQL,
    ColumnKind,
    literal,
    quoted,
)
from tests.live.servers import Server, connect

KEYS = 40
"""How many keys a session has of each table."""
TABLES = ("everything", "orders", "documents", "clicks", "shifting")
FINISHED = "finished"
"""A table that gets one row once all is done."""
_SHIFTING = {"a": "int", "b": "varchar(10)", "c": "text", "d": "numeric(8,2)"}


@dataclass
class Table:
    """A table as it is now: its key columns, its columns, those that most updates leave alone
    (`large`), those with a default, and each session's keys that are there."""

    name: str
    key: tuple[str, ...]
    columns: dict[str, ColumnKind]
    large: frozenset[str] = frozenset()
    defaults: frozenset[str] = frozenset()
    rows: dict[int, set[int]] = field(default_factory=lambda: {0: set(), 1: set()})


class Workload:
    """The load of one seed on one server, over some of TABLES."""

    def __init__(self, server: Server, seed: int, *, tables: Sequence[str] = TABLES) -> None:
        self.server = server
        self.postgresql = server.kind == "postgresql"
        self._chance = random.Random(seed)
        self._kinds = POSTGRESQL if self.postgresql else MYSQL
        self._connections: list[Any] = []
        self._clicks = 0
        self.truncated: set[str] = set()
        self.statements: list[str] = []
        self.tables = {table.name: table for table in self._designs() if table.name in tables}

    def prepare(self) -> None:
        """Make the tables, all empty."""
        self._connections = [connect(self.server) for _ in range(2)]
        if self.postgresql:
            for statement in PREPARED_POSTGRESQL:
                self._run(0, statement)
        else:
            for session in (0, 1):
                self._run(session, "SET sql_mode='NO_BACKSLASH_ESCAPES,NO_AUTO_VALUE_ON_ZERO'")
                # Two sessions that change rows of their own do not wait for each other.
                self._run(session, "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED")
                self._run(session, "SET time_zone='+00:00', innodb_lock_wait_timeout=5")
        for table in self.tables.values():
            parts = [f"{self._name(c)} {kind.type}" for c, kind in table.columns.items()]
            if table.key:
                parts.append(f"PRIMARY KEY ({', '.join(table.key)})")
            self._run(0, f"CREATE TABLE {table.name} ({', '.join(parts)})")
        self._run(0, f"CREATE TABLE {FINISHED} (id int PRIMARY KEY)")
        if "orders" in self.tables:
            self._run(0, "CREATE INDEX orders_by_id ON orders (id)")
        for name in ("orders", "clicks"):
            if self.postgresql and name in self.tables:
                self._run(0, f"ALTER TABLE {name} REPLICA IDENTITY FULL")

    def transactions(self, count: int) -> Iterator[None]:
        """So many pairs of transactions that overlap; a schema change comes after some of them."""
        changes = self._schema_changes() if "shifting" in self.tables else []
        every = max(1, count // (len(changes) + 1))
        for number in range(1, count + 1):
            self.overlap()
            if number % every == 0 and changes:
                self._alter(changes.pop(0))
            if self._chance.random() < 0.02:
                self._truncate()
            yield
        for change in changes:
            self._alter(change)
            yield

    def finish(self) -> None:
        """Leave the mark that says so, and all sessions."""
        self._run(0, f"INSERT INTO {FINISHED} VALUES (1)")
        for connection in self._connections:
            connection.close()

    def _designs(self) -> Iterator[Table]:
        kinds, id_ = self._kinds, ColumnKind("bigint", ())
        yield Table("everything", ("id",), {"id": id_, **kinds})
        named = ColumnKind("varchar(20)", (), "text")
        price, note = kinds["price"], kinds["label"]
        yield Table(
            "orders",
            ("region", "id"),
            {"region": named, "id": id_, "price": price, "made": kinds["made"], "note": note},
        )
        large = {name: kinds[name] for name in ("note", "doc")}
        if self.postgresql:
            large |= {name: kinds[name] for name in ("docb", "data", "free", "words", "ints")}
            large["note"] = _stored(large["note"], "repeat(md5(random()::text), 400)")
            large["data"] = _stored(
                large["data"], "decode(repeat(md5(random()::text), 400), 'hex')"
            )
            large["docb"] = _stored(
                large["docb"],
                "(SELECT jsonb_agg(md5(random()::text)) FROM generate_series(1, 400))",
            )
            large["doc"] = _stored(
                large["doc"], "(SELECT json_agg(md5(random()::text)) FROM generate_series(1, 400))"
            )
            large["words"] = _stored(
                large["words"],
                "(SELECT array_agg(md5(random()::text)) FROM generate_series(1, 400))",
            )
            large["ints"] = _stored(
                large["ints"], "(SELECT array_agg(n * 7919) FROM generate_series(1, 3000) n)"
            )
            large["free"] = _stored(large["free"], f"{'73' * 6000}.{'19' * 50}1")
        else:
            large |= {name: kinds[name] for name in ("long_note", "film")}
        columns = {"id": id_, "small": kinds["small"], "label": kinds["label"], **large}
        yield Table("documents", ("id",), columns, frozenset(large))
        yield Table("clicks", (), {"number": id_, "page": kinds["label"], "seen": kinds["seen"]})
        columns = {name: ColumnKind(kind, ()) for name, kind in _SHIFTING.items()}
        yield Table("shifting", ("id",), {"id": id_, **columns}, defaults=frozenset("e"))

    def _schema_changes(self) -> list[tuple[str, Mapping[str, str], frozenset[str]]]:
        """Statement, what columns are added or get another type, columns that go; in order.

        PostgreSQL's log has no schema changes, so that all rows are written again after each.
        """
        modify = "ALTER COLUMN {} TYPE {}" if self.postgresql else "MODIFY {} {}"
        at = "" if self.postgresql else " AFTER a"
        default = "ALTER COLUMN e SET DEFAULT 9"
        none: frozenset[str] = frozenset()
        return [
            (f"ADD COLUMN e int DEFAULT 7{at}", {"e": "int"}, none),
            (modify.format("a", "bigint"), {"a": "bigint"}, none),
            ("RENAME COLUMN c TO c2", {"c2": "text"}, frozenset("c")),
            (modify.format("d", "numeric(12,2)"), {"d": "numeric(12,2)"}, none),
            (modify.format("b", "varchar(60)"), {"b": "varchar(60)"}, none),
            (
                f"ADD COLUMN f int, ADD COLUMN g varchar(9){at}",
                {"f": "int", "g": "varchar(9)"},
                none,
            ),
            (default, {}, none),
            ("DROP COLUMN b", {}, frozenset("b")),
            ("ADD COLUMN b int", {"b": "int"}, none),
        ]

    def _alter(self, change: tuple[str, Mapping[str, str], frozenset[str]]) -> None:
        clause, typed, gone = change
        table = self.tables["shifting"]
        self._run(0, f"ALTER TABLE shifting {clause}")
        for name in gone:
            del table.columns[name]
        for name, type_ in typed.items():
            table.columns[name] = ColumnKind(type_, ())
        if self.postgresql:
            self._run(0, "UPDATE shifting SET id = id")

    def _truncate(self) -> None:
        table = self.tables.get(self._chance.choice(("orders", "documents", "everything")))
        if table is None:
            return
        self._run(0, f"TRUNCATE TABLE {table.name}")
        table.rows = {0: set(), 1: set()}
        self.truncated.add(table.name)

    def overlap(self) -> None:
        """Two transactions, begun, changed and ended by turns."""
        chance = self._chance
        before = {name: {0: set(t.rows[0]), 1: set(t.rows[1])} for name, t in self.tables.items()}
        sizes = {session: chance.choice((1, 1, 2, 3, 8)) for session in (0, 1)}
        turns = [session for session, size in sizes.items() for _ in range(size)]
        chance.shuffle(turns)
        for session in dict.fromkeys(turns):
            self._run(session, "BEGIN")
        for session in turns:
            self._change(session)
        for session in chance.sample((0, 1), 2):
            if chance.random() < 0.12:
                self._run(session, "ROLLBACK")
                for name, table in self.tables.items():
                    table.rows[session] = before[name][session]
            else:
                self._run(session, "COMMIT")

    def _change(self, session: int) -> None:
        chance = self._chance
        table = self.tables[chance.choice(list(self.tables))]
        if chance.random() < 0.08:
            held = set(table.rows[session])
            self._run(session, "SAVEPOINT here")
            self._change_row(session, table)
            self._run(session, "ROLLBACK TO SAVEPOINT here")
            table.rows[session] = held
        self._change_row(session, table)

    def _change_row(self, session: int, table: Table) -> None:
        chance, rows = self._chance, table.rows[session]
        if not table.key:
            self._clicks += 1
            values = [
                str(self._clicks),
                *(self._literal(k) for k in list(table.columns.values())[1:]),
            ]
            self._run(session, f"INSERT INTO {table.name} VALUES ({', '.join(values)})")
            return
        free = [number for number in range(session, 2 * KEYS, 2) if number not in rows]
        kind = chance.choices(
            ("insert", "update", "delete", "move", "swap"), (4, 8, 1.5, 1.5, 0.7)
        )[0]
        if (kind == "insert" and free) or not rows:
            number = chance.choice(free)
            rows.add(number)
            self._insert(session, table, number)
        elif kind == "update":
            self._update(session, table, chance.choice(sorted(rows)))
        elif kind == "delete":
            number = chance.choice(sorted(rows))
            rows.discard(number)
            self._run(session, f"DELETE FROM {table.name} WHERE id = {number}")
        elif kind == "move" and free:
            old, new = chance.choice(sorted(rows)), chance.choice(free)
            rows.symmetric_difference_update((old, new))
            self._move(session, table, old, new)
        elif kind == "swap" and len(rows) > 1 and free:
            one, two = chance.sample(sorted(rows), 2)
            for old, new in ((one, free[0]), (two, one), (free[0], two)):
                self._move(session, table, old, new)

    def _insert(self, session: int, table: Table, number: int) -> None:
        values = {"id": str(number)}
        if "region" in table.columns:
            values["region"] = quoted(self._chance.choice(("north", "SÜD", "")))
        for name, kind in table.columns.items():
            values.setdefault(name, self._literal(kind))
        names = ", ".join(map(self._name, values))
        self._run(
            session, f"INSERT INTO {table.name} ({names}) VALUES ({', '.join(values.values())})"
        )

    def _update(self, session: int, table: Table, number: int) -> None:
        chance = self._chance
        names = [name for name in table.columns if name not in table.key]
        if chance.random() < 0.7:
            names = [name for name in names if name not in table.large] or names
        touched = chance.sample(names, chance.randint(1, min(6, len(names))))
        sets = [f"{self._name(name)} = {self._literal(table.columns[name])}" for name in touched]
        if "region" in table.columns and chance.random() < 0.2:
            sets.append(f"region = {quoted(chance.choice(('north', 'SÜD', '')))}")
        self._run(session, f"UPDATE {table.name} SET {', '.join(sets)} WHERE id = {number}")

    def _move(self, session: int, table: Table, old: int, new: int) -> None:
        self._run(session, f"UPDATE {table.name} SET id = {new} WHERE id = {old}")

    def _literal(self, kind: ColumnKind) -> str:
        if kind.edges:
            return literal(kind, self._chance)
        chance = self._chance
        if chance.random() < 0.15:
            return "NULL"
        if kind.type == "int":
            return str(chance.choice((0, -(2**31), 2**31 - 1)))
        if kind.type == "bigint":
            return str(chance.choice((1, 2**31, -(2**63), 2**63 - 1)))
        if kind.type.startswith("numeric("):
            digits = int(kind.type[8:].split(",")[0])
            return chance.choice(("0.00", f"-{'9' * (digits - 2)}.99", "1.10"))
        length = int(kind.type[8:-1]) if "(" in kind.type else 90
        return quoted("né"[: chance.randrange(3)] + "x" * chance.choice((0, length - 2)))

    def _name(self, column: str) -> str:
        return f'"{column}"' if self.postgresql else f"`{column}`"

    def _run(self, session: int, statement: str) -> None:
        self.statements.append(f"{session}: {statement:.500}")
        connection = self._connections[session]
        if self.postgresql:
            connection.execute(statement)
        else:
            with connection.cursor() as cursor:
                cursor.execute(statement)


def _stored(kind: ColumnKind, large: str) -> ColumnKind:
    """A kind some of whose values are kept outside the row."""
    return kind._replace(edges=(*kind.edges, large, large, large))
