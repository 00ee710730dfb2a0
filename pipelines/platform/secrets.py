"""Secrets that the platform keeps, and sentences without those of the configuration: the message of
a client or a server about a failure may repeat what it was given."""

from __future__ import annotations

import importlib
import os
import re
from collections.abc import Mapping
from typing import Any

from ingest.addresses import LOGIN
from ingest.config.load import Config
from ingest.config.yaml import SECRET, Scopes
from pipelines.platform.failures import gist

_PART = re.compile(r"=\s*[\"']?([^\s\"';]+)")
_QUOTED = re.compile(r"""=\s*(["'])((?:(?!\1)[^\\]|\\.)*)\1""")
"""A value of a JAAS entry, in which a backslash takes the next character as it is."""
_SHORTEST = 3
HIDDEN = "[hidden]"


def secret_scopes() -> Scopes | None:
    """A function that asks the secret scopes of the platform; only Databricks has them, so None
    elsewhere."""
    return _of_databricks if "DATABRICKS_RUNTIME_VERSION" in os.environ else None


def _of_databricks(scope: str, key: str) -> str:
    try:
        # https://databricks-sdk-py.readthedocs.io/en/latest/dbutils.html
        runtime = importlib.import_module("databricks.sdk.runtime")
        return str(runtime.dbutils.secrets.get(scope=scope, key=key))
    except Exception as error:
        raise LookupError(gist(error)) from None


def without_secrets(text: str, options: Mapping[str, Any]) -> str:
    """The text without the values of options that are secret."""
    for name, value in options.items():
        if value is not None and SECRET.search(name):
            parts = [str(value), *_PART.findall(str(value))]
            parts += [re.sub(r"\\(.)", r"\1", part) for _, part in _QUOTED.findall(str(value))]
            for part in sorted(parts, key=len, reverse=True):
                text = text.replace(part, HIDDEN) if len(part) >= _SHORTEST else text
    return text


def without_any(text: str, config: Config) -> str:
    """The text without the secrets of all sources, and without logins in addresses."""
    for source in config.sources.values():
        text = without_secrets(text, source.options)
        if source.kafka is not None:
            text = without_secrets(text, source.kafka.options)
        if source.rabbitmq is not None:
            text = without_secrets(text, {"password": source.rabbitmq.password})
        if source.rocketmq is not None:
            text = without_secrets(text, {"secret_key": source.rocketmq.secret_key})
    if config.settings.checks.webhook:
        text = text.replace(config.settings.checks.webhook, HIDDEN)
    return LOGIN.sub(HIDDEN, text)
