"""The whole way of two schema changes: from the source through a browser's buttons into gold.

Nothing is simulated: every command is a process of its own, with a Spark of its own.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.support.browser import Page, browser
from tests.support.project import Project, canal, canal_ddl
from tests.web.test_server import press, visit

T0 = 1_700_000_000_000
PATIENCE = 600.0
"""Seconds that a page may take whose Spark does something for the first time."""
SHOP = "name: shop\nformat: canal\norder: source\nfiles: {path: 'landing/*.jsonl', order: path}\n"
POLICY = "source: shop\ndefaults: {ddl: {additive: review}}\n"
ADD = "ALTER TABLE items ADD COLUMN stock int"
DROP = "ALTER TABLE items DROP COLUMN name"
LATER = "ALTER TABLE items ADD COLUMN colour varchar(9)"
PEN = {"id": "1", "name": "pen", "price": "1.10"}
TYPES = {"id": "int", "name": "varchar(20)", "price": "decimal(12,2)", "stock": "int"}
BEFORE = [
    canal("items", "INSERT", PEN, es=T0, id_=1),
    canal_ddl("items", ADD, es=T0 + 1, id_=2),
    canal("items", "INSERT", {**PEN, "id": "2", "stock": "5"}, es=T0 + 2, id_=3, types=TYPES),
    canal_ddl("items", DROP, es=T0 + 3, id_=4),
]
AFTER = [
    canal(
        "items",
        "INSERT",
        {"id": "3", "price": "2.00", "stock": "9"},
        es=T0 + 4,
        id_=5,
        types={name: TYPES[name] for name in ("id", "price", "stock")},
    ),
    canal_ddl("items", LATER, es=T0 + 5, id_=6),
]


def command(project: Project, *words: str) -> list[str]:
    conf = str(project.folder / "conf")
    return [sys.executable, "-m", "pipelines.cli.app", "--conf", conf, "--json", *words]


def ingest(project: Project, *words: str) -> list[dict[str, Any]]:
    done = subprocess.run(command(project, *words), capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


@contextmanager
def review(project: Project) -> Iterator[str]:
    """The address of a review that is served, and ends as by Ctrl+C."""
    serve = command(project, "review", "--serve", "--port", "0")
    errors = project.folder / "review.err"
    with (
        errors.open("w") as err,
        subprocess.Popen(serve, stdout=subprocess.PIPE, stderr=err, text=True) as server,
    ):
        assert server.stdout is not None
        try:
            said = server.stdout.readline()
            assert said, errors.read_text()
            yield json.loads(said)["address"]
            server.send_signal(signal.SIGINT)
            assert server.wait(60) == 0, errors.read_text()
        finally:
            server.kill()


def statements(page: Page) -> list[str]:
    """What the inbox lists, what waits first."""
    found: list[str] = page.value("[...document.querySelectorAll('li pre')].map(p => p.innerText)")
    return found


def decide(page: Page, inbox: str, statement: str, *, verb: str, why: str) -> str:
    """Open the change of a statement, give a reason, press a button; how the change then stands."""
    visit(page, inbox)
    number = statements(page).index(statement)
    path = page.value(f"document.querySelectorAll('li a')[{number}].getAttribute('href')")
    press(page, f"a[href='{path}']")
    assert page.value("document.querySelector('#statement').textContent") == statement
    page.value("document.querySelector('input[name=by]').value = 'ada'")
    page.value(f"document.querySelector('textarea').value = {json.dumps(why)}")
    press(page, f"button.{verb}", patience=PATIENCE)
    state: str = page.value("document.querySelector('h1 .state').textContent")
    return state


@pytest.mark.slow
@pytest.mark.usefixtures("a_browser")
def test_a_button_brings_a_column_into_gold_and_another_keeps_one_there(tmp_path: Path) -> None:
    project = Project(tmp_path, lambda: ("", ""))
    project.write("conf/sources/shop.yml", SHOP)
    project.write("conf/tables/shop.yml", POLICY)
    project.land("0.jsonl", BEFORE)
    ingest(project, "run")
    with review(project) as address, browser(tmp_path) as page:
        inbox = address.partition("?")[0]
        visit(page, address, patience=PATIENCE)
        assert sorted(statements(page)) == [ADD, DROP]
        assert page.value("document.querySelector('h1').textContent") == "2 to decide"
        assert decide(page, inbox, ADD, verb="approve", why="agreed") == "applied"
        assert decide(page, inbox, DROP, verb="reject", why="still <read>") == "rejected"
        visit(page, inbox)
        assert page.value("document.querySelector('h1').textContent") == "0 to decide"
        # A run in another process goes by the decisions, and the review sees what that brings.
        project.land("1.jsonl", AFTER)
        ingest(project, "run")
        visit(page, inbox)
        assert page.value("document.querySelector('h1').textContent") == "1 to decide"
        assert statements(page)[0] == LATER
        assert page.said == []
    found = ingest(project, "sql", "SELECT * FROM gold.shop_items ORDER BY id")
    own = [{name: row[name] for name in row if not name.startswith("_")} for row in found]
    assert own == [
        {"id": 1, "name": "pen", "price": "1.10", "stock": None},
        {"id": 2, "name": "pen", "price": "1.10", "stock": 5},
        {"id": 3, "name": None, "price": "2.00", "stock": 9},
    ]
    names = ("statement", "status", "decided_by", "why")
    ledger = {tuple(row[name] for name in names) for row in ingest(project, "ddl", "list")}
    assert {
        (ADD, "applied", "ada", "agreed"),
        (DROP, "rejected", "ada", "still <read>"),
    } == {row for row in ledger if row[0] != LATER}
    assert [row[1:3] for row in ledger if row[0] == LATER] == [("pending", None)]
