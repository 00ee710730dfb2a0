"""What approved schema changes mean for events from before them (semantics.md, 46, 51 and 52).

A target has today's columns; an event was written under those of its time. `translated` reads
every event through the entries of the lineage (`ingest.ddl.changes`) above it: a value of a renamed
column comes under the name of now, a value of a dropped column does not come at all, and where a
column was added with a literal DEFAULT, an image from before has that, as the source's row had. So
every fold, of a batch as of all history, gives the rows that the source has, in whichever order
events and schema changes come.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, assert_never

import msgspec

from ingest.ddl.changes import (
    AddColumn,
    AlterColumnType,
    ChangeKey,
    DropColumn,
    FreezeTable,
    Lineage,
    RecreateTable,
    RenameColumn,
    RenameTable,
    brings,
    defaults,
)
from ingest.position import (
    EPOCH,
    PHASE,
    S1,
    SNAPSHOT,
    STREAM,
    STREAMED,
    Pos,
    in_log,
    pos_literal,
    transport_part,
)
from ingest.sql.quoting import sql_text, sql_texts


class Turn(NamedTuple):
    """What a name comes to today in events of an age below `until`; None: it is not the table's.

    If two entries end under one name, the one with the lower `rank` keeps it.
    """

    until: int
    name: str | None
    rank: int


class Fate(NamedTuple):
    """What becomes of a name: the first turn that is still to come. What comes under it in events
    older than `hidden` is not the target's."""

    hidden: int | None
    turns: list[Turn]


class Filling(NamedTuple):
    """A DEFAULT as it reaches events, by their age; see `Default`. `column`, in lower case, is what
    it was given to, `name` what that is called today."""

    column: str
    name: str
    text: str
    since: int
    until: int | None
    hidden: int | None
    named: bool


_FATES = "map<string,struct<hidden:int,turns:array<struct<until:int,name:string,rank:int>>>>"
_FILLINGS = (
    "array<struct<column:string,name:string,text:string,since:int,until:int,hidden:int,"
    "named:boolean>>"
)
_IMAGES, _KEYS = ("before", "after"), ("key", "key_before")


def translated(changes: str, lineage: Lineage, *, pos: str = "pos") -> str:
    """SQL of the changes (silver rows) with images and keys as they read under today's columns.

    `pos` is SQL of where a change stands in the log. Names are matched without case.

    What the lineage makes of each name is worked out here and stands in the query as a constant.
    So the query is as deep for hundreds of entries as for one, and is planned in the same time. An
    event is placed among them by its age: 2n - 1 at the n-th place where one stands, 2n between it
    and the next.
    """
    if not lineage:
        return changes
    places = sorted({entry.pos for entry in lineage})
    ages = {place: 2 * number - 1 for number, place in enumerate(places, 1)}
    known = _constant(places, "array<array<bigint>>")
    passed = f"2 * size(filter({known}, place -> place <= {pos}))"
    changes = (
        f"SELECT *, {passed} - IF(array_contains({known}, {pos}), 1, 0) AS _age FROM ({changes})"
    )
    images, keys = _fates(lineage, ages), _fates(lineage, ages, keys=True)
    maps = {**dict.fromkeys(_IMAGES, images), **dict.fromkeys(_KEYS, keys)}
    entries = ", ".join(f"{_entries(name, found)} AS _{name}" for name, found in maps.items())
    changes = f"SELECT *, {entries} FROM ({changes})"
    named = ", ".join(f"{_map(name, found)} AS {name}" for name, found in maps.items())
    given = ", ".join((*maps, *(f"_{name}" for name in maps)))
    changes = f"SELECT * EXCEPT ({given}), {named} FROM ({changes})"
    found = _fillings(lineage, ages)
    if not found:
        return f"SELECT * EXCEPT (_age, after), {_apart('after')} AS after FROM ({changes})"
    changes = f"SELECT *, {_fitting(found)} AS _fitting FROM ({changes})"
    filled = _apart(_FILLED)
    return f"SELECT * EXCEPT (_age, _fitting, after), {filled} AS after FROM ({changes})"


def _apart(image: str) -> str:
    """SQL of an image that is worked out before anything is asked of it.

    Else Spark asks further down, and writes the image out in the place of each mention: a filter on
    the values of a hundred columns then holds thousands of copies. It takes no condition past what
    it does not know to be the same each time.
    """
    return f"IF(spark_partition_id() < 0, NULL, {image})"


def schema_pos(formats: Iterable[str], *, by_arrival: str) -> str:
    """SQL of where a silver row stands among the schema changes. `formats`: those whose snapshots
    tell where in the log a row was read; `by_arrival`: SQL."""
    return f"IF(format IN ({sql_texts(formats)}), {read_at('pos', by_arrival=by_arrival)}, pos)"


def read_at(pos: str, *, by_arrival: str) -> str:
    """SQL of where in the log the columns were what a change has: a row of a snapshot, which stands
    below all that was streamed, has those of the place at which it was read. At one place of the
    source's log with a schema change it is from before it. `by_arrival`: SQL."""
    epoch, source = f"slice({pos}, {EPOCH}, 1)", f"slice({pos}, {S1}, {STREAM - S1})"
    transport = f"IF({by_arrival}, {transport_part(pos)}, array(0L, 0L, 0L, 0L))"
    read = f"concat({epoch}, array({STREAMED}L), {source}, {transport})"
    return f"IF(element_at({pos}, {PHASE}) = {SNAPSHOT}, {read}, {in_log(pos)})"


def without_early(
    changes: str, unfit: Sequence[tuple[Sequence[str], Pos, str]], *, pos: str = "pos"
) -> str:
    """SQL of the changes, their after images without what did not have to fit yet and does not.

    `unfit`: the names of a column, the position below which it had another type, and SQL on a
    change that is true where its value does not fit.
    """
    if not unfit:
        return changes
    cases = " ".join(
        f"WHEN k IN ({sql_texts(names)}) THEN "
        f"coalesce({pos} < {pos_literal(before)} AND ({where}), false)"
        for names, before, where in unfit
    )
    last = pos_literal(max(before for _, before, _ in unfit))
    kept = f"map_filter(after, (k, v) -> NOT CASE {cases} ELSE false END)"
    after = f"IF({pos} < {last}, {kept}, after)"
    return f"SELECT * EXCEPT (after), {after} AS after FROM ({changes})"


def _fates(lineage: Lineage, ages: Mapping[Pos, int], *, keys: bool = False) -> dict[str, Fate]:
    """What becomes of each name, in lower case, that some entry concerns; of those of a key, which
    are renamed and nothing else. `ages`: the age of an event at each position."""
    found: dict[str, Fate] = {}
    for entry in reversed(lineage) if not keys else ():
        if entry.hidden:
            column = brings(entry.change)
            assert column is not None, "what is hidden comes under a name"
            found[column] = found.get(column, Fate(None, []))._replace(hidden=ages[entry.pos])
    turns = _turns(lineage, keys=keys)
    paths = sorted({path for listed in turns.values() for _, _, path in listed})
    ranks = {path: rank for rank, path in enumerate(paths, 1)}
    for column, listed in turns.items():
        fate = found.setdefault(column, Fate(None, []))
        fate.turns.extend(
            Turn(ages[lineage[number].pos], name, ranks[path]) for number, name, path in listed
        )
    return found


_Path = tuple[int, ...]


def _turns(lineage: Lineage, *, keys: bool) -> dict[str, list[tuple[int, str | None, _Path]]]:
    """Per name the entries (by number) that rename or drop it, in order, what it comes to from
    there, and which entries rename it on the way, the last first.

    Paths that come to one name tell which had it first: where they part, it is the one that needed
    no further one, or an earlier one.
    """
    now: dict[str, tuple[str | None, _Path]] = {}
    turns: dict[str, list[tuple[int, str | None, _Path]]] = {}
    for number, entry in reversed(list(enumerate(lineage))):
        if entry.hidden:
            continue
        match entry.change:
            case RenameColumn(old, new):
                column = old.lower()
                name, path = now.get(new.lower(), (new, ()))
                now[column] = name, (*path, number)
            case DropColumn(gone) if not keys:
                column = gone.lower()
                now[column] = None, ()
            case (
                AddColumn()
                | AlterColumnType()
                | DropColumn()
                | ChangeKey()
                | RenameTable()
                | FreezeTable()
                | RecreateTable()
            ):
                continue
            case _:
                assert_never(entry.change)
        turns.setdefault(column, []).insert(0, (number, *now[column]))
    return turns


def _fillings(lineage: Lineage, ages: Mapping[Pos, int]) -> list[Filling]:
    """The DEFAULTs of columns that the table still has, in order of position."""
    turns = _turns(lineage, keys=False)
    begun = {(entry.pos, brings(entry.change)): number for number, entry in enumerate(lineage)}
    found = []
    for default in defaults(lineage):
        column, until = default.column.lower(), default.until
        began = begun[default.since, column]
        later = (name for number, name, _ in turns.get(column, ()) if number > began)
        name = next(later, default.column)
        hidden = [
            ages[entry.pos]
            for entry in lineage
            if entry.hidden and brings(entry.change) == column and entry.pos >= default.since
        ]
        if name is not None:
            found.append(
                Filling(
                    column=column,
                    name=name,
                    text=default.text,
                    since=ages[default.since],
                    until=ages[until] if until is not None else None,
                    hidden=min(hidden, default=None),
                    named=default.named,
                )
            )
    return found


def _entries(image: str, found: Mapping[str, Fate]) -> str:
    """SQL of the entries of a map under today's names, with their ranks; null where it stands."""
    if not found:
        return "CAST(NULL AS string)"
    fates = {
        name: {"hidden": fate.hidden, "turns": [turn._asdict() for turn in fate.turns]}
        for name, fate in found.items()
    }
    known = _constant(fates, _FATES)
    fated = f"e -> struct(e.key AS key, e.value AS value, {known}[lower(e.key)] AS fate)"
    visible = f"filter(transform(map_entries({image}), {fated}), {_SHOWN})"
    turned = (
        f"filter(transform({visible}, {_TURNED}), e -> e.turn IS NULL OR e.turn.name IS NOT NULL)"
    )
    top = max((turn.until for fate in found.values() for turn in fate.turns), default=0)
    lowest = min((fate.hidden for fate in found.values() if fate.hidden is not None), default=None)
    unchanged = f"_age >= {top}" + ("" if lowest is None else f" AND _age <= {lowest}")
    return f"IF({unchanged}, NULL, transform({turned}, {_NAMED}))"


_SHOWN = "e -> NOT coalesce(_age > e.fate.hidden, false)"
_TURNED = (
    "e -> struct(e.key AS key, e.value AS value, "
    "try_element_at(filter(e.fate.turns, t -> _age < t.until), 1) AS turn)"
)
_NAMED = (
    "e -> struct(coalesce(e.turn.name, e.key) AS key, e.value AS value, "
    "coalesce(e.turn.rank, 0) AS rank)"
)


def _map(image: str, found: Mapping[str, Fate]) -> str:
    """SQL of a map, of `_entries` of it; where two have one name, the one that had it first."""
    if not found:
        return image
    entries = f"_{image}"
    before = "o -> lower(o.key) = lower(e.key) AND o.rank < e.rank"
    once = f"size(array_distinct(transform({entries}, e -> lower(e.key)))) = size({entries})"
    first = f"filter({entries}, e -> NOT exists({entries}, {before}))"
    pairs = f"transform(IF({once}, {entries}, {first}), e -> struct(e.key, e.value))"
    return f"IF({entries} IS NULL, {image}, map_from_entries({pairs}))"


def _fitting(found: Sequence[Filling]) -> str:
    """SQL of the DEFAULTs, as entries of a map, that the after image is to have: those of columns
    that came later, and in new rows those that came without them."""
    fresh = "(op IN ('insert', 'snapshot') AND after_image = 'full')"
    early = "_age < d.since"
    names = "transform(map_keys(after), k -> lower(k))"
    unavailable = "transform(coalesce(unavailable, array()), k -> lower(k))"
    fits = (
        f"IF(d.named, {fresh} AND NOT {early}, {fresh} OR {early}) "
        "AND coalesce(_age < d.until, true) AND NOT coalesce(_age > d.hidden, false) "
        f"AND NOT array_contains({names}, lower(d.name)) "
        f"AND NOT array_contains({unavailable}, d.column)"
    )
    known = _constant([filling._asdict() for filling in found], _FILLINGS)
    last = max(filling.since for filling in found)
    given = f"transform(filter({known}, d -> {fits}), d -> struct(d.name AS key, d.text AS value))"
    return f"IF(after IS NOT NULL AND ({fresh} OR _age < {last}), {given}, array())"


_FILLED = (
    "CASE WHEN size(_fitting) = 0 THEN after "
    "WHEN size(array_distinct(transform(_fitting, d -> lower(d.key)))) = size(_fitting) "
    "THEN map_from_entries(concat(map_entries(after), _fitting)) "
    # A name that was given twice, without a drop that was let in, has the first DEFAULT.
    "ELSE map_from_entries(concat(map_entries(after), filter(_fitting, (d, i) -> "
    "NOT exists(slice(_fitting, 1, i), o -> lower(o.key) = lower(d.key))))) END"
)


def _constant(value: object, type_: str) -> str:
    """SQL of a value as a constant of a Spark type, however large: one literal to whoever plans."""
    text = msgspec.json.encode(value).decode()
    return f"from_json({sql_text(text)}, {sql_text(type_)})"
