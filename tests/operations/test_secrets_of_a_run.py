"""No secret of a configuration, and no password of a statement, is where a run leaves anything."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.operations.test_masks import held
from tests.support.project import Project, canal, canal_ddl

pytestmark = pytest.mark.usefixtures("spark")

PLACES = (
    *("KAFKA_JAAS", "KAFKA_STORE", "RABBIT", "ROCKET", "REGISTRY_PASSWORD", "REGISTRY_TOKEN"),
    *("REGISTRY_URL", "PEPPER", "HOOK"),
)
CANARIES = {name: f"canary-of-{name.lower().replace('_', '-')}-4711" for name in PLACES}
IN_FILE, IN_SCOPE = "canary-of-a-file-4711", "canary-of-a-scope-4711"
OF_STATEMENTS = ("h0rse-of-grant", "h0rse-of-login", "h0rse-of-table")
NOBODY = "127.0.0.1:1"
AVRO = "name: avro\nformat: debezium_avro\nfiles: {path: 'landing/avro/*', framing: hex_lines}\n"
CONF = {
    "conf/ingest.yml": (
        "mask_secret: env:PEPPER\n"
        f"checks: {{rejects: 0, webhook: 'http://{NOBODY}/services/${{HOOK}}'}}\n"
    ),
    "conf/sources/kafka.yml": (
        f"name: kafka\nkafka:\n  bootstrap_servers: {NOBODY}\n  topics: [t]\n  options:\n"
        "    security.protocol: SASL_PLAINTEXT\n    sasl.mechanism: PLAIN\n"
        "    sasl.jaas.config: >-\n      org.apache.kafka.common.security.plain.PlainLoginModule\n"
        '      required username="reader" password="${KAFKA_JAAS}";\n'
        "    ssl.keystore.password: ${KAFKA_STORE}\n"
        "    ssl.key.password: ${secret:kafka/key}\n"
    ),
    "conf/sources/rabbit.yml": (
        f"name: rabbit\nrabbitmq: {{servers: '{NOBODY}', queues: [q], password: '${{RABBIT}}'}}\n"
    ),
    "conf/sources/rocket.yml": (
        f"name: rocket\nrocketmq: {{name_servers: '{NOBODY}', topics: [t], access_key: reader, "
        "secret_key: '${ROCKET}'}\n"
    ),
    "conf/sources/avro.yml": (
        f"{AVRO}options:\n  schema_registry: 'http://reader:${{REGISTRY_URL}}@{NOBODY}'\n"
        "  registry_password: ${REGISTRY_PASSWORD}\n  registry_user: reader\n"
        "  registry_timeout: 1\n"
    ),
    "conf/sources/token.yml": (
        AVRO.replace("avro", "token", 1) + f"options:\n  schema_registry: http://{NOBODY}\n"
        "  registry_token: ${REGISTRY_TOKEN}\n  registry_timeout: 1\n"
    ),
    "conf/sources/shop.yml": "name: shop\nformat: canal\nfiles: {path: 'landing/*.jsonl'}\n",
    "conf/tables/shop.yml": "source: shop\ntables: [{from: '*', columns: {name: {mask: hash}}}]\n",
}
STATEMENTS = (
    f"GRANT ALL ON *.* TO 'bo'@'%' IDENTIFIED BY '{OF_STATEMENTS[0]}'",
    f"CREATE USER bo IDENTIFIED WITH mysql_native_password BY '{OF_STATEMENTS[1]}'",
    f"CREATE TABLE far (id int) ENGINE=FEDERATED CONNECTION='mysql://bo:{OF_STATEMENTS[2]}@h/d/t'",
)
VERBS = (
    ("validate",),
    ("validate", "--connect"),
    ("plan",),
    ("run", "--log-format", "json", "--metrics"),
    ("run",),
    ("status",),
    ("status", "--check"),
    ("ddl", "list"),
    ("rejects", "list"),
    ("rejects", "summary"),
    ("history", "shop_orders"),
    ("reconcile", "shop_orders"),
    ("erase", "shop_orders", "--key", "id=1"),
    ("redecode", "--source", "avro"),
    ("rebuild", "shop_orders"),
    ("as-of", "shop_orders", "--time", "2024-03-04T00:00:00Z"),
    ("init", "--sample", "landing/0.jsonl", "--name", "again"),
    ("maintain",),
    ("upgrade",),
    ("inspect", "landing/0.jsonl", "--source", "shop"),
    ("report", "--out", "report.html"),
    ("sql", "SELECT * FROM gold._runs"),
    ("sql", "SELECT * FROM gold._progress"),
    ("sql", "SELECT * FROM silver.cdc"),
)


def in_scope(scope: str, key: str) -> str:
    """What every secret scope of the platform holds."""
    return IN_SCOPE


def command_lines() -> Iterator[str]:
    """What processes of this machine were started with, as far as it can be read."""
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            yield file.read_bytes().decode("utf-8", "replace")
        except OSError:
            continue


@pytest.mark.slow
def test_secrets_are_nowhere(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("INGEST_DEBUG", "1")
    for name, canary in CANARIES.items():
        monkeypatch.setenv(name, canary)
    monkeypatch.setattr("pipelines.platform.secrets.secret_scopes", lambda: in_scope)
    secret = tmp_path.parent / f"{tmp_path.name}.secret"
    secret.write_text(f"{IN_FILE}\n")
    project = Project(tmp_path, capsys.readouterr)
    for file, text in CONF.items():
        project.write(
            file, text.replace("registry_user: reader", f"registry_user: ${{file:{secret}}}")
        )
    (tmp_path / "landing" / "avro").mkdir()
    project.land("avro/0.hex", ["00000000090202"])
    row = {"id": "1", "name": "Ada", "price": "1.00"}
    statements = enumerate(STATEMENTS, 2)
    project.land(
        "0.jsonl",
        [
            canal("orders", "INSERT", row, es=1, id_=1),
            *(canal_ddl("", text, es=n, id_=n, type_="QUERY") for n, text in statements),
            # One whose text is all that there is to show.
            json.dumps(canal_ddl("", STATEMENTS[0], es=9, id_=9))[:-1],
        ],
    )
    said = []
    for words in VERBS:
        words = (*words, "metrics.prom") if words[-1] == "--metrics" else words
        for shown in ((), ("--json",)):
            if shown and words[0] in ("run", "report"):
                continue
            answer = project.ingest(*shown, *words)
            assert answer.code in (0, 1, 2), answer.err
            said.append(f"{words}\n{answer.out}\n{answer.err}")
    failed = "\n".join(said)
    assert all(f"source {name}" in failed for name in ("kafka", "rabbit", "rocket"))
    assert "expected the schema of id 9 from" in failed
    assert "the webhook at 127.0.0.1 could not be told" in failed
    written = held(
        *(file for file in tmp_path.iterdir() if file.is_dir() and file.name != "landing")
    )
    written += (tmp_path / "report.html").read_text() + (tmp_path / "metrics.prom").read_text()
    lines = "\n".join(command_lines())
    for canary in (*CANARIES.values(), IN_FILE, IN_SCOPE):
        for where in (failed, written, lines):
            at = where.find(canary)
            assert at == -1, where[max(0, at - 300) : at + 100]

    # Bronze, and a message that could not be read, are as they were received; nothing else is.
    kept = held(*(tmp_path / "warehouse" / layer for layer in ("gold", "_checkpoints")))
    selected = project.ingest("--json", "sql", "SELECT ddl, error FROM silver.cdc").out
    listed = project.ingest("ddl", "list").out + (tmp_path / "report.html").read_text()
    for password in OF_STATEMENTS:
        for where in (kept, selected, listed):
            at = where.find(password)
            assert at == -1, where[max(0, at - 300) : at + 100]
    assert selected.count("***") >= len(STATEMENTS)
