"""Which type changes keep every value: of a Delta column in place, and of a source column."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ingest.ddl.columns import FIXED_LENGTH, STRIPPED, SYNONYMS
from ingest.ddl.risks import Risk
from ingest.values.source_types import SourceType, parse_type

_INTEGERS = ("tinyint", "smallint", "int", "bigint")
_ALIASES = {
    "byte": "tinyint",
    "short": "smallint",
    "integer": "int",
    "long": "bigint",
    "real": "float",
    "dec": "decimal",
    "numeric": "decimal",
}
NUMBER = re.compile(r"[+-]?([0-9]+)(?:\.([0-9]+))?")
_DECIMAL = re.compile(r"decimal\((\d+),(\d+)\)")
_DECIMAL_MOST = 38
"""Digits of Spark's largest decimal."""
# How much a source type holds, for types that share a Spark type; those of MySQL, in bytes or by
# rank.
_CAPACITY = {
    "tinytext": 255,
    "text": 65_535,
    "mediumtext": 1 << 24,
    "longtext": 1 << 32,
    "tinyblob": 255,
    "blob": 65_535,
    "mediumblob": 1 << 24,
    "longblob": 1 << 32,
    "clob": 1 << 32,
    "nclob": 1 << 32,
    "bytea": 1 << 32,
    "bpchar": 1 << 32,
    "citext": 1 << 32,
    "ntext": 1 << 32,
    "image": 1 << 32,
}
# What other types come to as text, which holds all of them.
_AS_TEXT = {"json": 1 << 30, "jsonb": 1 << 30, "xml": 1 << 30, "uuid": 36, "uniqueidentifier": 36}
_NAMES = {
    "bool": "boolean",
    "numeric": "decimal",
    "dec": "decimal",
    "fixed": "decimal",
    "timestamptz": "timestamp with time zone",
    "timetz": "time with time zone",
}
"""Other names of types, in every database that knows them; all but `bool` of MySQL."""
_UNBOUNDED = {"postgres": ("text", "varchar"), "tsql": ("text",)}
_NATIONAL = {"nchar", "nvarchar", "ntext", "nvarchar2"}
_WHOLE = {
    "tinyint": 1,
    "smallint": 2,
    "mediumint": 3,
    "int": 4,
    "integer": 4,
    "bigint": 8,
    "int1": 1,
    "int2": 2,
    "int3": 3,
    "int4": 4,
    "int8": 8,
    "int16": 2,
    "int24": 3,
    "int32": 4,
    "int64": 8,
    "smallserial": 2,
    "serial": 4,
    "bigserial": 8,
}
_FLOATING = {
    "float": 5,
    "real": 5,
    "binary_float": 5,
    "float4": 5,
    "double": 6,
    "double precision": 6,
    "binary_double": 6,
    "float8": 6,
}
_SINGLE_BITS = 24
_NUMERIC = {*_WHOLE, *_FLOATING, "decimal", "number"}
_ORACLE_BITS = {"float": "126", "double precision": "126", "real": "63"}
"""Oracle's names of numbers of so many bits at most."""
_DIGITS = {1: 3, 2: 5, 3: 8, 4: 10, 8: 20}
"""Bytes of a whole number -> its digits at most."""
_FLOATS = {("mysql", "real"): "double"} | {
    (dialect, "float"): "double" for dialect in ("postgres", "tsql", "db2")
}
# How many digits of a second a type keeps that does not say.
_SECONDS: dict[str | tuple[str, str], int] = {
    "datetime": 0,
    "datetime2": 7,
    "datetimeoffset": 7,
} | {
    (dialect, name): digits
    for dialect, digits in (("mysql", 0), ("oracle", 6), ("postgres", 6), ("tsql", 7), ("db2", 6))
    for name in ("timestamp", "time", "timestamp with time zone", "time with time zone")
}
# Types of one moment, by how many digits of a second they keep; a minute is none of them.
_MOMENTS = {("oracle", "date"): 0, ("tsql", "smalldatetime"): -1, ("tsql", "datetime"): 3}
_LENGTH = re.compile(r"(\d{1,9})\s*([kmg]?)\s*(|char|byte|octets|codeunits\d+)", re.IGNORECASE)
_UNITS = {
    "char": "char",
    "codeunits16": "char",
    "codeunits32": "char",
    "byte": "byte",
    "octets": "byte",
}
_BYTES_MOST = 4
"""Bytes of one character."""
_ROW_MOST = 65_535
"""Bytes of a row of MySQL, and so of a VARCHAR."""
_TEXTS = {"char", "varchar", "varchar2", "nchar", "nvarchar", "nvarchar2", "character"} | {
    "character varying",
    "graphic",
    "vargraphic",
    "binary",
    "varbinary",
    "raw",
    *_CAPACITY,
}


def widens(old: str, new: str) -> bool:
    """Can Delta change the column's type from `old` to the other type `new` in place?

    Delta 4, "Type widening": integers upwards, up to 32 bits also to double; integers to decimals
    of at least 10 (bigint 20) digits before the point; decimals that lose no digit on either side;
    float to double; date to timestamp_ntz.
    """
    if (old, new) in {("float", "double"), ("date", "timestamp_ntz")}:
        return True
    wide, narrow = _DECIMAL.fullmatch(new), _DECIMAL.fullmatch(old)
    if wide is not None:
        digits, scale = int(wide[1]) - int(wide[2]), int(wide[2])
        if narrow is not None:
            return digits >= int(narrow[1]) - int(narrow[2]) and scale >= int(narrow[2])
        return old in _INTEGERS and digits >= (20 if old == "bigint" else 10)
    if new == "double":
        return old in _INTEGERS[:3]
    both = old in _INTEGERS and new in _INTEGERS
    return both and _INTEGERS.index(new) > _INTEGERS.index(old)


def risk_within(before: str | None, after: str, type_: str, *, dialect: str = "mysql") -> Risk:
    """The risk of a source type changing while gold keeps `type_`; `before` None = not known."""
    new = _named(after, dialect)
    if before is None:
        sized = type_ in ("string", "binary") and new.name in _TEXTS
        return "widening" if sized else "none"
    old = _named(before, dialect)
    if (old.name, old.args, old.unsigned) == (new.name, new.args, new.unsigned):
        return "none"
    if old.name == new.name and old.members and new.members:
        longer = new.members[: len(old.members)] == old.members
        return "widening" if longer else "destructive"
    if _beyond(old, new) or repads(before, after, dialect=dialect):
        return "destructive"
    for risk_of in (_risk_of_numbers, _risk_of_texts, _risk_of_moments):
        risk = risk_of(old, new, dialect)
        if risk is not None:
            return risk
    if old.name == new.name:
        return _signed(old, new, _sized(_numbers(old, dialect), _numbers(new, dialect)))
    enumerated = old.name in ("enum", "set") and new.name in _TEXTS
    of_year = old.name == "year" and _WHOLE.get(new.name, 0) >= _WHOLE["smallint"]
    return "widening" if enumerated or of_year else "destructive"


def _risk_of_numbers(old: SourceType, new: SourceType, dialect: str) -> Risk | None:
    """The risk between two whole or two floating-point types; None for other types."""
    for ranks in (_WHOLE, _FLOATING):
        if old.name in ranks and new.name in ranks:
            if ranks is _FLOATING and _rounds(old, new):
                return "destructive"
            return _signed(old, new, _compared(ranks[old.name], ranks[new.name]))
    return None


def _risk_of_texts(old: SourceType, new: SourceType, dialect: str) -> Risk | None:
    """The risk between two types of texts or bytes, by what they can hold; None for other types."""
    if dialect == "tsql" and old.name in _NATIONAL and new.name not in _NATIONAL:
        return "destructive"
    holds, held = _capacity(new, dialect), _capacity(old, dialect)
    held = _AS_TEXT.get(old.name) if held is None else held
    if holds is None or held is None:
        return None
    units = _unit(old, dialect), _unit(new, dialect)
    if units == ("byte", "char") and held == holds:
        return "widening"
    if units == ("char", "byte"):
        held *= _BYTES_MOST
        held = min(held, _ROW_MOST) if dialect == "mysql" else held
    return _compared(held, holds)


def _risk_of_moments(old: SourceType, new: SourceType, dialect: str) -> Risk | None:
    """The risk between two types of dates and times, by the digits of a second that they keep;
    None for other types."""
    keeps, kept = _moment(new, dialect), _moment(old, dialect)
    if keeps is None or kept is None:
        return None
    return "destructive" if _rounds_moment(old, new, dialect) else _compared(kept, keeps)


def _signed(old: SourceType, new: SourceType, risk: Risk) -> Risk:
    """The risk, where numbers may become negative from now on."""
    return "widening" if risk == "none" and old.unsigned != new.unsigned else risk


def cuts(before: str, after: str, *, dialect: str = "mysql") -> bool:
    """Whether the source changes numbers although gold's type of `after` holds those of `before`:
    it cuts off negative ones, or digits for which its own type has no room, or rounds them."""
    return _beyond(_named(before, dialect), _named(after, dialect))


def _beyond(old: SourceType, new: SourceType) -> bool:
    if old.name == "year" and new.name in _FLOATING:
        old = old._replace(name="smallint")
    if new.name == "bit":
        return old.name in _NUMERIC or old.name == "year"
    if old.name not in _NUMERIC or new.name not in _NUMERIC:
        return False
    scale, scale_before = ((*type_.numbers, 0, 0)[1] for type_ in (new, old))
    if scale < min(0, scale_before):
        return True  # rounded to tens or more
    if new.unsigned and not old.unsigned:
        return True
    bytes_before, bytes_now = _WHOLE.get(old.name), _WHOLE.get(new.name)
    if bytes_before is None:
        return False
    if bytes_now is not None:
        return old.unsigned and not new.unsigned and bytes_now <= bytes_before
    if new.name not in _FLOATING:
        return False
    if len(new.numbers) == 2 and new.numbers[0] - new.numbers[1] < _DIGITS[bytes_before]:
        return True
    return _FLOATING[new.name] == _FLOATING["real"] and bytes_before * 8 > _SINGLE_BITS


def repads(before: str, after: str, *, dialect: str = "mysql") -> bool:
    """Whether the source fills the values that it has up to another length, or strips what they
    were filled with; PostgreSQL's bits are filled where the statement casts them.

    Sources: https://dev.mysql.com/doc/refman/8.4/en/binary-varbinary.html;
    https://www.postgresql.org/docs/current/datatype-character.html; SQL Server's CHAR and BINARY,
    Oracle's and Db2's CHAR: blank-padded.
    """
    old, new = _named(before, dialect), _named(after, dialect)
    held, holds = _capacity(old, dialect), _capacity(new, dialect)
    if dialect == "postgres" and old.name == new.name == "bit":
        return (*old.numbers, 1)[0] != (*new.numbers, 1)[0]
    if held is None or holds is None:
        return False
    if dialect == "mysql" and new.name in STRIPPED:
        return old.name not in STRIPPED
    was, is_now = _is_fixed(old, dialect), _is_fixed(new, dialect)
    return (is_now and (not was or held != holds)) or (dialect == "postgres" and was and not is_now)


def _is_fixed(type_: SourceType, dialect: str) -> bool:
    unlimited = type_.name == "bpchar" and not type_.args
    return type_.name in FIXED_LENGTH.get(dialect, ()) and not unlimited


def _rounds(old: SourceType, new: SourceType) -> bool:
    """Whether MySQL rounds values, as to FLOAT(7,4), that it did not round so far."""
    if len(new.numbers) < 2 or len(old.numbers) < 2:
        return len(new.numbers) > max(1, len(old.numbers))
    (all_before, behind_before), (all_now, behind_now) = old.numbers[:2], new.numbers[:2]
    return behind_now < behind_before or all_now - behind_now < all_before - behind_before


def _named(source_type: str, dialect: str) -> SourceType:
    """The type by the name that all its names have, with a decimal's scale and without a width."""
    type_ = parse_type(source_type)
    if not type_.args and (dialect, type_.name) in SYNONYMS:
        synonym = parse_type(SYNONYMS[dialect, type_.name])
        type_ = type_._replace(name=synonym.name, args=synonym.args)
    name = _NAMES.get(type_.name, type_.name).removesuffix(" for bit data")
    if dialect == "oracle" and name in _ORACLE_BITS:
        return type_._replace(name="number of bits", args=type_.args or _ORACLE_BITS[name])
    if name in ("float", "real") and (floating := _floating(name, type_.args, dialect)):
        return type_._replace(name=floating, args="")
    if dialect == "mysql" and name in ("boolean", "year"):
        return type_._replace(name="tinyint" if name == "boolean" else name, args="")
    scaled = name in ("decimal", "number") and re.fullmatch(r"\s*\d+\s*", type_.args)
    return type_._replace(name=name, args=f"{type_.args},0" if scaled else type_.args)


def _floating(name: str, args: str, dialect: str) -> str | None:
    """`real` or `double`, which a database means by FLOAT and REAL; None: it is as it is called.

    Sources: https://dev.mysql.com/doc/refman/8.4/en/floating-point-types.html;
    https://www.postgresql.org/docs/current/datatype-numeric.html#DATATYPE-FLOAT;
    https://learn.microsoft.com/en-us/sql/t-sql/data-types/float-and-real-transact-sql.
    """
    if re.fullmatch(r"\s*\d+\s*", args) and name == "float" and dialect != "oracle":
        return "real" if int(args) <= _SINGLE_BITS else "double"
    return None if args else _FLOATS.get((dialect, name))


def assumed(after: str, type_: str) -> str | None:
    """The most that a number's type, now `after`, can have been if it came as gold's `type_`."""
    name = parse_type(after).name
    return type_ if any(name in ranks and type_ in ranks for ranks in (_WHOLE, _FLOATING)) else None


def _sized(old: tuple[int, ...], new: tuple[int, ...]) -> Risk:
    """The risk of a type getting other arguments; those of another number cannot be compared."""
    if len(old) != len(new) or any(b > a for b, a in zip(old, new, strict=True)):
        return "destructive"
    return _compared(sum(old), sum(new))


def _numbers(type_: SourceType, dialect: str) -> tuple[int, ...]:
    default = _SECONDS.get(type_.name, _SECONDS.get((dialect, type_.name)))
    return type_.numbers or (() if default is None else (default,))


def _moment(type_: SourceType, dialect: str) -> int | None:
    """How many digits of a second Oracle's or SQL Server's type without a zone keeps."""
    if type_.name not in ("timestamp", "datetime2"):
        return _MOMENTS.get((dialect, type_.name))
    return _numbers(type_, dialect)[0] if dialect in ("oracle", "tsql") else None


def _rounds_moment(old: SourceType, new: SourceType, dialect: str) -> bool:
    """Whether SQL Server rounds to or from DATETIME, whose values are thirds of a hundredth of a
    second and shown in thousandths: .005 becomes .007, and .003 in more digits .0033333.

    Sources: https://learn.microsoft.com/en-us/sql/t-sql/data-types/datetime-transact-sql (Rounding
    of datetime fractional second precision); breaking changes of SQL Server 2016, datetime to
    datetime2.
    """
    if dialect != "tsql" or "datetime" not in (old.name, new.name):
        return False
    other = _numbers(new if old.name == "datetime" else old, dialect)
    return other > ((3,) if old.name == "datetime" else (2,))


def _unit(type_: SourceType, dialect: str) -> str:
    """`char` or `byte`, where the length tells, or MySQL does."""
    if dialect == "mysql" and type_.name in _TEXTS:
        return "byte" if type_.name.endswith("text") else "char" if "char" in type_.name else ""
    if dialect == "oracle" and type_.name in _NATIONAL:
        return "char"
    length = _LENGTH.fullmatch(type_.args.strip())
    return _UNITS.get(length[3].lower(), "") if length else ""


def _capacity(type_: SourceType, dialect: str) -> int | None:
    """How much a text or binary type holds; None for other types."""
    if type_.name not in _TEXTS:
        return None
    length = _LENGTH.fullmatch(type_.args.strip())
    if length is not None:
        return int(length[1]) << 10 * " kmg".index(length[2].lower() or " ")
    unbounded = type_.args.strip().lower() == "max" or type_.name.endswith("varying")
    if type_.name in _UNBOUNDED.get(dialect, ()):
        unbounded = True
    if unbounded or (dialect == "oracle" and type_.name == "blob"):
        return 1 << 32
    if dialect == "db2" and type_.name in ("clob", "blob"):
        return 1 << 20
    return _CAPACITY.get(type_.name, 1)


def _compared(old: int, new: int) -> Risk:
    return "none" if old == new else "widening" if new > old else "destructive"


def canonical_type(type_: str) -> str:
    """Spark's own spelling: `Decimal(10, 2)` is `decimal(10,2)`, `long` is `bigint`."""
    name, paren, rest = type_.lower().replace(" ", "").partition("(")
    return _ALIASES.get(name, name) + paren + rest


def outgrown(type_: str, texts: Sequence[str]) -> str | None:
    """The narrowest type to which `type_` widens and that also holds these numbers; None if one of
    them is no plain number, or if there is no such type."""
    numbers = [NUMBER.fullmatch(text) for text in texts]
    decimal = _DECIMAL.fullmatch(canonical_type(type_))
    if (
        not numbers
        or None in numbers
        or (decimal is None and canonical_type(type_) not in _INTEGERS)
    ):
        return None
    digits = max(len(number[1].lstrip("0")) for number in numbers if number)
    scale = max(len((number[2] or "").rstrip("0")) for number in numbers if number)
    if digits + scale > _DECIMAL_MOST:
        return None
    wider = [*_INTEGERS[2:], "decimal(20,0)"]
    if decimal is not None:
        whole, kept = int(decimal[1]) - int(decimal[2]), max(int(decimal[2]), scale)
        wider = [f"decimal({max(whole, digits) + kept},{kept})"]
    elif scale or digits > 19:
        wider = [f"decimal({max(20, digits) + scale},{scale})"]
    values = [int(text) for text in texts] if not scale and decimal is None else []
    for name in wider:
        bits = {"int": 31, "bigint": 63}.get(name)
        held = bits is None or all(-(2**bits) <= value < 2**bits for value in values)
        size = _DECIMAL.fullmatch(name)
        fits = size is None or int(size[1]) <= _DECIMAL_MOST
        if held and fits and widens(canonical_type(type_), name):
            return name
    return None
