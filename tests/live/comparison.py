"""A server's rows against those of gold, value by value."""

from __future__ import annotations

import base64
import json
import re
import struct
from collections import Counter
from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Any

from ingest.formats import FORMATS
from tests.live.columns import ColumnKind
from tests.live.connectors import Connector
from tests.live.servers import Server, connect
from tests.live.workload import Table

Row = Mapping[str, Any]
LOST: Mapping[tuple[str, str], str] = {
    ("debezium", "integer[]"): "arrays of several dimensions",
    ("debezium", "bit(70)"): "leading zeros of PostgreSQL's bits",
    ("debezium", "float"): "digits of MySQL's FLOAT",
    ("debezium", "date"): "days that the Gregorian calendar left out",
    ("debezium_avro", "default"): "NULL beside a default",
    ("canal", "varchar(20) character set latin1"): "characters of another set than UTF-8",
}
"""What a connector cannot carry whole: the title that `ingest formats` lists it under."""
_BINARY = ("bytea", "blob", "longblob", "binary", "varbinary")


class Values:
    """How values of one server are read, from itself and from gold, so that equal ones compare."""

    def __init__(self, server: Server) -> None:
        self.postgresql = server.kind == "postgresql"
        self._connection = connect(server)

    def close(self) -> None:
        """Leave the server."""
        self._connection.close()

    def rows(self, table: Table) -> list[Row]:
        """The server's rows, each value as the text that says it whole."""
        names = list(table.columns)
        texts = ", ".join(self._text(name, kind) for name, kind in table.columns.items())
        query = f"SELECT {texts} FROM {table.name}"
        if self.postgresql:
            found = self._connection.execute(query).fetchall()
        else:
            with self._connection.cursor() as cursor:
                cursor.execute(query)
                found = cursor.fetchall()
        return [dict(zip(names, row, strict=True)) for row in found]

    def _text(self, name: str, kind: ColumnKind) -> str:
        if self.postgresql:
            if kind.type.startswith("char("):
                # Its cast to text drops the blanks that the value has.
                return f'rpad("{name}", {kind.type[5:-1]})'
            json_ = kind.compared in ("array", "hstore")
            return f'to_json("{name}")::text' if json_ else f'"{name}"::text'
        plain = kind.type.partition("(")[0]
        if plain in (*_BINARY, "bit"):
            return f"HEX(`{name}`)"
        if kind.compared == "geometry":
            return f"CONCAT(ST_X(`{name}`), ',', ST_Y(`{name}`))"
        if plain == "float":
            # Written as a float it has six digits.
            return f"CAST(CAST(`{name}` AS double) AS char)"
        return f"CAST(`{name}` AS char)"

    def expected(self, kind: ColumnKind, text: str | None) -> Any:
        """What the server's text comes to."""
        type_ = kind.type.partition("(")[0]
        if text is None:
            return None
        if kind.compared in ("array", "hstore"):
            return _leaves(json.loads(text, parse_int=str, parse_float=str))
        if kind.compared == "bits":
            return int(f"0{text}", 2)
        if kind.compared in ("point", "geometry"):
            return tuple(map(float, text.strip("()").split(",")))
        if kind.compared != "value":
            return text
        if type_ in _BINARY:
            return bytes.fromhex(text.removeprefix("\\x"))
        if type_ == "bit":
            number = int(text, 2 if self.postgresql else 16)
            return bool(number) if kind.type == "bit(1)" else number
        if type_ == "boolean":
            return text == "true"
        return self._scalar(type_, text)

    def _scalar(self, type_: str, text: str) -> Any:
        if type_ in ("double precision", "double"):
            return float(text)
        if type_ in ("real", "float"):
            # Of 32 bits: some send as many digits as tell it apart, some its value as 64 bits.
            return struct.unpack("f", struct.pack("f", float(text)))[0]
        if type_.startswith(("time", "date")):
            return _moment(text)
        return Decimal(text) if re.fullmatch(r"-?[0-9.]+(e-?\d+)?", text) else text

    def found(self, kind: ColumnKind, value: Any, *, digits: int = 10) -> Any:
        """What gold's value, as `ingest sql --json` prints it, comes to. `digits`: 2 where bits of
        any number are zeros and ones, 10 where they are a number."""
        type_ = kind.type.partition("(")[0]
        if value is None:
            return None
        if kind.compared in ("array", "hstore"):
            return self._nested(kind, str(value))
        if kind.compared == "bits":
            return int(f"0{value}", digits)
        if kind.compared in ("point", "geometry"):
            return _place(str(value))
        if kind.compared == "cast":
            text = f"CAST(CAST(%s AS {kind.type}) AS text)"
            return self._connection.execute(f"SELECT {text}", (str(value),)).fetchone()[0]
        if kind.compared == "time":
            return _clock(str(value), kind.type)
        if kind.compared == "text":
            return value
        if type_ in _BINARY:
            return base64.b64decode(value)
        if type_ == "bit":
            return value if isinstance(value, bool) else int(value)
        return value if type_ == "boolean" else self._scalar(type_, str(value))

    def _nested(self, kind: ColumnKind, text: str) -> Any:
        """JSON as it is; PostgreSQL's own text as the server reads it."""
        own = kind.compared == "array" or "=>" in text or not text
        if own and not text.startswith("["):
            query = f"SELECT to_json(CAST(%s AS {kind.type}))::text"
            text = self._connection.execute(query, (text,)).fetchone()[0]
        return _leaves(json.loads(text, parse_int=str, parse_float=str))


def differences(
    values: Values,
    connector: Connector,
    table: Table,
    *,
    server: Iterable[Row],
    gold: Iterable[Row],
) -> list[str]:
    """What gold has otherwise than the server, a line for each kind of it; losses are not named."""
    wanted = {_identity(table, row): row for row in server}
    had = {_identity(table, row): row for row in gold}
    found: Counter[str] = Counter()
    digits = 2 if connector.source["format"] == "wal2json" else 10
    for name, keys in (("missing", wanted.keys() - had), ("extra", had.keys() - wanted)):
        if keys:
            found[f"{connector.name}.{table.name}: {name} {sorted(map(str, keys))[:5]}"] = len(keys)
    for key in wanted.keys() & had.keys():
        for name, kind in table.columns.items():
            if _lost(connector, table, name, wanted[key][name]):
                continue
            one = values.expected(kind, wanted[key][name])
            other = values.found(kind, had[key].get(name), digits=digits)
            if one != other:
                said = f"expected {one!r:.80}, got {other!r:.80}"
                found[f"{connector.name}.{table.name}.{name}: {said}"] += 1
    return [f"{text} ({count} times)" for text, count in sorted(found.items())]


def _identity(table: Table, row: Row) -> tuple[str, ...]:
    names = table.key or ("number",)
    return tuple(str(row[name]) for name in names)


def _lost(connector: Connector, table: Table, name: str, text: str | None) -> bool:
    """Whether a value is among what `ingest formats` says that the connector cannot carry."""
    format_, type_ = str(connector.source["format"]), table.columns[name].type
    if text is None:
        # The serializer of this version does not know how to send it.
        title = LOST.get((format_, "default")) if name in table.defaults else None
    else:
        title = LOST.get((format_.removesuffix("_avro"), type_))
    if title is None:
        return False
    assert any(title == loss.what for loss in FORMATS[format_].losses), title
    match title:
        case "arrays of several dimensions":
            return text is not None and text.startswith("[[")
        case "leading zeros of PostgreSQL's bits":
            return text is not None and text.startswith("0")
        case "digits of MySQL's FLOAT":
            return text is not None and float(text) != float(f"{float(text):.6g}")
        case "days that the Gregorian calendar left out":
            return text is not None and "1582-10-05" <= text <= "1582-10-14"
    return True


def _leaves(value: Any) -> Any:
    """Nested values with every scalar as text, and instants in one spelling."""
    if isinstance(value, list):
        return [_leaves(item) for item in value]
    if isinstance(value, dict):
        return {name: _leaves(item) for name, item in value.items()}
    text = value if value is None or isinstance(value, str) else str(value)
    return text.removesuffix("+00:00").removesuffix("Z") if text and "T" in text else text


def _moment(text: str) -> str:
    """A date or time without the zeros at its end; UTC, if it has a zone."""
    text = text.replace(" ", "T").removesuffix("+00").removesuffix("Z")
    whole, point, fraction = text.partition(".")
    digits = fraction.rstrip("0")
    return f"{whole}{point}{digits}" if digits else whole


def _clock(text: str, type_: str) -> str:
    """A time with as many digits behind the point as its type has."""
    digits = int(type_.partition("(")[2].rstrip(")") or 0)
    whole, _, fraction = text.partition(".")
    return f"{whole}.{fraction.ljust(digits, '0')}" if digits else whole


def _place(text: str) -> tuple[float, ...]:
    """A point: PostgreSQL's text, Debezium's struct, or MariaDB's bytes."""
    if text.startswith("("):
        return tuple(map(float, text.strip("()").split(",")))
    # Canal sends the SRID and the WKB as MariaDB keeps them, without a name.
    wkb = (
        base64.b64decode(json.loads(text)["wkb"]) if text[0] == "{" else base64.b64decode(text)[4:]
    )
    return struct.unpack("<dd" if wkb[0] else ">dd", wkb[-16:])
