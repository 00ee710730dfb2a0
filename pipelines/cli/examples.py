"""The examples that the help of each verb ends with."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import click

EXAMPLES: Mapping[str, tuple[str, ...]] = {
    "": ("ingest validate", "ingest run", "ingest status"),
    "as-of": (
        "ingest as-of shop_orders --time 2024-03-04T01:20:00Z",
        "ingest as-of shop_orders --pos '[0, 1]'",
    ),
    "bronze": ("ingest bronze --source shop",),
    "ddl": ("ingest ddl list --status pending",),
    "ddl approve": ("ingest ddl approve 7728b0749522 --by ada --why 'agreed with the shop'",),
    "ddl list": ("ingest ddl list --status pending",),
    "ddl reject": ("ingest ddl reject 7728b0749522 --why 'still needed for reports'",),
    "ddl show": ("ingest ddl show 7728b0749522",),
    "erase": (
        "ingest erase shop_orders --key order_id=1002",
        "ingest erase shop_orders --key order_id=1002 --reason 'asked on 4 March' --yes --vacuum",
    ),
    "formats": ("ingest formats debezium", "ingest formats --codes"),
    "gold": ("ingest gold --table shop_orders",),
    "history": ("ingest history shop_orders --key order_id=1002",),
    "init": (
        "ingest init --sample sample.jsonl --name shop",
        "ingest init --from postgresql://reader@localhost/shop --format debezium",
    ),
    "inspect": (
        "ingest inspect sample.jsonl",
        "kcat -C -b broker:9092 -t shop -c 9 -J -e | ingest inspect --framing kcat",
        "ingest inspect sample.jsonl --source shop",
    ),
    "maintain": ("ingest maintain --max-wait 600",),
    "plan": ("ingest plan", "ingest plan --source shop --json"),
    "rebuild": ("ingest rebuild shop_orders --yes",),
    "reconcile": (
        "ingest reconcile shop_orders",
        "ingest reconcile shop_orders --snapshot exports/orders.parquet",
    ),
    "redecode": ("ingest redecode --source shop",),
    "rejects": ("ingest rejects summary",),
    "rejects dismiss": (
        "ingest rejects dismiss --source shop --code bad_json --why 'test traffic'",
    ),
    "rejects list": ("ingest rejects list --source shop --status open --limit 20",),
    "rejects replay": ("ingest rejects replay --source shop --code type_mismatch",),
    "rejects show": ("ingest rejects show 3f2a",),
    "rejects summary": ("ingest rejects summary --status open",),
    "report": ("ingest report", "ingest report --out /srv/www/ingest.html"),
    "reset": ("ingest reset shop_orders", "ingest reset --source shop --yes"),
    "review": ("ingest review --serve --port 8420",),
    "run": (
        "ingest run",
        "ingest run --source shop --no-wait",
        "ingest run --continuous --listen 127.0.0.1:9188 --log-format json",
    ),
    "silver": ("ingest silver --source shop",),
    "sql": (
        "ingest sql 'SELECT * FROM gold.shop_orders LIMIT 10'",
        "ingest sql 'SELECT op, count(*) FROM silver.changes GROUP BY op' --json",
    ),
    "status": (
        "ingest status",
        "ingest status --watch --interval 30",
        "ingest status --check",
    ),
    "upgrade": ("ingest upgrade",),
    "validate": ("ingest validate --connect", "ingest --conf other/conf validate"),
    "version": ("ingest version --json",),
}
"""The words of a verb -> lines to type."""


def commands(group: click.Command, words: str = "") -> Iterator[tuple[str, click.Command]]:
    """Every verb of a command with its words, groups before what is in them."""
    yield words, group
    if isinstance(group, click.Group):
        for name, command in group.commands.items():
            yield from commands(command, f"{words} {name}".strip())


def add_examples(group: click.Group) -> None:
    """Let the help of every verb end with its examples, where it has none of its own."""
    for words, command in commands(group):
        if words in EXAMPLES and command.epilog is None:
            # The mark keeps click from joining the lines.
            lines = "\n".join(f"  {line}" for line in EXAMPLES[words])
            command.epilog = f"\b\nExamples:\n{lines}"
