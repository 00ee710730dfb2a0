"""Whose a source of a warehouse is, where several projects may use it."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import cast

import pytest
from pyspark.sql import SparkSession

from ingest.config.load import load
from ingest.errors import SourceError
from pipelines.platform.warehouse import Warehouse
from pipelines.silver import projects

FILES = "files: {path: 'landing/shop/*.jsonl'}"
TOPICS = "kafka: {bootstrap_servers: 'a:1,b:1', topics: [orders, items]}"
Project = Callable[..., Warehouse]


@pytest.fixture
def project(tmp_path: Path) -> Project:
    def make(name: str, reads: str = FILES, *, lake: str = "lake") -> Warehouse:
        conf = tmp_path / name / "conf"
        (conf / "sources").mkdir(parents=True, exist_ok=True)
        (conf / "sources/shop.yml").write_text(f"name: shop\n{reads}\n")
        return tables(conf, tmp_path / lake)

    return make


def tables(conf: Path, lake: Path) -> Warehouse:
    """Those of a project in the lake that it shares; nothing here asks Spark."""
    config = load(conf, overrides={"checkpoints": str(lake)}, environ={})
    return Warehouse(config, cast("SparkSession", None))


def test_a_name_is_one_projects(project: Project, tmp_path: Path) -> None:
    projects.take(project("one"), "shop")
    projects.take(project("one"), "shop")
    two = project("two")
    for verb in (projects.check, projects.take):
        with pytest.raises(SourceError) as caught:
            verb(two, "shop")
    note = tmp_path / "lake/projects/shop.json"
    assert str(caught.value) == (
        "source shop: expected it to be of one project, got two: on this warehouse it is that of "
        f"{tmp_path}/one/conf, which reads {tmp_path}/one/landing/shop, and {tmp_path}/two/conf "
        f"reads {tmp_path}/two/landing/shop. Give this source another name, or this project a "
        f"warehouse of its own; if it takes the other's place, remove {note} and run again"
    )
    note.unlink()
    projects.take(two, "shop")
    with pytest.raises(SourceError, match="got two"):
        projects.check(project("one"), "shop")
    projects.forget(project("one"), "shop")
    projects.check(project("one"), "shop")


def test_an_epoch_is_not_taken_back(project: Project) -> None:
    """What comes would lie below all that came."""
    projects.take(project("one", f"epoch: 2\n{FILES}"), "shop")
    for verb in (projects.check, projects.take):
        with pytest.raises(SourceError, match="expected the epoch 2 that it has come to, or a h"):
            verb(project("one", f"epoch: 1\n{FILES}"), "shop")
    # Who is told to begin anew may.
    back = project("one", f"epoch: 1\n{FILES}")
    projects.check_owner(back, "shop")
    projects.forget(back, "shop")
    projects.take(back, "shop")
    projects.take(project("one", f"epoch: 3\n{FILES}"), "shop")


def test_a_source_may_read_elsewhere_from_now_on(project: Project) -> None:
    for reads in (FILES, "files: {path: 'other/**/*'}", TOPICS, TOPICS.replace("orders", "sales")):
        projects.take(project("one", reads), "shop")


def test_a_project_may_be_moved(project: Project, tmp_path: Path) -> None:
    projects.take(project("one"), "shop")
    shutil.rmtree(tmp_path / "one")
    projects.take(project("[two]"), "shop")
    # What lies elsewhere in another folder may be the same or not: it is asked.
    shutil.rmtree(tmp_path / "[two]")
    with pytest.raises(SourceError, match="got two"):
        projects.take(project("three", "files: {path: 'other/*'}"), "shop")


@pytest.mark.parametrize(
    "written",
    ["{name: shop, files: {path: 'landing/shop/*.jsonl'}}", f"{FILES}\n? name\n: shop", "name: ["],
)
def test_a_project_that_is_there_keeps_its_source(
    project: Project, tmp_path: Path, written: str
) -> None:
    """However its YAML says the name; one that cannot be read may."""
    projects.take(project("one"), "shop")
    (tmp_path / "one/conf/sources/shop.yml").write_text(written)
    with pytest.raises(SourceError, match="got two"):
        projects.take(project("two"), "shop")


def test_a_project_may_be_copied_with_its_warehouse(project: Project, tmp_path: Path) -> None:
    projects.take(project("one"), "shop")
    shutil.copytree(tmp_path / "lake", tmp_path / "copy")
    projects.take(project("two", lake="copy"), "shop")
    projects.take(project("one"), "shop")


def test_a_project_may_be_seen_by_two_paths(project: Project, tmp_path: Path) -> None:
    projects.take(project("one"), "shop")
    (tmp_path / "link").symlink_to(tmp_path / "one")
    projects.take(tables(tmp_path / "link/conf", tmp_path / "lake"), "shop")


RABBIT = "rabbitmq: {servers: 'q:5672', queues: [orders], password: x}"


@pytest.mark.parametrize(
    ("before", "now", "same"),
    [
        (TOPICS, TOPICS, True),
        (TOPICS, TOPICS.replace("a:1,b:1", "b:1"), True),
        (TOPICS, TOPICS.replace("a:1,b:1", "z:1"), False),
        (TOPICS, TOPICS.replace("orders, items", "items, sales"), True),
        (TOPICS, TOPICS.replace("orders, items", "sales"), False),
        (TOPICS, TOPICS.replace("topics: [orders, items]", r"topics_pattern: 'o\w+'"), True),
        (TOPICS.replace("topics: [orders, items]", "topics_pattern: '.*'"), TOPICS, True),
        (TOPICS, TOPICS.replace("topics: [orders, items]", "topics_pattern: 's.*'"), False),
        (FILES.replace("landing", "/data"), FILES.replace("landing", "/data"), True),
        (FILES.replace("landing", "/data"), FILES.replace("landing", "/other"), False),
        (FILES, TOPICS, False),
        (RABBIT, RABBIT, True),
        (RABBIT, RABBIT.replace("{", "{virtual_host: two, "), False),
        (RABBIT, RABBIT.replace("queues: [orders]", "super_stream: orders"), True),
    ],
)
def test_two_projects_may_read_the_same(
    project: Project, before: str, now: str, same: bool
) -> None:
    projects.take(project("one", before), "shop")
    two = project("two", now)
    if same:
        projects.take(two, "shop")
    else:
        with pytest.raises(SourceError, match="got two"):
            projects.take(two, "shop")


def test_a_note_that_is_damaged_is_written_anew_once_it_is_removed(
    project: Project, tmp_path: Path
) -> None:
    note = tmp_path / "lake/projects/shop.json"
    note.parent.mkdir(parents=True)
    note.write_text("{")
    with pytest.raises(SourceError, match=r"projects/shop\.json cannot be read"):
        projects.take(project("one"), "shop")
    note.unlink()
    projects.take(project("one"), "shop")
    with pytest.raises(SourceError, match="got two"):
        projects.take(project("two"), "shop")
