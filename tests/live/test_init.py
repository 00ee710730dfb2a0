"""`ingest init --from URL`: what it writes for a real server's tables, and that it only reads."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import pytest
import yaml

from ingest.config.load import load
from tests.live.servers import Server, connect
from tests.live.workload import TABLES, Workload
from tests.support.project import Project

Start = Callable[[str], AbstractContextManager[Server]]


@pytest.fixture
def project(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Project:
    return Project(tmp_path, capsys.readouterr)


@pytest.mark.parametrize(
    ("kind", "table", "advised"),
    [
        ("postgresql", "shop.public.orders", "CREATE PUBLICATION ingest FOR TABLE public.clicks"),
        ("mariadb", "shop.orders", "bigint.unsigned.handling.mode=precise"),
    ],
)
def test_a_database_gets_its_configuration(
    kind: str, table: str, advised: str, start: Start, project: Project
) -> None:
    with start(kind) as server:
        workload = Workload(server, 1)
        workload.prepare()
        workload.finish()
        answer = project.ingest("init", "--from", server.url, "--types")
        assert answer.code == 0, answer.err
        again = project.ingest("init", "--from", server.url)
    assert advised in answer.out
    config = load(project.folder / "conf")
    assert list(config.sources) == ["shop"]
    entries = {entry.patterns[0]: entry for entry in config.tables["shop"].tables}
    assert {name.rpartition(".")[2] for name in entries} == {*TABLES, "finished"}
    assert entries[table].keys == ("region", "id")
    keyless = entries[table.replace("orders", "clicks")]
    assert (keyless.keys, keyless.stored_as_scd_type) == (None, "append")
    written = yaml.safe_load((project.folder / "conf/sources/shop.yml").read_text())
    columns = written["columns"][table.replace("orders", "everything")]
    assert columns["big"].startswith("bigint")
    assert columns["doc"] == "json"
    assert again.code == 2
    assert "conf/sources/shop.yml: is there already" in again.err


@pytest.mark.parametrize("kind", ["postgresql", "mariadb"])
def test_a_server_that_does_not_answer_or_let_in_is_a_sentence(
    kind: str, start: Start, project: Project
) -> None:
    with start(kind) as server:
        closed = project.ingest("init", "--from", server.url.replace(str(server.port), "1"))
        unknown = project.ingest("init", "--from", server.url.replace("/shop", "/nowhere"))
    for answer in (closed, unknown):
        assert answer.code == 2
        assert len(answer.err.strip().splitlines()) == 1
        assert "cannot be read" in answer.err
        assert ":x@" not in answer.err
    assert not list((project.folder / "conf/sources").iterdir())


def test_the_session_of_init_cannot_write(start: Start) -> None:
    import psycopg

    from pipelines.catalogue import postgresql
    from pipelines.catalogue.address import parse_address

    with start("postgresql") as server:
        taken = []
        with pytest.MonkeyPatch.context() as patch:

            def writing(connection: psycopg.Connection[object], _: object) -> None:
                with pytest.raises(psycopg.errors.ReadOnlySqlTransaction):
                    connection.execute("CREATE TABLE mine (id int)")
                connection.rollback()
                taken.append(1)

            patch.setattr(postgresql, "_read", writing)
            postgresql.read(parse_address(server.url))
        assert taken == [1]
        with connect(server) as connection:
            there = "SELECT count(*) FROM pg_tables WHERE schemaname = 'public'"
            assert connection.execute(there).fetchone() == (0,)
