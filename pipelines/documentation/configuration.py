"""The reference of the YAML, from the models: each key's type, default, example and error."""

from __future__ import annotations

import tempfile
import typing
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from ingest.config.load import load
from ingest.config.mistakes import models_in
from ingest.config.model import ConfigModel
from ingest.config.settings import VARIABLES, Settings
from ingest.config.sources import TRANSPORTS, Source
from ingest.config.tables import Tables
from ingest.errors import ConfigError
from ingest.limits import Limits
from pipelines.documentation.keys import SETTINGS, SOURCE, TABLES, Key
from pipelines.documentation.pages import code, fenced

FILES: Mapping[str, tuple[str, type[ConfigModel], Mapping[str, Key]]] = {
    "settings": ("conf/ingest.yml", Settings, SETTINGS),
    "source": ("conf/sources/shop.yml", Source, SOURCE),
    "tables": ("conf/tables/shop.yml", Tables, TABLES),
}
"""What there is to declare: the file, its model, what is said of its keys."""
_DEPOT = {"name": "shop", "files": {"path": "landing/*.jsonl"}}
_WHOLE: Mapping[str, Mapping[str, Any]] = {
    "settings": {},
    "source": _DEPOT,
    "tables": {"source": "shop"},
}
_NEEDED: Mapping[str, Mapping[str, Any]] = {
    "kafka": {"bootstrap_servers": "broker-1:9092", "topics": ["shop.orders"]},
    "rabbitmq": {"servers": "rabbit-1:5672", "password": "secret", "queues": ["shop.orders"]},
    "rocketmq": {"name_servers": "rocketmq-1:9876", "topics": ["shop"]},
}
"""What each transport has in any case."""
_INSTEAD = {("topics_pattern", "topics"), ("super_stream", "queues")}
"""What is given instead of another key."""
_BESIDE: Mapping[str, Mapping[str, Any]] = {
    "rocketmq.access_key": {"secret_key": "${ROCKETMQ_SECRET:-secret}"},
    "rocketmq.secret_key": {"access_key": "reader"},
    "rocketmq.ca_file": {"tls": True},
    "rabbitmq.tls.key_file": {"cert_file": "certificates/cdc.pem"},
}
"""What a key is given with."""


def fields(model: type[BaseModel], above: str = "") -> Iterator[tuple[str, FieldInfo]]:
    """Every key of a model with those of the models in it, as dotted paths, in order."""
    for name, field in model.model_fields.items():
        path = f"{above}{field.alias or name}"
        yield path, field
        if path not in ("defaults", "checks.tables"):
            for inner in models_in(field.annotation):
                yield from fields(inner, f"{path}.")


def reference(what: str) -> str:
    """The reference of one file's keys."""
    _, model, keys = FILES[what]
    parts = []
    for path, field in fields(model):
        key = keys[path]
        lines = [f"### `{path}`", "", key.text, "", f"- Type: {_type(path, field, key)}"]
        lines.append(f"- Default: {_default(path, field, key)}")
        if what == "settings" and not any(models_in(field.annotation)):
            variable = next(v for v, place in VARIABLES.items() if ".".join(place) == path)
            lines.append(f"- Environment: `{variable}`")
        lines.append(f"- Since: {key.since}")
        lines += ["", fenced("yaml", _yaml(what, path, key.example))]
        wrong = yaml.safe_dump(key.wrong, default_flow_style=True, width=1000).strip()
        wrong = wrong.removesuffix("...").strip()
        lines += ["", f"With {code(wrong)} it says:", ""]
        lines.append(fenced("text", "\n".join(printed(what, path, key.wrong))))
        parts.append("\n".join(lines))
    return "\n\n".join(parts)


def document(what: str, path: str, value: Any) -> dict[str, Any]:
    """A file with one key given, and what it needs besides."""
    whole: dict[str, Any] = {**_WHOLE[what]}
    *above, last = path.split(".")
    if above == ["tables"]:
        entry = {last: value} if last == "from" else {"from": "shop.*", last: value}
        return {**whole, "tables": [entry]}
    if (above or [last])[0] in _NEEDED:
        whole.pop("files", None)
    if path in TRANSPORTS:
        whole[path] = value
        return whole
    place = whole
    for name in above:
        place[name] = dict(place.get(name, {}))
        place = place[name]
    for name, needed in _NEEDED.get((above or [""])[0], {}).items():
        if last != name and (last, name) not in _INSTEAD:
            whole[above[0]][name] = needed
    place |= _BESIDE.get(path, {})
    if path == "options":
        whole["format"] = "debezium"
    if path == "catalog":
        whole["checkpoints"] = "/Volumes/main/bronze/checkpoints"
    if path == "retention.silver" and value == "90 days":
        place["bronze"] = "30 days"
    place[last] = value
    return whole


def printed(what: str, path: str, value: Any) -> list[str]:
    """What `ingest validate` prints of a file in which one key has this value."""
    files = {_file: dict(_WHOLE[name]) for name, (_file, _, _) in FILES.items()}
    files[FILES[what][0]] = document(what, path, value)
    with tempfile.TemporaryDirectory() as folder:
        for name, content in files.items():
            file = Path(folder) / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(_dumped(content), encoding="utf-8")
        try:
            load(Path(folder) / "conf", environ={})
        except ConfigError as error:
            return [str(mistake).replace(f"{folder}/", "") for mistake in error.mistakes]
    return []


def _yaml(what: str, path: str, value: Any) -> str:
    return f"# {FILES[what][0]}\n{_dumped(document(what, path, value))}"


def _dumped(content: Mapping[str, Any]) -> str:
    return yaml.safe_dump(dict(content), sort_keys=False, width=90, allow_unicode=True) or "{}\n"


def _type(path: str, field: FieldInfo, key: Key) -> str:
    annotation: Any = field.annotation
    words = _words(annotation)
    if path == "stored_as_scd_type" or path.endswith(".stored_as_scd_type"):
        return "`1`, `2` or `append`"
    if words:
        return " or ".join(filter(None, [", ".join(code(w) for w in words[:-1]), code(words[-1])]))
    if path.endswith(("options", "columns", "keys", "ddl")) and "Mapping" in str(annotation):
        return "keys with values"
    if "Mapping[str, int]" in str(annotation):
        return "text, or keys with values"
    if annotation is bool:
        return "`true` or `false`"
    if any(models_in(annotation)):
        listed = "a list of " if path == "tables" else ""
        return f"{listed}keys with values, see below" if path != "defaults" else "keys with values"
    if key.schema is not None and "pattern" in str(key.schema):
        if "minute" in str(key.schema):
            return "a number of seconds, minutes, hours or days"
        return "a number or a share" if "fail" in path else "a number of days"
    if path.endswith("from") or path.endswith("sequence_by"):
        return "a text or a list of texts"
    if "tuple" in str(annotation):
        return "a list of texts"
    return "a whole number" if int in _leaves(annotation) else "text"


def _leaves(annotation: Any) -> list[Any]:
    """The plain types that an annotation is made of."""
    inner = typing.get_args(annotation)
    return [leaf for each in inner for leaf in _leaves(each)] if inner else [annotation]


def _words(annotation: Any) -> list[str]:
    """The words that a Literal allows."""
    if typing.get_origin(annotation) is typing.Literal:
        return [str(word) for word in typing.get_args(annotation)]
    return []


def _default(path: str, field: FieldInfo, key: Key) -> str:
    default = key.default or field.get_default()
    if default is PydanticUndefined:
        return "none, it is required"
    if path.startswith("limits."):
        default = getattr(Limits(), path.partition(".")[2])
    if path == "tables":
        return "`[{from: '*'}]`"
    if isinstance(default, ConfigModel):
        return "as below" if path != "defaults" else "nothing"
    if default is None or default in ({}, ()):
        return "none"
    return code(str(default).lower() if isinstance(default, bool) else str(default))
