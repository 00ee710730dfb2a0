"""YAML as plain values that still know their lines, so that every mistake can name its own.

The scalars are those of YAML 1.2's core schema: only `true`, `false`, `null`, `~` and numbers are
not text (YAML 1.1 would read a table called `no` as false, and `12:30` as 750). A number that is
not written as it would be printed, like `007` or `1.10`, stays text too: it may be a name, or a
password. `${NAME}` and
`${NAME:-default}` inside a value are taken from the environment after parsing, `${file:PATH}` from
a file, and `${secret:SCOPE/KEY}` from a secret scope of the platform; so their contents can never
change the structure. `$${` stands for a literal `${`. A value that is a single unquoted `${…}` and
turns out empty is null. A number may come from a variable, since numbers are also understood from
text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from ingest.errors import Mistake

Scopes = Callable[[str, str], str]
"""What a platform keeps under a scope and a key; raises LookupError with the reason if there is no
such secret, or if it may not be read."""
Place = tuple[str | int, ...]
"""Keys and list positions that lead to a value: ("tables", 0, "keys")."""

_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_VARIABLE = re.compile(
    r"\$\$\{|\$\{(?:(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?::-(?P<default>[^}]*))?\}|file:(?P<file>[^}]+)\}"
    r"|secret:(?P<scope>[^}/]+)/(?P<key>[^}]+)\})?"
)
_LARGEST_SECRET = 64 * 1024
_DEEPEST = 50
_MOST_VALUES = 200_000
_LONGEST_NUMBER = 300
_INTEGER = re.compile(r"[-+]?[0-9]+")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_WORDS = {"": None, "~": None, "null": None, "Null": None, "NULL": None} | {
    word: word.lower() == "true" for word in ("true", "True", "TRUE", "false", "False", "FALSE")
}
SECRET = re.compile(r"password|secret|token|jaas|webhook|keystore\.key", re.IGNORECASE)
"""Matches the names of options and settings whose values must not be shown."""
_SPECIAL = re.compile(r"(?:^|[:,\[{-])\s+[*&{\[!|>%@`]")
_QUOTED_WITHIN = re.compile(r"\w\(['\"]")
"""A value like `enum('a','b')`, which a comma ends within { } and [ ]."""
_ANOTHER = ("but found another document", "did not find expected <document start>")
_NO_TEXT = "expected UTF-8 text, got other bytes"
_TAGS = frozenset(
    f"tag:yaml.org,2002:{name}"
    for name in "str int float bool null map seq timestamp merge value".split()
)
"""The tags of the core schema, and those that the parser gives to plain texts by YAML 1.1."""
_NO_CHARACTER = "found invalid Unicode character escape code"
_PAIR = re.compile(
    r"(?<!\\)(?P<before>(?:\\\\)*)"
    r"\\u(?P<high>[dD][89abAB][0-9a-fA-F]{2})\\u(?P<low>[dD][c-fC-F][0-9a-fA-F]{2})"
)
_NO_ESCAPE = (
    r"between double quotes a \ begins an escape, and there is none like this one; put the text "
    "between single quotes, where it stands for itself"
)
_NO_MERGE = (
    "YAML 1.2 has no merge keys: write the keys out; what many entries of a tables file share "
    "stands in its `defaults`"
)
_QUOTE_IT = (
    "a value that begins with * & { [ ! | > % @ or a backtick must stand in quotes, "
    "and so must ${NAME} inside { } or [ ]"
)


class Document(NamedTuple):
    """One YAML file: its `value` (dict, list, scalar) and the line, from 1, of every place in it.

    `unresolved` are places whose value is already a mistake; `parsed` False: nothing could be read.
    """

    file: str
    value: Any
    lines: Mapping[Place, int]
    unresolved: frozenset[Place] = frozenset()
    parsed: bool = True

    def line(self, place: Place) -> int | None:
        """The line of `place`, or of the nearest thing around it that is written down."""
        for end in range(len(place), -1, -1):
            if place[:end] in self.lines:
                return self.lines[place[:end]]
        return None

    def covers(self, place: Place) -> bool:
        """Whether `place` is, or lies in, a value already known to be a mistake."""
        return any(place[:end] in self.unresolved for end in range(len(place) + 1))


def read(
    path: Path, *, environ: Mapping[str, str], scopes: Scopes | None = None
) -> tuple[Document, list[Mistake]]:
    """One file, and what is wrong with its YAML; without `scopes` the platform has no secrets."""
    file = str(path)
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        line = path.read_bytes()[: error.start].count(b"\n") + 1
        return _unreadable(file, line, _NO_TEXT)
    except OSError as error:
        return _unreadable(file, None, f"cannot be read: {error.strerror}")
    return parse(file, text, environ=environ, scopes=scopes)


def parse(
    file: str, text: str, *, environ: Mapping[str, str], scopes: Scopes | None = None
) -> tuple[Document, list[Mistake]]:
    """Like `read`, of text already at hand; `file` is only what mistakes call it."""
    try:
        beyond = _beyond(text)
        if beyond is not None:
            return _unreadable(file, *beyond)
        loader = _LOADER(text)
        try:
            node = loader.get_single_node()
        finally:
            loader.dispose()
    except UnicodeEncodeError as error:
        # What is no UTF-8 in a word of the command line.
        return _unreadable(file, text.count("\n", 0, error.start) + 1, _NO_TEXT)
    except yaml.reader.ReaderError as error:
        # The parser in C counts bytes, that in Python characters.
        whole = text if _LOADER is yaml.SafeLoader else text.encode().decode("latin-1")
        line = whole.count("\n", 0, error.position) + 1
        return _unreadable(file, line, f"not YAML: {error.reason}")
    except yaml.MarkedYAMLError as error:
        if error.problem == _NO_CHARACTER and (whole := _PAIR.sub(_paired, text)) != text:
            return parse(file, whole, environ=environ, scopes=scopes)
        return _unreadable(file, *_sentence(error, text.splitlines() or [""]))
    reader = _Reader(file, environ, scopes)
    value = reader.value(node, ()) if node is not None else None
    return Document(file, value, reader.lines, frozenset(reader.unresolved)), reader.mistakes


def _paired(found: re.Match[str]) -> str:
    """The character that a pair of escapes means in JSON, whose texts are YAML too."""
    high, low = int(found["high"], 16), int(found["low"], 16)
    return found["before"] + chr(0x10000 + (high - 0xD800) * 0x400 + low - 0xDC00)


def _sentence(error: yaml.MarkedYAMLError, lines: list[str]) -> tuple[int | None, str]:
    """The line of what the parser met, and the sentence about it."""
    mark, begun = error.problem_mark or error.context_mark, error.context_mark
    if mark is None:
        return None, f"not YAML: {error.problem}"
    # An unclosed bracket or quote is noticed only at the end, after the last line.
    number = min(mark.line + 1, len(lines))
    line = lines[number - 1]
    met = line[mark.column : mark.column + 1] if mark.line < len(lines) else ""
    context = error.context or ""
    if error.problem in _ANOTHER:
        return number, "expected one document, got another that begins here; a file holds one"
    if "\t" in line:
        hint = "there is a tab in this line; YAML is indented by spaces alone"
    elif context == "while parsing a quoted scalar":
        return number, f"not YAML: {_NO_ESCAPE}"
    elif begun is not None and "quoted scalar" in context:
        return begun.line + 1, "not YAML: the quote that begins in this line is never closed"
    elif "flow" in context and not met and (begun is None or begun.line == mark.line):
        return number, "not YAML: a { or [ is never closed"
    elif "flow" in context and met not in tuple("{[") and begun and begun.line < mark.line:
        bracket = "{" if "mapping" in context else "["
        return begun.line + 1, f"not YAML: the {bracket} in this line is never closed"
    elif "mapping values" in (error.problem or ""):
        hint = "a value with a colon and a space in it must stand in quotes"
        if ":" not in line[: mark.column]:
            hint = "the line is indented deeper than the one above it, or that lacks the space "
            hint += "behind its colon"
    elif "flow" in context and _QUOTED_WITHIN.search(line):
        hint = "a value with quotes in it must stand in quotes itself"
    else:
        hint = _QUOTE_IT if _SPECIAL.search(line) or met in tuple("{[") else ""
    problem = " ".join(part for part in (context, error.problem) if part)
    return number, f"not YAML: {problem}" + (f"; {hint}" if hint else "")


def names_a_secret(place: Place) -> bool:
    """Whether the value at this place may be a secret, judging by its key."""
    return any(isinstance(key, str) and SECRET.search(key) for key in place)


def dotted(place: Place) -> str:
    """`tables[0].keys`."""
    text = "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in place)
    return text.removeprefix(".")


def _beyond(text: str) -> tuple[int, str] | None:
    """The line at which the text is nested too deep or multiplied by its aliases, and the sentence.

    Found in the parser's events, one after the other, because nodes are built by recursion.
    """
    sizes: dict[str, int] = {}
    stack: list[tuple[str | None, int]] = [(None, 0)]
    for event in yaml.parse(text, Loader=_LOADER):
        size = 1
        anchor = getattr(event, "anchor", None)
        line = event.start_mark.line + 1 if event.start_mark is not None else 1
        if isinstance(event, yaml.CollectionStartEvent):
            stack.append((anchor, 1))
            if len(stack) > _DEEPEST:
                return line, f"expected at most {_DEEPEST} lists and mappings in each other"
            continue
        if isinstance(event, yaml.CollectionEndEvent):
            anchor, size = stack.pop()
        elif isinstance(event, yaml.AliasEvent):
            size, anchor = sizes.get(str(anchor), 1), None
        elif not isinstance(event, yaml.ScalarEvent):
            continue
        if anchor is not None:
            sizes[anchor] = size
        above, total = stack[-1]
        stack[-1] = above, total + size
        if total + size > _MOST_VALUES:
            return line, f"expected at most {_MOST_VALUES} values, those of aliases (*) counted"
    return None


def kept_secret(scope: str, key: str, scopes: Scopes | None) -> str:
    """What the platform keeps there; raises LookupError with the reason if that is nothing."""
    if scopes is None:
        raise LookupError("this platform has no secret scopes")
    return scopes(scope, key)


def _held(file: str) -> tuple[str, str | None]:
    """The contents of a file with a secret, without the line break at its end, and what is
    wrong."""
    if not file.startswith("/"):
        return "", "expected the whole path of a file, which begins with /"
    if "\0" in file:
        return "", "expected the path of a file, got a text that is none"
    try:
        with open(file, "rb") as opened:
            held = opened.read(_LARGEST_SECRET + 1)
    except OSError as error:
        return "", f"expected a file that can be read, got: {error.strerror}"
    if len(held) > _LARGEST_SECRET:
        return "", f"expected at most {_LARGEST_SECRET:,} bytes, got more"
    try:
        return held.decode().rstrip("\r\n"), None
    except UnicodeDecodeError:
        return "", "expected UTF-8 text, got other bytes"


def _unreadable(file: str, line: int | None, text: str) -> tuple[Document, list[Mistake]]:
    return Document(file, None, {}, parsed=False), [Mistake(file, line, text)]


class _Reader:
    """Turns YAML nodes into values, noting lines and mistakes on the way."""

    def __init__(self, file: str, environ: Mapping[str, str], scopes: Scopes | None) -> None:
        self.file = file
        self.environ = environ
        self.scopes = scopes
        self.lines: dict[Place, int] = {(): 1}
        self.mistakes: list[Mistake] = []
        self.unresolved: set[Place] = set()
        self._open: set[int] = set()

    def value(self, node: Any, place: Place) -> Any:
        if node.tag not in _TAGS:
            written = node.tag.replace("tag:yaml.org,2002:", "!!", 1)
            tag = "a tag, not shown here" if names_a_secret(place) else f"the tag `{written}`"
            wanted = f"expected a plain value, got {tag}; a value that begins with ! must stand in"
            self._wrong(node, f"{wanted} quotes", place)
            return None
        if isinstance(node, yaml.ScalarNode):
            return self._scalar(node, place)
        if id(node) in self._open:
            self._wrong(node, "an anchor that contains itself has no value", place)
            return None
        self._open.add(id(node))
        found = (
            self._mapping(node, place)
            if isinstance(node, yaml.MappingNode)
            else [self._item(item, (*place, i)) for i, item in enumerate(node.value)]
        )
        self._open.discard(id(node))
        return found

    def _item(self, node: Any, place: Place) -> Any:
        self.lines[place] = node.start_mark.line + 1
        return self.value(node, place)

    def _mapping(self, node: Any, place: Place) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for key_node, value_node in node.value:
            if not isinstance(key_node, yaml.ScalarNode):
                self._wrong(key_node, f"expected a key, got a list or mapping; {_QUOTE_IT}")
                continue
            key = str(key_node.value)
            here = (*place, key)
            if key_node.tag.endswith(":merge"):
                self._wrong(key_node, f"`{dotted(here)}`: {_NO_MERGE}", place or here)
                continue
            if key in found:
                self._wrong(key_node, f"`{key}` is already given on line {self.lines[here]}")
                continue
            self.lines[here] = key_node.start_mark.line + 1
            last = next(reversed(found), None)
            found[key] = self.value(value_node, here)
            if last is not None and found[key] is None and self._torn(found[last], key):
                torn = "it" if names_a_secret((*place, last)) else f"{found[last]},{key}"
                text = f"put {torn} in quotes: inside {{ }} a comma ends a value"
                self._wrong(key_node, f"`{dotted((*place, last))}`: {text}", here)
                self.unresolved.add((*place, last))
        return found

    @staticmethod
    def _torn(value: Any, key: str) -> bool:
        """Whether a value and the key after it are one value that its comma tore apart, like
        `decimal(12,2)`."""
        return isinstance(value, str) and bool(
            re.search(r"\([0-9]+$", value) and re.fullmatch(r" *[0-9]+\).*", key)
        )

    def _scalar(self, node: Any, place: Place) -> Any:
        text = self._expand(node, place)
        plain = not node.style  # the C parser says "" of an unquoted scalar, the other None
        if plain and (not node.tag.endswith(":str") or text == ""):
            if text in _WORDS:
                return _WORDS[text]
            if len(text) > _LONGEST_NUMBER:
                return text
            for written, number in ((_INTEGER, int), (_FLOAT, float)):
                if written.fullmatch(text) and str(number(text)) == text:
                    return number(text)
        return text

    def _expand(self, node: Any, place: Place) -> str:
        def variable(found: re.Match[str]) -> str:
            name, default = found["name"], found["default"]
            if found.group(0) == "$${":
                return "${"
            if found["file"] is not None:
                text, wrong = _held(found["file"])
                if wrong is not None:
                    self._wrong(node, f"`{found.group(0)}`: {wrong}", place)
                return text
            if found["scope"] is not None:
                try:
                    return kept_secret(found["scope"], found["key"], self.scopes)
                except LookupError as error:
                    text = f"expected a secret in the scope {found['scope']}, got: {error}"
                    self._wrong(node, f"`{found.group(0)}`: {text}", place)
                    return ""
            if name is None or (default is not None and "${" in default):
                text = (
                    "expected ${NAME} or ${NAME:-default} (or ${file:PATH}, or "
                    "${secret:SCOPE/KEY}; a literal ${ is $${)"
                )
                self._wrong(node, text, place)
                return found.group(0)
            # As in a shell, `:-` also stands in for a variable that is set but empty.
            value = self.environ.get(name)
            if default is not None:
                return value or default
            if value is None:
                text = f"set it, or give a default: ${{{name}:-default}}; a literal ${{ is $${{"
                self._wrong(node, f"the environment variable {name} is not set; {text}", place)
                return found.group(0)
            return value

        return _VARIABLE.sub(variable, node.value)

    def _wrong(self, node: Any, text: str, place: Place | None = None) -> None:
        if place is not None:
            self.unresolved.add(place)
        self.mistakes.append(Mistake(self.file, node.start_mark.line + 1, text))
