"""What a mistake says of a secret: where it stands, and never what it is."""

from __future__ import annotations

from pathlib import Path

import pytest

from ingest.config.load import load
from ingest.errors import ConfigError

CANARY = "canary77"


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("sources/s.yml", "rabbitmq: {servers: 'h:1', queues: [q], password: 7701234567}"),
        ("sources/s.yml", "rabbitmq: 'amqp://user:canary77@host/%2f'"),
        ("sources/s.yml", "rabbitmq: {servers: 'u:canary77@h:1', queues: [q], password: x}"),
        ("sources/s.yml", "rocketmq: {name_servers: 'u:canary77@h:1', topics: [t]}"),
        (
            "sources/s.yml",
            "rocketmq: {name_servers: 'h:1', topics: [t], access_key: u, secret_key: [canary77]}",
        ),
        ("sources/s.yml", "kafka: {bootstrap_servers: 'SASL://u:canary77@h:1', topics: [t]}"),
        (
            "sources/s.yml",
            "kafka: {bootstrap_servers: 'h:1', topics: [t], options: {sasl.jaas.config: "
            "[password=canary77]}}",
        ),
        (
            "sources/s.yml",
            "kafka: {bootstrap_servers: 'h:1', topics: [t], options: 'sasl.password=canary77'}",
        ),
        (
            "sources/s.yml",
            "format: debezium_avro\nfiles: {path: 'x/*'}\noptions: registry_password=canary77",
        ),
        ("sources/s.yml", "format: dts\nfiles: {path: 'x/*'}\noptions: [canary77]"),
        ("sources/s.yml", "kafka: 'sasl.password=canary77'"),
        ("sources/s.yml", "kafka: sasl.password: canary77"),
        ("sources/s.yml", "rocketmq: 'secret_key=canary77'"),
        ("ingest.yml", "checks: 'webhook=http://h/canary77'"),
        (
            "sources/s.yml",
            "format: debezium_avro\nfiles: {path: 'x/*'}\noptions: {schema_registry: "
            "'http://h', registry_password: [canary77]}",
        ),
        (
            "sources/s.yml",
            "format: debezium_avro\nfiles: {path: 'x/*'}\noptions: {schema_registry: "
            "'ftp://u:canary77@h', registry_timeout: x}",
        ),
        *(
            (
                "sources/s.yml",
                "format: debezium_avro\nfiles: {path: 'x/*'}\noptions: {schema_registry: "
                f"'{address}'}}",
            )
            for address in (
                "u:canary77@h:8081",
                "u@canary77@h:8081",
                "http://u:x/canary77@h:8081",
                "http://u:x@canary77@h:x",
                "http://u:x canary77@h",
            )
        ),
        ("sources/s.yml", "rabbitmq: {servers: 'h:1', queues: [q], password: !canary77 }"),
        (
            "sources/s.yml",
            "kafka: {bootstrap_servers: 'h:1', topics: [t], options: {ssl.key.password: "
            "canary77(7,7)canary77}}",
        ),
        ("sources/s.yml", "format: 'u:canary77@h'\nfiles: {path: 'x/*'}"),
        ("sources/s.yml", "time_zone: 'http://u:canary77@h'\nfiles: {path: 'x/*'}"),
        ("sources/s.yml", "files: {path: 'x/*', 'http://u:canary77@h': 1}"),
        ("ingest.yml", "retention: {bronze: {a: canary77}}"),
        ("ingest.yml", "mask_secret: canary77"),
        ("ingest.yml", "checks: {webhook: 'hooks.example/canary77'}"),
        ("ingest.yml", "checks: {webhook: 7701234567}"),
        ("ingest.yml", "warehouse: 's3://key:canary77@bucket/x'"),
        ("ingest.yml", "warehouse: 's3://key:x/canary77@bucket/x'"),
        ("ingest.yml", "warehouse: 's3://key:x@canary77@bucket/x'"),
        ("ingest.yml", "checkpoints: 's3://key:canary77@bucket/x'"),
    ],
)
def test_no_mistake_repeats_a_secret(tmp_path: Path, file: str, text: str) -> None:
    (tmp_path / "sources").mkdir()
    right = "name: other\nfiles: {path: 'landing/*.jsonl'}\n"
    (tmp_path / "sources" / "other.yml").write_text(right)
    begun = "name: s\n" if file.startswith("sources") else ""
    (tmp_path / file).write_text(f"{begun}{text}\n")
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, environ={})
    said = "\n".join(map(str, caught.value.mistakes))
    assert file in said
    assert CANARY not in said and "7701234567" not in said
