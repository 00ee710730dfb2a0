"""Readers of Avro records, written as Python source for one schema and compiled once.

A record of forty fields that is read by forty calls costs three times as much as in one function.
So the function is put together as source: a few lines for each field, in the writer's order, that
move `at` through `data` and set a local variable. Rare types (arrays, maps, larger unions) are read
by `ingest.wire.avro.reader`. Names of a schema stand in the source only as literals, so no schema
can bring code of its own. A length that leads past the end is noticed at the end, where `at` is not
where the data ends.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ingest.wire.avro import reader
from ingest.wire.avro.schema import Type

WHOLE = frozenset(("int", "long"))
_NUMBERS = tuple(n >> 1 ^ -(n & 1) if n < 128 else None for n in range(256))
"""The value of a varint of one byte; None if more bytes follow."""
_DIGITS = tuple(None if n is None else str(n) for n in _NUMBERS)
_SIZES = tuple(-1 if n is None or n < 0 else n for n in _NUMBERS)
_NUMBER = """\
{v} = NUMBERS[data[at]]
if {v} is None:
    {v}, at = {read}(data, at)
else:
    at += 1"""
_DIGIT = """\
{v} = DIGITS[data[at]]
if {v} is None:
    {v}, at = {read}(data, at)
    {v} = str({v})
else:
    at += 1"""
_SPAN = """\
n = SIZES[data[at]]
if n < 0:
    n, at = size(data, at)
else:
    at += 1
end = at + n
{v} = {value}
at = end"""


class Code:
    """The source of one function, and what it refers to."""

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._known: dict[str, Any] = {
            "DIGITS": _DIGITS,
            "NUMBERS": _NUMBERS,
            "SIZES": _SIZES,
            "long": reader.long,
            "int32": reader.int32,
            "size": reader.size,
            "no_branch": _no_branch,
        }

    def add(self, text: str, depth: int) -> None:
        """Lines at a depth of indentation; the function's body is at 1."""
        self._lines += ["    " * depth + line for line in text.splitlines()]

    def name(self, value: Any) -> str:
        """A name by which the source can refer to `value`."""
        name = f"k{len(self._known)}"
        self._known[name] = value
        return name

    def compiled(self, parameters: str) -> Any:
        """The function."""
        text = f"def read({parameters}):\n" + "\n".join(self._lines)
        exec(compile(text, "<avro schema>", "exec"), self._known)
        return self._known["read"]

    def number(self, v: str, kind: str, depth: int, *, digits: bool = False) -> None:
        """An int or long in variable `v`, as a number or its digits."""
        read = "long" if kind == "long" else "int32"
        self.add((_DIGIT if digits else _NUMBER).format(v=v, read=read), depth)

    def span(self, v: str, value: str, depth: int) -> None:
        """A string or bytes in `v`: `value` is an expression of `data[at:end]`."""
        self.add(_SPAN.format(v=v, value=value), depth)

    def call(self, v: str, read: reader.Read, depth: int) -> None:
        """Any value in `v`, read by a reader."""
        self.add(f"{v}, at = {self.name(read)}(data, at)", depth)

    def skip(self, type_: Type, depth: int) -> None:
        """Past one value."""
        if type_.kind in WHOLE:
            self.add("while data[at] > 127:\n    at += 1\nat += 1", depth)
        elif type_.kind == "bytes":
            self.span("_", "None", depth)
        elif type_.kind == "string":
            # A datum counts as a whole or not at all, including the parts that nobody reads.
            self.span("_", "data[at:end].decode()", depth)
        else:
            self.call("_", reader.reader(type_), depth)

    def scalar(self, v: str, type_: Type, depth: int) -> None:
        """A value in `v` as Python has it."""
        if type_.kind in WHOLE:
            self.number(v, type_.kind, depth)
        elif type_.kind == "string":
            self.span(v, "data[at:end].decode()", depth)
        else:
            self.call(v, reader.reader(type_), depth)

    def optional(self, v: str, type_: Type, write: Callable[[Type, int], None]) -> None:
        """A value that may be null; `write` gives the lines of the value itself at a depth."""
        null = null_branch(type_)
        if null is None:
            write(type_, 1)
            return
        # zigzag: branch 0 is the byte 0, branch 1 the byte 2
        there, absent = (2, 0) if null == 0 else (0, 2)
        self.add(f"byte = data[at]\nif byte == {there}:\n    at += 1", 1)
        write(type_.parts[1 - null], 2)
        self.add(f"elif byte == {absent}:\n    at += 1\n    {v} = None", 1)
        self.add("else:\n    no_branch(byte)", 1)


def null_branch(type_: Type) -> int | None:
    """The number of the branch that is null, in a union of null and one other type; None for any
    other type."""
    kinds = [part.kind for part in type_.parts]
    if type_.kind == "union" and len(kinds) == 2 and kinds.count("null") == 1:
        return kinds.index("null")
    return None


def _no_branch(byte: int) -> None:
    raise ValueError(f"expected a branch of a union of two, got the byte {byte}")
