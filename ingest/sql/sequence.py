"""`sequence_by`: a table ordered by columns of its rows instead of by its source's log.

The columns' values become numbers in front of the eleven of `pos`. So one comparator serves
everywhere, and of two equal values the one that is later in the log is the later. Numbers are
compared as numbers (in text columns too, if the text is a plain number that is not too long), times
as times, and other text byte by byte (its first BYTES). A delete is placed by its before image. A
change without a value, or of a kind that has none (a truncate), has no place: `order_key_missing`.

A change of the key that came in two messages stands where its insert does, which names both keys
and does all of it. The delete has no place of its own: its before image may be the old key alone,
and its values are those from before the change.
"""

from __future__ import annotations

from collections.abc import Iterable

from ingest.errors import TableError
from ingest.position import pos_literal
from ingest.sql.casts import INTEGERS, typed
from ingest.sql.projection import LEAVES_KEY, OrderColumn, Projection
from ingest.sql.quoting import sql_text

BYTES = 42
_LIMB = 7
_NUMBER = "^-?[0-9]{1,20}([.][0-9]{1,18})?$"
_MILLION_MILLION_MILLION = "CAST('1000000000000000000' AS decimal(19,0))"


def numbers(value: str, type_: str, zone: str | None) -> list[str]:
    """SQL of the numbers by which `value` (SQL of canonical text) of `type_` is compared.

    Their count is always the same for one type, and the same for all types that a column may be
    widened to. Raises TableError for types without an exact order.
    """
    found = typed(value, type_, zone)
    if type_ in INTEGERS or type_.startswith("decimal"):
        return _of_number(found)
    if type_ == "timestamp":
        return [f"unix_micros({found})"]
    if type_ in ("timestamp_ntz", "date"):
        wall = f"concat(CAST(CAST({found} AS timestamp_ntz) AS string), 'Z')"
        return [f"unix_micros(CAST({wall} AS timestamp))"]
    if type_ == "string":
        return _of_text(value)
    raise TableError(f"sequence_by: {without_order(type_)}")


def without_order(type_: str) -> str:
    """The sentence on a type without an exact order; empty if the type has one."""
    times_and_text = {"timestamp", "timestamp_ntz", "date", "string"}
    if type_ in INTEGERS | times_and_text or type_.startswith("decimal"):
        return ""
    return (
        f"expected a column of integers, decimals, times or text, got {type_}; give it such a type "
        "in `columns`"
    )


def _of_number(number: str) -> list[str]:
    """The part from 10^18 up, the part below it, and 18 digits of the fraction."""
    whole = f"CAST(floor({number}) AS decimal(38,0))"
    low = f"pmod({whole}, {_MILLION_MILLION_MILLION})"
    fraction = f"CAST({number} - floor({number}) AS decimal(19,18))"
    # Not by way of its text: the session's settings decide whether that has a power of ten.
    digits = f"CAST({fraction} * {_MILLION_MILLION_MILLION} AS bigint)"
    return [
        f"CAST(({whole} - {low}) div {_MILLION_MILLION_MILLION} AS bigint)",
        f"CAST({low} AS bigint)",
        digits,
    ]


def _of_text(text: str) -> list[str]:
    """0 and the numbers of a number, or 1 and the bytes of the text, seven at a time."""
    number = f"({text} RLIKE {sql_text(_NUMBER)})"
    digits = _of_number(f"CAST({text} AS decimal(38,18))")
    limbs = []
    for i in range(BYTES // _LIMB):
        part = f"hex(substring(encode({text}, 'utf-8'), {1 + i * _LIMB}, {_LIMB}))"
        limbs.append(f"CAST(conv(rpad({part}, {2 * _LIMB}, '0'), 16, 10) AS bigint)")
    digits += ["0L"] * (len(limbs) - len(digits))
    return [
        f"IF({text} IS NULL, NULL, IF({number}, 0L, 1L))",
        *(f"IF({number}, {a}, {b})" for a, b in zip(digits, limbs, strict=True)),
    ]


def sequence_position(projection: Projection) -> str:
    """SQL of the `pos` of a silver row by the columns of `projection.sequence`; null if it has
    none."""
    listed, missing = [], ["op = 'truncate'", LEAVES_KEY]
    for column in projection.sequence:
        value = _value(column, pos=projection.schema_pos)
        found = numbers(value, column.type, projection.zone)
        listed += found
        missing.append(f"({found[0]}) IS NULL")
    return (
        f"CASE WHEN {' OR '.join(missing)} THEN CAST(NULL AS array<bigint>) "
        f"ELSE concat(array({', '.join(listed)}), pos) END"
    )


def _value(column: OrderColumn, *, pos: str) -> str:
    """SQL of the text by which a silver row is ordered; `pos`: its place among schema changes."""
    below = "".join(
        f"WHEN {pos} < {pos_literal(until)} THEN {_sent(names)} " for until, names in column.earlier
    )
    now = _sent(column.spellings)
    return f"CASE {below}ELSE {now} END" if below else now


def _sent(names: Iterable[str]) -> str:
    names = [sql_text(name) for name in names]
    after = ", ".join(f"after[{name}]" for name in names)
    before = ", ".join(f"{image}[{name}]" for image in ("before", "key") for name in names)
    return f"IF(op = 'delete', coalesce({before}), coalesce({after}))"


def ordered(projection: Projection, changes: str) -> str:
    """The silver rows `changes`, with `pos` as the table's own order has it; rows without a place
    are left out."""
    if not projection.sequence:
        return changes
    placed = f"SELECT *, {sequence_position(projection)} AS _place FROM ({changes})"
    return f"SELECT * EXCEPT (pos, _place), _place AS pos FROM ({placed}) WHERE _place IS NOT NULL"
