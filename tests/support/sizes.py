"""Messages of any size in the shapes that a careless reader takes the square of."""

from __future__ import annotations

import base64
import gc
import json
import time
from collections.abc import Callable
from typing import Any, NamedTuple

from ingest.decode.source import SourceDecoder
from ingest.wire.contract import Message
from tests.support.changes import Change
from tests.support.encoders import WIRES
from tests.support.messages import reader_of
from tests.support.wires import message_of
from tests.support.wires import reader_of as reader_of_wire

_DOC = '{"a": [1, "\\"x\\""]}'
_AMPLE: dict[str, Any] = {"limits": {"ddl_bytes": 2**24, "columns": 2**20}}


class Shape(NamedTuple):
    """`made(size)`: a reader and a message of about that many bytes for it."""

    name: str
    made: Callable[[int], tuple[SourceDecoder, Message]]


def seconds(shape: Shape, size: int, *, rounds: int = 3) -> float:
    """Processor time of reading one message of the shape, the least of some rounds.

    The collector rests meanwhile: it looks through all that the tests before have left, and the
    oftener the more a message allocates.
    """
    best = float("inf")
    for _ in range(rounds):
        reader, message = shape.made(size)
        gc.collect()
        gc.disable()
        began = time.process_time()
        try:
            reader.rows(message)
        finally:
            took = time.process_time() - began
            gc.enable()
        best = min(best, took)
        if best > 0.3:
            break
    return best


def slope(shape: Shape, size: int, *, times: int = 8) -> float:
    """How much dearer a byte of a message is that is `times` as large; 1 is linear.

    What a message costs whatever its size is taken off.
    """
    least = seconds(shape, 1)
    small = max(seconds(shape, size) - least, 1e-6)
    return max(seconds(shape, size * times) - least, 1e-6) / small / times


def _json(name: str, value: Any, **given: Any) -> tuple[SourceDecoder, Message]:
    return _text(name, json.dumps(value), **given)


def _text(name: str, value: str | bytes, **given: Any) -> tuple[SourceDecoder, Message]:
    data = value if isinstance(value, bytes) else value.encode()
    return reader_of(name, **{**_AMPLE, **given}), Message(data, topic="t")


def _wide(wire: str) -> Callable[[int], tuple[SourceDecoder, Message]]:
    def made(size: int) -> tuple[SourceDecoder, Message]:
        columns = {"id": "int", **{f"c{n}": "varchar(200)" for n in range(size // 60 + 1)}}
        row = {name: 1 if name == "id" else "rye" for name in columns}
        before = {**row, "c0": "oats"}
        change = Change("update", columns, before, row, number=1)
        return reader_of_wire(wire, columns, **_AMPLE), message_of(wire, change)

    return made


def _nested(wire: str) -> Callable[[int], tuple[SourceDecoder, Message]]:
    def made(size: int) -> tuple[SourceDecoder, Message]:
        columns = {"id": "int", **{f"c{n}": "json" for n in range(size // 60 + 1)}}
        row = {name: 1 if name == "id" else _DOC for name in columns}
        change = Change("insert", columns, None, row, number=1)
        return reader_of_wire(wire, columns, **_AMPLE), message_of(wire, change)

    return made


def _long(wire: str) -> Callable[[int], tuple[SourceDecoder, Message]]:
    def made(size: int) -> tuple[SourceDecoder, Message]:
        columns = {"id": "int", "note": "text"}
        row = {"id": 1, "note": 'a "quote" \\ \x01 小麦, ' * (size // 22 + 1)}
        change = Change("insert", columns, None, row, number=1)
        return reader_of_wire(wire, columns, **_AMPLE), message_of(wire, change)

    return made


_CANAL = {"database": "farm", "table": "crop", "es": 1_700_000_000_000, "id": 1, "isDdl": False}
_INSERT = {**_CANAL, "type": "INSERT"}
_MAXWELL = {"database": "farm", "table": "crop", "type": "insert", "ts": 1_700_000_000}
_SOURCE = {"connector": "mysql", "db": "farm", "table": "crop", "file": "b.000001", "pos": 4}


def _cut(size: int) -> tuple[SourceDecoder, Message]:
    row = {"id": "1", "doc": json.dumps([_DOC] * (size // 30 + 1))}
    whole = json.dumps({**_INSERT, "data": [row]})
    return _text("canal", whole[: len(whole) * 2 // 3])


def _control(size: int) -> tuple[SourceDecoder, Message]:
    value = json.dumps({**_INSERT, "data": [{"id": "@"}]}).replace("@", "a\t\tb" * (size // 4))
    return _text("canal", value)


def _bits(size: int) -> tuple[SourceDecoder, Message]:
    column = {"name": "a", "type": f"bit({size})", "value": "10" * (size // 2 + 1)}
    return _json(
        "wal2json",
        {"action": "I", "schema": "farm", "table": "crop", "lsn": "0/1", "columns": [column]},
    )


def _decimal(size: int) -> tuple[SourceDecoder, Message]:
    columns = {"farm.crop": {"a": "decimal(65,2)"}}
    data = base64.b64encode(b"\x7b" * min(size, 60_000)).decode()
    return _json(
        "debezium",
        {"op": "c", "source": _SOURCE, "before": None, "after": {"a": data}},
        columns=columns,
        options={"decimal_handling": "precise"},
    )


def _misfit(size: int) -> tuple[SourceDecoder, Message]:
    """Cut inside a text of quotes, behind a member of another type than the format's."""
    return _text("canal", '{"type":5,"sql":"' + '\\"' * (size // 2))


def _document(size: int) -> tuple[SourceDecoder, Message]:
    document = '{"_id": 1, "a": NaN, "b": "' + '\\"' * (size // 2)
    source = {"connector": "mongodb", "db": "farm", "collection": "crop", "ord": 1, "sec": 1}
    return _json("debezium", {"op": "c", "source": source, "after": document})


def _clauses(size: int) -> tuple[SourceDecoder, Message]:
    sql = "ALTER TABLE crop " + ", ".join(f"ADD c{n} int" for n in range(size // 15 + 1))
    return _json("canal", {**_CANAL, "isDdl": True, "type": "ALTER", "sql": sql})


def _emptied(size: int) -> tuple[SourceDecoder, Message]:
    sql = "TRUNCATE TABLE " + ", ".join(f"crop{n}" for n in range(size // 10 + 1))
    return _json("canal", {**_CANAL, "isDdl": True, "type": "TRUNCATE", "sql": sql})


def _statement(opening: str, *, repeated: str, closing: str = "") -> Callable[[int], Any]:
    """Texts of a schema change that empties a table besides, so that they are read at decode;
    `#` is a number."""

    def made(size: int) -> tuple[SourceDecoder, Message]:
        count = size // len(repeated) + 1
        sql = opening + "".join(repeated.replace("#", str(n)) for n in range(count)) + closing
        return _json("canal", {**_CANAL, "isDdl": True, "type": "ALTER", "sql": sql})

    return made


_STATEMENTS: dict[str, tuple[str, str, str]] = {
    "many statements": ("TRUNCATE TABLE a;", "COMMIT;", ""),
    "statements cut off": ("TRUNCATE TABLE a;", "SELECT (((( ;", ""),
    "texts in statements": ("TRUNCATE TABLE a;", "INSERT INTO x VALUES ('a' ;", ""),
    "transactions": ("TRUNCATE TABLE a;", "BEGIN ; ", ""),
    "definers": ("TRUNCATE TABLE a;", "CREATE DEFINER a; ", ""),
    "clauses that cannot be read": (
        "TRUNCATE TABLE a; ALTER TABLE t ",
        "ADD a int x,",
        "ADD b int",
    ),
    "deep parentheses": ("TRUNCATE TABLE a; ALTER TABLE t ADD a int DEFAULT ", "(", ""),
    "comments": ("TRUNCATE TABLE a", " /* a */", ""),
    "comments never closed": ("TRUNCATE TABLE a", " /* a", ""),
    "executable comments": ("TRUNCATE TABLE a", " /*!50003 ", ""),
    "escaped quotes": ("TRUNCATE TABLE a; SET @a = '", "\\'", ""),
    "quotes": ("TRUNCATE TABLE a; SET @a = ", "'a' ", ""),
    "a long list": ("TRUNCATE TABLE a; ALTER TABLE t ADD CHECK (a IN (", "1,", "1))"),
    "one long word": ("TRUNCATE TABLE a; SET @a = ", "a", ""),
    "one long name": ("TRUNCATE TABLE a; DROP TABLE ", "a.", "b"),
    "brackets": ("TRUNCATE TABLE a; EXEC sp_rename '", "[", "', 'b'"),
}


SHAPES: tuple[Shape, ...] = (
    Shape("cut inside a text", _cut),
    Shape("control characters in a text", _control),
    Shape("commas and comments", lambda size: _text("canal", "{" + ", // ,\n" * (size // 7))),
    Shape(
        "rows with nested values",
        lambda size: _json(
            "canal",
            {**_INSERT, "data": [{"id": n, "v": {"a": 1}} for n in range(size // 25 + 1)]},
        ),
    ),
    Shape(
        "columns with nested values",
        lambda size: _json(
            "maxwell", {**_MAXWELL, "data": {f"c{n}": {"a": 1} for n in range(size // 18 + 1)}}
        ),
    ),
    Shape(
        "a name that stands twice",
        lambda size: _text(
            "maxwell",
            json.dumps({**_MAXWELL, "data": {}}).replace(
                "{}}", "{" + '"c":1,' * (size // 6) + '"c":2}}'
            ),
        ),
    ),
    Shape("a long bit string", _bits),
    Shape("a long decimal", _decimal),
    Shape("cut inside a text, behind a misfit", _misfit),
    Shape("a document cut inside a text", _document),
    Shape("a statement of many clauses", _clauses),
    Shape("a statement that empties many tables", _emptied),
    *(
        Shape(f"statements, {name}", _statement(opening, repeated=repeated, closing=closing))
        for name, (opening, repeated, closing) in _STATEMENTS.items()
    ),
    *(Shape(f"wide row, {wire}", _wide(wire)) for wire in WIRES),
    *(Shape(f"nested columns, {wire}", _nested(wire)) for wire in WIRES),
    *(Shape(f"long text, {wire}", _long(wire)) for wire in WIRES),
)
