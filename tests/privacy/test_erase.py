"""A person is taken out of every table, nobody else is, and nothing brings the person back."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from ingest.config.masks import MaskSecret
from pipelines.platform.warehouse import Warehouse
from pipelines.privacy import record
from pipelines.privacy.record import Erasure
from tests.operations.test_masks import PEPPER, held, rows
from tests.support.project import Project, canal

pytestmark = pytest.mark.usefixtures("spark")

SOURCE = "name: shop\nformat: canal\nfiles: {path: 'landing/*.jsonl'}\n"
TABLES = "source: shop\ntables:\n  - {from: '*', target: '{table}'%s}\n"
TYPES = {"id": "int", "name": "varchar(40)", "mail": "varchar(40)", "due": "decimal(12,2)"}
CANARIES = ("Ada Canary", "ada@home.example", "ada@work.example", "no number of hers", "Ada Late")
T0 = 1_700_000_000_000


def several(
    type_: str,
    data: Sequence[Mapping[str, str | None]],
    at: int,
    old: Sequence[Mapping[str, str | None]] | None = None,
) -> dict[str, Any]:
    """One message of Canal with several rows."""
    message = canal("person", type_, {}, es=T0 + at, id_=at, types=TYPES)
    return {**message, "data": list(data), "old": list(old) if old else None}


def person(id_: int, name: str, mail: str, due: str = "1.00") -> dict[str, str]:
    return {"id": str(id_), "name": name, "mail": mail, "due": due}


ADA = person(1, "Ada Canary", "ada@home.example")
BOB, EVE = person(2, "Bob Neighbour", "bob@home.example"), person(3, "Eve Near", "eve@home.example")
DAYS = (
    [
        several("INSERT", [ADA, BOB, EVE], 1),
        several("UPDATE", [{**ADA, "mail": "ada@work.example"}], 2, [{"mail": ADA["mail"]}]),
        # Her key changes, and its old one is somebody else's message later on.
        several(
            "UPDATE", [{**ADA, "id": "7"}, {**BOB, "due": "2.00"}], 3, [{"id": "1"}, {"due": "1"}]
        ),
    ],
    [
        several("UPDATE", [{**ADA, "id": "7", "due": "no number of hers"}], 4, [{"due": "1.00"}]),
        several("DELETE", [EVE], 5),
        several("INSERT", [person(4, "Zoe Last", "zoe@home.example")], 6),
    ],
)
HERS = {(1, 0), (2, 0), (3, 0), (4, 0)}
"""Her rows, by the number of their message and the row in it."""
MODES = {
    "rows": "",
    "versions, masked": ", stored_as_scd_type: 2, columns: {id: {mask: hash, type: int}, "
    "mail: {mask: tokens}}",
}


@pytest.fixture
def project(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Project:
    monkeypatch.setenv("MASK_PEPPER", PEPPER)
    project = Project(tmp_path, capsys.readouterr)
    project.write("conf/ingest.yml", "mask_secret: env:MASK_PEPPER\n")
    project.write("conf/sources/shop.yml", SOURCE)
    return project


def played(project: Project, mode: str) -> None:
    project.write("conf/tables/shop.yml", TABLES % MODES[mode])
    for number, day in enumerate(DAYS):
        project.land(f"{number}.jsonl", day)
        answer = project.ingest("run")
        assert answer.code == 0, answer.err


def gold(project: Project) -> list[str]:
    found = rows(project, "SELECT * FROM gold.person")
    return sorted(json.dumps(row, sort_keys=True) for row in found)


def silver(project: Project) -> list[dict[str, Any]]:
    return rows(project, "SELECT * FROM silver.changes ORDER BY id, `row`")


def right(project: Project, expected: list[str]) -> None:
    """Gold is as expected, and so is what is made anew of silver and bronze."""
    assert gold(project) == expected
    for words in (["reconcile", "person"], ["rebuild", "person"], ["redecode", "--source", "shop"]):
        answer = project.ingest(*words)
        assert answer.code == 0, answer.err
        assert gold(project) == expected


def quoted_in_sentences(project: Project, spark: SparkSession) -> None:
    """What failed once had something of hers."""
    gold = project.folder / "warehouse" / "gold"
    said = f"status = 'parked', error = 'expected decimal(12,2), got {CANARIES[3]}'"
    spark.sql(f"UPDATE delta.`{gold}/_progress` SET {said} WHERE target = 'person'")
    said = "errors = array('expected one source table to have key (7) of person')"
    spark.sql(f"UPDATE delta.`{gold}/_runs` SET {said}")


@pytest.mark.parametrize("mode", [pytest.param("rows", marks=pytest.mark.slow), "versions, masked"])
def test_a_person_is_gone_and_neighbours_are_whole(
    project: Project, mode: str, spark: SparkSession
) -> None:
    played(project, mode)
    quoted_in_sentences(project, spark)
    before, changes = gold(project), silver(project)
    key = MaskSecret.of(PEPPER.encode()).digest
    asked = {"1", "7"} if mode == "rows" else {key("1"), key("7")}
    others = [row for row in before if str(json.loads(row)["id"]) not in asked]
    kept = [row for row in changes if (int(row["id"]), row["row"]) not in HERS]
    assert len(kept) < len(changes) and len(others) < len(before)

    table = f"delta.`{project.folder}/warehouse/gold/person`"
    spark.sql(f"ALTER TABLE {table} SET TBLPROPERTIES (delta.checkpointInterval = '7')")
    asking = ("erase", "person", "--key", "id=7", "--reason", "she asked")
    answer = project.ingest("--json", *asking)
    assert answer.code == 2 and "nothing was touched" in answer.err
    counts = {record["what"]: record["rows"] for record in answer.records}
    assert counts == {
        "gold.person": len(before) - len(others),
        **{"gold._rejects": 1, "silver.cdc": 4, "bronze.messages": 4},
    }
    assert (gold(project), silver(project)) == (before, changes)

    done = project.ingest(*asking, "--yes", "--vacuum")
    assert done.code == 0, done.err
    assert "what stays: 3 changes of others that came in those messages" in done.err
    assert "is proved; looked through after VACUUM: 4 messages in none of bronze" in done.err
    assert silver(project) == kept
    held_every = spark.sql(f"SHOW TBLPROPERTIES {table} ('delta.checkpointInterval')").first()
    assert held_every is not None and held_every["value"] == "7"
    left = held(project.folder / "warehouse")
    assert [text for text in CANARIES if text in left] == []
    sentences = rows(project, "SELECT error FROM gold._progress WHERE error IS NOT NULL")
    sentences += rows(project, "SELECT errors[0] AS error FROM gold._runs WHERE size(errors) > 0")
    assert len(sentences) > 2
    for row in sentences:
        assert row["error"].startswith("what was said here had a value of a person who was erased")
    [erasure] = rows(project, "SELECT * FROM gold._erasures")
    assert (erasure["status"], erasure["target"], erasure["reason"]) == (
        *("proved", "person", "she asked"),
    )
    assert (erasure["silver"], erasure["bronze"], len(erasure["key_hash"])) == (4, 4, 64)

    right(project, others)
    [third] = [row["pos"] for row in changes if (row["id"], row["row"]) == ("3", 1)]
    past = project.ingest("--json", "as-of", "person", "--pos", json.dumps(third)).records
    assert [text for text in CANARIES if text in str(past)] == []
    assert {row["name"] for row in past} == {"Bob Neighbour", "Eve Near"}
    again = project.ingest(*asking, "--yes")
    assert (again.code, "nothing of that key" in again.err) == (0, True)

    # What comes later under her key is a new person's.
    project.land("9.jsonl", [several("INSERT", [person(7, "Ida New", "ida@home.example")], 9)])
    assert project.ingest("run").code == 0
    assert sorted(json.loads(row)["name"] for row in set(gold(project)) - set(others)) == [
        "Ida New"
    ]
    assert project.ingest("reconcile", "person").code == 0


@pytest.mark.slow
def test_an_erasure_that_was_cut_short_is_finished(
    project: Project, monkeypatch: pytest.MonkeyPatch, spark: SparkSession
) -> None:
    played(project, "rows")
    # What could not be decoded and has a text of hers is told by its message in bronze alone.
    kim = several("INSERT", [person(5, "Kim Sound", "kim@home.example")], 8)
    project.land("8.jsonl", [kim, json.dumps(several("INSERT", [ADA], 9))[:-1]])
    assert project.ingest("run").code == 0
    others = [row for row in gold(project) if json.loads(row)["id"] not in (1, 7)]
    execute = Warehouse.execute

    def cut(self: Warehouse, statement: str) -> Any:
        if statement.startswith("MERGE") and "`silver`" in statement.partition("USING")[0]:
            raise RuntimeError("the process was killed")
        if "/silver/cdc` s USING" in statement:
            raise RuntimeError("the process was killed")
        return execute(self, statement)

    asking = ("erase", "person", "--key", "id=1", "--yes")
    with monkeypatch.context() as patch:
        patch.setattr(Warehouse, "execute", cut)
        assert project.ingest(*asking).code == 1
    [erasure] = rows(project, "SELECT status FROM gold._erasures")
    assert erasure == {"status": "begun"}
    assert project.ingest("run").code == 0

    # All went, and nobody came to say so.
    with monkeypatch.context() as patch:
        patch.setattr(record, "write", _all_but("erased"))
        assert project.ingest(*asking).code == 1
    [reject] = rows(project, "SELECT value, error FROM silver.cdc WHERE kind = 'reject'")
    assert reject["value"] is None and "held a person who was erased" in reject["error"]
    done = project.ingest(*asking)
    assert done.code == 0, done.err
    assert "is erased; earlier versions of the tables still have it" in done.err
    # What a killed command has set down goes too.
    scratch = project.folder / "warehouse" / "silver" / "_scratch_20200102030405_0"
    project.write("names.csv", f"name\n{CANARIES[0]}\n")
    names = spark.read.csv(str(project.folder / "names.csv"), header=True)
    names.write.format("delta").save(str(scratch))
    done = project.ingest(*asking, "--vacuum")
    assert "is proved" in done.err, done.err
    assert not scratch.exists()
    [erasure] = rows(project, "SELECT status, bronze, silver FROM gold._erasures")
    assert erasure == {"status": "proved", "bronze": 5, "silver": 4}
    left = held(project.folder / "warehouse")
    assert [text for text in CANARIES if text in left] == []
    right(project, others)


def _all_but(status: str) -> Callable[[Warehouse, Erasure], Erasure]:
    """What writes a record, and is killed before it says this."""
    write = record.write

    def written(warehouse: Warehouse, erasure: Erasure) -> Erasure:
        if erasure.status == status:
            raise RuntimeError("the process was killed")
        return write(warehouse, erasure)

    return written


@pytest.mark.slow
def test_a_proof_looks_for_the_texts_of_rows_that_are_gone(
    project: Project, spark: SparkSession
) -> None:
    project.write("conf/tables/shop.yml", TABLES % "")
    broken = json.dumps(several("INSERT", [ADA], 2))[:-1]
    project.land("0.jsonl", [several("INSERT", [ADA, BOB], 1), broken])
    assert project.ingest("run").code == 0
    asking = ("erase", "person", "--yes", "--key")
    assert project.ingest(*asking, "id=1").code == 0
    # What could not be decoded and has a text of hers loses its bytes as well.
    [reject] = rows(project, "SELECT value, error FROM silver.cdc WHERE kind = 'reject'")
    assert reject["value"] is None and "held a person who was erased" in reject["error"]
    project.land("1.jsonl", [several("INSERT", [{**EVE, "name": f"of {ADA['mail']}"}], 3)])
    assert project.ingest("run").code == 0
    for _ in range(2):
        answer = project.ingest(*asking, "id=1", "--vacuum")
        assert answer.code == 1 and "a text of its own in silver.cdc" in answer.err, answer.err
        assert "1.jsonl" in answer.err
    assert project.ingest(*asking, "id=3").code == 0
    answer = project.ingest(*asking, "id=1", "--vacuum")
    assert answer.code == 0 and "2 texts of its own: nothing found" in answer.err, answer.err
    assert ADA["mail"] not in held(project.folder / "warehouse")
    # That has removed what says of Eve's rows what to look for.
    answer = project.ingest(*asking, "id=3", "--vacuum")
    assert answer.code == 1 and "is not proved" in answer.err, answer.err
    found = rows(project, "SELECT status FROM gold._erasures ORDER BY at")
    assert [row["status"] for row in found] == ["proved", "erased"]


@pytest.mark.slow
def test_what_is_no_key_or_not_decoded_is_refused(project: Project) -> None:
    played(project, "rows")
    for key, expected in {
        "mail=ada@home.example": "`--key`: expected the key (id), got (mail)",
        "id=seven": "`--key id`: expected int, got another value",
    }.items():
        answer = project.ingest("erase", "person", "--key", key, "--yes")
        assert answer.code == 2 and expected in answer.err, answer.err
    project.land("9.jsonl", [several("INSERT", [person(8, "Ada Late", "late@home.example")], 9)])
    assert project.ingest("bronze").code == 0
    answer = project.ingest("erase", "person", "--key", "id=7", "--yes")
    assert answer.code == 1 and "1 that wait; run `ingest silver --source shop`" in answer.err


LONG = "her-address-is-so-long-that-statistics-cut-it@home.example"
"""Longer than what Delta keeps of the least and the greatest value of a column."""


def recorded(offset: int, key: int, value: Mapping[str, Any] | None) -> dict[str, Any]:
    """A message of Debezium with its Kafka key, as kcat prints it."""
    text = None if value is None else json.dumps(value)
    record = {"topic": "shop.person", "partition": 0, "offset": offset, "ts": T0 + offset}
    return {**record, "key": json.dumps({"id": key, "no": "KEY-4711" + str(key)}), "payload": text}


def changed(
    op: str, pos: int, before: tuple[Any, ...] | None, after: tuple[Any, ...] | None, query: str
) -> dict[str, Any]:
    names = ("id", "mail", "note")
    images = [dict(zip(names, row, strict=True)) if row else None for row in (before, after)]
    source = {"connector": "mysql", "db": "db", "table": "person", "file": "bin.1", "pos": pos}
    return {
        **{"op": op, "before": images[0], "after": images[1]},
        "source": {**source, "query": query},
    }


@pytest.mark.slow
def test_keys_of_tombstones_statements_and_look_alikes(project: Project) -> None:
    source = "name: shop\nformat: debezium\nkeys: {db.person: [id]}\n"
    source += "files: {path: 'landing/*.jsonl', framing: kcat}\n"
    project.write("conf/sources/shop.yml", source)
    project.write("conf/tables/shop.yml", TABLES % "")
    both = f"INSERT INTO person VALUES (1, '{LONG}', 'Ada'), (2, 'not-{LONG}', 'Bob')"
    ada, bob = (1, LONG, "12.50 owed"), (2, f"not-{LONG}", "112.50 owed")
    project.land(
        "0.jsonl",
        [
            recorded(0, 1, changed("c", 10, None, ada, both)),
            recorded(1, 2, changed("c", 11, None, bob, both)),
            recorded(2, 3, changed("c", 12, None, (3, "zoe@home.example", "none"), "")),
        ],
    )
    assert project.ingest("run").code == 0
    project.land(
        "1.jsonl",
        [
            recorded(3, 1, changed("d", 20, ada, None, "DELETE FROM person WHERE id = 1")),
            recorded(4, 1, None),
            recorded(5, 3, changed("d", 21, (3, "zoe@home.example", "none"), None, "")),
            recorded(6, 3, None),
        ],
    )
    assert project.ingest("run").code == 0
    others = gold(project)
    assert len(others) == 1

    done = project.ingest("erase", "person", "--key", "id=1", "--yes", "--vacuum")
    assert done.code == 0, done.err
    assert "is proved" in done.err
    left = held(project.folder / "warehouse").replace("not-" + LONG, "").replace("112.50", "")
    for text in (LONG[:32], "12.50", "KEY-47111"):
        assert left.find(text) == -1, left[left.find(text) - 300 :][:600]
    kept = rows(project, "SELECT `offset` FROM bronze.messages ORDER BY 1")
    # Bob's own message held the statement that brought both.
    assert [row["offset"] for row in kept] == [2, 5, 6]
    right(project, others)
