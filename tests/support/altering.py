"""A table of MySQL that changes its rows and its columns at random, as Canal tells of it."""

from __future__ import annotations

import random
from typing import Any

from tests.support.project import canal, canal_ddl

T0 = 1_700_000_000_000
TYPES = ("int", "bigint", "varchar(20)")
NAMES = ("a", "b", "c", "d", "e")
Value = int | str | None


class Altering:
    """The table as it is, and the messages it has sent."""

    def __init__(self, name: str, seed: int) -> None:
        self.name = name
        self.chance = random.Random(seed)
        self.columns: dict[str, str] = {"id": "int", "a": "int", "b": "varchar(20)"}
        self.rows: dict[int, dict[str, Value]] = {}
        self.messages: list[dict[str, Any]] = []
        self.statements: list[str] = []

    def live(self, rows: int, changes: int) -> None:
        """Some rows, then `changes` of the columns with rows between them."""
        self._rows(rows)
        for _ in range(changes):
            self._alter()
            self._rows(rows)

    def _rows(self, count: int) -> None:
        for _ in range(count):
            kind = self.chance.choice(("insert", "insert", "update", "update", "delete"))
            free = [key for key in range(1, 30) if key not in self.rows]
            if (kind == "insert" and free) or not self.rows:
                self._insert(self.chance.choice(free))
            elif kind != "delete":
                self._update()
            else:
                key = self.chance.choice(list(self.rows))
                self._send("DELETE", self.rows.pop(key))

    def _insert(self, key: int) -> None:
        values = {name: self._value(name) for name in self.columns if name != "id"}
        self.rows[key] = {"id": key, **values}
        self._send("INSERT", self.rows[key])

    def _update(self) -> None:
        row = self.rows[self.chance.choice(list(self.rows))]
        others = [name for name in self.columns if name != "id"]
        if not others:
            return
        name = self.chance.choice(others)
        before, row[name] = row[name], self._value(name)
        self._send("UPDATE", row, {name: before})

    def _value(self, column: str) -> Value:
        type_ = self.columns[column]
        if self.chance.random() < 0.15:
            return None
        number = self.chance.randrange(1000)
        if type_ == "bigint":
            return 10**12 + number
        return number if type_ == "int" else f"t{number}"

    def _alter(self) -> None:
        others = [name for name in self.columns if name != "id"]
        free = [name for name in NAMES if name not in self.columns]
        ways = [self._add] * 3 * bool(free) + [self._drop, self._rename] * bool(others)
        ways += [self._widen] * any(self.columns[name] == "int" for name in others)
        ways += [self._spell] * any("int" in self.columns[name] for name in others)
        ways += [self._swap] * (len(others) > 1)
        self.chance.choice(ways)(others, free)

    def _add(self, others: list[str], free: list[str]) -> None:
        name, type_ = self.chance.choice(free), self.chance.choice(TYPES)
        self.columns[name] = type_
        value = self._value(name) if self.chance.random() < 0.5 else None
        for row in self.rows.values():
            row[name] = value
        default = f" DEFAULT {value!r}" if value is not None else ""
        self._say(f"ADD COLUMN {name} {type_}{default}")

    def _drop(self, others: list[str], free: list[str]) -> None:
        name = self.chance.choice(others)
        self._rebuild({c: c for c in self.columns if c != name})
        self._say(f"DROP COLUMN {name}")

    def _rename(self, others: list[str], free: list[str]) -> None:
        if not free:
            return
        old, new = self.chance.choice(others), self.chance.choice(free)
        self._rebuild({c: new if c == old else c for c in self.columns})
        self._say(f"RENAME COLUMN {old} TO {new}")

    def _swap(self, others: list[str], free: list[str]) -> None:
        one, two = self.chance.sample(others, 2)
        self._rebuild({c: {one: two, two: one}.get(c, c) for c in self.columns})
        self._say(f"RENAME COLUMN {one} TO {two}, RENAME COLUMN {two} TO {one}")

    def _widen(self, others: list[str], free: list[str]) -> None:
        name = self.chance.choice([c for c in others if self.columns[c] == "int"])
        self.columns[name] = "bigint"
        self._say(f"MODIFY COLUMN {name} bigint")

    def _spell(self, others: list[str], free: list[str]) -> None:
        name = self.chance.choice([c for c in others if "int" in self.columns[c]])
        self.columns[name] = "varchar(20)"
        for row in self.rows.values():
            row[name] = None if row[name] is None else str(row[name])
        self._say(f"MODIFY COLUMN {name} varchar(20)")

    def _rebuild(self, names: dict[str, str]) -> None:
        self.columns = {new: self.columns[old] for old, new in names.items()}
        for row in self.rows.values():
            fresh = {new: row[old] for old, new in names.items()}
            row.clear()
            row.update(fresh)

    def _say(self, clauses: str) -> None:
        statement = f"ALTER TABLE {self.name} {clauses}"
        self.statements.append(statement)
        number = len(self.messages) + 1
        self.messages.append(canal_ddl(self.name, statement, es=T0 + 1000 * number, id_=number))

    def _send(self, type_: str, row: dict[str, Value], old: dict[str, Value] | None = None) -> None:
        number = len(self.messages) + 1
        self.messages.append(
            canal(
                self.name,
                type_,
                _texts(row),
                es=T0 + 1000 * number,
                id_=number,
                types=dict(self.columns),
                old=None if old is None else _texts(old),
            )
        )


def _texts(row: dict[str, Value]) -> dict[str, str | None]:
    return {name: None if value is None else str(value) for name, value in row.items()}
