"""Masks before gold: what is declared stands in place of values, everywhere that gold's rows go."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from ingest.config.masks import MaskSecret
from tests.support.project import Answer, Project, canal, canal_ddl

pytestmark = pytest.mark.usefixtures("spark")

PEPPER = "a pepper that nobody guesses"
SECRET = MaskSecret.of(PEPPER.encode())
SOURCE = "name: crm\nformat: debezium\nfiles: {path: 'landing/*.jsonl'}\nkeys: {db.person: [id]}\n"
CLEAR = "source: crm\ntables:\n  - {from: '*', target: '{table}'%s}\n"
MASKS = (
    "{id: {mask: hash, type: bigint}, email: {mask: hash}, name: {mask: tokens}, "
    "phone: {mask: null, type: int}}"
)
OPTIONS = {
    "scd1": "",
    "soft": ", deletes: soft",
    "versions": ", stored_as_scd_type: 2",
    "append": ", stored_as_scd_type: append",
}
CANARY = ("ada@home.example", "eve@home.example", "Ada Canary", "Eve Canary", "5550199")
Person = tuple[int, str | None, str, int | None, str]
DAYS: tuple[list[tuple[str, int, Person | None, Person | None]], ...] = (
    [
        ("c", 10, None, (1, "ada@home.example", "Ada Canary", 5550199, "Bern")),
        ("c", 20, None, (2, "eve@home.example", "Eve Canary", 5550199, "Rome")),
        ("c", 30, None, (3, None, "Ada Canary", None, "Oslo")),
    ],
    [
        (
            *("u", 60, (1, "ada@home.example", "Ada Canary", 5550199, "Bern")),
            (1, "eve@home.example", "Ada Canary", 5550199, "Bern"),
        ),
        ("d", 70, (3, None, "Ada Canary", None, "Oslo"), None),
        ("c", 80, None, (4, "", "", 0, "")),
    ],
    [
        # Late: below what was applied; and a row whose key changes.
        (
            *("u", 40, (2, "eve@home.example", "Eve Canary", 5550199, "Rome")),
            (2, "ada@home.example", "Eve Canary", 5550199, "Nice"),
        ),
        ("c", 25, None, (3, "ada@home.example", "Ada Canary", 5550199, "Lima")),
        (
            *("u", 90, (1, "eve@home.example", "Ada Canary", 5550199, "Bern")),
            (9, "eve@home.example", "Ada Canary", 5550199, "Bern"),
        ),
    ],
)
NAMES = ("id", "email", "name", "phone", "city")


def message(op: str, pos: int, before: Person | None, after: Person | None) -> str:
    """One change as Debezium sends it without a schema."""
    images = (dict(zip(NAMES, row, strict=True)) if row else None for row in (before, after))
    source = {"connector": "mysql", "db": "db", "table": "person", "file": "bin.1", "pos": pos}
    names = ("before", "after")
    return json.dumps({"op": op, **dict(zip(names, images, strict=True)), "source": source})


def mask(row: Mapping[str, Any], target: str) -> dict[str, Any]:
    """A row of the clear target as the masked one has it."""
    token = f"{target}.name\n{row['name']}"
    return {
        **row,
        "id": SECRET.digest(row["id"]),
        "email": None if row["email"] is None else SECRET.digest(row["email"]),
        "name": f"tok_{SECRET.digest(token)[:32]}",
        "phone": None,
    }


def ordered(rows: list[dict[str, Any]]) -> list[str]:
    return sorted(json.dumps(row, sort_keys=True) for row in rows)


@pytest.fixture
def projects(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[Project, Project]]:
    """One with masks and one without, of the same messages."""
    monkeypatch.setenv("MASK_PEPPER", PEPPER)
    made = []
    for name in ("masked", "clear"):
        folder = tmp_path / name
        folder.mkdir()
        project = Project(folder, capsys.readouterr)
        project.write("conf/sources/crm.yml", SOURCE)
        made.append(project)
    made[0].write("conf/ingest.yml", "mask_secret: env:MASK_PEPPER\n")
    yield made[0], made[1]


def rows(project: Project, query: str = "SELECT * FROM gold.person") -> list[dict[str, Any]]:
    answer = project.ingest("--json", "sql", query)
    assert answer.code == 0, answer.err
    return answer.records


def said(*answers: Answer) -> str:
    return "".join(answer.out + answer.err for answer in answers)


def held(*folders: Path) -> str:
    """All that files of these folders hold as text: logs as they are, cells of Parquet one by
    one."""
    found = []
    for file in (file for folder in folders for file in folder.rglob("*") if file.is_file()):
        found.append(file.read_bytes().decode("utf-8", "replace"))
        if file.suffix == ".parquet":
            found.append(str(pq.read_table(file).to_pylist()))
    return "\n".join(found)


@pytest.mark.parametrize(
    "mode", [pytest.param(m, marks=[pytest.mark.slow] * (m != "versions")) for m in OPTIONS]
)
def test_masked_rows_are_the_clear_ones_masked(
    projects: tuple[Project, Project], mode: str
) -> None:
    masked, clear = projects
    masked.write("conf/tables/crm.yml", CLEAR % f"{OPTIONS[mode]}, columns: {MASKS}")
    misspelt = "columns: {emial: {mask: null}}, exclude: [phnoe]"
    clear.write("conf/tables/crm.yml", CLEAR % f"{OPTIONS[mode]}, {misspelt}")
    for number, day in enumerate(DAYS):
        for project in projects:
            project.land(f"{number}.jsonl", [message(*change) for change in day])
            answer = project.ingest("run")
            assert answer.code == 0, answer.err
            assert ("hides the column emial" in answer.err) == (project is clear)
    for name, meant in (("emial", "email"), ("phnoe", "phone")):
        warning = f"the column {name}, which the newest messages do not have, while {meant} is in"
        assert warning in " ".join(clear.ingest("status").err.split())
        expected = ordered([mask(row, "person") for row in rows(clear)])
        assert ordered(rows(masked)) == expected

    reconciled = masked.ingest("reconcile", "person")
    assert reconciled.code == 0, reconciled.err
    past = [
        project.ingest("--json", "as-of", "person", "--pos", "[0, 1, 0, 60]").records
        for project in projects
    ]
    assert ordered(past[0]) == ordered([mask(row, "person") for row in past[1]])
    rebuilt = masked.ingest("rebuild", "person")
    assert rebuilt.code == 0, rebuilt.err
    assert ordered(rows(masked)) == expected

    if mode == "scd1":
        # A snapshot is clear: it is masked before it is compared, or shown.
        present = [{name: row[name] for name in NAMES} for row in rows(clear)]
        snapshot = masked.land("snapshot.json", present)
        compared = masked.ingest("reconcile", "person", "--snapshot", str(snapshot))
        assert compared.code == 0, compared.err
        masked.land("snapshot.json", [{**row, "city": "Ulm"} for row in present])
        compared = masked.ingest("--json", "reconcile", "person", "--snapshot", str(snapshot))
        assert (compared.code, len(compared.records)) == (1, len(present))

    gold = held(masked.folder / "warehouse" / "gold")
    assert [text for text in (*CANARY, PEPPER) if text in gold] == []
    assert PEPPER not in held(masked.folder)


def test_history_status_and_rejects_mask_too(projects: tuple[Project, Project]) -> None:
    masked, _ = projects
    entry = f", columns: {MASKS[:-1]}, city: int}}"
    masked.write("conf/tables/crm.yml", CLEAR % entry)
    for number, day in enumerate(DAYS):
        masked.land(f"{number}.jsonl", [message(*change) for change in day])
    ran = masked.ingest("run")
    assert ran.code == 0, ran.err

    # A reject for want of another column's type shows what gold may show of the image.
    rejects = masked.ingest("--json", "rejects", "list")
    assert {reject["code"] for reject in rejects.records} == {"type_mismatch"}
    shown = masked.ingest("rejects", "show", rejects.records[0]["id"])
    history = masked.ingest("--json", "history", "person")
    first = history.records[0]
    ada = SECRET.digest("ada@home.example")
    assert (first["email"], first["after"]["email"]) == (ada, ada)
    assert (first["id"], first["key"]["id"], first["phone"]) == (*(2 * [SECRET.digest("1")]), None)
    of_key = masked.ingest("--json", "history", "person", "--key", f"id={SECRET.digest('9')}")
    assert [change["pos"][3] for change in of_key.records] == [10, 60, 90]

    # A view knows no secret: it has nothing of what takes one, and NULL where that is declared.
    view = rows(masked, "SELECT * FROM history.person ORDER BY pos")
    assert not {"id", "email", "name"} & view[0].keys()
    assert (view[0]["phone"], view[0]["after"]) == (None, {"phone": None, "city": "Bern"})

    status = masked.ingest("--json", "status")
    (table,) = [row for row in status.records if row["kind"] == "table"]
    assert table["masks"] == [
        *("email hash", "id hash of bigint", "name tokens", "phone null of int"),
        f"by secret {SECRET.name}",
    ]
    people = masked.ingest("status")
    assert "email hash" in people.out
    # What could not be read is not masked: the report, which is passed on, does not show it.
    masked.land("broken.jsonl", ['{"op": "c", "after": {"email": "ada@home.example"'])
    assert masked.ingest("run").code in (0, 1)
    report = masked.ingest("report", "--out", str(masked.folder / "report.html"))
    everything = said(ran, rejects, shown, history, of_key, status, people, report)
    everything += str(view) + (masked.folder / "report.html").read_text()
    assert [text for text in (*CANARY, PEPPER) if text in everything] == []


@pytest.mark.slow
def test_another_mask_or_secret_parks_until_rebuilt(
    projects: tuple[Project, Project], monkeypatch: pytest.MonkeyPatch
) -> None:
    masked, _ = projects
    plain = CLEAR % ""
    masked.write("conf/tables/crm.yml", plain)
    masked.land("0.jsonl", [message(*change) for change in DAYS[0]])
    assert masked.ingest("run").code == 0
    before = rows(masked)

    declared = CLEAR % ", columns: {email: {mask: hash}}"
    masked.write("conf/tables/crm.yml", declared)
    for _ in range(2):
        answer = masked.ingest("run")
        assert answer.code == 1
        assert f"expected masks (email hash, by secret {SECRET.name}), got person" in answer.err
        assert "`ingest rebuild person`" in answer.err
    masked.land("1.jsonl", [message(*change) for change in DAYS[1]])
    assert masked.ingest("run").code == 1
    assert rows(masked) == before

    # A mask of another type than its column has yet.
    masked.write("conf/tables/crm.yml", CLEAR % ", columns: {phone: {mask: hash}}")
    past = masked.ingest("as-of", "person", "--time", "2030-01-01", "--json")
    digests = {SECRET.digest(phone) for phone in ("5550199", "0")}
    assert {row["phone"] for row in past.records} == digests, past.err
    compared = masked.ingest("reconcile", "person")
    assert (compared.code, "expected masks (phone hash" in compared.err) == (1, True)

    # What it was made with, again: it goes on.
    masked.write("conf/tables/crm.yml", plain)
    assert masked.ingest("run").code == 0
    masked.write("conf/tables/crm.yml", declared)
    assert masked.ingest("run").code == 1
    rebuilt = masked.ingest("rebuild", "person")
    assert rebuilt.code == 0, rebuilt.err
    assert "masks (none) become (email hash" in said(rebuilt)
    digests = {SECRET.digest(text) for text in ("eve@home.example", "")}
    assert {row["email"] for row in rows(masked)} == digests
    assert masked.ingest("run").code == 0

    monkeypatch.setenv("MASK_PEPPER", "another pepper, as good")
    answer = masked.ingest("run")
    assert (answer.code, "by secret" in answer.err) == (1, True)
    assert masked.ingest("rebuild", "person").code == 0
    other = MaskSecret.of(b"another pepper, as good")
    assert {row["email"] for row in rows(masked)} == {
        other.digest(text) for text in ("eve@home.example", "")
    }


@pytest.mark.slow
def test_a_column_that_comes_and_changes_its_name_is_masked(
    projects: tuple[Project, Project],
) -> None:
    masked, _ = projects
    masked.write(
        "conf/sources/crm.yml", "name: crm\nformat: canal\nfiles: {path: 'landing/*.jsonl'}\n"
    )
    masked.write("conf/tables/crm.yml", CLEAR % ", columns: {EMail: {mask: hash}}")
    types = {"id": "int", "name": "varchar(40)"}
    kept = {"id": "1", "name": "Bern"}
    masked.land("0.jsonl", [canal("person", "INSERT", kept, es=1_000, id_=1, types=types)])
    assert masked.ingest("run").code == 0

    # What rows of before have by default is masked as values are, whatever the case of the name.
    added = "ALTER TABLE person ADD COLUMN email varchar(40) DEFAULT 'all@home.example'"
    masked.land("1.jsonl", [canal_ddl("person", added, es=2_000, id_=2)])
    assert masked.ingest("run").code == 0
    digest = SECRET.digest
    emails = "SELECT id, {} AS email FROM gold.person ORDER BY id"
    assert rows(masked, emails.format("email")) == [{"id": 1, "email": digest("all@home.example")}]

    # A new name that waits for review is no new column, and nothing of it is clear.
    renamed = "ALTER TABLE person RENAME COLUMN email TO mail"
    later = {"id": "2", "name": "Rome", "mail": "eve@home.example"}
    wider = {**types, "mail": "varchar(40)"}
    masked.land(
        "2.jsonl",
        [
            canal_ddl("person", renamed, es=3_000, id_=3),
            canal("person", "INSERT", later, es=4_000, id_=4, types=wider),
        ],
    )
    masked.ingest("run")
    pending = masked.ingest("--json", "ddl", "list", "--status", "pending").records
    [approved] = [change["id"] for change in pending]
    answer = masked.ingest("ddl", "approve", approved)
    assert answer.code == 0, answer.err
    assert masked.ingest("run").code == 0
    expected = [digest("all@home.example"), digest("eve@home.example")]
    assert [row["email"] for row in rows(masked, emails.format("mail"))] == expected
    assert rows(masked, "SELECT * FROM history.person")[-1].keys() >= {"name"}
    gold = held(masked.folder / "warehouse" / "gold" / "person")
    assert [text for text in ("all@home", "eve@home") if text in gold] == []
