"""Secrets that a platform keeps, and sentences without those of the configuration."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

from ingest.config.load import load
from pipelines.platform.secrets import secret_scopes, without_any


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


def test_only_a_platform_with_secret_scopes_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DATABRICKS_RUNTIME_VERSION", raising=False)
    assert secret_scopes() is None


def test_databricks_gives_what_its_scopes_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    def get(*, scope: str, key: str) -> str:
        if (scope, key) != ("kafka", "password"):
            raise RuntimeError(f"Secret does not exist with scope: {scope} and key: {key}")
        return "canary-88"

    runtime = ModuleType("databricks.sdk.runtime")
    runtime.dbutils = SimpleNamespace(secrets=SimpleNamespace(get=get))  # type: ignore[attr-defined]
    monkeypatch.setenv("DATABRICKS_RUNTIME_VERSION", "client.4.9")
    monkeypatch.setitem(sys.modules, "databricks.sdk.runtime", runtime)
    ask = secret_scopes()
    assert ask is not None and ask("kafka", "password") == "canary-88"
    with pytest.raises(LookupError, match="Secret does not exist with scope: kafka and key: user"):
        ask("kafka", "user")
    monkeypatch.setitem(sys.modules, "databricks.sdk.runtime", None)
    with pytest.raises(LookupError, match=r"databricks\.sdk\.runtime"):
        ask("kafka", "password")
