"""How a person's rows are told from others', and how files are looked through, without Spark."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ingest.config.masks import MaskSecret
from ingest.errors import LeaseHeld, TableError
from ingest.fold.fold import Key
from pipelines.gold.known_targets import KnownTarget
from pipelines.platform.leases import Patience, lease_on_part
from pipelines.privacy import absence, erasure, person, record
from pipelines.privacy.erasure import erase
from pipelines.privacy.person import Move, Person, Row, Span
from pipelines.privacy.record import Erasure, key_hash
from pipelines.privacy.texts import texts_pattern
from tests.support.tables import tables_in

NOBODY: Any = (None, {}, Person([], [], [], []))
"""A history, a key, and what it still has of it."""
TEXT = 'Ada "Canary" Zoë'
COLUMNS: dict[str, pa.Array] = {
    "text": pa.array(["nothing", TEXT]),
    "bytes": pa.array([b"\x00\xff", json.dumps({"name": TEXT}).encode()]),
    "map": pa.array([[("a", "b")], [("name", TEXT)]], pa.map_(pa.string(), pa.string())),
    "key": pa.array([[("a", "b")], [(TEXT, "b")]], pa.map_(pa.string(), pa.string())),
    "list": pa.array([[{"value": b"x"}], [{"value": TEXT.encode()}]]),
    "struct": pa.array([{"a": {"b": None}}, {"a": {"b": TEXT}}]),
}


@pytest.mark.parametrize("column", COLUMNS)
def test_a_text_is_found_in_every_kind_of_cell(tmp_path: Path, column: str) -> None:
    array = COLUMNS[column]
    pattern = texts_pattern([TEXT])
    for name, held, expected in (("with", array, ["some row"]), ("without", array[:1], [])):
        file = tmp_path / f"{name}.parquet"
        pq.write_table(pa.table({"n": pa.array(range(len(held))), column: held}), file)
        assert absence._read(file, pattern) == (len(held), expected)


def test_rows_that_have_a_text_are_named_by_their_message(tmp_path: Path) -> None:
    places: dict[str, list[Any]] = {"topic": ["t", "t", "u"], "partition": [0, 0, 1]}
    held = [[("a", TEXT)], [("a", "b")], [("a", "b"), ("c", TEXT)]]
    column = pa.array([*held], pa.map_(pa.string(), pa.string()))
    file = tmp_path / "some.parquet"
    pq.write_table(pa.table({**places, "offset": [7, 8, 9], "after": column}), file)
    found = ["the message t/0/7", "the message u/1/9"]
    assert absence._read(file, texts_pattern([TEXT])) == (3, found)


@pytest.mark.parametrize(
    ("cell", "held"),
    [
        (b'{"due":12.50}', True),
        (b'{"due":"12.50"}', True),
        (b'{"due":112.50}', False),
        (b'{"due":12.505}', False),
        (b'{"mail":"not-ada@home.example"}', False),
        (b'{"mail":"ada@home.example"}', True),
        (b'{"note":"first\\nada@home.example"}', True),
        (b'{"note":"(ada@home.example)"}', True),
        ('{"note":"张ada@home.example张"}'.encode(), True),
        (b"\x00\x62ada@home.examplex\x02", True),
        (b"", False),
    ],
)
def test_a_text_is_found_where_it_stands_by_itself(cell: bytes, held: bool) -> None:
    texts = texts_pattern(["ada@home.example", "12.50"])
    assert texts is not None and texts.in_bytes(cell) == held


def _by_alternation(texts: list[str]) -> tuple[re.Pattern[bytes], re.Pattern[bytes]]:
    """What the same is by definition: any of the texts, tried at every place."""
    written = {
        form.encode()
        for text in texts
        for form in (text, json.dumps(text)[1:-1], json.dumps(text, ensure_ascii=False)[1:-1])
    }
    any_of = b"|".join(map(re.escape, sorted(written, key=lambda form: (-len(form), form))))
    part = rb"[\w.@+-]"
    before = rb"(?:(?<!" + part + rb")|(?<=\\[bfnrt]))"
    return re.compile(before + b"(?:" + any_of + b")(?!" + part + b")"), re.compile(any_of)


def test_many_texts_are_found_where_each_by_itself_would_be() -> None:
    draw = random.Random(7)
    answers = set()
    for _ in range(3000):
        letters = draw.choice(["ab. ", 'a-@"\\n', "aé张\n", "]^-\\a"])
        texts = ["".join(draw.choices(letters, k=draw.randint(1, 4))) for _ in range(4)]
        cell = "".join(draw.choices(letters, k=draw.randint(0, 12)))
        value = draw.choice([cell, json.dumps(cell), json.dumps({"a": cell})]).encode()
        apart, anywhere = _by_alternation(texts)
        found = texts_pattern(texts)
        assert found is not None
        of_text = value[:64].lstrip()[:1] in (b"{", b"[")
        expected = bool(apart.search(value)), bool((apart if of_text else anywhere).search(value))
        assert (found.in_text(value), found.in_bytes(value)) == expected, (texts, value)
        answers.add(expected)
    assert len(answers) == 3


def test_nothing_to_look_for_is_found_nowhere(tmp_path: Path) -> None:
    file = tmp_path / "some.parquet"
    pq.write_table(pa.table({"text": COLUMNS["text"]}), file)
    assert absence._read(file, texts_pattern([])) == (2, [])


def test_spans_hold_their_ends() -> None:
    spans = [
        Span("t", ("1",), None, None),
        Span("t", ("2",), (0, 5), None),
        Span("t", ("3",), None, (0, 5)),
    ]
    found = {
        (key, pos): person._within(spans, (key,), (0, pos)) for key in "1234" for pos in (4, 5, 6)
    }
    assert [place for place, inside in found.items() if inside] == [
        *(("1", 4), ("1", 5), ("1", 6), ("2", 5), ("2", 6), ("3", 4), ("3", 5)),
    ]


def _move(pos: int, was: str, now: str, *, tx: str | None = None, name: str = "Ada") -> Move:
    change = {"tx": tx or str(pos), "image": {"name": name}, "before": {"name": name}}
    return Move((0, pos), (now,), (was,), change)


CHAIN = [_move(2, "100", "2"), _move(3, "2", "3"), _move(4, "3", "1"), _move(5, "1", "2")]
"""A row that has the key 2 twice."""


def _had(asked: str, moves: Sequence[Move]) -> dict[str, set[int]]:
    """The positions from 0 to 9 at which the person has each key, silver asked for keys."""

    def moves_of(keys: Sequence[Key]) -> list[Move]:
        return [move for move in moves if move.now in keys or move.was in keys]

    spans = person.followed(Span("t", (asked,), None, None), moves_of)
    places = {
        key: {pos for pos in range(10) if person._within(spans, (key,), (0, pos))}
        for key in {span.key[0] for span in spans}
    }
    return {key: held for key, held in places.items() if held}


@pytest.mark.parametrize("asked", ["1", "2", "3", "100"])
def test_a_key_that_the_person_had_twice_is_followed_at_both_times(asked: str) -> None:
    had = _had(asked, CHAIN)
    assert had.keys() == {"1", "2", "3", "100"}
    assert had["100"] >= {0, 1, 2} and had["2"] >= {2, 3, 5, 6, 7, 8, 9}
    assert had["3"] >= {3, 4} and had["1"] >= {4, 5}


def test_who_had_a_key_before_the_person_is_not_followed() -> None:
    moves = [_move(1, "9", "3", name="Bob"), _move(3, "2", "3"), _move(4, "3", "4")]
    assert _had("2", moves) == {"2": set(range(10)), "3": set(range(3, 10)), "4": set(range(4, 10))}


def test_a_long_chain_that_turns_back_is_followed_to_its_ends() -> None:
    moves = [_move(pos, str(pos - 1), str(pos)) for pos in range(1, 40)]
    moves += [_move(40, "39", "20"), _move(41, "20", "50")]
    assert _had("50", moves).keys() >= {str(key) for key in range(10)} - {"10"}


def test_a_key_that_is_passed_on_in_a_transaction_is_anothers() -> None:
    begun: dict[str, Any] = {"tx": "7", "image": {"id": "2", "name": "Ada"}}
    moved: dict[str, Any] = {"tx": "7", "before": {"name": "Bob"}}
    assert person._passed_on(begun, moved)
    assert not person._passed_on(begun, {**moved, "tx": "8"})
    assert not person._passed_on(begun, {**moved, "before": {"name": "Ada"}})
    assert not person._passed_on(None, moved)


def test_relations_of_no_rows_have_their_columns() -> None:
    row = Row(0, "t", 0, 1, 2, mine=True)
    assert person.rows_table([row]).to_pylist() == [
        {"epoch": 0, "topic": "t", "partition": 0, "offset": 1, "row": 2, "mine": True}
    ]
    assert person.rows_table([]).schema == person.rows_table([row]).schema
    assert person.messages_table([]).schema == person.messages_table([row[:4]]).schema
    assert person.spans_table([]).num_rows == 0


@pytest.mark.parametrize(
    ("waiting", "expected"),
    [
        ({"till": 3}, "got till with 3 that wait; run `ingest silver` for them first"),
        ({"till": 3, "shop": 1}, "got 1 that wait; run `ingest silver --source shop` first"),
    ],
)
def test_no_source_of_bronze_may_lag_before_vacuum(
    monkeypatch: pytest.MonkeyPatch, waiting: dict[str, int], expected: str
) -> None:
    monkeypatch.setattr(erasure, "rows", lambda _: list(waiting.items()))
    warehouse: Any = SimpleNamespace(
        name=lambda *names: ".".join(names), session=SimpleNamespace(sql=lambda text: text)
    )
    with pytest.raises(TableError, match=expected):
        erasure._check_decoded(warehouse, "shop", vacuum=True)
    monkeypatch.setattr(erasure, "rows", lambda _: [])
    erasure._check_decoded(warehouse, "shop", vacuum=True)


@pytest.mark.parametrize("source", ["till", "shop"])
def test_no_source_is_read_while_earlier_files_go(tmp_path: Path, source: str) -> None:
    """Of files that a commit is about to name, VACUUM knows nothing."""
    warehouse, target = tables_in(tmp_path), cast(KnownTarget, SimpleNamespace(source="shop"))
    warehouse.patience = Patience(most=0)
    asked: dict[str, Any] = {"key": {"id": "1"}, "reason": None, "confirmed": True}
    with lease_on_part(tables_in(tmp_path), "bronze", source):
        with pytest.raises(LeaseHeld, match=f"bronze/{source} is held by process"):
            erase(warehouse, target, **asked, vacuum=True)


def test_a_proof_that_was_killed_behind_silvers_vacuum_is_one_all_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Nobody can look again for texts that only silver's earlier versions had."""
    noted: list[Erasure] = []
    done: list[str] = []
    kill = [True]

    def vacuum(_: object, layer: str, __: str) -> None:
        done.append(layer)
        if layer == "silver" and kill.pop():
            raise KeyboardInterrupt

    def looked(_: object, __: object, texts: list[str]) -> tuple[int, int, list[str]]:
        done.append(f"looked for {texts}")
        return 4, 9, []

    def write(_: object, row: Erasure) -> Erasure:
        noted.append(row)
        return row

    monkeypatch.setattr(absence, "_vacuum", vacuum)
    monkeypatch.setattr(absence, "_forget_log", lambda *_: None)
    monkeypatch.setattr(absence, "_looked_through", looked)
    monkeypatch.setattr(absence, "_messages_left", lambda *_: [])
    monkeypatch.setattr(absence, "drop_older", lambda *_: [])
    monkeypatch.setattr(absence, "_earlier", lambda *_: set())
    monkeypatch.setattr(record, "write", write)
    history: Any = SimpleNamespace(
        warehouse=SimpleNamespace(local=True, exists=lambda *_: True), target="person"
    )
    erased = Erasure(
        id="1",
        target="person",
        source="shop",
        key_hash="h",
        who="ada",
        at=datetime.now(UTC),
        reason=None,
        status="erased",
    )
    with pytest.raises(KeyboardInterrupt):
        absence.prove(history, [TEXT], erased)
    kill[:] = [False]
    proved = absence.prove(history, erasure._sought(*NOBODY, erasure=noted[-1]), noted[-1])
    assert (proved.status, proved.proof) == ("proved", noted[0].proof)
    assert proved.proof is not None and "9 rows and 1 text of its own" in proved.proof
    assert [what for what in done if "looked" in what] == [f"looked for {[TEXT]}"]
    assert done[-1] == "silver" and len(noted) == 2


def test_the_hash_of_a_key_depends_on_salt_or_secret() -> None:
    key = {"ID": "7"}
    assert key_hash(key, "a", None) == key_hash({"id": "7"}, "a", None)
    assert key_hash(key, "a", None) != key_hash(key, "b", None)
    secret = MaskSecret.of(b"a pepper that nobody guesses")
    assert key_hash(key, "a", secret) == key_hash(key, "b", secret) != key_hash(key, "a", None)
