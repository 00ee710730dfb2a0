"""Source column types as the vendors write them, and the Spark type of each (semantics.md, 23)."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import NamedTuple

from ingest.events import ColumnType, Types

_ARGS = re.compile(
    r"""((?>'(?:[^'\\]|''|\\.)*+'|"(?:[^"\\]|""|\\.)*+"|[^)'"])*+)\)([^()]*+)$""", re.DOTALL
)
_MEMBER = re.compile(r"""'((?:[^'\\]|''|\\.)*)'|"((?:[^"\\]|""|\\.)*)\"""", re.DOTALL)
_PARTS = r"(?:year|month|day|hour|minute|second|fraction)"
_QUALIFIED = re.compile(rf"datetime {_PARTS} to {_PARTS}")
_TO_A_CLOCK = re.compile(r"datetime year to (?:hour|minute|second|fraction)")
"""Those that have a day and a time of it."""
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_INT32 = set(
    """
    tinyint smallint mediumint int integer int1 int2 int3 int4 int16 int24 int32 middleint
    smallserial serial2 serial4 year byte short
    """.split()
)
_WHOLE_INT32 = {"int", "integer", "int4", "int32"}
"""Those that have all 32 bits, and without a sign are larger."""
_INT64 = {"bigint", "int64", "int8", "long", "bigserial", "serial8"}
_UNSIGNED = {
    **dict.fromkeys(("uint1", "uint2", "uint8", "uint16", "uint24"), "int"),
    **dict.fromkeys(("uint", "uint4", "uint32"), "bigint"),
    "uint64": "decimal(20,0)",
}
DECIMALS = {"decimal", "numeric", "number", "fixed", "dec", "num"}
"""The names of fixed-point numbers in databases."""
_DOUBLES = {
    "float",
    "double",
    "real",
    "double precision",
    "binary_float",
    "binary_double",
    "float4",
    "float8",
    "float32",
    "float64",
    "smallfloat",
}
_BINARY = {"blob", "tinyblob", "mediumblob", "longblob", "binary", "varbinary", "bytea", "raw"} | {
    "long raw",
    "long varbinary",
    "longvarbinary",
    "image",
    "rowversion",
    "bfile",
    "bytes",
    "binary varying",
    "binary large object",
    *(  # Db2
        f"{text} for bit data"
        for text in "char,character,varchar,long varchar,char varying,character varying".split(",")
    ),
}
_INSTANTS = {
    "timestamptz",
    "timestamp with time zone",
    "timestamp with local time zone",
    "datetimeoffset",
    "zoned_datetime",
    "timestamp_ltz",
    "timestamp_tz",
    "timestamp ltz",
}


class SourceType(NamedTuple):
    """A type taken apart: lower-case `name`, the text of its parentheses, `unsigned`."""

    name: str
    args: str
    unsigned: bool

    @property
    def numbers(self) -> tuple[int, ...]:
        """The arguments if they are integers: precision and scale, or length.

        Oracle's `NUMBER(*,2)` has the highest precision there is, 38.
        """
        parts = [part.strip() for part in self.args.split(",")]
        if len(parts) == 2 and parts[0] == "*":
            parts[0] = "38"
        return tuple(int(part) for part in parts if re.fullmatch(r"-?[0-9]{1,9}", part))

    @property
    def members(self) -> tuple[str, ...]:
        """The labels of an ENUM or SET, in order, without their quotes of either kind; doubled
        quotes, and what MySQL writes with a backslash (`append_unescaped`), are undone."""
        return tuple(
            _unescaped(single.replace("''", "'") or double.replace('""', '"'))
            for single, double in _MEMBER.findall(self.args)
        )


_ESCAPED = {"n": "\n", "r": "\r", "t": "\t", "b": "\b", "0": "\0", "Z": "\x1a"}


def _unescaped(label: str) -> str:
    if "\\" not in label:
        return label
    return _ESCAPE.sub(lambda found: _ESCAPED.get(found[1], found[1]), label)


def with_labels(name: str, labels: Iterable[str]) -> str:
    """An ENUM or SET of these labels as MySQL writes it, so that `members` gives them back."""
    return f"{name}({','.join(map(quoted_label, labels))})"


def quoted_label(label: str) -> str:
    """A label as MySQL writes it."""
    return "'" + label.replace("\\", "\\\\").replace("'", "''") + "'"


@lru_cache(maxsize=4096)
def parse_type(text: str) -> SourceType:
    """A type taken apart: `INT(10) UNSIGNED`, `ENUM('a','b')`, `timestamp(6) with time zone`."""
    name, opened, rest = text.partition("(")
    match = _ARGS.match(rest)
    if opened and match is None:
        return SourceType(text.strip().lower(), "", False)
    args, behind = match.groups() if match is not None and opened else ("", "")
    words = f"{name} {behind}".lower().split()
    unsigned = "unsigned" in words or "zerofill" in words
    drop = {"unsigned", "zerofill", "signed", "auto_increment", "identity"}
    name = " ".join(word for word in words if word not in drop)
    name = name.split(" character set ")[0].split(" collate ")[0].split(" charset ")[0]
    return SourceType(name.removesuffix(" without time zone"), args, unsigned)


def is_qualified_datetime(name: str) -> bool:
    """Whether the name of a type is a DATETIME of Informix: `datetime year to second`."""
    return _QUALIFIED.fullmatch(name) is not None


@lru_cache(maxsize=4096)
def spark_type(source_type: str, family: str = "mysql") -> str:
    """The Spark type of a source type; `family` is mysql, oracle, postgres, sqlserver, db2,
    informix or streamx.

    Spark's own type names map to themselves. A type without an exact Spark type becomes string.
    """
    type_ = parse_type(source_type)
    name = type_.name
    special = _OF_FAMILY.get((family, name))
    if special is not None:
        return special
    if name == "serial":
        return "int" if family in ("postgres", "informix") else "decimal(20,0)"
    if name == "money" and family == "informix":
        return decimal_type((*type_.numbers, *(16, 2)[len(type_.numbers) :]))
    if name in _INT32:
        return "bigint" if type_.unsigned and name in _WHOLE_INT32 else "int"
    if name in _INT64:
        return "decimal(20,0)" if type_.unsigned else "bigint"
    if name in _UNSIGNED:
        return _UNSIGNED[name]
    if name in DECIMALS:
        # Informix's DECIMAL(16) has a floating point, where no scale follows.
        floating = family == "informix" and len(type_.numbers) == 1
        return "string" if floating else decimal_type(type_.numbers)
    if name in _DOUBLES:
        return "double"
    if name == "bit":
        return bits_type(type_)
    if name in {"bool", "boolean"}:
        return "boolean"
    if name == "date":
        return "date"
    zoneless = name == "timestamp" and "without time zone" in " ".join(source_type.lower().split())
    if zoneless or name in {"datetime", "datetime2", "smalldatetime", "timestamp_ntz"}:
        return "timestamp_ntz"
    if is_qualified_datetime(name):
        return "timestamp_ntz" if _TO_A_CLOCK.match(name) else "string"
    if name in _INSTANTS or name == "timestamp":
        return "timestamp"
    return "binary" if name in _BINARY else "string"


def bits_type(type_: SourceType) -> str:
    """The Spark type of `bit(n)` and `bit varying(n)`; string if 20 digits are too few."""
    length = (type_.numbers or ((1,) if type_.name == "bit" else (2**31,)))[0]
    if length == 1 and type_.name == "bit":
        return "boolean"
    return "decimal(20,0)" if length <= 64 else "string"


def decimal_type(numbers: tuple[int, ...]) -> str:
    """`decimal(p,s)` of the declared precision and scale; string if Spark's 38 digits are too few.

    Oracle's negative scale adds digits before the point; its scale above the precision is kept.
    """
    if not numbers:
        return "string"
    precision, scale = numbers[0], numbers[1] if len(numbers) > 1 else 0
    if scale < 0:
        precision, scale = precision - scale, 0
    precision = max(precision, scale)
    return f"decimal({precision},{scale})" if 0 < precision <= 38 else "string"


_OF_FAMILY: dict[tuple[str, str], str] = {
    ("oracle", "date"): "timestamp_ntz",
    ("oracle", "timestamp"): "timestamp_ntz",
    ("oracle", "float"): "string",
    ("oracle", "real"): "string",
    ("oracle", "double precision"): "string",
    ("oracle", "long"): "string",
    # These are other names of NUMBER(38), whatever the SQL standard says of them.
    **{("oracle", name): "decimal(38,0)" for name in ("int", "integer", "smallint")},
    ("postgres", "timestamp"): "timestamp_ntz",
    ("postgres", "bit"): "string",
    ("db2", "timestamp"): "timestamp_ntz",
    ("sqlserver", "timestamp"): "binary",
    ("sqlserver", "bit"): "boolean",
    ("sqlserver", "money"): "decimal(19,4)",
    ("sqlserver", "smallmoney"): "decimal(10,4)",
    ("informix", "byte"): "binary",
    ("streamx", "date"): "timestamp",
}


def family_of(db_type: str | None) -> str:
    """The type family of the database, from what a message calls it (`OB_ORACLE`, `MySQL`,
    `postgresql`)."""
    name = (db_type or "").lower()
    if "oracle" in name:
        return "oracle"
    if "postgres" in name or name in {"pg", "ppas", "edb", "polardb_o"}:
        return "postgres"
    if name.startswith("db2"):
        return "db2"
    return "sqlserver" if "sqlserver" in name or "mssql" in name else "mysql"


def types_of(columns: tuple[ColumnType, ...]) -> Types:
    """The columns with their fingerprint: equal columns in the same order have the same id."""
    import xxhash

    text = "\x1e".join("\x1f".join(column) for column in columns)
    return Types(xxhash.xxh64_hexdigest(text.encode()), columns)
