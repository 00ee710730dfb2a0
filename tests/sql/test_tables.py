"""What is done to tables, read of the past, taken out of them: SQL takes it as it is written."""

from __future__ import annotations

import pytest
import sqlglot

from ingest.codes import Code
from ingest.names import SourceTable
from ingest.position import LENGTH, TOP
from ingest.sql import pending, silver
from ingest.sql.fold import late_keys, reconstruction, scd2, states, superseded
from ingest.sql.history import compare, transactions, view
from ingest.sql.lineage import schema_pos
from ingest.sql.privacy import erasure, person
from ingest.sql.projection import OrderColumn, Projection
from ingest.sql.query import first_row, in_order, one_row, select
from ingest.sql.rejects import replayed
from ingest.sql.tables import definition, leases, rows, upkeep

PROJECTION = Projection(
    keys=("id",),
    columns={"id": "int", "a b": "decimal(9,2)"},
    label="shop.order's",
    source="lab",
    sequence=(OrderColumn(("a b",), "decimal(9,2)", (((1,) * LENGTH, ("a`b", "A b")),)),),
)
TABLE = SourceTable("lab", "shop", None, "order's")
CHANGES = "SELECT * FROM silver.cdc WHERE kind = 'change'"
STEPS = scd2.changes_as_steps(PROJECTION, CHANGES, sets=("id", "a b"))
ADDED = ("_pos", "_source")
COLUMNS = ("id", "a b")
TOGETHER = reconstruction.together(
    ["SELECT * FROM a", "SELECT * FROM b"],
    keys=("id",),
    columns=COLUMNS,
    added=ADDED,
    source="lab",
)
UNDECODED = replayed.undecoded("silver.cdc", "gold._rejects", source="it's", code="bad'")
MOVED = transactions.transactions("silver.cdc", change="value_hash", above=3)
VIEW = view.of_source(
    [
        view.changes_of(
            "silver.cdc",
            [TABLE],
            lineage=(),
            renames=(),
            masks={},
            zone="Asia/Shanghai",
            renamed=False,
            schema_pos=schema_pos(["it's"], by_arrival="true"),
        )
    ],
    by_arrival={"lab": "true"},
    columns={"id": "int", "op": "string"},
    hidden=["hid'den"],
    looked=["id"],
    zone="Asia/Shanghai",
)
LOOKED = view.Looked(("id",), 1, {0: "1'"})
QUERIES = {
    "versions": scd2.rows(
        PROJECTION,
        scd2.with_open_values(PROJECTION, scd2.beside_nothing(PROJECTION, STEPS)),
    ),
    "versions of a batch": scd2.rows(PROJECTION, STEPS, sets=("id",)),
    "typed_states": states.typed_states(PROJECTION, states.leaving_rows("results"), exact=True),
    "no_states": states.no_states(PROJECTION, "results"),
    "typed_keys": states.typed_keys(PROJECTION, "results"),
    "as_states": states.not_gone(states.as_states(PROJECTION, "SELECT * FROM t", sets=("id",))),
    "those_held": late_keys.those_held(
        late_keys.held_by_others("gold.t", PROJECTION, soft=True, versions=False), keys="named"
    ),
    "no_rows": reconstruction.no_rows({"a b": "int"}),
    "typed": reconstruction.typed("SELECT * FROM t", {"a b": "int"}),
    "placed": reconstruction.placed("SELECT * FROM t"),
    "one_owner": reconstruction.with_own_names(
        reconstruction.one_owner(
            TOGETHER, keys=("id",), columns=COLUMNS, added=ADDED, target="gold.t"
        ),
        columns=COLUMNS,
        added=ADDED,
    ),
    "one_owner, no target": reconstruction.one_owner(
        TOGETHER, keys=("id",), columns=COLUMNS, added=ADDED, target=None
    ),
    "several_owners": reconstruction.several_owners("SELECT * FROM t", keys=["a b", "id"]),
    "with_keys": reconstruction.with_keys(PROJECTION, "SELECT * FROM t"),
    "changes_of_other_keys": reconstruction.changes_of_other_keys(CHANGES, PROJECTION, "odd"),
    "events_that_fit": reconstruction.events_that_fit(CHANGES, among="odd", linked="linked"),
    "events_that_fit, all": reconstruction.events_that_fit(CHANGES, among=None, linked=None),
    "keys_of_partial_images": reconstruction.keys_of_partial_images(CHANGES),
    "keys_to_fold_exactly": reconstruction.keys_to_fold_exactly(
        CHANGES, lacking=1, soft=True, tied=silver.tied_to([TOP], "pos")
    ),
    "superseded": superseded.superseded(CHANGES, CHANGES, soft=False),
    "with_names_beyond": superseded.with_names_beyond(PROJECTION, "SELECT * FROM t"),
    "highest": superseded.highest("past"),
    "superseded.delete": superseded.delete("silver.cdc", "past", tables=[TABLE, TABLE]),
    "statistics": pending.statistics(
        "silver.cdc",
        pending.of_tables([TABLE]),
        part=pending.part({TABLE: 3}, 7),
        images=64,
        tenants=["oms_default"],
    ),
    "schema_hints": pending.schema_hints("silver.cdc", "true"),
    "key_changes": pending.key_changes(PROJECTION, CHANGES, number=1),
    "sequence_positions": pending.sequence_positions(PROJECTION, CHANGES, number=1),
    "changes": silver.silver_changes(
        "silver.cdc", [TABLE], pending.between(TOP, TOP), renamed=True
    ),
    "truncates": silver.truncates(CHANGES, number=1, above=3),
    "last_batches": silver.last_batches("silver.cdc", source="it's"),
    "newest_batch": silver.newest_batch("silver.cdc"),
    "first_unapplied": silver.first_unapplied("silver.cdc", {TABLE: 3}, below=TOP),
    "first_of": silver.first_of("silver.cdc", TABLE, "op = 'truncate'"),
    "columns_among": silver.columns_among(CHANGES, ["a'b"]),
    "tables_with_changes": silver.tables_with_changes(
        "silver.cdc", silver.above_cursors({"it's": 3})
    ),
    "arrivals": silver.arrivals("silver.cdc", source="it's", where="epoch = 1"),
    "last_arrivals": silver.last_arrivals("silver.cdc", source="it's"),
    "changes_per_message": silver.changes_per_message("silver.cdc"),
    "view": VIEW,
    "previous_keys": view.previous_keys(
        VIEW, {"id": "int", "op": "string"}, LOOKED, held=[view.Earlier("[1]", TOP)]
    ),
    "shown": view.shown(
        VIEW,
        {"id": "int", "op": "string"},
        where=view.of_key({"id": "int", "op": "string"}, LOOKED, []),
    ),
    "names_sent": view.names_sent("silver.cdc", view.of_tables([TABLE])),
    "schemas": view.schemas("silver.cdc"),
    "without_joined": view.without_joined(CHANGES, ["it's"]),
    "transactions": MOVED,
    "that_wait": transactions.that_wait(MOVED),
    "lowest_waiting": transactions.lowest_waiting(MOVED),
    "batches_from": transactions.batches_from("silver.cdc", source="it's", above=3, first=TOP),
    "differences": compare.by_kind(
        compare.differences(
            compare.numbered("a", ["id"], columns=["a b"], order="_pos"),
            compare.numbered("b", ["id"], columns=["a b"], order="1"),
            ["id"],
            columns=["a b"],
        )
    ),
    "narrowed": select(compare.narrowed("t", ["a b"], "true")),
    "with_texts": compare.with_texts("t", [("a'b", "x")], named="_texts"),
    "undecoded": UNDECODED,
    "counted": replayed.counted(UNDECODED),
    "messages": replayed.messages(UNDECODED),
    "replayed": replayed.as_rejects(UNDECODED, "failed", source="it's", columns=["id", "at"]),
    "dismissed": replayed.dismissed(
        CHANGES, "gold._rejects", by="o'n", why="it's", columns=["id", "error"]
    ),
    "changes_of_keys": person.changes_of_keys(CHANGES, "keys"),
    "within": person.within(CHANGES, CHANGES, spans="spans", most=3),
    "rejects_of_messages": person.rejects_of_messages("silver.cdc", "held", source="it's"),
    "shards_of_transactions": person.shards_of_transactions("silver.cdc", "held", source="it's"),
    "texts_of_others": person.texts_of_others("silver.cdc", "held", asked="asked", source="it's"),
    "erasure.undecoded": erasure.undecoded("bronze.messages", "silver.cdc", source="it's"),
    "number_in_gold": erasure.number_in_gold("gold.t", "spans", erasure.in_a_span({"a b": "int"})),
    "number_of_deliveries": erasure.number_of_deliveries("t", "held", source="it's"),
    "number_of_others": erasure.number_of_others(
        "silver.cdc", "held", messages="messages", source="it's"
    ),
    "number_of_messages": erasure.number_of_messages("bronze.messages", "messages", source="it's"),
    "from_gold": erasure.from_gold("gold.t", "spans", "t.id = h.id"),
    "from_rejects": erasure.from_rejects("gold._rejects", "held", source="it's", error="it's"),
    "from_bronze": erasure.from_bronze("bronze.messages", "messages", source="it's"),
    "from_silver": erasure.from_silver("silver.cdc", "held", source="it's", error="it's"),
    "unproved": erasure.unproved("gold._erasures", target="it's"),
    "create_schema": definition.create_schema("`gold`", location="/a'b"),
    "create_table": definition.create_table(
        "gold.t", [("a b", "int")], partitioned_by=["a b"], properties=[("a'b", "c")]
    ),
    "register": definition.register("gold.t", location="/a'b"),
    "create_view": definition.create_view("gold.v", VIEW),
    "drop": definition.drop("VIEW", "gold.v"),
    "add_columns": definition.add_columns("gold.t", [("a b", "int")]),
    "comment": definition.comment("gold.t", "a b", "it's"),
    "set_properties": definition.set_properties("gold.t", {"a'b": "${c}"}),
    "upsert": rows.upsert("gold.t", UNDECODED),
    "change": rows.change("gold.t", UNDECODED, columns=["a", "version"], counted="version"),
    "overwritten": rows.overwritten("gold.t", VIEW, columns=["a b"]),
    "delete": rows.delete("gold.t", "a = 1"),
    "fill": rows.fill("gold.t", "a b", "1", where="true"),
    "lacking": rows.lacking("gold.t", "a b", where="true"),
    "unfit": rows.unfit("gold.t", "CAST(a AS string)", misfit="a > 1"),
    "file_sizes": upkeep.file_sizes("gold.t", "it's"),
    "past_progress": upkeep.past_progress("gold._progress", before="now()"),
    "without_progress": upkeep.without_progress("gold._progress", "SELECT * FROM past"),
    "newest": leases.newest("gold._leases", "it's"),
    "take": leases.take("gold._leases", "it's", number=3, holder="{}"),
    "beat": leases.beat("gold._leases", "it's", number=3, count=4),
    "first_row": first_row(VIEW),
    "in_order": in_order(VIEW, ["a b"]),
    "one_row": one_row(["1", "'a'"]),
}


@pytest.mark.parametrize("name", QUERIES)
def test_is_sql(name: str) -> None:
    assert sqlglot.parse_one(QUERIES[name], read="spark") is not None
    assert "${" not in QUERIES[name]


def test_files_are_put_together_and_cleaned() -> None:
    assert upkeep.optimize("gold.t", source="it's", cluster=["a b"]) == (
        "OPTIMIZE gold.t WHERE source = 'it\\'s' ZORDER BY (`a b`)"
    )
    assert upkeep.vacuum("gold.t") == "VACUUM gold.t"
    assert upkeep.vacuum("gold.t", all_=True) == "VACUUM gold.t RETAIN 0 HOURS"


def test_shards_that_wait_for_others_are_no_case_for_a_replay() -> None:
    assert f"<> '{Code.FRAGMENT_INCOMPLETE.value}'" in UNDECODED
