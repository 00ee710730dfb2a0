"""Sentences without the secrets of the configuration."""

from __future__ import annotations

from pathlib import Path

import pytest

from ingest.config.load import load
from pipelines.platform.secrets import without_any


def test_the_secret_of_a_rocketmq_source_is_hidden(tmp_path: Path) -> None:
    (tmp_path / "sources").mkdir()
    (tmp_path / "sources" / "shop.yml").write_text(
        "name: shop\n"
        "rocketmq: {name_servers: 'h:1', topics: [t], access_key: u, secret_key: canary-77}\n"
    )
    config = load(tmp_path, environ={})
    assert without_any("the broker said canary-77", config) == "the broker said [hidden]"


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ("GET http://u:pa@55/w@host/x: 401", "GET http://[hidden]@host/x: 401"),
        ("no answer of `u:pa/55w@host:1`", "no answer of `[hidden]@host:1`"),
        ("http://host/x: 12:30 is late, ask ada@host", None),
        ('{"url":"http://host","mail":"ada@host"}', None),
    ],
)
def test_logins_in_addresses_are_hidden_whole(
    tmp_path: Path, said: str, expected: str | None
) -> None:
    (tmp_path / "sources").mkdir()
    (tmp_path / "sources" / "shop.yml").write_text("name: shop\nfiles: {path: 'landing/*'}\n")
    assert without_any(said, load(tmp_path, environ={})) == (expected or said)
