"""The review of a real ledger: the same decisions as on the command line, by HTTP and in a real
browser."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from ingest.config.load import load
from pipelines.ledger.store import Ledger
from pipelines.platform.warehouse import Warehouse
from pipelines.web.review import LedgerReview
from pipelines.web.server import Site, serving
from tests.support.browser import browser
from tests.support.project import Project, canal, canal_ddl
from tests.web.test_server import Client, press, visit

T0 = 1_700_000_000_000
SHOP = "name: shop\nformat: canal\norder: source\nfiles:\n  path: landing/*.jsonl\n"
PEN = {"id": "1", "name": "pen", "price": "1.10"}
SCRIPT = "</pre><script>document.title='owned'</script>"
DROP_NAME = f"ALTER TABLE items DROP COLUMN name /* {SCRIPT} */"
DROP_PRICE = "ALTER TABLE items DROP COLUMN price"


@pytest.fixture(scope="module")
def project(
    tmp_path_factory: pytest.TempPathFactory, spark: SparkSession
) -> Iterator[tuple[Project, Client]]:
    """Two schema changes that wait, and a client of their review."""
    project = Project(tmp_path_factory.mktemp("review"), lambda: ("", ""))
    project.write("conf/sources/shop.yml", SHOP)
    project.land(
        "shop.jsonl",
        [
            canal("items", "INSERT", PEN, es=T0, id_=1),
            canal_ddl("items", DROP_NAME, es=T0 + 1, id_=2),
            canal_ddl("items", DROP_PRICE, es=T0 + 2, id_=3),
        ],
    )
    assert project.ingest("run").code == 0
    config = load(project.folder / "conf", environ={})
    review = LedgerReview(Warehouse(config, spark))
    with serving(Site(review, "warehouse", "ada")) as address:
        yield project, Client(address)


def ledger(project: Project, capsys: pytest.CaptureFixture[str]) -> dict[str, dict[str, Any]]:
    """The entries by their statement, as the command line has them."""
    listed = Project(project.folder, capsys.readouterr).ingest("ddl", "list", "--json").records
    return {entry["statement"]: entry for entry in listed}


def test_decided_by_http(
    project: tuple[Project, Client], capsys: pytest.CaptureFixture[str]
) -> None:
    folder, client = project
    client.enter()
    entry = ledger(folder, capsys)[DROP_PRICE]
    path = f"/change/{entry['id']}"
    inbox = client.ask("GET", "/").body
    assert "2 to decide" in inbox and path in inbox and "<script" not in inbox
    page = client.ask("GET", path).body
    for shown in (DROP_PRICE, "ALTER TABLE gold.shop_items DROP COLUMN `price`", "destructive"):
        assert shown in page
    assert "its values go with it; added again it is a new column" in page
    assert "<dt>Rows that lose a value by it</dt><dd>1</dd>" in page
    decision = {**client.form(path), "verb": "approve", "by": "ada", "why": "not used"}
    got = client.ask("POST", path, decision)
    assert (got.status, got.headers["Location"]) == (303, path)
    done = ledger(folder, capsys)[DROP_PRICE]
    told = [done[name] for name in ("status", "decided_by", "why")]
    assert told == ["applied", "ada", "not used"]
    again = Project(folder.folder, capsys.readouterr)
    [row] = again.ingest("sql", "SELECT * EXCEPT (_pos) FROM gold.shop_items", "--json").records
    assert [name for name in row if not name.startswith("_")] == ["id", "name"]


@pytest.mark.usefixtures("a_browser")
@pytest.mark.slow
def test_what_a_button_approves_too_early_the_next_run_carries_out(
    spark: SparkSession,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its target is half made by a run that was killed: that is finished first."""
    project = Project(tmp_path, capsys.readouterr)
    project.write("conf/sources/shop.yml", SHOP)
    project.write("conf/tables/shop.yml", "source: shop\ndefaults: {ddl: {additive: review}}\n")
    stocked = {"id": "int", "name": "varchar(20)", "stock": "int"}
    row = {"id": "2", "name": "ink", "stock": "5"}
    add = "ALTER TABLE items ADD COLUMN stock int"
    project.land(
        "shop.jsonl",
        [
            canal("items", "INSERT", PEN, es=T0, id_=1),
            canal_ddl("items", add, es=T0 + 1, id_=2),
            canal("items", "INSERT", row, es=T0 + 2, id_=3, types=stocked),
        ],
    )
    assert project.ingest("run").code == 0
    gold = "SELECT * FROM gold.shop_items ORDER BY id"
    assert all("stock" not in found for found in project.ingest("sql", gold, "--json").records)
    review = LedgerReview(Warehouse(load(tmp_path / "conf", environ={}), spark))
    with (
        serving(Site(review, "warehouse", "ada")) as address,
        browser(tmp_path) as page,
        monkeypatch.context() as patch,
    ):
        patch.setattr(Ledger, "too_early", lambda *_: True)
        visit(page, address)
        press(page, "main li a")
        page.value("document.querySelector('textarea').value = 'agreed'")
        press(page, "button.approve")
        assert page.value("document.querySelector('h1 .state').textContent") == "approved"
        said = page.value("document.querySelector('[role=status]').textContent")
        assert said == "The next ingest run carries it out."
        assert page.said == []
    assert project.ingest("run").code == 0
    done = ledger(project, capsys)[add]
    assert [done[name] for name in ("status", "decided_by", "why")] == ["applied", "ada", "agreed"]
    rows = project.ingest("sql", gold, "--json").records
    assert [(row["id"], row["stock"]) for row in rows] == [(1, None), (2, 5)]


@pytest.mark.usefixtures("a_browser")
def test_decided_in_a_browser(
    project: tuple[Project, Client], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    folder, client = project
    entry = ledger(folder, capsys)[DROP_NAME]
    with browser(tmp_path) as page:
        page.size(1000, 860)
        visit(page, f"http://{client.netloc}{client.entrance}")
        assert page.value("location.search") == ""
        assert page.value("document.cookie") == ""
        assert page.value("document.querySelectorAll('main li').length") == 2
        press(page, f"a[href='/change/{entry['id']}']")
        assert page.value("document.querySelector('#statement').textContent") == DROP_NAME
        assert page.value("document.title") == f"Schema change {entry['id'][:8]}"
        page.value("document.querySelector('button.reject').click()")
        # Nothing is sent without a reason.
        assert page.value("document.querySelector('textarea').matches(':invalid')")
        page.value("document.querySelector('textarea').value = 'still needed'")
        press(page, "button.reject")
        assert page.value("document.querySelector('h1 .state').textContent") == "rejected"
        assert page.value("document.querySelector('form')") is None
        assert page.said == []
        ours = (f"http://{client.netloc}/", "data:")
        assert all(address.startswith(ours) for address in page.asked)
    done = ledger(folder, capsys)[DROP_NAME]
    told = [done[name] for name in ("status", "decided_by", "why")]
    assert told == ["rejected", "ada", "still needed"]
