"""A configuration with messages on disk, and the command run upon it in this process."""

from __future__ import annotations

import contextlib
import io
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

Capture = Callable[[], tuple[str, str]]


class Answer(NamedTuple):
    """What a call printed and how it ended."""

    code: int
    out: str
    err: str

    @property
    def records(self) -> list[dict[str, Any]]:
        """Standard output as `--json` has it: an object a line and nothing else."""
        return [json.loads(line) for line in self.out.splitlines()]


class Project:
    """A folder with `conf` and `landing`, and the `ingest` command in it."""

    def __init__(self, folder: Path, capture: Capture) -> None:
        self.folder = folder
        self._capture = capture
        for name in ("conf/sources", "conf/tables", "landing"):
            (folder / name).mkdir(parents=True, exist_ok=True)

    def write(self, name: str, text: str) -> Path:
        """Write a file of the project."""
        path = self.folder / name
        path.write_text(text, encoding="utf-8")
        return path

    def land(self, name: str, messages: Sequence[Mapping[str, Any] | str]) -> Path:
        """Write messages to `landing/NAME`, one a line; text stands as it is."""
        lines = [text if isinstance(text, str) else json.dumps(text) for text in messages]
        return self.write(f"landing/{name}", "".join(f"{line}\n" for line in lines))

    def ingest(self, *arguments: str) -> Answer:
        """Run the command; what it prints is taken."""
        from pipelines.cli.app import main

        code = 0
        self._capture()
        try:
            main(["--conf", str(self.folder / "conf"), *arguments])
        except SystemExit as end:
            assert isinstance(end.code, int)
            code = end.code
        return Answer(code, *self._capture())


@contextlib.contextmanager
def project_in(folder: Path) -> Iterator[Project]:
    """A project for fixtures that live longer than a test: what is printed inside is its own."""
    out, err = io.StringIO(), io.StringIO()

    def printed() -> tuple[str, str]:
        texts = out.getvalue(), err.getvalue()
        for stream in (out, err):
            stream.seek(0)
            stream.truncate()
        return texts

    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        yield Project(folder, printed)


def canal(
    table: str,
    type_: str,
    row: Mapping[str, str | None],
    *,
    es: int,
    id_: int,
    old: Mapping[str, str | None] | None = None,
    types: Mapping[str, str] | None = None,
    keys: Sequence[str] = ("id",),
) -> dict[str, Any]:
    """One flat message of Canal, of database `shop`."""
    types = types or {"id": "int", "name": "varchar(20)", "price": "decimal(12,2)"}
    return {
        "data": [row],
        "database": "shop",
        "es": es,
        "id": id_,
        "isDdl": False,
        "mysqlType": types,
        "old": [old] if old is not None else None,
        "pkNames": list(keys),
        "sql": "",
        "table": table,
        "ts": es + 500,
        "type": type_,
    }


def canal_ddl(table: str, sql: str, *, es: int, id_: int, type_: str = "ALTER") -> dict[str, Any]:
    """One schema change as Canal sends it."""
    return {
        "data": None,
        "database": "shop",
        "es": es,
        "id": id_,
        "isDdl": True,
        "mysqlType": None,
        "old": None,
        "pkNames": None,
        "sql": sql,
        "table": table,
        "ts": es + 500,
        "type": type_,
    }
