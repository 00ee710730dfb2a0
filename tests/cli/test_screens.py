"""Tables for people: how columns share a screen, and what the screens of the verbs are made of."""

from __future__ import annotations

import os
import pty
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from pipelines.cli import screens, status
from pipelines.cli.context import Invocation
from pipelines.operations.listings import DDL, REJECTS
from pipelines.operations.status import SOURCE, TABLE
from pipelines.reporting.states import source_state, table_state
from pipelines.terminal.console import Console
from pipelines.terminal.layout import Column, Kind, Where, lines, shortened, wrapped
from tests.support.project import Project

ROOT = Path(__file__).resolve().parents[2]
COLUMNS = (
    Column("id"),
    Column("state", Kind.STATE),
    Column("count", Kind.COUNT),
    Column("note", Kind.NAME, Where.LEFT_OUT),
    Column("path", Kind.PATH),
    Column("error", Kind.TEXT, Where.BELOW),
)
ROWS = [
    ["1a", "ok", "7", "", "landing/shop/2024/orders.jsonl 0:9", ""],
    ["2b", "parked", "1,200", "aside", "b.jsonl 0:1", "expected an int, got a word that is none"],
]


def drawn(width: int, columns: Any = COLUMNS, rows: Any = ROWS) -> list[str]:
    return ["".join(span.text for span in line) for line in lines(columns, rows, width)]


def test_side_by_side_where_there_is_room() -> None:
    assert drawn(120) == [
        "id   state    count   note    path                                 error",
        "─" * 107,
        "1a   ok           7           landing/shop/2024/orders.jsonl 0:9",
        "2b   parked   1,200   aside   b.jsonl 0:1                          "
        "expected an int, got a word that is none",
    ]


def test_less_room_takes_gaps_then_paths_and_texts_then_columns() -> None:
    assert drawn(94)[2:] == [
        "1a  ok          7         landing/…/orders.jsonl 0:9",
        "2b  parked  1,200  aside  b.jsonl 0:1                 "
        "expected an int, got a word that is none",
    ]
    assert drawn(60)[2:] == [
        "1a  ok          7         landing/shop/2024/orders.jsonl 0:9",
        "2b  parked  1,200  aside  b.jsonl 0:1",
        "    error: expected an int, got a word that is none",
    ]
    assert drawn(46)[2:] == [
        "1a  ok          7         …/orders.jsonl 0:9",
        "2b  parked  1,200  aside  b.jsonl 0:1",
        "    error: expected an int, got a word that",
        "      is none",
    ]
    assert drawn(40)[0] == "id  state   count  path"


def test_what_no_plan_fits_is_blocks() -> None:
    assert drawn(24)[:6] == [
        "id     1a",
        "state  ok",
        "count  7",
        "path   landing/shop/2024/orders.jsonl 0:9",
        "",
        "id     2b",
    ]


def test_values_go_below_their_row() -> None:
    columns = [Column("op"), *(Column(f"c{i}", Kind.TEXT, Where.FOLDED) for i in range(4))]
    rows = [["insert", "a word", "", "10", "x" * 20]]
    assert drawn(40, columns, rows)[2:] == [
        "insert",
        "    c0=a word  c2=10",
        f"      c3={'x' * 20}",
    ]


TEXTS = st.text(st.characters(codec="utf-8", categories=("L", "N")), max_size=20)
SENTENCES = st.lists(TEXTS, max_size=9).map(" ".join)


@given(st.lists(st.tuples(TEXTS, TEXTS, SENTENCES), min_size=1, max_size=5), st.integers(1, 120))
def test_no_name_is_broken_and_no_word_lost(rows: list[tuple[str, ...]], width: int) -> None:
    columns = (Column("name"), Column("n", Kind.COUNT), Column("text", Kind.TEXT, Where.BELOW))
    printed = drawn(width, columns, rows)
    for name, count, text in rows:
        assert any(name in line for line in printed)
        assert any(count in line for line in printed)
        assert all(any(word in line for line in printed) for word in text.split(" "))
    if "─" in "".join(printed):
        longest = max((cell_len(word) for row in rows for word in row[2].split(" ")), default=0)
        assert all(cell_len(line) <= max(width, longest + len("    text: ")) for line in printed)


@given(TEXTS, st.integers(4, 60))
def test_a_path_keeps_its_beginning_and_its_end(path: str, width: int) -> None:
    shorter = shortened(path, width)
    assert cell_len(shorter) <= width or shorter == path
    if shorter != path:
        head, _, tail = shorter.partition("…")
        assert path.startswith(head) and path.endswith(tail)


def test_paths_lose_whole_folders_first() -> None:
    path = "landing/shop/2024/05/orders.jsonl"
    assert shortened(path, 26) == "landing/…/05/orders.jsonl"
    assert shortened(path, 22) == "landing/…/orders.jsonl"
    assert shortened(path, 12) == "land…s.jsonl"


def test_words_stay_whole() -> None:
    assert wrapped("one two three", 7) == ["one two", "three"]
    assert wrapped("a much-longer-word b", 5) == ["a", "much-longer-word", "b"]


def test_ids_are_as_short_as_they_are_alone() -> None:
    one, two, three = "abcdefghij1", "abcdefghij2", "b" * 11
    assert screens.short_ids([one, three]) == {one: "abcdefgh", three: "b" * 8}
    assert screens.short_ids([one, three], [two]) == {one: one, three: "b" * 8}
    assert screens.short_ids([one], [one[:9]]) == {one: one[:10]}


def test_a_table_that_waits_says_how_often_it_is_merged_and_when_next() -> None:
    at = datetime(2024, 3, 5, tzinfo=UTC)
    table = dict.fromkeys(TABLE) | {
        "freshness": at,
        "masks": [],
        "merge_every": "1 hour | 9 events",
    }
    table |= dict.fromkeys(("rows", "late", "rejected", "pending_ddl", "rows_of_old_epochs"), 0)
    rows = [
        table | {"table": "a", "next_merge": None},
        table | {"table": "b", "next_merge": at + timedelta(minutes=3, seconds=9)},
        table | {"table": "c", "next_merge": at},
        table | {"table": "d", "merge_every": None},
    ]
    [merged] = [
        column.cells
        for column in screens.tables(rows, now=at, verbose=False)
        if column.column.name == "merged"
    ]
    assert merged == [
        "every 1 hour | 9 events",
        "every 1 hour | 9 events, next in 3 min",
        "every 1 hour | 9 events, now due",
        "",
    ]


def test_positions_and_whole_names_are_for_who_asks() -> None:
    at, pos = datetime(2024, 3, 5, tzinfo=UTC), [0, 1, 3, 0, 0, 0, 0, 3, 3, 0, 1]
    long, id_ = "landing/" + "of/a/folder/" * 9 + "orders.jsonl", "3298ecef" * 4
    table = dict.fromkeys(TABLE) | {"table": "t", "freshness": at, "last_pos": pos, "masks": []}
    table |= dict.fromkeys(("rows", "late", "rejected", "pending_ddl", "rows_of_old_epochs"), 7)
    change = dict.fromkeys(DDL) | {"id": id_, "table": "t", "pos": pos, "why": "no reason"}
    change["status"] = "pending"
    reject = dict.fromkeys(REJECTS) | {"id": id_, "topic": long, "partition": 0, "offset": 9}
    made: dict[str, Callable[[bool], Any]] = {
        "status": lambda verbose: screens.tables([table], now=at, verbose=verbose),
        "ddl": lambda verbose: screens.schema_changes([change], [], verbose=verbose),
        "rejects": lambda verbose: screens.rejects([reject], [], verbose=verbose),
    }
    asked_for = {"status": [str(pos).replace(" ", ""), "2024-03-05T00:00:00Z"], "rejects": [long]}
    asked_for["ddl"] = [id_, str(pos).replace(" ", ""), "no reason"]
    for verb, shown in made.items():
        for verbose in (False, True):
            columns = shown(verbose)
            texts = [column.cells for column in columns]
            rows = [list(row) for row in zip(*texts, strict=True)]
            printed = "\n".join(drawn(80, [column.column for column in columns], rows))
            found = [text in printed for text in asked_for[verb]]
            assert found == [verbose] * len(found), (verb, printed)


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        *((-5, "0 s"), (59, "59 s"), (60, "1 min"), (3599, "59 min"), (7200, "2 h")),
        *(
            (172_800, "2 d"),
            (729 * 86_400, "729 d"),
            (730 * 86_400, "2 y"),
            (3_700 * 86_400, "10 y"),
        ),
    ],
)
def test_ages(seconds: int, said: str) -> None:
    now = datetime(2024, 3, 5, tzinfo=UTC)
    then = datetime.fromtimestamp(now.timestamp() - seconds, UTC)
    assert screens.behind(then, now) == f"{said} behind"
    assert screens.behind(None, now) == ""


@pytest.mark.parametrize(
    ("row", "state"),
    [
        ({}, "ok"),
        ({"parked": True}, "parked"),
        ({"pending_ddl": 2, "rejected": 1200}, "2 pending, 1,200 rejected"),
    ],
)
def test_one_state_says_what_is_the_matter(row: dict[str, Any], state: str) -> None:
    nothing = {"parked": False, "pending_ddl": 0, "rejected": 0}
    assert table_state({**nothing, **row}) == state


@pytest.mark.parametrize(
    ("row", "state"),
    [
        ({}, "ok"),
        ({"rejects": 8}, "ok"),
        # Of messages that bronze has no more, or of many rows of one.
        ({"rejects": 10, "messages": 3}, "ok"),
        ({"lag": 1}, "behind"),
        ({"unread_messages": 1}, "behind"),
        ({"rejects": 9, "decoded_rows": 0}, "all rejected"),
        ({"rejects": 5, "messages": 0, "decoded_rows": 0}, "all rejected"),
        ({"rejects": 9, "decoded_rows": 0, "lag": 1}, "all rejected, behind"),
        ({"messages": 0, "decoded_rows": 0}, "ok"),
        ({"error": "there is no landing", "lag": 1, "gaps": 1}, "failing"),
        ({"gaps": 1}, "1 gap"),
        ({"gaps": 1200, "lag": 1}, "1,200 gaps, behind"),
        ({"gaps": 1, "rejects": 9, "decoded_rows": 0}, "all rejected, 1 gap"),
    ],
)
def test_a_source_that_lacks_messages_is_not_well(row: dict[str, Any], state: str) -> None:
    nothing = {"messages": 9, "lag": 0, "unread_files": 0, "unread_messages": None, "rejects": 0}
    nothing |= {"decoded_rows": 1}
    assert source_state({**nothing, "gaps": 0, "error": None, **row}) == state


def test_colours_mean_a_state_and_only_a_terminal_gets_them(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    columns = (Column("state", Kind.STATE), Column("name"))
    states = ["ok", "1 pending", "parked", "2 rejected", "fine", "1 gap", "2 gaps, behind"]

    def printed() -> list[str]:
        Console(json=False).table(columns, [[state, "parked"] for state in states])
        return capsys.readouterr().out.splitlines()[2:-1]

    assert not any("\x1b" in line for line in printed())
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    assert [re.findall(r"\x1b\[(\d+)m", line) for line in printed()] == [
        *(["32", "0"], ["33", "0"], ["31", "0"], ["35", "0"], [], ["31", "0"], ["31", "0"]),
    ]
    for name, value in (("NO_COLOR", "1"), ("TERM", "dumb")):
        with monkeypatch.context() as patch:
            patch.setenv(name, value)
            assert not any("\x1b" in line for line in printed())


@pytest.mark.parametrize("width", [80, 120, 200])
def test_prose_is_wrapped_on_a_real_terminal(width: int) -> None:
    """Every format's page, as a terminal of that width gets it: no line is longer, no word cut."""
    shown = terminal(["formats", "debezium"], width, {"NO_COLOR": "1"})
    whole = terminal(["formats", "debezium"], 10_000, {"NO_COLOR": "1"})
    assert "\x1b" not in shown
    assert all(len(line) <= width or len(line.split()) == 1 for line in shown.splitlines())
    assert shown.split() == whole.split()
    assert all(line.startswith(" " * 14) for line in shown.splitlines() if line[0] == " ")
    assert "\x1b[1m" in terminal(["formats"], width, {})


def terminal(words: list[str], width: int, environ: dict[str, str]) -> str:
    """What the command prints on a terminal of its own."""
    ours, theirs = pty.openpty()
    program = "import sys; from pipelines.cli.app import main; main(sys.argv[1:])"
    kept = {name: value for name, value in os.environ.items() if name != "NO_COLOR"}
    done = subprocess.Popen(
        [sys.executable, "-c", program, *words],
        stdout=theirs,
        stderr=theirs,
        env={**kept, "PYTHONPATH": str(ROOT), "TERM": "xterm", "COLUMNS": str(width), **environ},
    )
    os.close(theirs)
    printed = b""
    try:
        while part := os.read(ours, 65536):
            printed += part
    except OSError:
        pass  # the other side is closed
    finally:
        os.close(ours)
    assert done.wait() == 0, printed
    return printed.decode().replace("\r\n", "\n")


def test_status_is_watched_until_a_signal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    looks = 0
    source = dict(zip(SOURCE, ("source", "shop", 3, *[0] * 8, None), strict=True))

    def look(_: Any) -> status.Status:
        nonlocal looks
        looks += 1
        if looks == 3:
            os.kill(os.getpid(), signal.SIGINT)
        return status.Status([source], [], [], False)

    monkeypatch.setattr(status, "_look", look)
    monkeypatch.setattr(Invocation, "warehouse", None)
    monkeypatch.setattr("pipelines.platform.signals.Stop.wait", lambda *_: None)
    project = Project(tmp_path, capsys.readouterr)
    before = signal.getsignal(signal.SIGINT)
    answer = project.ingest("status", "--watch", "--interval", "1")
    assert (answer.code, answer.err) == (0, "")
    assert answer.out.count("shop     ok             3") == looks - 1 == 2
    assert signal.getsignal(signal.SIGINT) is before
    assert project.ingest("status", "--interval", "2").code == 2
    assert project.ingest("status", "--watch", "--interval", "0.1").code == 2


def test_a_low_terminal_is_watched_for_what_needs_someone() -> None:
    row = dict.fromkeys(TABLE) | {"pending_ddl": 0, "rejected": 0}
    tables = [{**row, "table": f"t{n}", "parked": n == 30} for n in range(40)]
    fitted = status._fitted(status.Status([], tables, [], False), 20)
    assert [table["table"] for table in fitted.tables][:2] == ["t30", "t0"]
    assert fitted.notes == ["and 30 more tables, 30 of them ok; a higher terminal shows them"]
