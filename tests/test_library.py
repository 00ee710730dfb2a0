"""The names that both packages offer as a library, and decoding with the core alone."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

import ingest
import pipelines
from ingest import ConfigError, DecodeError, Message, decoder_of

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
