"""YAML values, the environment in them, and the lines of what is wrong."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingest.config.yaml import parse


@pytest.mark.parametrize(
    ("text", "environ", "expected"),
    [
        ("a: ${X}", {"X": "v"}, "v"),
        ("a: b ${X} ${Y:-d}", {"X": "v"}, "b v d"),
        ("a: '${X}: [1]'", {"X": "{b: c}"}, "{b: c}: [1]"),
        ("a: ${X:-d}", {"X": ""}, "d"),
        ("a: ${X:-}", {}, None),
        ("a: '${X:-}'", {}, ""),
        ("a: ${X:-localhost:9092}", {}, "localhost:9092"),
        ("a: $${X} costs $5", {}, "${X} costs $5"),
        ("a: ${X}", {"X": "123"}, "123"),
        ("a: no", {}, "no"),
        ("a: 12:30", {}, "12:30"),
        ("a: 2024-01-01", {}, "2024-01-01"),
        ("a: 010", {}, "010"),
        ("a: +5", {}, "+5"),
        ("a: 1.10", {}, "1.10"),
        ("a: 10", {}, 10),
        ("a: '10'", {}, "10"),
        ("a: -3", {}, -3),
        ("a: 1.5", {}, 1.5),
        ("a: True", {}, True),
        ("a: ~", {}, None),
        ("a:", {}, None),
        ("a: ''", {}, ""),
        ("a: !!str 12", {}, "12"),
        ("a: !!int 12", {}, 12),
        ("a: !!map {b: !!seq [c]}", {}, {"b": ["c"]}),
        ("a: {'<<': b}", {}, {"<<": "b"}),
        ("a: &x [1, 2]", {}, [1, 2]),
        ("b: &x {c: d}\na: *x", {}, {"c": "d"}),
        ("\ufeffa: b", {}, "b"),
    ],
)
def test_values(text: str, environ: dict[str, str], expected: Any) -> None:
    document, wrong = parse("f.yml", text, environ=environ)
    assert wrong == []
    assert document.value["a"] == expected
    assert type(document.value["a"]) is type(expected)


@pytest.mark.parametrize(
    ("text", "line", "part"),
    [
        ("a: 1\nb: *.cows\n", 2, "must stand in quotes"),
        ("a: 1\nb: {db}_{table}\n", 2, "must stand in quotes"),
        ("a: 1\nb: {c: ${X}}\nd: 2\n", 2, "so must ${NAME} inside { } or [ ]"),
        ("a: 1\nb: [\n", 2, "not YAML: a { or [ is never closed"),
        ("a: 1\nb: {c: 1\nd: 2\n", 2, "not YAML: the { in this line is never closed"),
        ("a: 1\nb: [c,\n  {d: 2\n", 3, "not YAML: the { in this line is never closed"),
        ("a: 1\nb: [c, d\n", 2, "not YAML: the [ in this line is never closed"),
        ("a: 1\nb: 'c\nd: 2\n", 2, "the quote that begins in this line is never closed"),
        ("a: 1\nb: {\n  c: ${X}}\n", 3, "so must ${NAME} inside { } or [ ]"),
        ("a: 1\nb: @c\n", 2, "must stand in quotes"),
        ("a:\n  b: 1\n c: 2\n", 3, "did not find expected key"),
        ("a: 1\nb: c: d\n", 2, "a value with a colon and a space in it must stand in quotes"),
        ("a: 1\n b: 2\n", 2, "the line is indented deeper than the one above it, or that lacks"),
        ("a:1\nb: 2\n", 2, "or that lacks the space behind its colon"),
        (
            "a: 1\nb: {c: enum('d','e')}\n",
            2,
            "a value with quotes in it must stand in quotes itself",
        ),
        ("a: 1\n\tb: 2\n", 2, "not YAML"),
        ("a: 1\n\nb: \x01\n", 3, "not YAML"),
        ("a: 1\n---\nb: 2\n", 2, "expected one document, got another that begins here"),
        ("a: 1\nb: 2\na: 3\n", 3, "`a` is already given on line 1"),
        ("a:\n  - {b: 1}\n  - b: 1\n    b: 2\n", 4, "`b` is already given on line 3"),
        ("a: 1\nb: ${X}\n", 2, "variable X is not set; set it, or give a default: ${X:-default}"),
        ("a: 1\nb: ${X}\n", 2, "default: ${X:-default}; a literal ${ is $${"),
        ('a: 1\nb: "shop\\..*"\n', 2, "put the text between single quotes"),
        ('a: 1\nb: "\\ud83c"\n', 2, "between double quotes a \\ begins an escape"),
        ("a: 1\nb: ${X-1}\n", 2, "expected ${NAME} or ${NAME:-default}"),
        ("a: 1\nb: ${X:-${Y}}\n", 2, "expected ${NAME} or ${NAME:-default}"),
        ("a: 1\nb: !env X\n", 2, "got the tag `!env`; a value that begins with ! must stand in q"),
        ("a: 1\nb: &x [*x]\n", 2, "an anchor that contains itself has no value"),
        ("a: 1\n...\nb: 2\n", 3, "expected one document, got another that begins here"),
        ("a: {b: {c: d(1,2)}}\n", 1, "`a.b.c`: put d(1,2) in quotes"),
        ("a: 1\n{b: 1}: 2\n", 2, "expected a key, got a list or mapping"),
        ("# 订单订单订单\n\n\n\nb: \x01\nc: 1\n", 5, "control characters are not allowed"),
        ("a: 1\nb: \udcff\n", 2, "expected UTF-8 text, got other bytes"),
        ("a: 1\nb: !!binary aGk=\n", 2, "got the tag `!!binary`; a value that begins with ! must"),
        ("a: 1\nb: !!set {c, d}\n", 2, "got the tag `!!set`; a value that begins with ! must"),
        ("a: 1\npassword: !!canary x\n", 2, "got a tag, not shown here"),
        ("a: 1\nb:\n  <<: {c: 1}\n", 3, "`b.<<`: YAML 1.2 has no merge keys"),
        ('a: 1\nb: "${file:/c\\0d}"\n', 2, "expected the path of a file, got a text that is none"),
    ],
)
def test_yaml_that_is_wrong_names_its_line(text: str, line: int, part: str) -> None:
    _, wrong = parse("f.yml", text, environ={})
    assert [(mistake.file, mistake.line) for mistake in wrong] == [("f.yml", line)]
    assert part in wrong[0].text


def test_json_is_yaml() -> None:
    """With all characters as escapes, too, of which those beyond U+FFFF are pairs."""
    value = {"price \U0001f33e": ["\\ud83c", "\U0001f600\\", "\\\\ud83c\\udf3e"]}
    document, wrong = parse("f.yml", json.dumps(value), environ={})
    assert (document.value, wrong) == (value, [])


@pytest.mark.parametrize(
    "text", ["a: [b\n", "a: {b: c\nd: 1\n", "a: 1\n---\nb: 2\n", "a: 'b\n", "a:\n  b: 1\n c: 2\n"]
)
def test_quotes_are_advised_only_where_they_help(text: str) -> None:
    _, [wrong] = parse("f.yml", text, environ={})
    assert "must stand in quotes" not in wrong.text


@given(
    st.lists(
        st.sampled_from(["plain: 1", "list: [a, b]", "map: {x: 1}", "# note", ""]), max_size=8
    ),
    st.integers(0, 8),
)
def test_a_line_is_that_of_its_key_whatever_stands_around(above: list[str], deep: int) -> None:
    lines = [text and f"k{i}{text}" if text[:1] != "#" else text for i, text in enumerate(above)]
    nest = [f"{'  ' * i}n{i}:" for i in range(deep)]
    text = "\n".join([*lines, *nest, f"{'  ' * deep}last: here", "after: 1"])
    document, wrong = parse("f.yml", text, environ={})
    assert wrong == []
    place = (*(f"n{i}" for i in range(deep)), "last")
    assert document.line(place) == len(lines) + deep + 1
    assert document.line((*place, 0, "within")) == len(lines) + deep + 1


@given(st.text(max_size=300))
def test_no_text_is_more_than_a_mistake(text: str) -> None:
    document, wrong = parse("f.yml", text, environ={})
    assert document.parsed or len(wrong) == 1
    lines = len(text.splitlines()) + 1
    assert all(mistake.line is None or 1 <= mistake.line <= lines for mistake in wrong)


def _laughs(levels: int) -> str:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    for level in range(1, levels):
        lines.append(f"a{level}: &a{level} [{', '.join([f'*a{level - 1}'] * 9)}]")
    return "\n".join(lines)


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        (_laughs(9), 6, "at most 200000 values"),
        ("a: 1\nb: " + "[" * 900 + "]" * 900, 2, "at most 50 lists and mappings in each other"),
        ("a: " + "[" * 5_000 + "]" * 5_000, 1, ""),
        ("a: " + "[" * 100_000 + "]" * 100_000, 1, ""),
        ("a: " + "[" * 100_000, 1, ""),
        ("a: " + "{b: " * 100_000 + "}" * 100_000, 1, ""),
        ("\n".join(" " * depth + "a:" for depth in range(2_000)), 50, "at most 50 lists"),
        ("- " * 100_000 + "a", 1, ""),
    ],
    ids=["aliases", "900", "5000", "100000", "open", "mappings", "blocks", "sequences"],
)
def test_a_text_made_to_take_all_memory(text: str, line: int, said: str) -> None:
    document, wrong = parse("a.yml", text, environ={})
    assert not document.parsed
    assert [(mistake.file, mistake.line) for mistake in wrong] == [("a.yml", line)]
    assert said in wrong[0].text and wrong[0].text.startswith("expected at most" if said else "")


def test_aliases_as_people_use_them() -> None:
    text = _laughs(3) + "\nlist: [" + ", ".join(["*a1"] * 100) + "]"
    document, wrong = parse("a.yml", text, environ={})
    assert not wrong and len(document.value["list"]) == 100
    assert parse("a.yml", "a: " + "9" * 5_000, environ={})[0].value == {"a": "9" * 5_000}


def test_a_value_may_stand_in_a_file(tmp_path: Path) -> None:
    held = tmp_path / "password"
    held.write_text("p:'#\nq ${HOME}\r\n")
    document, wrong = parse("f.yml", f"a: x${{file:{held}}}y\n", environ={"HOME": "no"})
    assert (wrong, document.value) == ([], {"a": "xp:'#\nq ${HOME}y"})


def test_a_value_may_stand_in_a_secret_scope() -> None:
    asked = []

    def scopes(scope: str, key: str) -> str:
        asked.append((scope, key))
        return "p:'#${HOME}"

    text = "a: x${secret:kafka-prod/shop.password}y\n"
    document, wrong = parse("f.yml", text, environ={"HOME": "no"}, scopes=scopes)
    assert (wrong, document.value) == ([], {"a": "xp:'#${HOME}y"})
    assert asked == [("kafka-prod", "shop.password")]


def test_a_secret_scope_that_gives_nothing_is_a_mistake() -> None:
    def nothing(scope: str, key: str) -> str:
        raise LookupError("no such scope")

    for scopes, said in ((nothing, "no such scope"), (None, "this platform has no secret scopes")):
        document, [mistake] = parse("f.yml", "a: ${secret:a/b}\n", environ={}, scopes=scopes)
        assert str(mistake) == (
            f"f.yml:1: `${{secret:a/b}}`: expected a secret in the scope a, got: {said}"
        )
        assert document.covers(("a",))
    for text in ("${secret:a}", "${secret:/b}", "${secret:a/}"):
        _, [mistake] = parse("f.yml", f"a: {text}\n", environ={}, scopes=nothing)
        assert "or ${secret:SCOPE/KEY}" in mistake.text


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "expected a file that can be read, got: No such file or directory"),
        (b"canary\xff", "expected UTF-8 text, got other bytes"),
        (b"canary" * 20_000, "expected at most 65,536 bytes, got more"),
    ],
)
def test_a_file_that_holds_no_value_is_a_mistake(
    tmp_path: Path, content: bytes | None, said: str
) -> None:
    held = tmp_path / "password"
    if content is not None:
        held.write_bytes(content)
    for path, expected in ((held, said), (held.name, "expected the whole path of a file")):
        _, [mistake] = parse("f.yml", f"a: ${{file:{path}}}\n", environ={})
        assert expected in mistake.text
        assert "canary" not in mistake.text
