"""Every mistake of the conf folder at once, each with its file and line."""

from __future__ import annotations

import errno
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from ingest.config.load import Config, load
from ingest.errors import ConfigError, Mistake
from ingest.wire.contract import Decoder, Format, FormatOptions


def _none(_: FormatOptions) -> Decoder:
    return lambda _: iter(())


PLAIN = Format(decoder=_none, order="source", summary="", source="", recognised="", ordered="")
FORMATS = dict.fromkeys(("canal", "debezium", "plain"), PLAIN)
SHOP = "name: shop\nfiles: {path: in/*.jsonl}\n"

Conf = Callable[..., Path]


@pytest.fixture
def conf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Conf:
    """Writes a conf folder from texts, named by their paths in it; it becomes `conf` here."""
    monkeypatch.chdir(tmp_path)

    def write(files: Mapping[str, str]) -> Path:
        (tmp_path / "conf").mkdir(parents=True, exist_ok=True)
        for name, text in files.items():
            path = tmp_path / "conf" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return Path("conf")

    return write


def loaded(folder: Path, environ: Mapping[str, str] | None = None, **overrides: Any) -> Config:
    return load(folder, environ=environ or {}, overrides=overrides, formats=FORMATS)


def mistakes(
    folder: Path, environ: Mapping[str, str] | None = None, **overrides: Any
) -> list[Mistake]:
    with pytest.raises(ConfigError) as caught:
        loaded(folder, environ, **overrides)
    return list(caught.value.mistakes)


def one(conf: Conf, source: str, **environ: str) -> list[tuple[int | None, str]]:
    """Lines and texts of the mistakes of a single source file."""
    found = mistakes(conf({"sources/shop.yml": source}), environ)
    assert {mistake.file for mistake in found} == {"conf/sources/shop.yml"}
    return [(mistake.line, mistake.text) for mistake in found]


def two(conf: Conf, tables: str) -> list[tuple[int | None, str]]:
    """Lines and texts of the mistakes of a single tables file, beside a right source."""
    found = mistakes(conf({"sources/shop.yml": SHOP, "tables/shop.yml": tables}))
    assert {mistake.file for mistake in found} == {"conf/tables/shop.yml"}
    return [(mistake.line, mistake.text) for mistake in found]


def test_every_mistake_of_every_file_at_once(conf: Conf) -> None:
    folder = conf(
        {
            "ingest.yml": "warehouse: [a]\nschemas: {gold: hist, history: hist}\nmerge_thread: 8\n",
            "sources/a.yml": "name: shop\nformat: cannal\nfiles: {path: x, framing: line}\n",
            "sources/b.yml": "kafka:\n  topics: [a]\nname: shop\ntime_zone: asia/shangai\n",
            "sources/c.yml": "name: [",
            "tables/a.yml": "source: shop\ntables: [{from: a.b.c.d}]\n",
            "tables/b.yml": "tables: []\nsource: shop\n",
        }
    )
    found = mistakes(folder)
    assert [(mistake.file.removeprefix("conf/"), mistake.line) for mistake in found] == [
        ("ingest.yml", 1),
        ("ingest.yml", 2),
        ("ingest.yml", 3),
        ("sources/a.yml", 2),
        ("sources/a.yml", 3),
        ("sources/b.yml", 1),
        ("sources/b.yml", 3),
        ("sources/b.yml", 4),
        ("sources/c.yml", 1),
        ("tables/a.yml", 2),
        ("tables/b.yml", 2),
    ]
    texts = [mistake.text for mistake in found]
    assert texts[0] == "`warehouse`: expected text, got a list"
    assert texts[1] == "`schemas.gold`: gold needs a schema of its own, got that of history"
    assert texts[2].endswith("nearest: merge_threads")
    assert (
        texts[3]
        == "`format`: expected auto, canal, debezium or plain, got `cannal`; nearest: canal"
    )
    assert texts[4].endswith("got `line`; nearest: lines")
    assert texts[5] == "`kafka.bootstrap_servers` is missing"
    assert texts[6] == "`name`: `shop` is already that of conf/sources/a.yml"
    assert texts[7].endswith("got `asia/shangai`; nearest: Asia/Shanghai")
    assert texts[8].startswith("not YAML: ")
    assert texts[9].endswith("got `a.b.c.d`")
    assert texts[10] == "`source`: `shop` is already that of conf/tables/a.yml"


SOURCE_MISTAKES = [
    ("name: shop\n", 1, "expected a transport (kafka, rabbitmq, rocketmq, files), got none"),
    (
        "name: shop\nfiles: {path: x}\n\nkafka: {bootstrap_servers: 'h:1', topics: [t]}\n",
        2,
        "`files`: expected exactly one transport, got kafka and files",
    ),
    ("files: {path: x}\n", 1, "`name` is missing"),
    (
        "name: a/b\nfiles: {path: x}\n",
        1,
        "`name`: expected a name like ^[A-Za-z0-9][A-Za-z0-9_.-]*$, got `a/b`",
    ),
    (SHOP + "frmat: auto\n", 3, "nearest: format"),
    (SHOP + "order: soruce\n", 3, "`order`: expected auto, source or arrival, got `soruce`; "),
    (SHOP + "epoch: -1\n", 3, "`epoch`: expected 0 or more, got -1"),
    (SHOP + "epoch: one\n", 3, "`epoch`: expected a whole number, got `one`"),
    (SHOP + "epoch: true\n", 3, "`epoch`: expected a whole number"),
    (SHOP + "epoch: 1.0\n", 3, "`epoch`: expected a whole number"),
    (SHOP + "default_database: 2024\n", 3, "expected text, got 2024; put it in quotes"),
    (SHOP + "time_zone: Shanghai\n", 3, "like Asia/Shanghai or +08:00, got `Shanghai`"),
    (SHOP + "time_zone: localtime\n", 3, "like Asia/Shanghai or +08:00, got `localtime`"),
    (SHOP + "time_zone: right/UTC\n", 3, "like Asia/Shanghai or +08:00, got `right/UTC`"),
    (SHOP + "time_zone: ../UTC\n", 3, "like Asia/Shanghai or +08:00, got `../UTC`"),
    (SHOP + "keys:\n  a.b: [x]\n  a.*: [y]\n", 5, "expected the name of one table"),
    (SHOP + "keys:\n  a.b: []\n", 4, "`keys.a.b`: expected at least one name, got none"),
    (SHOP + "keys:\n  a.b: [x, Y, X]\n", 4, "`keys.a.b`: `X` stands twice"),
    (SHOP + "keys:\n  a.b: x\n", 4, "`keys.a.b`: expected a list, got `x`; write [x]"),
    (SHOP + "keys:\n  a.b: '*'\n", 4, "`keys.a.b`: expected a list, got `*`; write ['*']"),
    (SHOP + "keys: [a]\n", 3, "`keys`: expected keys with values, got a list"),
    (
        "name: shop\nfiles: a.jsonl\n",
        2,
        "`files`: expected keys with values, got text; its keys are path,",
    ),
    (SHOP + "columns:\n  a.b:\n    c: int\n    d: decimal(1\n", 6, "expected a column type"),
    (SHOP + "columns:\n  a..b: {c: int}\n", 4, "expected db.table or db.schema.table, got `a..b`"),
    (SHOP + "files: {path: y}\n", 3, "`files` is already given on line 2"),
    ("[]\n", 1, "expected keys with values, got a list"),
    ("\n\nname\n", 1, "expected keys with values, got `name`"),
    ("name: shop\nfiles:\n  framing: lines\n", 2, "`files.path` is missing"),
    ("name: shop\nfiles:\n  path: x\n  order: modifed\n", 4, "got `modifed`; nearest: modified"),
    (
        "name: shop\nfiles: {path: ~/in/*.jsonl}\n",
        2,
        "`files.path`: expected a path, got `~/in/*.jsonl`: `~` is no home folder here",
    ),
    (
        "name: shop\nfiles: {path: $HOME/in/*.jsonl}\n",
        2,
        "`files.path`: expected a path, got `$HOME/in/*.jsonl`: `$HOME` is not replaced; write "
        "${HOME}, or ./$HOME/in/*.jsonl for a name that begins with it",
    ),
    ('name: shop\nfiles: {path: "in\\0"}\n', 2, "expected a path, got a text that is none"),
    (
        "name: shop\nfiles:\n  path: >\n    in/*.jsonl\n",
        3,
        "`files.path`: expected a path, got a text with a line break; write it in one line",
    ),
    ("name: shop\nfiles: {path: ' '}\n", 2, "expected a path, got a text that is none"),
    (f"name: {'x' * 201}\nfiles: {{path: x}}\n", 1, "`name`: expected at most 200 characters, got"),
    (
        SHOP + f"epoch: {2**63}\n",
        3,
        "`epoch`: expected a number below 2^63, got 9223372036854775808",
    ),
    (SHOP + "time_zone: '+18:30'\n", 3, "like Asia/Shanghai or +08:00, got `+18:30`"),
    (SHOP + "keys:\n  a.b.c.d: [id]\n", 4, "expected db.table or db.schema.table, got `a.b.c.d`"),
    (SHOP + "columns:\n  a.b.c.d: {id: int}\n", 4, "or db.schema.table, got `a.b.c.d`"),
    (SHOP + "rejects: {fail_above: 150%}\n", 3, "a share like 1%, 100% at most, got `150%`"),
]


@pytest.mark.parametrize(("source", "line", "part"), SOURCE_MISTAKES)
def test_a_mistake_of_a_source(conf: Conf, source: str, line: int, part: str) -> None:
    [(found, text)] = one(conf, source)
    assert found == line
    assert part in text


KAFKA = "name: shop\nkafka:\n  bootstrap_servers: h:1\n"
KAFKA_MISTAKES = [
    (KAFKA, 2, "`kafka`: expected topics or topics_pattern, got neither"),
    (
        KAFKA + "  topics: [t]\n  topics_pattern: t\n",
        5,
        "either topics or topics_pattern, got both",
    ),
    (KAFKA + "  topics: []\n", 4, "`kafka.topics`: expected at least one name, got none"),
    (KAFKA + "  topics_pattern: 'a['\n", 4, "expected a regular expression, got `a[`"),
    (KAFKA + "  topics: [t]\n  starting_offsets: erliest\n", 5, "got `erliest`"),
    (KAFKA + "  topics: [t]\n  starting_offsets: '[1]'\n", 5, "expected earliest, latest or JSON"),
    (
        KAFKA + """  topics: [orders, t]\n  starting_offsets: '{"order": {"0": 5}}'\n""",
        5,
        "`kafka.starting_offsets`: `order` is not read; expected of `topics` orders or t; nearest: "
        "orders",
    ),
    (
        KAFKA + "  topics: [t]\n  options:\n    failOnDataLoss: false\n",
        6,
        "`kafka.options.failOnDataLoss`: is an option of Spark's, not of the client; lost says it",
    ),
    (KAFKA + "  topics: [t]\n  options:\n    Client-Id: a\n", 6, "Kafka client option"),
    (
        KAFKA + "  topics: [t]\n  options:\n    databricks.serviceCredentials: a\n",
        6,
        "expected databricks.serviceCredential or databricks.serviceCredential.scope; nearest: ",
    ),
    *(
        (
            KAFKA + "  topics: [t]\n  options:\n    security.protocol: SASL_SSL\n"
            f"    sasl.mechanism: {given}\n",
            7,
            "`kafka.options.sasl.mechanism`: expected GSSAPI, PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, "
            f"OAUTHBEARER or AWS_MSK_IAM, got `{given}`; nearest: {near}",
        )
        for given, near in (
            ("SCRAM-SHA512", "SCRAM-SHA-512"),
            ("scram-sha-256", "SCRAM-SHA-256"),
            ("SCRAM_SHA_512", "SCRAM-SHA-512"),
            ("plain", "PLAIN"),
        )
    ),
    (
        KAFKA + "  topics: [t]\n  options:\n    a.b: 1\n    kafka.auto.offset.reset: x\n",
        7,
        "cannot be set: starting_offsets says where to begin",
    ),
    (
        KAFKA + "  topics: [t]\n  options:\n    kafka.a.b: 1\n    a.b: 1\n",
        7,
        "is given with and without the prefix kafka.",
    ),
    (KAFKA + "  topics: [t]\n  options:\n    a.b: [1]\n", 6, "expected text, got a list"),
    (
        KAFKA + "  topics: [t]\n  options: {security.protocol: sasl-ssl}\n",
        5,
        "expected PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL, got `sasl-ssl`; nearest: SASL_SSL",
    ),
    (
        KAFKA + "  topics: [t]\n  options: {kafka.max.poll.recrods: 5}\n",
        5,
        "`kafka.options.kafka.max.poll.recrods`: is no option of Kafka's Java client; nearest: "
        "max.poll.records",
    ),
    (
        KAFKA + "  topics: [t]\n  options: {sasl.password: s3cret}\n",
        5,
        "is an option of librdkafka; Kafka's Java client has sasl.jaas.config",
    ),
    (
        "name: shop\nkafka:\n  topics: [t]\n  bootstrap_servers: h:1,other\n",
        4,
        "expected host:port, comma between several, got `other`",
    ),
    (
        "name: shop\nkafka:\n  topics: [t]\n  bootstrap_servers: h:1,h:65536\n",
        4,
        "expected a port from 1 to 65535, got `h:65536`",
    ),
    (
        "name: shop\nkafka:\n  topics: [t]\n  bootstrap_servers: ada:s3cret@h:1\n",
        4,
        "`kafka.bootstrap_servers`: expected host:port, got a user before an @; say who you are",
    ),
]


@pytest.mark.parametrize(("source", "line", "part"), KAFKA_MISTAKES)
def test_a_mistake_of_a_kafka_transport(conf: Conf, source: str, line: int, part: str) -> None:
    [(found, text)] = one(conf, source)
    assert found == line
    assert part in text and "s3cret" not in text


def test_a_password_of_digits_is_the_one_that_was_written(conf: Conf) -> None:
    options = "{ssl.key.password: 0123, ssl.keystore.password: 1.10, fetch.min.bytes: 5, %s}"
    source = f"{KAFKA}  topics: [t]\n  options: {options % 'security.protocol: SSL'}\n"
    [shop] = loaded(conf({"sources/shop.yml": source})).sources.values()
    assert shop.kafka is not None and shop.kafka.options == {
        "kafka.security.protocol": "SSL",
        "kafka.ssl.key.password": "0123",
        "kafka.ssl.keystore.password": "1.10",
        "kafka.fetch.min.bytes": "5",
    }


@pytest.mark.parametrize(
    ("tag", "said"),
    [
        ("*", "expected the name of a tag, got `*`; without `tags` all are read"),
        ("a || b", "expected the name of a tag, got `a || b`; write [a, b]"),
        ("a|b", "expected the name of a tag, got `a|b`"),
        (" ", "expected the name of a tag, got ` `"),
    ],
)
def test_a_subscription_is_no_tag(conf: Conf, tag: str, said: str) -> None:
    """The server would hand out all of it, and no message has it for its tag: none would come."""
    source = f"name: s\nrocketmq:\n  name_servers: h:1\n  topics: [t]\n  tags: [ok, '{tag}']\n"
    assert one(conf, source) == [(5, f"`rocketmq.tags[1]`: {said}")]


@pytest.mark.parametrize("tls", ["yes", "on", "1", "'y'", "no", "[true]"])
def test_a_flag_has_two_words(conf: Conf, tls: str) -> None:
    source = f"name: s\nrocketmq:\n  name_servers: h:1\n  topics: [t]\n  tls: {tls}\n"
    [(line, text)] = one(conf, source)
    assert line == 5 and text.startswith("`rocketmq.tls`: expected true or false, got ")


def test_a_flag_may_be_a_variable(conf: Conf) -> None:
    source = "name: s\nrocketmq: {name_servers: 'h:1', topics: [t], tls: '${TLS}', ca_file: x}\n"
    folder = conf({"sources/shop.yml": source})
    [shop] = loaded(folder, {"TLS": "true"}).sources.values()
    assert shop.rocketmq is not None and shop.rocketmq.tls is True
    [mistake] = mistakes(folder, {"TLS": "false"})
    assert mistake.text == "`rocketmq.ca_file`: is only used with tls: true"


OFFSETS_MISTAKES = [
    ('{"t": {"x": 1}}', "`x` in `t`: expected the number of a partition"),
    ('{"t": {"0": -3}}', "-3 of partition 0 of `t`: expected 0 or more, -1 for latest or -2 for"),
    (f'{{"t": {{"0": {2**63}}}}}', f"{2**63} of partition 0 of `t`: expected 0 or more"),
    ('{"t": {}}', "expected an offset for each partition of `t`, got none"),
    ("{}", "expected earliest, latest or JSON"),
    ('{"t": {"0": 1, "0": 2}}', "`0` stands twice"),
]


@pytest.mark.parametrize(("offsets", "part"), OFFSETS_MISTAKES)
def test_offsets_that_no_partition_has(conf: Conf, offsets: str, part: str) -> None:
    [(line, text)] = one(conf, f"{KAFKA}  topics: [t]\n  starting_offsets: '{offsets}'\n")
    assert line == 5
    assert part in text


@pytest.mark.parametrize(
    ("transport", "part"),
    [
        ("kafka: {bootstrap_servers: 'h:1', topics: ['a,b']}", "expected the name of a topic"),
        ("kafka: {bootstrap_servers: 'h:1', topics: [..]}", "expected the name of a topic"),
        (f"kafka: {{bootstrap_servers: 'h:1', topics: [{'x' * 250}]}}", "1 to 249 of A-Z, a-z"),
        ("kafka: {bootstrap_servers: 'h:1', topics: [a, A, a]}", "`a` stands twice"),
        ("rocketmq: {name_servers: 'h:1', topics: [a.b]}", "expected the name of a topic"),
        (
            f"rabbitmq: {{servers: 'h:1', password: x, queues: [{'é' * 128}]}}",
            "expected the name of a queue, 255 bytes at most",
        ),
        (
            "rabbitmq: {servers: 'h:1', password: x, queues: [q], starting_offsets: {q: -1}}",
            "expected an offset of 0 or more, got -1",
        ),
    ],
)
def test_a_topic_or_queue_that_cannot_be(conf: Conf, transport: str, part: str) -> None:
    [(line, text)] = one(conf, f"name: shop\n{transport}\n")
    assert line == 2
    assert part in text


def test_topics_that_only_case_tells_apart_are_two(conf: Conf) -> None:
    source = "name: shop\nkafka: {bootstrap_servers: 'h:1', topics: [a, A]}\n"
    [shop] = loaded(conf({"sources/shop.yml": source})).sources.values()
    assert shop.kafka is not None and shop.kafka.topics == ("a", "A")


def test_offsets_of_a_queue_that_is_not_read(conf: Conf) -> None:
    rabbitmq = "rabbitmq: {servers: 'h:1', password: x, queues: [q], starting_offsets: {p: 5}}\n"
    assert one(conf, f"name: s\n{rabbitmq}") == [
        (2, "`rabbitmq.starting_offsets`: `p` is not read; expected of `queues` q")
    ]


def test_offsets_of_many_topics_that_are_not_read_are_told_in_a_few_lines(conf: Conf) -> None:
    """As after a prefix was changed: each of thousands of names would be compared with each."""
    topics = ", ".join(f"new.t{i}" for i in range(3_000))
    offsets = json.dumps({f"old.t{i}": {"0": 5} for i in range(3_000)})
    said = f"bootstrap_servers: 'h:1', topics: [{topics}], starting_offsets: '{offsets}'"
    *first, last = one(conf, f"name: s\nkafka: {{{said}}}\n")
    assert first[0] == (
        2,
        "`kafka.starting_offsets`: `old.t0` is not read; expected one of the 3000 names of "
        "`topics`; nearest: new.t0",
    )
    assert last == (2, "`kafka.starting_offsets`: 2990 other names are not read")
    assert len(first) == 10


def test_a_value_of_another_kind_is_called_that(conf: Conf) -> None:
    assert one(
        conf, "name: s\nkafka: {bootstrap_servers: 'h:1', topics: [t], max_delay: {a: [b]}}\n"
    ) == [
        (
            2,
            "`kafka.max_delay`: expected a time like `15 minutes`, `6 hours` or `2 days`, got keys "
            "with values",
        )
    ]


def test_two_spellings_of_a_column_of_the_source(conf: Conf) -> None:
    columns = "columns:\n  a.t: {Id: int, x: int}\n  b.t:\n    Id: int\n    ID: text\n"
    assert one(conf, SHOP + columns) == [
        (7, "`columns.b.t.ID`: `ID` is `Id`, but for case: columns are matched without it")
    ]


@pytest.mark.parametrize("pattern", ["gold.orders", "all-orders", "`t`", "a b*"])
def test_a_check_of_a_table_that_cannot_be(conf: Conf, pattern: str) -> None:
    settings = f"checks:\n  tables:\n    '{pattern}': {{lag: 5 minutes}}\n"
    [mistake] = mistakes(conf({"sources/shop.yml": SHOP, "ingest.yml": settings}))
    assert (mistake.file, mistake.line) == ("conf/ingest.yml", 3)
    assert f"`{pattern}` matches no table of gold: expected a target's name" in mistake.text


@pytest.mark.parametrize("pattern", ["audit_*", "t?", "[a-f]*", "Orders2", "[!a]x"])
def test_a_check_of_a_table_that_can_be(conf: Conf, pattern: str) -> None:
    settings = f"checks: {{tables: {{'{pattern}': {{lag: 5 minutes}}}}}}\n"
    load(conf({"sources/shop.yml": SHOP, "ingest.yml": settings}), formats=FORMATS)


def test_a_value_already_wrong_is_named_once(conf: Conf) -> None:
    source = SHOP + "epoch: ${EPOCH}\nformat: ${F}\nkeys: {a.b: ['${K}']}\n"
    assert [line for line, _ in one(conf, source)] == [3, 4, 5]
    environ = {"EPOCH": "7", "F": "canal", "K": "id"}
    shop = loaded(conf({"sources/shop.yml": source}), environ).sources["shop"]
    assert (shop.epoch, shop.format, shop.keys) == (7, "canal", {"a.b": ("id",)})


TABLES = "source: shop\ntables:\n  - from: a.*\n"
TABLES_MISTAKES = [
    ("source: shp\n", 1, "`source`: expected shop, got `shp`; nearest: shop"),
    ("tables: []\n", 1, "`source` is missing"),
    ("source: shop\ntables:\n  - target: x\n", 3, "`tables[0].from` is missing"),
    ("source: shop\ntables:\n  - from: []\n", 3, "expected at least one name, got none"),
    ("source: shop\ntables:\n  - from:\n    - a.b\n    - a.b.c.d\n", 5, "got `a.b.c.d`"),
    ("source: shop\ntables: {from: a}\n", 2, "`tables`: expected a list, got keys with values"),
    ("source: shop\ndefaults: {from: a}\n", 2, "`defaults.from` is not a known key; expected"),
    ("source: shop\ndefaults:\n  ddl: {additiv: apply}\n", 3, "nearest: additive"),
    ("source: shop\ndefaults:\n  ddl: {additive: rewiew}\n", 3, "got `rewiew`; nearest: review"),
    *(
        (
            f"source: shop\ntables:\n  - from: '{several}'\n",
            3,
            f"`tables[0].from[0]`: expected one table, got `{several}`; write several as a list",
        )
        for several in ("a.b, a.c", "a,b", "a.{b,c}")
    ),
    (TABLES + "    form: a.b\n", 4, "`tables[0].form` is not a known key; "),
    (TABLES + "    target: '{table}_{database}'\n", 4, "got `{database}`"),
    (
        TABLES + "    target: {table}\n",
        4,
        "`tables[0].target`: expected text, got keys with values; in YAML { } holds keys and "
        "values: put it in quotes",
    ),
    (TABLES + "    target: _rejects\n", 4, "cannot be the name of a target"),
    (
        TABLES + "    target: gold.x\n",
        4,
        "`tables[0].target`: expected the name of a table alone, got `gold.x`: all targets are in "
        "the schema gold; write `x`",
    ),
    (TABLES + "    target: main.Gold.{table}\n", 4, "in the schema gold; write `{table}`"),
    (
        f"source: shop\ndefaults: {{target: '{'x' * 256}{{table}}'}}\n",
        2,
        "`defaults.target`: expected at most 255 characters, got 256",
    ),
    (
        TABLES + "    sequence_by: v\n    columns: {V: double}\n",
        4,
        "`tables[0].sequence_by`: expected a column of integers, decimals, times or text, got "
        "double; give it such a type in `columns`",
    ),
    (
        "source: shop\ndefaults:\n  columns: {v: BINARY}\n"
        "tables:\n  - from: a\n    sequence_by: [w, v]\n",
        6,
        "`tables[0].sequence_by[1]`: expected a column of integers, decimals, times or text, got "
        "binary",
    ),
    (TABLES + "    target: ../../etc/x\n", 4, "expected the name of a table, not a path, got"),
    (
        "source: shop\ntables:\n  - from: [b.c, a.b]\n    deletes: soft\n  - from: a.*\n",
        3,
        "`a.b` never applies, since the last entry that matches wins and `a.*` on line 5 matches",
    ),
    (
        TABLES + "    target: x\n  - from: b.*\n    target: X\n",
        6,
        "`X` and `x` on line 4 are one table: names of tables are matched without case",
    ),
    (
        TABLES + "    target: x\n  - from: b.*\n    target: x\n",
        6,
        "`tables[1].target`: `x` is already the target of the entry on line 4; source tables share "
        "a target only where one entry names them all, by a list in its `from`",
    ),
    (
        TABLES + "    target: x-y\n  - from: b.*\n    target: x_y\n",
        6,
        "`x_y` and `x-y` on line 4 are one table: names of tables are matched with `_` for other",
    ),
    (
        "source: shop\ndefaults: {target: x}\n"
        "tables:\n  - {from: c, target: '{table}'}\n  - from: a\n  - from: b\n",
        6,
        "`tables[2].target`: `x` is already the target of the entry on line 5",
    ),
    (
        TABLES + "  - from: b\n  - from: a.*\n",
        3,
        "`a.*` never applies, since the last entry that matches wins and `a.*` on line 5 matches "
        "all that it does; take one of them away",
    ),
    (
        TABLES + "    columns: {a: int, price: decimal(12,2), b: int}\n",
        4,
        "`tables[0].columns.price`: put decimal(12,2) in quotes: inside { } a comma ends a value",
    ),
    (
        TABLES + "\tcolumns: {}\n",
        4,
        "there is a tab in this line; YAML is indented by spaces alone",
    ),
    (TABLES + "    stored_as_scd_type: 3\n", 4, "expected 1, 2 or append, got 3"),
    (TABLES + "    stored_as_scd_type: true\n", 4, "expected 1, 2 or append, got `true`"),
    (TABLES + "    stored_as_scd_type: apend\n", 4, "got `apend`; nearest: append"),
    (
        TABLES + "    sequence_by: [v]\n    stored_as_scd_type: append\n",
        4,
        "`tables[0].sequence_by`: orders the changes of a row, and `append` keeps a row for each",
    ),
    (TABLES + "    deletes: sotf\n", 4, "expected hard or soft, got `sotf`; nearest: soft"),
    (
        TABLES + "    stored_as_scd_type: append\n    deletes: soft\n",
        5,
        "`append` keeps every image and marks none as deleted",
    ),
    (TABLES + "    truncates: aply\n", 4, "expected apply or ignore, got `aply`; nearest: apply"),
    (TABLES + "    keys: id\n", 4, "`tables[0].keys`: expected a list, got `id`; write [id]"),
    (TABLES + "    keys: []\n", 4, "expected at least one name, got none"),
    (TABLES + "    columns:\n      a: int\n      b: varchar(9)\n", 6, "nearest: string"),
    (TABLES + "    columns:\n      a: int\n      A: int\n", 6, "`A` stands twice"),
    (TABLES + "    keys: [id]\n    exclude:\n      - x\n      - ID\n", 7, "`ID` is a key column"),
    (
        TABLES + "    shard_column: s\n    exclude: [x, S]\n",
        5,
        "`S` is the shard_column and cannot be excluded",
    ),
    (TABLES + "    keys: [id, s]\n    shard_column: s\n", 5, "`s` is part of the key anyway"),
    (TABLES + "    columns: {s: int}\n    shard_column: s\n", 5, "`s` is a column of the source"),
    (
        TABLES + "    shard_column: s\n    sequence_by: S\n",
        5,
        "`tables[0].sequence_by`: `s` is the shard_column, which orders nothing",
    ),
    (
        TABLES + "    sequence_by: [v, s]\n    shard_column: s\n",
        4,
        "`tables[0].sequence_by`: `s` is the shard_column, which orders nothing",
    ),
    (TABLES + "    shard_column: _source\n", 4, "`_source` is a column that gold adds"),
    (
        "source: shop\ndefaults:\n  exclude: [id]\n"
        "tables:\n  - from: a\n  - from: b\n    keys: [id]\n",
        7,
        "`id` is a key column and cannot be excluded",
    ),
    (
        "source: shop\ndefaults:\n  keys: [id]\n  exclude: [id]\ntables:\n  - from: a\n",
        4,
        "`id` is a key column and cannot be excluded",
    ),
    (
        "source: shop\ndefaults:\n  columns: {pay: {mask: null}}\n"
        "tables:\n  - from: a\n    columns: {x: int}\n    sequence_by: PAY\n",
        7,
        "`tables[0].sequence_by`: `PAY` orders the rows",
    ),
    (
        "source: shop\ndefaults:\n  columns: {id: {mask: null}}\n"
        "tables:\n  - from: a\n    columns: {x: int}\n    keys: [id]\n",
        7,
        "`tables[0].keys`: `id` is a key column, which can only be masked by hash, got `null`",
    ),
    (
        "source: shop\ndefaults:\n  columns: {S: int}\n"
        "tables:\n  - from: a\n    columns: {x: int}\n    shard_column: s\n",
        7,
        "`tables[0].shard_column`: `s` is a column of the source",
    ),
    (
        "source: shop\ndefaults:\n  keys: [id]\n  columns: {id: {mask: null}}\n"
        "tables:\n  - from: a\n    columns: {x: int}\n",
        4,
        "`defaults.columns.id`: `id` is a key column",
    ),
    (
        "source: shop\ndefaults:\n  keys: [id]\n"
        "tables:\n  - from: a\n    columns: {x: int, ID: {mask: null}}\n",
        6,
        "`tables[0].columns.ID`: `id` is a key column",
    ),
]


@pytest.mark.parametrize(("tables", "line", "part"), TABLES_MISTAKES)
def test_a_mistake_of_a_tables_file(conf: Conf, tables: str, line: int, part: str) -> None:
    [(found, text)] = two(conf, tables)
    assert found == line
    assert part in text


def test_a_target_that_two_sources_name(conf: Conf) -> None:
    """One source alone can feed a target (semantics.md, 70): the other's tables would be parked."""
    files = {"sources/a.yml": SHOP, "sources/b.yml": SHOP.replace("name: shop", "name: till")}
    a = "source: shop\ntables:\n  - from: a.o\n    target: all-orders\n"
    b = "source: till\ndefaults: {target: All_Orders}\n"
    b += "tables: [{from: b.o}, {from: b.p, target: p}]\n"
    with pytest.raises(ConfigError) as caught:
        load(conf({**files, "tables/a.yml": a, "tables/b.yml": b}), formats=FORMATS)
    assert [(mistake.line, mistake.text) for mistake in caught.value.mistakes] == [
        (
            2,
            "`defaults.target`: `All_Orders` is already the target of source shop, in "
            "conf/tables/a.yml line 4 (there `all-orders`); expected a target that one source "
            "feeds, since no order holds across sources; name another",
        )
    ]
    apart = [
        b.replace("[{from: b.o},", "[{from: b.o, target: o},"),  # the defaults' is no entry's
        b.replace("All_Orders", "'{table}_all'"),
        b.replace("All_Orders", "orders"),
    ]
    for said in apart:
        load(conf({**files, "tables/a.yml": a, "tables/b.yml": said}), formats=FORMATS)


def test_sources_whose_names_only_case_tells_apart(conf: Conf) -> None:
    shop = SHOP.replace("shop", "Shop")
    folder = conf({"sources/a.yml": SHOP, "sources/b.yml": shop})
    text = "`name`: `Shop` is already that of conf/sources/a.yml, `shop`, but for case"
    assert mistakes(folder) == [Mistake("conf/sources/b.yml", 1, text)]


def test_a_key_of_the_source_cannot_be_excluded_by_the_tables(conf: Conf) -> None:
    folder = conf(
        {
            "sources/shop.yml": SHOP + "keys:\n  barn.cows: [herd, id]\n  barn.hens: [id]\n",
            "tables/shop.yml": "source: shop\ntables:\n  - {from: barn.cows, exclude: [ID]}\n"
            "  - {from: barn.hens, exclude: [id], keys: [tag]}\n",
        }
    )
    assert mistakes(folder) == [
        Mistake(
            "conf/sources/shop.yml",
            4,
            "`keys.barn.cows`: the key column `id` is excluded in conf/tables/shop.yml",
        )
    ]


def test_a_key_of_the_source_can_only_be_masked_by_hash(conf: Conf) -> None:
    folder = conf(
        {
            "sources/shop.yml": SHOP + "keys: {barn.cows: [Herd]}\n",
            "tables/shop.yml": "source: shop\ndefaults: {columns: {herd: {mask: null}}}\n"
            "tables: [{from: '*', columns: {x: int}}]\n",
        }
    )
    assert mistakes(folder) == [
        Mistake(
            "conf/sources/shop.yml",
            3,
            "`keys.barn.cows`: the key column `Herd` can only be masked by hash, got `null` in "
            "conf/tables/shop.yml",
        )
    ]


def test_what_an_entry_says_of_a_column_stands_in_place_of_what_the_defaults_say(
    conf: Conf,
) -> None:
    tables = (
        "source: shop\ndefaults: {columns: {id: {mask: null}}}\n"
        "tables: [{from: a, keys: [id], columns: {ID: int}}]\n"
    )
    load(conf({"sources/shop.yml": SHOP, "tables/shop.yml": tables}), formats=FORMATS)


def test_no_folder_no_sources_and_files_that_nobody_reads(conf: Conf) -> None:
    assert mistakes(Path("nowhere")) == [
        Mistake(
            "nowhere",
            None,
            "expected a folder with ingest.yml, sources/ and tables/, found none; `ingest init` "
            "writes a first one, `--conf DIR` names another",
        )
    ]
    none = Mistake(
        "conf/sources", None, "expected at least one source, in a file like shop.yml; found none"
    )
    assert mistakes(conf({"ingest.yml": ""})) == [none]
    folder = conf(
        {
            "source/shop.yml": SHOP,
            "bundle/job.yml": "resources: {}\n",
            "sources/shop.yaml": SHOP,
            "sources/README.md": "notes",
            "shop.yml": SHOP,
        }
    )
    assert mistakes(folder) == [
        Mistake(
            "conf/shop.yml",
            None,
            "is not read; expected ingest.yml, sources/NAME.yml or tables/NAME.yml",
        ),
        Mistake("conf/source", None, "is not read; nearest: sources"),
        none,
        Mistake("conf/sources/shop.yaml", None, "is not read; call it shop.yml"),
    ]


@pytest.mark.parametrize(
    ("file", "named", "what"),
    [
        ("tables/eu/shop.yml", "tables/eu", "expected files like tables/NAME.yml, got a folder"),
        ("sources/eu/shop.yml", "sources/eu", "expected files like sources/NAME.yml, got a folder"),
        ("tables/shop.YML", "tables/shop.YML", "call it shop.yml"),
        ("tables/shop.json", "tables/shop.json", "call it shop.yml"),
        ("TABLES/shop.yml", "TABLES", "nearest: tables"),
        ("eu/tables/shop.yml", "eu", "expected ingest.yml, sources/NAME.yml or tables/NAME.yml"),
        ("eu/shop.yaml", "eu", "expected ingest.yml, sources/NAME.yml or tables/NAME.yml"),
        ("ingest.YML", "ingest.YML", "call it ingest.yml"),
        ("ingest.yaml", "ingest.yaml", "call it ingest.yml"),
        ("shop.YAML", "shop.YAML", "expected ingest.yml, sources/NAME.yml or tables/NAME.yml"),
    ],
)
def test_a_file_that_nobody_reads(conf: Conf, file: str, named: str, what: str) -> None:
    """By default every table goes to gold whole: an `exclude` that is not read leaks."""
    folder = conf({"sources/shop.yml": SHOP, file: "source: shop\n"})
    assert mistakes(folder) == [Mistake(f"conf/{named}", None, f"is not read; {what}")]


@pytest.mark.parametrize("name", ["ingest.yml", "sources", "tables"])
def test_a_link_that_leads_nowhere_is_not_passed_over(conf: Conf, name: str) -> None:
    """By default there is no `exclude`, and another warehouse."""
    folder = conf({"ingest.yml": ""} if name == "sources" else {"sources/shop.yml": SHOP})
    (folder / name).symlink_to("mounted/elsewhere")
    said = {
        "ingest.yml": "cannot be read: No such file or directory",
        "tables": "is not read; expected a folder of files like tables/NAME.yml, got none",
        "sources": "is not read; expected a folder of files like sources/NAME.yml, got none",
    }
    assert Mistake(f"conf/{name}", None, said[name]) in mistakes(folder)


def test_a_file_in_the_place_of_a_folder_is_not_passed_over(conf: Conf) -> None:
    [mistake] = mistakes(conf({"sources/shop.yml": SHOP, "tables": "source: shop\n"}))
    assert mistake.text.startswith("is not read; expected a folder of files like tables/NAME.yml")


@pytest.mark.parametrize("mounted", ["", "sources", "tables"])
def test_a_volume_of_kubernetes(conf: Conf, mounted: str) -> None:
    """Its files are links into a folder beside them, whose name begins with two dots."""
    tables = "source: shop\ntables: [{from: '*', exclude: [secret]}]\n"
    folder = conf({"ingest.yml": "", "sources/shop.yml": SHOP, "tables/shop.yml": tables})
    volume = folder / mounted
    held = volume / "..2026_11_30_14_00_00.1234567"
    held.mkdir()
    (volume / "..data").symlink_to(held.name)
    for path in [each for each in volume.iterdir() if not each.name.startswith("..")]:
        path.rename(held / path.name)
        path.symlink_to(f"..data/{path.name}")
    assert loaded(folder).tables["shop"].tables[0].exclude == ("secret",)


def test_what_tools_leave_beside_the_configuration(conf: Conf) -> None:
    """Emacs's lock is a link that leads nowhere, a copy of macOS is no text, and the half that an
    editor saves is another source of the same name."""
    folder = conf({"ingest.yml": "", "sources/shop.yml": SHOP, "sources/.shop.yml": SHOP})
    for part in (folder, folder / "sources"):
        (part / ".#shop.yml").symlink_to("somebody@a-machine.4711")
        (part / "._shop.yml").write_bytes(b"\x00\x05\x16\x07\xff")
    assert list(loaded(folder).sources) == ["shop"]


@pytest.mark.parametrize("closed", ["conf", "conf/tables"])
def test_a_folder_that_may_not_be_read(
    conf: Conf, closed: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = conf({"sources/shop.yml": SHOP, "tables/shop.yml": "source: shop\n"})
    read = Path.iterdir

    def iterdir(path: Path) -> Any:
        if str(path) == closed:
            raise PermissionError(errno.EACCES, "Permission denied", closed)
        return read(path)

    monkeypatch.setattr(Path, "iterdir", iterdir)
    assert Mistake(closed, None, "cannot be read: Permission denied") in mistakes(folder)


def test_other_files_beside_the_configuration(conf: Conf) -> None:
    """The bundle's, data, notes, a copy of an editor."""
    others = ("bundle/job.yml", "demo/a.jsonl", "log.json", "tables/README.md", "tables/shop.yml~")
    load(conf({"sources/shop.yml": SHOP} | dict.fromkeys(others, "x")), formats=FORMATS)


@pytest.mark.parametrize(
    ("key", "place", "text"),
    [
        (key, place, text)
        for key in ("name", "format", "order", "epoch", "time_zone", "keys", "columns", "options")
        for place, text in ((2, "{key}x: 1"), (4, "{key}: {{a: [{{b: 1}}]}}"))
    ],
)
def test_a_wrong_line_is_named_wherever_it_stands(
    conf: Conf, key: str, place: int, text: str
) -> None:
    right = ["name: shop", "files:", "  path: x", "default_table: t", "# end"]
    line = text.format(key=key)
    rows = [row for row in right if not (row.startswith("name") and line.startswith("name:"))]
    at = min(place, len(rows)) if place != 2 else 1
    rows.insert(at, line)
    found = one(conf, "\n".join(rows))
    assert {line for line, _ in found} == {at + 1}


def test_a_file_that_is_no_text_names_its_line(conf: Conf) -> None:
    folder = conf({"sources/shop.yml": SHOP})
    (folder / "ingest.yml").write_bytes(b"catalog: a\nwarehouse: \xff\n")
    assert mistakes(folder) == [
        Mistake("conf/ingest.yml", 2, "expected UTF-8 text, got other bytes")
    ]


def test_a_folder_that_outranks_the_catalog_is_refused(conf: Conf) -> None:
    """Its tables would lie in the catalog still, and whoever named it would write there."""
    kept = {"sources/shop.yml": SHOP, "ingest.yml": "catalog: main\ncheckpoints: /kept\n"}
    folder, wanted = conf(kept), "expected a warehouse in a folder, got tables in the catalog"
    out = "take `catalog` out of the settings for that, or name both in one place"
    by_environment = Mistake(
        "environment variable INGEST_WAREHOUSE", None, f"`warehouse`: {wanted} main; {out}"
    )
    by_command = Mistake("command line", None, f"`--warehouse`: {wanted} other; {out}")
    variables = {"INGEST_WAREHOUSE": "/try", "INGEST_CATALOG": "other"}
    assert mistakes(folder, {"INGEST_WAREHOUSE": "/try"}) == [by_environment]
    assert mistakes(folder, variables, warehouse="/try") == [by_command]
    # What says both is right, whichever layer it is.
    loaded(folder, variables)
    loaded(folder, {"INGEST_WAREHOUSE": "/try"}, warehouse="w", catalog="c", checkpoints="/kept")


def test_mistakes_of_the_environment_and_the_command_line_name_them(conf: Conf) -> None:
    folder = conf({"sources/shop.yml": SHOP, "ingest.yml": "\ncatalog: a.b\ncheckpoints: c\n"})
    environ = {
        "INGEST_DDL__ADDITIVE": "aply",
        "INGEST_MERGE_THREDS": "3",
        "INGEST_SCHEMAS__PLATINUM": "p",
    }
    assert mistakes(folder, environ, merge_threads=0) == [
        Mistake("command line", None, "`merge_threads`: expected 1 or more, got 0"),
        Mistake("conf/ingest.yml", 2, r"`catalog`: expected a name like ^[^\s./`]+$, got `a.b`"),
        Mistake(
            "environment variable INGEST_DDL__ADDITIVE",
            None,
            "`ddl.additive`: expected apply, review or ignore, got `aply`; nearest: apply",
        ),
        Mistake(
            "environment variable INGEST_MERGE_THREDS",
            None,
            "is not a setting; nearest: INGEST_MERGE_THREADS",
        ),
        Mistake(
            "environment variable INGEST_SCHEMAS__PLATINUM",
            None,
            "is not a setting; expected INGEST_SCHEMAS__BRONZE, INGEST_SCHEMAS__SILVER, "
            "INGEST_SCHEMAS__GOLD or INGEST_SCHEMAS__HISTORY",
        ),
    ]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("{bronze: 30}", "`retention.bronze`: expected a number of days like `90 days`, got 30"),
        ("{silver: 0 days, bronze: 1 day}", "got `0 days`"),
        ("{gold: 1 day}", "`retention.gold`"),
        (
            "{silver: 90 days}",
            "`retention.silver`: silver cannot be trimmed before bronze; give bronze at most 90 "
            "days too",
        ),
        ("{silver: 2 days, bronze: 3 days}", "give bronze at most 2 days too"),
    ],
)
def test_retention_that_cannot_be(conf: Conf, line: str, said: str) -> None:
    folder = conf({"sources/shop.yml": SHOP, "ingest.yml": f"\nretention: {line}\n"})
    [mistake] = mistakes(folder)
    assert (mistake.file, mistake.line) == ("conf/ingest.yml", 2)
    assert said in mistake.text


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("warehouse: ~/lake", "`warehouse`: expected a path, got `~/lake`: `~` is no home folder"),
        ("checkpoints: ~me", "got `~me`: `~` is no home folder here; write the path in full, or"),
        ("warehouse: ' '", "`warehouse`: expected a path, got a text that is none"),
        (f"merge_threads: {2**63}", "`merge_threads`: expected a number below 2^63"),
        (f"schemas: {{gold: {'x' * 256}}}", "`schemas.gold`: expected at most 255 characters"),
    ],
)
def test_a_setting_that_no_run_could_use(conf: Conf, line: str, said: str) -> None:
    [mistake] = mistakes(conf({"sources/shop.yml": SHOP, "ingest.yml": f"\n{line}\n"}))
    assert (mistake.file, mistake.line) == ("conf/ingest.yml", 2)
    assert said in mistake.text
    settings = loaded(conf({"ingest.yml": "warehouse: ./~/lake\n"})).settings
    assert settings.warehouse.endswith("/~/lake")


@pytest.mark.parametrize(
    ("line", "instead"),
    [
        ("warehouse: s3a://lake/w", "tables in an object store need a catalog: set `catalog` and"),
        ("warehouse: abfss://c@a.net/w/", "need a catalog"),
        ("warehouse: file:/data/w", "write /data/w"),
        ("warehouse: file:///data/w", "write /data/w"),
        ("warehouse: dbfs:/Volumes/a/b/c", "set `catalog` and `checkpoints`"),
        ("checkpoints: dbfs:/Volumes/a/b/c", "write /Volumes/a/b/c"),
        ("checkpoints: S3://lake/c", "give a folder that is mounted, such as a volume"),
        ("checkpoints: dbfs:/c", "give a folder that is mounted, such as a volume"),
        ("catalog: shop", "`catalog`: set `checkpoints` too, to a folder that outlives the driver"),
    ],
)
def test_progress_lies_where_this_machine_finds_it_again(
    conf: Conf, line: str, instead: str
) -> None:
    folder = conf({"sources/shop.yml": SHOP, "ingest.yml": f"\n{line}\n"})
    [mistake] = mistakes(folder)
    assert (mistake.file, mistake.line) == ("conf/ingest.yml", 2)
    assert instead in mistake.text
    volume = "catalog: shop\ncheckpoints: /Volumes/shop/ingest/checkpoints\n"
    settings = loaded(conf({"ingest.yml": volume})).settings
    assert settings.checkpoints == "/Volumes/shop/ingest/checkpoints"


def test_a_target_is_named_without_its_schema_whatever_that_is_called(conf: Conf) -> None:
    tables = "source: shop\ntables: [{from: a, target: Lake.x}]\n"
    files = {"sources/shop.yml": SHOP, "tables/shop.yml": tables}
    assert loaded(conf(files)).tables["shop"].tables[0].target == "Lake.x"
    [mistake] = mistakes(conf({**files, "ingest.yml": "schemas: {gold: lake}\n"}))
    assert (mistake.file, mistake.line) == ("conf/tables/shop.yml", 2)
    assert mistake.text.endswith("all targets are in the schema lake; write `x`")


def test_publishing_has_two_words(conf: Conf) -> None:
    tables = "source: shop\npublish: transactions\ntables: [{from: '*'}]\n"
    [mistake] = mistakes(conf({"sources/shop.yml": SHOP, "tables/shop.yml": tables}))
    assert mistake == Mistake(
        "conf/tables/shop.yml",
        2,
        "`publish`: expected event or transaction, got `transactions`; nearest: transaction",
    )


def test_limits_are_positive_whole_numbers_by_their_names(conf: Conf) -> None:
    wrong = f"{SHOP}limits:\n  message_bytes: 0\n  columns: many\n  message_byte: 5\n"
    found = one(conf, wrong)
    assert [line for line, _ in found] == [4, 5, 6]
    assert "message_byte" in found[2][1] and "message_bytes" in found[2][1]
    right = loaded(conf({"sources/shop.yml": f"{SHOP}limits: {{columns: 40, nesting: null}}\n"}))
    assert right.sources["shop"].limits.filled().columns == 40
    assert right.sources["shop"].limits.filled().nesting is None
