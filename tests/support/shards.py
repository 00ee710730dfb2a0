"""A simulated table that lies in several databases, with one log of all of them.

Rows have a key of two columns. They change, change their key, and go from one shard to another:
there a row is deleted before it is inserted, so no key is ever in two shards unless they are kept
`apart`.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from tests.support.databases import LoggedChange, Row, Version, spellings
from tests.support.debezium_log import UNAVAILABLE

START = 1_700_000_000_000
KEY = ("site", "name")
COLUMNS = {
    **{"site": "int", "name": "string", "a": "string", "b": "string"},
    **{"price": "decimal(22,2)", "version": "bigint"},
}
"""`version` grows with each change: what `sequence_by` may order by."""
KEYS = [(site, name) for site in range(3) for name in ("x", "X", "y ", "y")]
_OPS = {"insert": "c", "update": "u", "delete": "d", "truncate": "t"}
Key = tuple[int, str]
Place = tuple[int, Key]
"""A shard and a key."""


class ShardChange(NamedTuple):
    """A change as the log has it, and the shard that it happened in."""

    shard: int
    logged: LoggedChange


class ShardVersion(NamedTuple):
    """What a row held for a while. `row`: the place that tells it from others, which is its key
    where the shards are not kept apart."""

    row: Place | Key
    shard: int
    held: Version


@dataclass(kw_only=True)
class Shards:
    """The table `name` in so many shards; `log` is what happened, `versions` what rows held."""

    chance: random.Random
    name: str
    shards: int
    apart: bool
    truncates: bool
    partials: bool
    moves: bool
    rows: dict[Place, Row] = field(default_factory=dict)
    log: list[ShardChange] = field(default_factory=list)
    versions: list[ShardVersion] = field(default_factory=list)
    transaction: int = 0

    def live(self, changes: int) -> None:
        """Make about so many random changes."""
        while len(self.log) < changes:
            self.transaction += 1
            for _ in range(self.chance.choice([1, 1, 2, 3])):
                self._change()

    def label(self, shard: int) -> str:
        """What gold calls the table of a shard."""
        return f"db{shard}.{self.name}_{shard}"

    def _change(self) -> None:
        shard = self.chance.randrange(self.shards)
        kinds = {"update": 6, "insert": 4, "delete": 2, "same": 1}
        kinds |= {"hop": 2 * (self.shards > 1), "truncate": self.truncates}
        kinds |= {"move": self.moves, "swap": self.moves}
        [kind] = self.chance.choices([*kinds], [*kinds.values()])
        held = [place for place in self.rows if place[0] == shard]
        if kind == "insert":
            self._insert(shard)
        elif kind == "truncate" and self.chance.random() < 0.3:
            self._truncate(shard, held)
        elif held:
            place = self.chance.choice(held)
            act = {
                **{"update": self._update, "same": self._same, "delete": self._delete},
                **{"hop": self._hop, "move": self._move, "swap": self._swap},
            }.get(kind)
            if act is not None:
                act(place)

    def _insert(self, shard: int) -> None:
        for key in self._free(shard):
            row = {**dict(zip(KEY, key, strict=True)), "a": self._text(), "b": self._text()}
            row["price"] = self.chance.choice([None, "1.50", "-0.01", "12345678901234567890.12"])
            self._put((shard, key), "insert", None, row)
            break

    def _truncate(self, shard: int, held: list[Place]) -> None:
        for place in held:
            del self.rows[place]
        self._tell(shard, "truncate", None, None)

    def _update(self, place: Place) -> None:
        before = self.rows[place]
        after = {**before, self.chance.choice("ab"): self._text()}
        self._put(place, "update", before, after, partial=self.chance.random() < 0.4)

    def _same(self, place: Place) -> None:
        self._tell(place[0], "update", self.rows[place], self.rows[place])

    def _delete(self, place: Place) -> None:
        self._tell(place[0], "delete", self.rows.pop(place), None)

    def _hop(self, place: Place) -> None:
        """The row goes to another shard, mostly."""
        row, (shard, key) = self.rows[place], place
        self._delete(place)
        self.transaction += self.chance.randrange(2)
        other = self.chance.choice([each for each in range(self.shards) if each != shard])
        if key in self._free(other):
            self._put((other, key), "insert", None, row)

    def _move(self, place: Place) -> None:
        for key in self._free(place[0]):
            self._rename({place: (place[0], key)})
            break

    def _swap(self, place: Place) -> None:
        others = [each for each in self.rows if each[0] == place[0] and each != place]
        if others:
            other = self.chance.choice(others)
            self.transaction += 1
            self._rename({place: other, other: place})
            self.transaction += 1

    def _rename(self, places: Mapping[Place, Place]) -> None:
        taken = {old: self.rows.pop(old) for old in places}
        for old, new in places.items():
            row = {**taken[old], **dict(zip(KEY, new[1], strict=True))}
            self._put(new, "update", taken[old], row)

    def _put(
        self, place: Place, op: str, before: Row | None, after: Row, *, partial: bool = False
    ) -> None:
        row = self.rows[place] = {**after, "version": len(self.log)}
        if partial and self.partials and before is not None:
            sent = {n: v for n, v in row.items() if n in KEY or v != before[n]}
            self._tell(place[0], op, None, sent, partial=True)
        else:
            self._tell(place[0], op, before, row)

    def _free(self, shard: int) -> list[Key]:
        """The keys that a row of the shard may get, in any order."""
        taken = {key for of, key in self.rows if of == shard or not self.apart}
        free = [key for key in KEYS if key not in taken]
        return self.chance.sample(free, len(free))

    def _text(self) -> str | None:
        return self.chance.choice([None, "", "x", f"v{len(self.log)}", "é'\\\"", "null"])

    def _tell(
        self, shard: int, op: str, before: Row | None, after: Row | None, *, partial: bool = False
    ) -> None:
        number = len(self.log)
        told = [None if image is None else dict(image) for image in (before, after)]
        logged = LoggedChange(op, number, told[0], told[1], partial, self.transaction)
        self.log.append(ShardChange(shard, logged))
        now: dict[Place | Key, tuple[int, Row]] = {
            (place if self.apart else place[1]): (place[0], row) for place, row in self.rows.items()
        }
        held = {version.row: version for version in self.versions if version.held.end is None}
        for row, version in held.items():
            if now.get(row) != (version.shard, version.held.row):
                version.held.end = number
        for row, (of, values) in now.items():
            if row not in held or held[row].held.end is not None:
                self.versions.append(ShardVersion(row, of, Version(dict(values), number)))

    def message(self, change: ShardChange) -> str:
        """A change as Debezium tells it, with the positions of one MySQL server. The key comes in
        any spelling of its number, the same ones whenever the change is delivered."""
        logged, chance = change.logged, random.Random(f"{self.name} {change.logged.number}")
        before, after = (_spelt(image, chance) for image in (logged.before, logged.after))
        if logged.partial and after is not None:
            after = {name: after.get(name, UNAVAILABLE) for name in COLUMNS}
        db, table = self.label(change.shard).split(".")
        file, pos = divmod(logged.number, 7)
        source = {
            **{"connector": "mysql", "db": db, "table": table, "snapshot": "false"},
            **{"ts_ms": START + logged.number, "file": f"binlog.{999_990 + file:06d}"},
            **{"pos": 10 + pos, "row": 0, "gtid": None},
        }
        value = {"before": before, "after": after, "op": _OPS[logged.op], "source": source}
        # By it keys that are exchanged are told from a row that is put in the place of another.
        transaction = {"id": f"tx{logged.transaction}", "total_order": logged.number}
        return json.dumps({**value, "transaction": transaction}, ensure_ascii=False)

    def rows_at(self, mode: str, until: int) -> Iterator[tuple[ShardVersion, int | None]]:
        """What a target kept in `mode` holds after change `until`: versions, or of each row the
        last one; each with the change that ended it by then."""
        begun = [version for version in self.versions if version.held.begin <= until]
        if mode in ("rows", "marked"):
            begun = [*{version.row: version for version in begun}.values()]
        for version in begun:
            end = version.held.end
            ended = end if end is not None and end <= until else None
            if mode != "rows" or ended is None:
                yield version, ended


def _spelt(row: Row | None, chance: random.Random) -> Row | None:
    return None if row is None else {**row, "site": chance.choice(spellings(row["site"]))}
