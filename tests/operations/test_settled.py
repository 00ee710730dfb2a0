"""Gold is looked through again only where something has changed since it was found well."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any, cast

import pytest
from pyspark.sql import SparkSession

from ingest.config.load import load
from pipelines.gold import cadence, settled
from pipelines.platform.checkpoints import read_note, write_whole
from pipelines.platform.warehouse import Warehouse
from tests.support.project import Answer, Project, canal

SOURCE = "name: shop\nformat: canal\nfiles: {path: 'landing/*.jsonl', order: path}\n"


def test_a_quiet_source_costs_nothing(
    spark: SparkSession,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from pipelines.gold import run

    looked: list[str] = []
    merge_source = run._merge_source

    def watched(*about: Any, **more: Any) -> list[run.Merged]:
        looked.append("gold")
        return merge_source(*about, **more)

    monkeypatch.setattr(run, "_merge_source", watched)
    project = Project(tmp_path, capsys.readouterr)
    project.write("conf/sources/shop.yml", SOURCE)

    def again(*, looks: bool, code: int = 0) -> Answer:
        looked.clear()
        answer = project.ingest("run")
        assert (answer.code, bool(looked)) == (code, looks), answer.err
        return answer

    row = {"id": "1", "name": "pen", "price": "1.10"}
    project.land("1.jsonl", [canal("item", "INSERT", row, es=1_700_000_000_000, id_=1)])
    again(looks=True)
    again(looks=False)
    again(looks=False)
    # New messages, and another configuration.
    project.land(
        "2.jsonl", [canal("item", "INSERT", {**row, "id": "2"}, es=1_700_000_000_001, id_=2)]
    )
    again(looks=True)
    again(looks=False)
    project.write(
        "conf/tables/shop.yml",
        "source: shop\ntables: [{target: shop_item, from: [shop.item], exclude: [color]}]\n",
    )
    again(looks=True)
    again(looks=False)
    # A table that is gone is no settled one, and is named in every run.
    shutil.rmtree(tmp_path / "warehouse/gold/shop_item")
    for _ in range(2):
        assert "shop_item is parked" in again(looks=True, code=1).err


@pytest.mark.parametrize(
    ("now", "holds"), [(9, False), (10, True), (19, True), (20, False), (30, False)]
)
def test_a_note_holds_until_the_first_turn_and_not_before_it_was_made(
    monkeypatch: pytest.MonkeyPatch, now: int, holds: bool
) -> None:
    """A clock that was set back lets nobody wait until it has caught up."""
    monkeypatch.setattr(cadence, "now", lambda: now)
    assert settled._still({"state": "as it is", "at": 10, "until": 20}, "as it is") is holds
    assert settled._still({"state": "as it is", "at": 10, "until": None}, "as it is")
    assert not settled._still({"state": "as it was", "at": 10, "until": 20}, "as it is")


def test_what_a_pass_depends_on(tmp_path: Path) -> None:
    """Every option that a value depends on; and no secret, of which nothing is written down."""
    source = (
        "name: shop\nformat: debezium_avro\nkafka: {{bootstrap_servers: 'b:1', topics: [t],\n"
        "  options: {{sasl.jaas.config: {secret}}}}}\n"
        "options: {{schema_registry: http://r, registry_user: a, registry_password: {secret},\n"
        "  time_precision: {times}}}\n"
    )

    def state(*, secret: str, times: str) -> str:
        conf = tmp_path / "conf"
        (conf / "sources").mkdir(parents=True, exist_ok=True)
        (conf / "sources" / "shop.yml").write_text(source.format(secret=secret, times=times))
        config = load(conf, environ={})
        return settled.state(Warehouse(config, cast("SparkSession", None)))

    one = state(secret="s3cret", times="adaptive")
    assert one == state(secret="other", times="adaptive")
    assert one != state(secret="s3cret", times="connect")


@pytest.mark.parametrize("content", [b"", b"{", b"[1]", b"\xff\xfe", b'{"shop": 7}'])
def test_a_damaged_note_is_none(tmp_path: Path, content: bytes) -> None:
    """Gold is looked through once more, and what is written next is whole."""
    file = tmp_path / "deep" / "settled.json"
    assert read_note(file) == {}
    write_whole(file, content)
    assert read_note(file) in ({}, {"shop": 7})
    write_whole(file, b'{"shop": "well"}')
    assert read_note(file) == {"shop": "well"}
    assert [path.name for path in file.parent.iterdir()] == ["settled.json"]
