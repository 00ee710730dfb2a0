"""What each key of the YAML is for: the sentences of the configuration page and the JSON Schema."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple


class Key(NamedTuple):
    """One key: what it says, an example and a wrong value, both as YAML has them.

    `schema` is its JSON Schema, and `default` its default, where the model has what the key
    becomes, not what may be written. `since`: the version that first knew it.
    """

    text: str
    example: Any
    wrong: Any
    schema: Mapping[str, Any] | None = None
    since: str = "0.1.0"
    default: str | None = None


_DAYS = {"anyOf": [{"type": "string", "pattern": "^[1-9][0-9]{0,4} days?$"}, {"type": "null"}]}
_TIME = {
    "anyOf": [
        {"type": "string", "pattern": "^[1-9][0-9]{0,5} (second|minute|hour|day)s?$"},
        {"type": "null"},
    ]
}
_COUNT = {"anyOf": [{"type": "integer", "minimum": 0}, {"type": "null"}]}
_BOUNDS = {"freshness": _TIME, "lag": _TIME, "rejects": _COUNT, "pending_ddl": _COUNT}
_NAMES = {"type": "array", "items": {"type": "string", "minLength": 1}, "minItems": 1}
_NAME_OR_NAMES = {"anyOf": [{"type": "string", "minLength": 1}, _NAMES]}

SETTINGS: Mapping[str, Key] = {
    "warehouse": Key(
        "The folder of the tables, where Spark is the embedded one. With `catalog` set, only the "
        "log of an embedded Spark goes there; so a folder from a place that outranks the "
        "catalog's, as `--warehouse` does the file, is refused.",
        "/data/warehouse",
        "s3a://bucket/lake",
    ),
    "catalog": Key(
        "The catalog that holds the tables: Unity Catalog's on Databricks, `spark_catalog` or "
        "another elsewhere. Needs `checkpoints`.",
        "main",
        "my catalog",
    ),
    "schemas": Key(
        "The names of the four schemas. Gold and history hold tables with names of yours, so each "
        "needs a schema of its own.",
        {"gold": "marts", "history": "marts_history"},
        {"history": "gold"},
    ),
    "schemas.bronze": Key("The schema of `messages`.", "raw", "raw-data"),
    "schemas.silver": Key("The schema of `cdc` and its views.", "cdc", "1cdc"),
    "schemas.gold": Key("The schema of the targets.", "marts", "silver"),
    "schemas.history": Key("The schema of the targets' histories.", "marts_history", "gold"),
    "checkpoints": Key(
        "A folder for what is remembered beside the tables: how far each source is read. It must "
        "outlive the driver. By default `_checkpoints` in the warehouse.",
        "/Volumes/main/bronze/checkpoints",
        "dbfs:/checkpoints",
    ),
    "merge_threads": Key("How many gold tables are merged at the same time.", 16, 0),
    "mask_secret": Key(
        "Where the secret of the masks `hash` and `tokens` is found: `env:NAME`, an environment "
        "variable, `file:PATH`, a file (a relative path starts at the folder that holds the conf "
        "folder), or `secret:SCOPE/KEY` of Databricks. At least 16 bytes. The secret itself "
        "stands in no file of the configuration.",
        "env:MASK_PEPPER",
        "a pepper of one's own",
    ),
    "ddl": Key(
        "What becomes of a schema change, by its class: `apply` it, let it wait for `review`, or "
        "`ignore` it. A tables file and an entry in it may say otherwise.",
        {"additive": "review"},
        {"aditive": "review"},
    ),
    "ddl.additive": Key("New columns.", "review", "aply"),
    "ddl.widening": Key("Wider types, longer VARCHARs.", "review", "auto"),
    "ddl.destructive": Key(
        "Dropped and renamed columns and tables, narrower or other types, other keys.",
        "ignore",
        "drop",
    ),
    "ddl.unparsed": Key("Statements that could not be read.", "ignore", "skip"),
    "retention": Key(
        "How long rows are kept. `ingest maintain` deletes older ones, never what still has to be "
        "decoded or merged.",
        {"bronze": "30 days", "silver": "90 days"},
        {"silver": "90 days"},
    ),
    "retention.bronze": Key(
        "Messages that arrived longer ago are deleted; null keeps them for ever.",
        "30 days",
        30,
        _DAYS,
    ),
    "retention.silver": Key(
        "Changes that arrived longer ago, and that a later whole image or delete of their key "
        "covers, are deleted. At least as long as bronze, which needs a time then, too.",
        "90 days",
        "3 months",
        _DAYS,
    ),
    "retention.runs": Key(
        "Rows of `gold._runs` whose run ended longer ago are deleted, and those of "
        "`gold._progress` from longer ago, but for the newest of each target; null keeps them for "
        "ever.",
        "90 days",
        90,
        _DAYS,
        default="400 days",
    ),
    "retention.commits": Key(
        "How long Delta's log of each table has its commits, of which the newest 500 always stay. "
        "Runs remove older ones when they compact a table. At most the 30 days of Delta Lake, "
        "which are the default. A table with the property `delta.logRetentionDuration` goes by "
        "that.",
        "6 hours",
        "60 days",
        _TIME,
        default="30 days",
    ),
    "checks": Key(
        "What is still well. `ingest status --check` ends with 1 where anything is not, and names "
        "it; the report lists it. A parked table is never well, nor a source "
        "that cannot be asked.",
        {"freshness": "6 hours", "rejects": 0},
        {"freshnes": "6 hours"},
    ),
    "checks.freshness": Key(
        "How long ago the newest change of a table may have happened.", "6 hours", 6, _TIME
    ),
    "checks.lag": Key(
        "How long a message may wait to be decoded, or a change for its table.",
        "15 minutes",
        "1/4 hour",
        _TIME,
    ),
    "checks.rejects": Key("How many rejects of a source or table may be open.", 0, -1, _COUNT),
    "checks.gaps": Key(
        "How many spans of messages of a source may have been gone before they were read, where "
        "`lost: go_on` lets it read on. Raise it once what is missing was read from elsewhere, or "
        "a new snapshot was taken.",
        2,
        -1,
        _COUNT,
    ),
    "checks.pending_ddl": Key(
        "How many schema changes of a table may wait for a decision.", 3, "few", _COUNT
    ),
    "checks.tables": Key(
        "The same four keys for the tables whose names match a pattern; `*` and `?` match, "
        "whatever the case. They stand over those for all, key by key, and a later pattern over "
        "an earlier one; null takes a bound away.",
        {"audit_*": {"freshness": None, "rejects": 100}},
        {"audit_*": {"fresh": "1 day"}},
        {
            "type": "object",
            "additionalProperties": {
                "type": "object",
                "properties": _BOUNDS,
                "additionalProperties": False,
            },
        },
    ),
    "checks.webhook": Key(
        "An address that `ingest status --check` posts JSON to when what fails has changed. It is "
        "a secret: take it from the environment.",
        "https://hooks.example.com/${HOOK:-alerts}",
        "hooks.example.com",
    ),
}

SOURCE: Mapping[str, Key] = {
    "name": Key(
        "The source's name, in every table and message. It stays: another name is another source.",
        "shop",
        "shop orders",
    ),
    "format": Key(
        "The wire format of the messages, or `auto`, which recognises each message by what only "
        "one format has. Name it where you can: an error then says what is wrong with the message.",
        "debezium",
        "debezum",
    ),
    "kafka": Key(
        "Topics of a Kafka cluster, or of anything that speaks its protocol.",
        {"bootstrap_servers": "broker-1:9092", "topics": ["shop.orders"]},
        {"bootstrap_servers": "broker-1:9092"},
    ),
    "kafka.bootstrap_servers": Key(
        "Brokers to begin with, `host:port`, a comma between several.",
        "broker-1:9092,broker-2:9092",
        "broker-1",
    ),
    "kafka.topics": Key("The topics, by name.", ["shop.orders", "shop.items"], "shop.orders"),
    "kafka.topics_pattern": Key(
        "A regular expression (Java's) that whole names of topics match, instead of `topics`. New "
        "topics that match are read, too.",
        "shop\\..*",
        "shop(",
    ),
    "kafka.starting_offsets": Key(
        "Where to begin when the source is read for the first time: `earliest`, `latest`, or "
        "JSON of topics, partitions and offsets. With `latest` a source whose checkpoint is gone "
        "stops, since what came in between would be passed over.",
        '{"shop.orders": {"0": 23}}',
        "newest",
    ),
    "kafka.lost": Key(
        "What to do about messages that aged out before they were read: `fail` stops the source, "
        "`go_on` reads what is there and leaves a control row in silver (`op_raw` is `gap`) that "
        "names the missing offsets. [More](../kafka.md#messages-that-are-gone).",
        "go_on",
        "ignore",
    ),
    "kafka.group": Key(
        "A consumer group for which is noted how far the source is, so that other tools show its "
        "lag. It is never asked: progress stands with the checkpoints.",
        "ingest-shop",
        "",
    ),
    "kafka.max_offsets_per_batch": Key(
        "How many offsets one micro-batch takes at most, of all partitions together; of more "
        "partitions than that, one each.",
        100000,
        0,
    ),
    "kafka.min_offsets_per_batch": Key(
        "As long as fewer offsets wait, none is read, but not for longer than `max_delay`.", 1000, 0
    ),
    "kafka.max_delay": Key(
        "How long after its last batch a source waits for `min_offsets_per_batch`.",
        "10 minutes",
        "a while",
        _TIME,
        default="15 minutes",
    ),
    "kafka.options": Key(
        "Any option of the Kafka client, with or without the prefix `kafka.`: TLS, SASL and so on. "
        "Secrets come from the environment.",
        {"security.protocol": "SASL_SSL"},
        {"auto.offset.reset": "latest"},
        {
            "type": "object",
            "additionalProperties": {"type": ["string", "number", "boolean"]},
        },
    ),
    "rabbitmq": Key(
        "Queues of a RabbitMQ server or cluster, or the partitions of a super stream. Needs the "
        "extra `rabbitmq`.",
        {
            "servers": "rabbit-1:5672",
            "user": "cdc",
            "password": "${RABBITMQ_PASSWORD:-guest}",
            "queues": ["shop.orders"],
        },
        {"servers": "rabbit-1:5672", "queues": ["shop.orders"]},
    ),
    "rabbitmq.servers": Key(
        "Nodes of one cluster, `host:port`, a comma between several; they are tried in turn.",
        "rabbit-1:5672,rabbit-2:5672",
        "amqp://rabbit-1",
    ),
    "rabbitmq.virtual_host": Key("The virtual host that has the queues.", "cdc", 7),
    "rabbitmq.user": Key("Who logs in: a user that may read the queues.", "cdc", 7),
    "rabbitmq.password": Key(
        "The user's password, from the environment.", "${RABBITMQ_PASSWORD:-guest}", 7
    ),
    "rabbitmq.tls": Key(
        "Speaks TLS. `{}` where the system trusts who signed the server's certificate.",
        {"ca_file": "certificates/ca.pem"},
        True,
    ),
    "rabbitmq.tls.ca_file": Key(
        "The certificates of who signed the server's, a PEM file.", "certificates/ca.pem", 7
    ),
    "rabbitmq.tls.server_name": Key(
        "The server's name in its certificate, where that is not its address.", "rabbit.shop", 7
    ),
    "rabbitmq.tls.cert_file": Key(
        "The certificate to log in with, a PEM file. Without a password the server takes the user "
        "from it (SASL EXTERNAL).",
        "certificates/cdc.pem",
        7,
    ),
    "rabbitmq.tls.key_file": Key(
        "The key of `cert_file`, where that file does not hold it.",
        "certificates/cdc.key",
        7,
    ),
    "rabbitmq.queue_type": Key(
        "What the queues are. A `stream` is read by offset and keeps its messages; `classic` and "
        "`quorum` queues are emptied: a message is acknowledged once bronze has it.",
        "quorum",
        "streams",
    ),
    "rabbitmq.queues": Key("The queues, by name.", ["shop.orders", "shop.items"], "shop.orders"),
    "rabbitmq.super_stream": Key(
        "A super stream, instead of `queues`: its partitions are the streams `NAME-0`, `NAME-1` "
        "and so on; new ones are found.",
        "shop",
        7,
    ),
    "rabbitmq.starting_offsets": Key(
        "Where to begin when the source is read for the first time: `earliest`, `latest`, or an "
        "offset for each stream. With `latest` a source whose checkpoint is gone stops, since what "
        "came in between would be passed over.",
        {"shop.orders": 1200},
        "newest",
    ),
    "rabbitmq.lost": Key(
        "What to do where a stream's retention removed messages before they were read: `fail`, or "
        "`go_on` with what is there. Then a control row in silver says which are missing.",
        "go_on",
        "ignore",
    ),
    "rocketmq": Key(
        "Topics of a RocketMQ cluster, read queue by queue.",
        {"name_servers": "rocketmq-1:9876", "topics": ["shop"]},
        {"name_servers": "rocketmq-1:9876"},
    ),
    "rocketmq.name_servers": Key(
        "Name servers, `host:port`, a comma or semicolon between several: the next is asked where "
        "one does not answer.",
        "rocketmq-1:9876,rocketmq-2:9876",
        "rocketmq-1",
    ),
    "rocketmq.topics": Key("The topics, by name.", ["shop"], "shop"),
    "rocketmq.tags": Key(
        "Only messages that have one of these tags, each by its name; `*` and `||` of a "
        "subscription are none. What has another never comes to bronze.",
        ["orders", "items"],
        "orders",
    ),
    "rocketmq.group": Key(
        "The consumer group that brokers see. It is not asked how far it is: that stands with the "
        "checkpoints.",
        "ingest-prod",
        ["ingest-prod"],
    ),
    "rocketmq.access_key": Key(
        "The user, where brokers have access control, with `secret_key`.", "reader", ["reader"]
    ),
    "rocketmq.secret_key": Key(
        "The user's secret; it comes from the environment.", "${ROCKETMQ_SECRET:-secret}", 4711
    ),
    "rocketmq.tls": Key("Whether connections are encrypted.", True, "yes please"),
    "rocketmq.ca_file": Key(
        "The certificates (PEM) by which servers are known, with `tls: true`; those of the system "
        "where it is not given.",
        "certificates/rocketmq.pem",
        True,
    ),
    "rocketmq.starting_offsets": Key(
        "Where to begin when the source is read for the first time: `earliest` or `latest`. With "
        "`latest` a source whose checkpoint is gone stops, since what came in between would be "
        "passed over.",
        "latest",
        "newest",
    ),
    "rocketmq.lost": Key(
        "What to do about messages that aged out before they were read: `fail` stops the source, "
        "`go_on` reads what is there and leaves a control row in silver (`op_raw` is `gap`) that "
        "names the missing offsets.",
        "go_on",
        "ignore",
    ),
    "files": Key(
        "Files that are there once and do not change, in a folder or an object store.",
        {"path": "landing/shop/*.jsonl"},
        {"framing": "lines"},
    ),
    "files.path": Key(
        "A path with `*`, `?` and `**` (any depth), beginning at the folder that holds `conf`. "
        "Files that end with gz, zst or bz2 are unpacked.",
        "landing/shop/**/*.jsonl.gz",
        "",
    ),
    "files.framing": Key(
        "What one message is in a file: a line, the whole file, a length and as many bytes, a "
        "datum of an Avro container, a line of hexadecimal digits or base64, or a line of "
        "`kcat -J` with key, partition and offset.",
        "kcat",
        "line",
    ),
    "files.order": Key(
        "How new files are numbered: by time of modification and path, or by path alone.",
        "path",
        "name",
    ),
    "order": Key(
        "What “later” means: `source` goes by the log position in the messages, `arrival` by how "
        "they came; `auto` is what the format has by default. [More](../order.md).",
        "arrival",
        "timestamp",
    ),
    "statements": Key(
        "By arrival, which partitions of a topic a truncate empties: all, where the producer sends "
        "it to `one_partition`, or its own, where it sends a copy to `every_partition`. `auto` "
        "goes by the message: TiCDC sends copies.",
        "every_partition",
        "all",
    ),
    "time_zone": Key(
        "The zone of times that come without one: a name, or an offset.",
        "Asia/Shanghai",
        "Shanghai",
    ),
    "default_database": Key(
        "The database of messages that name none.",
        "shop",
        ["shop"],
        {"type": ["string", "null"]},
    ),
    "default_schema": Key(
        "The schema of messages that name none.",
        "public",
        ["public"],
        {"type": ["string", "null"]},
    ),
    "default_table": Key(
        "The table of messages that name none.",
        "orders",
        ["orders"],
        {"type": ["string", "null"]},
    ),
    "epoch": Key(
        "Raise it by one when the source's numbering begins again, after a failover or a restore: "
        "what comes then lies above everything before.",
        1,
        -1,
    ),
    "keys": Key(
        "The key columns of tables whose messages name none.",
        {"shop.items": ["order_id", "line"]},
        {"shop.items": []},
        {"type": "object", "additionalProperties": _NAMES},
    ),
    "columns": Key(
        "The column types of tables whose messages carry none, as the source calls them or as "
        "Spark does. They also say how values are read: a number as a date, say.",
        {"shop.items": {"price": "decimal(12,2)", "made": "datetime(6)"}},
        {"shop.items": {"price": "decmal(12,2)"}},
    ),
    "options": Key(
        "The options of the format; its page lists them.",
        {"tombstone": "delete"},
        {"tombston": "delete"},
    ),
    "limits": Key(
        "How large messages may be. What is larger is set aside as `too_large`.",
        {"message_bytes": 16777216},
        {"message_bytes": 0},
    ),
    "limits.message_bytes": Key("Bytes of a message.", 16777216, 0),
    "limits.columns": Key("Columns of a row.", 1000, "many"),
    "limits.nesting": Key("Objects and arrays in each other.", 100, 0),
    "limits.ddl_bytes": Key("Bytes of a statement.", 65536, 0),
    "limits.unpacked_bytes": Key("Bytes of one packed file, unpacked.", 10737418240, 0),
    "rejects": Key(
        "What is done about messages that are set aside.", {"fail_above": "1%"}, {"fail_abov": "1%"}
    ),
    "rejects.fail_above": Key(
        "A number, or a share of a run's messages, and of its changes: a run that sets more aside "
        "ends with 1.",
        "1%",
        "one percent",
        {
            "anyOf": [
                {"type": "integer", "minimum": 0},
                {"type": "string", "pattern": "^[0-9]+(\\.[0-9]+)?%?$"},
                {"type": "null"},
            ]
        },
    ),
}

_ENTRY: Mapping[str, Key] = {
    "target": Key(
        "The gold table's name; `{db}`, `{schema}` and `{table}` are the source table's, and every "
        "character outside `A-Z a-z 0-9 _` becomes `_`.",
        "{table}",
        "{tabel}",
    ),
    "keys": Key(
        "The key columns, instead of those that the source or the messages name.",
        ["order_id", "line"],
        [],
        {"anyOf": [_NAMES, {"type": "null"}]},
    ),
    "sequence_by": Key(
        "Columns that order the changes of a row, instead of the order of the source's log.",
        "version",
        [],
        {"anyOf": [_NAME_OR_NAMES, {"type": "null"}]},
    ),
    "stored_as_scd_type": Key(
        "What the table keeps: `1` current rows, `2` every version of a row, `append` every row "
        "as it came.",
        2,
        3,
        {"enum": [1, 2, "1", "2", "append"]},
    ),
    "deletes": Key(
        "`hard` removes a deleted row, `soft` keeps it with `_deleted_at`.", "soft", "none"
    ),
    "truncates": Key("Whether a truncate at the source empties the table.", "ignore", "keep"),
    "columns": Key(
        "Types of columns, as Spark calls them, instead of those of the source. Values are cast; "
        "what does not fit is set aside. `{mask: hash}`, `{mask: tokens}` and `{mask: null}` put "
        "something else in place of a column's values before gold; a key column can only have "
        "`hash`. A `type` beside it is the one by which values are spelled before they are hashed, "
        "and with `null` the column's own.",
        {"price": "decimal(12,2)", "phone": {"mask": "null"}},
        {"price": "decimal(50,2)"},
    ),
    "exclude": Key(
        "Columns that gold and history do not have. Silver and bronze still hold them, and `_pos` "
        "the values of one that is in `sequence_by`.",
        ["internal_note"],
        "internal_note",
        {"type": "array", "items": {"type": "string", "minLength": 1}},
    ),
    "shard_column": Key(
        "A new column that says which source table a row is from, as part of the key.",
        "shard",
        "_pos",
        {"type": ["string", "null"], "minLength": 1},
    ),
    "merge_every": Key(
        "How often the table is merged: once that much time has passed since it last was, once so "
        "many changes wait, or whichever comes first, with `|` between them. Without it, every run "
        "merges what is new.",
        "5 minutes | 10000 events",
        "often",
    ),
    "ddl": Key(
        "What becomes of schema changes of these tables, by class, instead of the setting.",
        {"additive": "review"},
        {"additive": "reviw"},
    ),
}

TABLES: Mapping[str, Key] = {
    "source": Key("The name of the source whose tables these are.", "shop", "shpo"),
    "publish": Key(
        "`transaction` lets all targets of the source advance together, to the last position below "
        "which every transaction is complete.",
        "transaction",
        "transactions",
    ),
    "defaults": Key(
        "What every entry has unless it says otherwise; the keys are those of an entry but `from`.",
        {"deletes": "soft"},
        {"delete": "soft"},
    ),
    "tables": Key(
        "The entries. The last one that matches a table applies, and no other.",
        [{"from": "shop.*"}],
        [{"form": "shop.*"}],
    ),
    "tables.from": Key(
        "A table, or a list of tables that share one target: `table`, `db.table` or "
        "`db.schema.table`, where `*` and `?` stand for any letters but a dot.",
        ["shop_0?.orders_??"],
        "a.b.c.d",
        _NAME_OR_NAMES,
    ),
    **{f"tables.{name}": key for name, key in _ENTRY.items()},
}
DEFAULTS: Mapping[str, Key] = {f"defaults.{name}": key for name, key in _ENTRY.items()}
"""The same keys again, where they stand under `defaults`."""
