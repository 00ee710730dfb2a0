"""What approved schema changes mean for the events before them (semantics.md, 46, 51 and 52).

A target has today's columns, but an event was written under the columns of its time. `translated`
reads every event through the entries of the lineage (`ingest.ddl.changes`) that lie above it:

- a value of a renamed column comes under today's name,
- a value of a dropped column does not come at all,
- where a column was added with a literal DEFAULT, an earlier image has that DEFAULT, as the
  source's row had.

So every fold, of a batch as well as of all history, gives the rows that the source has, in
whichever order events and schema changes come.
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
    frees,
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
    """The name that a column has today, for events of an age below `until`; None if the table has
    dropped it.

    If two entries end under one name, the one with the lower `rank` keeps it.
    """

    until: int
    name: str | None
    rank: int


class Fate(NamedTuple):
    """What becomes of a name: of its turns, the first one above an event counts. What comes under
    the name in events of an age above `hidden`, that is in later ones, does not belong to the
    target."""

    hidden: int | None
    turns: list[Turn]


class Filling(NamedTuple):
    """A DEFAULT as it reaches events, by their age; see `Default`. `column`, in lower case, is the
    column that it was given to, and `name` what that column is called today."""

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

    What the lineage makes of each name is worked out here and stands in the query as a constant, so
    that hundreds of entries make the query no deeper than one, and it is planned in the same time.
    An event's age says where it stands among the places of the entries: 2n - 1 at the n-th place,
    2n between the n-th and the next.
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
    """SQL of an image that is worked out before any condition on it.

    Otherwise Spark pushes conditions down and writes the image out at each mention: a filter on the
    values of a hundred columns then holds thousands of copies. Spark pushes no condition past an
    expression that may differ each time, such as this one.
    """
    return f"IF(spark_partition_id() < 0, NULL, {image})"


def schema_pos(formats: Iterable[str], *, by_arrival: str) -> str:
    """SQL of where a silver row stands among the schema changes.

    `formats`: those whose snapshots tell where in the log a row was read. `by_arrival`: SQL that is
    true for rows in the order of arrival.
    """
    return f"IF(format IN ({sql_texts(formats)}), {read_at('pos', by_arrival=by_arrival)}, pos)"


def read_at(pos: str, *, by_arrival: str) -> str:
    """SQL of the place in the log at which a change's columns were those that it has.

    A row of a snapshot stands below all that was streamed, but has the columns of the place at
    which it was read. If a schema change stands at the same place of the source's log, the row is
    from before it. `by_arrival`: SQL, as for `schema_pos`.
    """
    epoch, source = f"slice({pos}, {EPOCH}, 1)", f"slice({pos}, {S1}, {STREAM - S1})"
    transport = f"IF({by_arrival}, {transport_part(pos)}, array(0L, 0L, 0L, 0L))"
    read = f"concat({epoch}, array({STREAMED}L), {source}, {transport})"
    return f"IF(element_at({pos}, {PHASE}) = {SNAPSHOT}, {read}, {in_log(pos)})"


def without_early(
    changes: str, unfit: Sequence[tuple[Sequence[str], Pos, str]], *, pos: str = "pos"
) -> str:
    """SQL of the changes, their after images without values that did not have to fit yet, and do
    not.

    `unfit`: the names of a column, the position below which it had another type, and SQL that is
    true for a change whose value does not fit.
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
    """What becomes of each name, in lower case, that some entry concerns. `keys`: of names in keys,
    which are renamed and nothing else. `ages`: the age of an event at each position."""
    found: dict[str, Fate] = {}
    for entry in reversed(lineage) if not keys else ():
        column = brings(entry.change) if entry.hidden else None
        if column is not None:
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
    """By name, the entries that rename or drop it, in order: the entry's number, the name of today
    that it leads to, and the path to there, which is the numbers of the entries that rename it on
    the way, the last first.

    If two paths lead to one name, they tell which column had it first: where they part, it is the
    one whose path ends, or goes on with an earlier entry.
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
            if entry.hidden and column in (brings(entry.change), frees(entry.change))
            if entry.pos >= default.since
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
    """SQL of the entries of a map under today's names, with their ranks; null if the map stays as
    it is."""
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
    """SQL of a map, made of its `_entries`; if two have one name, the one that had it first
    stays."""
    if not found:
        return image
    entries = f"_{image}"
    before = "o -> lower(o.key) = lower(e.key) AND o.rank < e.rank"
    once = f"size(array_distinct(transform({entries}, e -> lower(e.key)))) = size({entries})"
    first = f"filter({entries}, e -> NOT exists({entries}, {before}))"
    pairs = f"transform(IF({once}, {entries}, {first}), e -> struct(e.key, e.value))"
    return f"IF({entries} IS NULL, {image}, map_from_entries({pairs}))"


def _fitting(found: Sequence[Filling]) -> str:
    """SQL of the DEFAULTs, as entries of a map, that the after image must get: those of columns
    that were added later and, in a new row, those of columns that the row does not name."""
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
    # A name that was added twice, without an approved drop between, has the first DEFAULT.
    "ELSE map_from_entries(concat(map_entries(after), filter(_fitting, (d, i) -> "
    "NOT exists(slice(_fitting, 1, i), o -> lower(o.key) = lower(d.key))))) END"
)


def _constant(value: object, type_: str) -> str:
    """SQL of a value as a constant of a Spark type; however large it is, the planner sees one
    literal."""
    text = msgspec.json.encode(value).decode()
    return f"from_json({sql_text(text)}, {sql_text(type_)})"
