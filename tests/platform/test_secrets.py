"""Sentences without the secrets of the configuration."""

from __future__ import annotations

from pathlib import Path

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
