"""The target tables of gold: which columns they have, how they are made and how they grow."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from ingest.config.modes import KEEPING, TargetContract
from ingest.config.routes import Route
from ingest.ddl.widening import canonical_type, widens
from ingest.errors import TableError
from ingest.events import ColumnType
from ingest.names import lowered
from ingest.sql.metadata import METADATA, ROW_METADATA, check_column_names
from ingest.sql.projection import Projection
from ingest.sql.quoting import quoted
from ingest.sql.tables.definition import add_columns, set_properties
from ingest.sql.tables.upkeep import detail
from pipelines.platform.warehouse import Warehouse
from pipelines.targets.progress import Horizon

_KEY = re.compile(r"key ([0-9]+)")
_DELETED = {"_deleted_at": "timestamp"}
_KEPT = "ingest.kept"
_HORIZONS = "ingest.horizons"
_DELTAS = ("delta.feature.", "delta.columnMapping.", "delta.min", "delta.rowTracking.")
"""Properties that Delta Lake maintains itself."""
_HARMLESS = {
    "ADD COLUMNS",
    "CHANGE COLUMN",
    "CHANGE COLUMNS",
    "RENAME COLUMN",
    "DROP COLUMNS",
    "SET TBLPROPERTIES",
    "UNSET TBLPROPERTIES",
    "CLUSTER BY",
    "OPTIMIZE",
    "VACUUM START",
    "VACUUM END",
}
"""Operations that change no row."""
_COMMITS = 10
"""How many commits of a target are searched for those that gold did not record."""
_PROPERTIES = {
    "delta.columnMapping.mode": "name",
    "delta.enableTypeWidening": "true",
    # Not enabled by ALTER TABLE itself when a timestamp_ntz column is added.
    "delta.feature.timestampNtz": "supported",
    # A MERGE into a small table is a third cheaper without them.
    "delta.enableDeletionVectors": "false",
}


def columns_of(warehouse: Warehouse, target: str) -> dict[str, str] | None:
    """The data columns of a target and their Spark types; None if it does not exist."""
    if not warehouse.exists("gold", target):
        return None
    fields = warehouse.fields("gold", target)
    return {
        field.name: field.dataType.simpleString() for field in fields if field.name not in METADATA
    }


def wanted_columns(
    route: Route,
    keys: Sequence[str],
    types: Iterable[Sequence[ColumnType]],
    *,
    images: Iterable[Sequence[str]],
) -> dict[str, str]:
    """The columns that a target should have, keys first, with the declared types, else those of the
    messages.

    Columns without any type are string. Names in the configuration are spelled as the messages
    spell them. Raises TableError if two columns of one row differ only in case, since they could
    not be told apart.
    """
    columns: dict[str, str] = {}
    spellings: dict[str, str] = {}
    types, images = list(types), list(images)
    typed = _typed(types)
    sent = list(dict.fromkeys(name for image in images for name in image))
    order = [*_spelt(typed, sent), *sent]
    order += _spelt(route.columns, order)
    declared = {name.lower(): type_ for name, type_ in route.columns.items()}
    excluded = lowered(route.exclude)
    check_column_names([*images, *([column.name for column in row] for row in types)], excluded)
    for name in [*keys, *order]:
        lower = name.lower()
        if lower in excluded or lower in spellings:
            continue
        spellings[lower] = name
        columns[name] = declared.get(lower) or _type_of(name, typed)
    return columns


def _spelt(names: Iterable[str], known: Iterable[str]) -> list[str]:
    """The names, without those that are one of `known` in another case."""
    exact = set(known)
    lower = lowered(exact)
    return [name for name in names if name in exact or name.lower() not in lower]


def _typed(types: Iterable[Sequence[ColumnType]]) -> dict[str, str]:
    """The type of each column: the last one that came, unless an earlier one holds all its values.

    In some formats only the values show types, and an unsigned column does not become narrower
    because it shows small numbers.
    """
    found: dict[str, str] = {}
    for columns in types:
        for column in columns:
            before = found.get(column.name)
            if before is None or not widens(canonical_type(column.type), canonical_type(before)):
                found[column.name] = column.type
    return found


def _type_of(name: str, typed: Mapping[str, str]) -> str:
    if name in typed:
        return typed[name]
    lower = {other.lower(): type_ for other, type_ in typed.items()}
    return lower.get(name.lower(), "string")


def keys_of(warehouse: Warehouse, target: str) -> tuple[str, ...]:
    """The key columns that a target was made with; () if it does not exist or has none."""
    if not warehouse.exists("gold", target):
        return ()
    found = {}
    for field in warehouse.fields("gold", target):
        ordinal = _KEY.fullmatch(field.metadata.get("comment", ""))
        if ordinal is not None:
            found[int(ordinal[1])] = field.name
    return tuple(name for _, name in sorted(found.items()))


def create(
    warehouse: Warehouse,
    target: str,
    columns: Mapping[str, str],
    *,
    contract: TargetContract,
    soft: bool,
) -> None:
    """Create a target with its data columns and what gold adds to each row.

    The comment of a key column says that it is one; the key stays until a change of it is approved.
    A property keeps the mode and `sequence_by`, in case the progress of gold is lost. Open versions
    lie apart from those that ended, so that a batch reads and writes no more files of them than it
    would if only rows were kept.
    """
    ordinals = _key_ordinals(contract)
    comments = {name: f" COMMENT 'key {ordinal}'" for name, ordinal in ordinals.items()}
    data = [(name, type_ + comments.get(name.lower(), "")) for name, type_ in columns.items()]
    added = {
        **ROW_METADATA,
        **contract.keeps.added,
        **(_DELETED if soft and contract.keeps.keyed else {}),
    }
    warehouse.create(
        "gold",
        target,
        [*data, *added.items()],
        partitioned_by=_parts(contract),
        properties={**_PROPERTIES, _KEPT: _contract_text(contract)},
    )


def replace_table(
    warehouse: Warehouse, target: str, rows: DataFrame, *, contract: TargetContract
) -> None:
    """Replace a target by `rows`, with their columns and types, as `create` would make it: by one
    commit, so readers see the old table or the new one, and a target that is gone does not exist
    until it has all its rows. Properties that others set stay."""
    ordinals = _key_ordinals(contract)
    columns = [
        F.col(quoted(name)).alias(name, metadata={"comment": f"key {ordinals[name.lower()]}"})
        if name.lower() in ordinals
        else F.col(quoted(name))
        for name in rows.columns
    ]
    name = warehouse.name("gold", target)
    if warehouse.exists("gold", target):
        # SHOW TBLPROPERTIES hides the values of those that are called like a secret.
        [told] = warehouse.session.sql(detail(name)).select("properties").collect()
        others = {key: value for key, value in told[0].items() if not key.startswith(_DELTAS)}
    else:
        others = warehouse.prepare("gold", target)
    writer = rows.select(columns).writeTo(name).using("delta")
    for key, value in {**_PROPERTIES, **others, _KEPT: _contract_text(contract)}.items():
        writer = writer.tableProperty(key, value)
    if _parts(contract):
        writer = writer.partitionedBy(*map(F.col, _parts(contract)))
    writer.createOrReplace()


def _key_ordinals(contract: TargetContract) -> dict[str, int]:
    return {key.lower(): number for number, key in enumerate(contract.keys, 1)}


def _parts(contract: TargetContract) -> list[str]:
    return ["_current"] if contract.keeps.versions else []


def _contract_text(contract: TargetContract) -> str:
    return _hex([contract.mode, contract.sequence, contract.masks, contract.shard])


def contract_of(warehouse: Warehouse, target: str) -> TargetContract | None:
    """What a target was created for; None if it does not exist or does not say."""
    stored = _property(warehouse, target, _KEPT)
    if stored is None:
        return None
    mode, sequence, masks, *told = stored
    # Earlier versions wrote the masks alone in hex, and did not tell the shard column.
    masks = json.loads(bytes.fromhex(masks)) if isinstance(masks, str) else masks
    shard = told[0] if told else None
    keys = keys_of(warehouse, target)
    return TargetContract(mode, keys, tuple(sequence), masks=tuple(masks), shard=shard)


def keep_horizons(
    warehouse: Warehouse, target: str, horizons: Mapping[str, Sequence[Horizon]]
) -> None:
    """Note in the target where the history of its source tables, by label, was trimmed, in case the
    progress of gold is lost: nothing else would tell that changes from below have no base."""
    kept = _hex({label: found for label, found in horizons.items() if found})
    warehouse.execute(set_properties(warehouse.name("gold", target), {_HORIZONS: kept}))


def horizons_of(warehouse: Warehouse, target: str) -> dict[str, tuple[Horizon, ...]]:
    """What `keep_horizons` noted; nothing if the target does not exist."""
    kept = _property(warehouse, target, _HORIZONS)
    return {
        label: tuple(Horizon(tuple(pos), batch, time) for pos, batch, time in found)
        for label, found in (kept or {}).items()
    }


def _hex(value: Any) -> str:
    """A value as a property has it. Spark shows no property in which it finds a word like secret,
    password or token, and columns and tables may be called so."""
    return json.dumps(value).encode().hex()


def _property(warehouse: Warehouse, target: str, name: str) -> Any:
    """A value that `_hex` wrote, or an earlier version as plain JSON; None if there is none."""
    if not warehouse.exists("gold", target):
        return None
    text = warehouse.table_property("gold", target, name)
    if text is None:
        return None
    return json.loads(text if text.startswith(("[", "{")) else bytes.fromhex(text))


def check_contract(warehouse: Warehouse, target: str, *, contract: TargetContract) -> None:
    """Raise TableError if an existing target cannot keep what the mode of `contract` keeps."""
    present = {field.name for field in warehouse.fields("gold", target)}
    versions = [name for kept in KEEPING.values() if kept.versions for name in kept.added]
    if contract.keeps.versions != (present >= set(versions)):
        wanted, got = ("with", "without") if contract.keeps.versions else ("without", "with")
        raise TableError(
            f"expected {target} {wanted} the columns {', '.join(versions)}, as its "
            f"stored_as_scd_type has it, got it {got} them; choose another target"
        )


def add_deletion_time(warehouse: Warehouse, target: str) -> None:
    """Add the column `_deleted_at` to a target whose deletes were hard when it was made."""
    if not {field.name for field in warehouse.fields("gold", target)} >= _DELETED.keys():
        warehouse.execute(add_columns(warehouse.name("gold", target), _DELETED.items()))


def with_spellings(projection: Projection, images: Iterable[Sequence[str]]) -> Projection:
    """The projection, with the names that images have for its columns, matched without case."""
    by_lower = {name.lower(): name for name in projection.columns}
    found: dict[str, dict[str, None]] = {}
    for image in images:
        for name in image:
            column = by_lower.get(name.lower())
            if column is not None:
                found.setdefault(column, {})[name] = None
    spellings = {name: tuple(names) for name, names in found.items() if tuple(names) != (name,)}
    return replace(projection, spellings=spellings)


def recorded(warehouse: Warehouse, target: str, version: int | None) -> int | None:
    """The target's version, if gold recorded everything that was written since `version`; None if
    its log has something else, which a killed run wrote."""
    if version is None:
        return None
    newest = warehouse.commits("gold", target, _COMMITS)
    newer = [commit for commit in newest if commit.version > version]
    known = len(newer) < _COMMITS and all(commit.operation in _HARMLESS for commit in newer)
    return newest[0].version if known else None
