"""Nothing of a message that people are shown works on their terminal; programs get it as it is."""

from __future__ import annotations

import json

import pytest

from ingest.errors import ConfigError, Mistake
from pipelines.cli.app import ingest, main
from pipelines.cli.examples import commands
from pipelines.terminal.console import Console, counted
from pipelines.terminal.layout import Column
from pipelines.terminal.log import JsonLog

HOSTILE = "\x1b]0;owned\x07\x1b[2J\r\u202eabc\u2066\x9b31m"
SHOWN = r"\x1b]0;owned\x07\x1b[2J\r\u202eabc\u2066\x9b31m"


def _printed(capsys: pytest.CaptureFixture[str]) -> str:
    out, err = capsys.readouterr()
    assert all(letter.isprintable() or letter == "\n" for letter in out + err)
    return out + err


def test_a_block_of_fields(capsys: pytest.CaptureFixture[str]) -> None:
    Console(json=False).record({"statement": f"a\n{HOSTILE}", HOSTILE: {HOSTILE: HOSTILE}})
    shown = _printed(capsys)
    assert shown.count(SHOWN) == 4
    # The lines of a text stay lines, below the name of the field.
    assert [line[:1] for line in shown.splitlines()] == ["s", " ", "\\"]


def test_a_long_text_is_broken_between_words_on_a_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    told = {"name": "canal", "options": "a word and another\nlonger-than-a-line/can-ever-be/shown"}
    Console(json=False).record(told)
    assert len(capsys.readouterr().out.splitlines()) == 3
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "29")
    Console(json=False).record(told)
    assert capsys.readouterr().out.splitlines() == [
        "name     canal",
        "options  a word and another",
        "         longer-than-a-line/can-ever-be/shown",
    ]
    monkeypatch.setenv("COLUMNS", "30")
    Console(json=False).record({"options": "a word and another one of them"})
    assert capsys.readouterr().out.splitlines() == [
        "options  a word and another",
        "         one of them",
    ]


def test_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    Console(json=False).rows(
        [HOSTILE, "b"], [[HOSTILE, {HOSTILE: f"a\n{HOSTILE}"}], ["a\nb", None]]
    )
    shown = _printed(capsys)
    assert shown.count(SHOWN) == 4
    assert r"a\nb" in shown


def test_a_table_too_wide_for_the_terminal_is_blocks_of_what_there_is(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "20")
    rows: list[list[str | int | None]] = [
        ["a" * 30, None, ""],
        [None, 0, "b" * 30],
        [None, None, None],
    ]
    Console(json=False).rows(["first", "number", "text"], rows)
    assert capsys.readouterr().out.split("\n\n") == [
        f"first  {'a' * 30}",
        f"number  0\ntext    {'b' * 30}",
        "first",
        "",
    ]


def test_a_number_of_things() -> None:
    assert [counted(n, "rows") for n in (0, 1, 1200)] == ["0 rows", "1 row", "1,200 rows"]
    said = [counted(n, "rows", verb) for n in (1, 2) for verb in ("wait", "are", "have", "were")]
    assert said[:4] == ["1 row waits", "1 row is", "1 row has", "1 row was"]
    assert said[4:] == ["2 rows wait", "2 rows are", "2 rows have", "2 rows were"]


def test_what_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    console = Console(json=False)
    console.say(f"table {HOSTILE}\ntable b is parked")
    console.text(HOSTILE)
    with console.progress(HOSTILE, 1) as advance, console.waiting(HOSTILE):
        advance(f"{HOSTILE}\n", True)
    assert _printed(capsys) == "".join(
        f"{line}\n"
        for line in (
            SHOWN,
            rf"table {SHOWN}\ntable b is parked",
            rf"{SHOWN}: {SHOWN}\n",
        )
    )


def test_mistakes(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> None:
        raise ConfigError([Mistake("a.yml", 1, f"got {HOSTILE}\nb"), Mistake("b.yml", 2, "c")])

    monkeypatch.setattr("pipelines.cli.formats.listed", fail)
    with pytest.raises(SystemExit):
        main(["formats"])
    assert _printed(capsys) == f"a.yml:1: got {SHOWN}\\nb\nb.yml:2: c\n"


def test_programs_get_what_there_is(capsys: pytest.CaptureFixture[str]) -> None:
    Console(json=True).record({HOSTILE: f"{HOSTILE}\n"})
    assert json.loads(capsys.readouterr().out) == {HOSTILE: f"{HOSTILE}\n"}


@pytest.mark.parametrize(
    "text", ["\x9b2J", "\x7f", "a\x85b", "a\u2028b\u2029", "\u202e", "\U000e0041"]
)
def test_a_line_of_json_is_one_line_and_no_terminal_obeys_it(
    text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Programs get the same text; what ends a line or moves a cursor is spelled by its number."""
    Console(json=True).record({text: [text, "tä🌾ble"]})
    JsonLog().line("info", text)
    out, err = capsys.readouterr()
    [record], [line] = map(str.splitlines, (out, err))
    assert record.isprintable() and line.isprintable() and "tä🌾ble" in record
    assert json.loads(record) == {text: [text, "tä🌾ble"]}
    assert json.loads(line)["message"] == text


@pytest.mark.parametrize("formula", ['=HYPERLINK("//x")', "+1+cmd|' /C x'!A0", "-2+3", "@SUM(A1)"])
def test_a_formula_of_a_spreadsheet_stays_what_it_was(
    formula: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing here writes what a spreadsheet opens, so a value is neither quoted nor changed."""
    Console(json=True).record({"note": formula})
    assert json.loads(capsys.readouterr().out) == {"note": formula}
    Console(json=False).table((Column("note"),), [[formula]])
    assert capsys.readouterr().out.splitlines()[2] == formula
    options = [option for _, verb in commands(ingest) for option in verb.params]
    said = " ".join(f"{option.opts} {option.type.to_info_dict()}" for option in options).lower()
    assert not any(word in said for word in ("csv", "tsv", "xls"))
