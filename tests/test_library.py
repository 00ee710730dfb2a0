"""The names that both packages offer as a library, and decoding with the core alone."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

import ingest
import pipelines
from ingest import ConfigError, DecodeError, Message, decoder_of, load

ROOT = Path(__file__).parent.parent


@pytest.mark.parametrize("package", [ingest, pipelines], ids=lambda package: package.__name__)
def test_exported_members(package: ModuleType) -> None:
    assert sorted(package.__all__) == sorted(package._HOMES) == sorted(dir(package))
    for name in package.__all__:
        assert getattr(package, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        package.nothing  # noqa: B018


@pytest.mark.parametrize("package", ["ingest", "pipelines"])
def test_types_are_told(package: str) -> None:
    assert (ROOT / package / "py.typed").exists()


def test_what_is_logged_has_no_secret(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """As little as what the command prints."""
    from pipelines import library

    (tmp_path / "sources").mkdir()
    (tmp_path / "sources" / "shop.yml").write_text(
        "name: shop\n"
        "rocketmq: {name_servers: 'h:1', topics: [t], access_key: u, secret_key: canary-77}\n"
    )
    warehouse: Any = SimpleNamespace(config=load(tmp_path, environ={}))

    class Talkative:
        def __init__(self, _: Any, console: Any, **__: Any) -> None:
            self.console = console

        def until_done(self) -> None:
            self.console.say("the broker said canary-77")

    monkeypatch.setattr(library, "Run", Talkative)
    with caplog.at_level(logging.INFO, "pipelines"):
        library.run(warehouse)
    assert caplog.messages == ["the broker said [hidden]"]


def test_a_message_is_decoded_without_spark() -> None:
    code = (
        "import sys; from ingest import Message, decoder_of;"
        "message = Message(value=sys.stdin.buffer.read());"
        "events = decoder_of('canal', time_zone='Asia/Shanghai')(message);"
        "print([(event.op, event.table, event.after) for event in events]);"
        "print({'pyspark', 'delta', 'pandas'} & set(sys.modules))"
    )
    sent = {
        "type": "INSERT",
        "database": "shop",
        "table": "orders",
        "isDdl": False,
        "es": 1_700_000_000_000,
        "ts": 1_700_000_000_500,
        "id": 7,
        "pkNames": ["id"],
        "mysqlType": {"id": "int", "at": "timestamp"},
        "data": [{"id": "1", "at": "2024-05-01 08:00:00"}],
        "old": None,
    }
    done = subprocess.run(
        [sys.executable, "-c", code], input=json.dumps(sent).encode(), capture_output=True, cwd=ROOT
    )
    assert done.returncode == 0, done.stderr.decode()
    rows, loaded = done.stdout.decode().splitlines()
    assert rows == "[('insert', 'orders', {'id': '1', 'at': '2024-05-01T00:00:00Z'})]"
    assert loaded == "set()"


def test_what_is_no_message_of_the_format_is_refused() -> None:
    with pytest.raises(DecodeError):
        decoder_of("canal")(Message(value=b"{"))


def test_what_is_declared_is_checked_as_in_yaml() -> None:
    with pytest.raises(ConfigError, match="canall"):
        decoder_of("canall")
    with pytest.raises(ConfigError, match="time_zone"):
        decoder_of("canal", time_zone="Asia/Shanghay")
    with pytest.raises(ConfigError, match="unavailable"):
        decoder_of("debezium", options={"unavailablee": "x"})
