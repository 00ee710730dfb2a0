"""Debezium's row changes read by column: the regular messages of a batch, table by table.

A message is regular if its envelope has the members of the others on its topic, its images have the
same columns, and all their values are scalars other than the placeholder of an unavailable value.
The meaning of such a message is decided by the same functions as that of a single message: those of
`Rows`, and `row_event`.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import msgspec

from ingest.codes import Code
from ingest.errors import DecodeError
from ingest.events import Event
from ingest.formats.debezium.columns import Columns
from ingest.formats.debezium.envelope import (
    OPS,
    Inner,
    Outer,
    Source,
    Transaction,
    family_of_connector,
    is_snapshot_row,
    micros,
    names_of,
    plain_times,
    sent_micros,
)
from ingest.formats.debezium.events import scn_of, transaction_of
from ingest.formats.debezium.flattened import Flattened
from ingest.formats.debezium.keys import without_table
from ingest.formats.debezium.order import crowded, orders_of
from ingest.formats.debezium.rows import Rows, completeness
from ingest.formats.debezium.schema import OPENING, Block, Opening, of_flink
from ingest.memo import Memo
from ingest.values import jsontext
from ingest.wire.contract import Changes, FormatOptions, Message, TableName
from ingest.wire.doubled_names import check_names
from ingest.wire.forms import Forms, Part
from ingest.wire.text_columns import SentImages, TextRows, columns_of, read_tables, text_rows

_ROWS = ("insert", "update", "delete", "snapshot")
_BY_ROW = frozenset(("cassandra", "scylla"))
"""Connectors whose rows may have to be refused."""
_NO_IMAGE = (b"", b"null")
_NONE = frozenset((None,))
_OPENINGS_MOST = 32


class _Sent(msgspec.Struct, gc=False):
    """One change as it was sent; `before` and `after` are places in the list of all images."""

    at: int
    op: str
    inner: Inner
    source: Source
    before: int | None
    after: int | None


class _Table(NamedTuple):
    """What changes have in common that are read together; `key`: the columns of the message key."""

    names: TableName
    family: str
    block: Block
    key: tuple[str, ...] | None
    columns: tuple[str, ...]
    of_flink: bool
    crowded: bool


class _Envelopes:
    """The envelopes of one source's regular messages, with the schema block that types them."""

    def __init__(self, rows: Rows, flattened: Flattened, paths: tuple[str, ...]) -> None:
        self._schemas = rows.schemas
        self._paths = paths
        inner = {"source": Part(Source), "transaction": Part(Transaction)}
        others = flattened.names | {"schema", "payload", "tableChanges"}
        bare = Part(Inner, inner, others)
        self._bare: Forms[Inner] = Forms(bare)
        beside = (others | inner.keys()) - {"payload"}
        self._wrapped: Forms[Outer] = Forms(Part(Outer, {"payload": bare}, beside))
        self._openings: Memo[str, list[Opening]] = Memo(most=100)

    def of(self, message: Message) -> tuple[Inner, Block] | None:
        """The envelope of one message; None if it is not regular."""
        value = message.value or b""
        if not value.startswith(OPENING):
            inner = self._bare.read(value, message.topic)
            return None if inner is None else (inner, self._schemas.block(b""))
        opening = self._opening(value, message.topic)
        if opening is None:
            return None
        rest = b"{" + value[len(opening.text) + 1 :]
        outer = self._wrapped.read(rest, message.topic)
        payload: Any = outer.payload if outer is not None else None
        return (payload, opening.block) if payload else None

    def _opening(self, value: bytes, topic: str) -> Opening | None:
        """The opening of a message, which is mostly that of others of its topic."""
        known = self._openings.get(topic)
        for opening in known or ():
            if value.startswith(opening.text) and value.startswith(b",", len(opening.text)):
                return opening
        try:
            jsontext.check_utf8(value)
            raw = bytes(jsontext.members(value)["schema"])
            if not value.startswith(OPENING + raw + b","):
                return None
            check_names(value, flat=True, envelope=self._paths)
            block = self._schemas.block(raw)
        except (DecodeError, *jsontext.UNREADABLE):
            return None
        if not block.fields:
            return None
        if known is None:
            known = self._openings[topic] = []
        found = Opening(OPENING + raw, block)
        known.insert(0, found)
        del known[_OPENINGS_MOST:]
        return found


class Tables:
    """Reads the regular changes of one source; `paths` are those of the format's envelope."""

    def __init__(self, options: FormatOptions, paths: tuple[str, ...]) -> None:
        self._rows = Rows(options)
        self._envelopes = _Envelopes(self._rows, Flattened(options, self._rows), paths)

    def read(self, messages: Sequence[tuple[int, Message]]) -> list[Changes]:
        """The regular changes among messages, table by table."""
        texts: list[bytes] = []
        found: list[tuple[_Sent, Block, Message]] = []
        for at, message in messages:
            envelope = self._envelopes.of(message)
            if envelope is None:
                continue
            sent = _sent(at, envelope[0], texts)
            if sent is not None:
                found.append((sent, envelope[1], message))
        images = SentImages(texts, jsontext.plain_images(texts, marked=True))
        return read_tables(
            self._tables(found, images.read),
            lambda table, group: self._changes(table, group, images),
        )

    def _tables(
        self, found: Sequence[tuple[_Sent, Block, Message]], images: Sequence[dict[str, Any] | None]
    ) -> dict[_Table, list[_Sent]]:
        """The changes by their table, without those with an image that is not regular."""
        tables: dict[_Table, list[_Sent]] = {}
        last: tuple[object, ...] = ()
        last_block: Block | None = None
        group: list[_Sent] = []
        for sent, block, message in found:
            columns = columns_of(images, sent.before, sent.after)
            if columns is None or _lacks(sent, images):
                continue
            source = sent.source
            key = self._rows.keys.names(message.key, needed=False) if message.key else None
            key = without_table(key, columns, flink=source.connector is None)
            known = (
                source.db,
                source.schema,
                source.table,
                key,
                columns,
                source.connector,
                source.lsn is None,
                source.scn is None,
                crowded(source),
            )
            # A change mostly has the table of the one before.
            if known != last or block is not last_block:
                table = self._table(sent, block, key, columns=columns)
                if table is None:
                    continue
                group = tables.setdefault(table, [])
                usual = source.db and source.table and not self._invents(table.family)
                last, last_block = (known if usual else ()), block
            group.append(sent)
        return tables

    def _table(
        self, sent: _Sent, block: Block, key: tuple[str, ...] | None, *, columns: tuple[str, ...]
    ) -> _Table | None:
        """The table of a change; None if the change must be read by itself."""
        family = family_of_connector(sent.source)
        if sent.before is not None and self._invents(family):
            return None
        if key and not set(key) <= set(columns):
            return None
        flink = of_flink(block, sent.source)
        crowds = crowded(sent.source)
        return _Table(names_of(sent.source), family, block, key, columns, flink, crowds)

    def _invents(self, family: str) -> bool:
        """Whether rows before may hold values that are made up; each value shows whether it is
        one."""
        return family == "postgres" and not self._rows.full_identity

    def _changes(self, table: _Table, group: list[_Sent], images: SentImages) -> list[Changes]:
        names, family, block, key, shape, flink, _ = table
        columns = self._rows.schemas.columns(block, block.row, names, family=family, of_flink=flink)
        places = [at for one in group for at in (one.before, one.after) if at is not None]
        refused = self._rows.placeholder.texts
        rows = text_rows(images, places, columns.readings(shape), refused=refused)
        keys = columns.keys or key
        words = _BeforeWords(
            update=completeness(shape, shape, keys, sent=columns.sent),
            delete=completeness(shape, None, keys, sent=columns.sent),
        )
        if self._rows.merge and "partial" in words:
            return []
        return _table_changes(table, columns, group, rows=rows, words=words)


def _lacks(sent: _Sent, images: Sequence[dict[str, Any] | None]) -> bool:
    """Whether the row before may lack values: SQL Server's change tables have null for them."""
    if sent.before is None or family_of_connector(sent.source) != "sqlserver":
        return False
    return None in (images[sent.before] or {}).values()


class _BeforeWords(NamedTuple):
    """How complete the rows before are, of updates and of deletes."""

    update: str
    delete: str

    def of(self, sent: _Sent) -> str | None:
        """How complete a change's row before is; None if it has none."""
        if sent.before is None:
            return None
        return self.delete if sent.after is None else self.update


def _table_changes(
    table: _Table,
    columns: Columns,
    group: list[_Sent],
    *,
    rows: TextRows,
    words: _BeforeWords,
) -> list[Changes]:
    """The changes of a table with their values field by field, as `row_event` gives them for one
    change; changes that must be read by themselves are left out."""
    if rows.odd:
        group = [o for o in group if o.before not in rows.odd and o.after not in rows.odd]
    group, event_times = _event_times(group)
    if not group:
        return []
    inners = [sent.inner for sent in group]
    sources = [sent.source for sent in group]
    after_word = "full" if columns.sent <= len(table.columns) else "partial"
    before_words = [words.of(sent) for sent in group]
    after_words = [None if one.after is None else after_word for one in group]
    warnings: list[list[str]] = [[] for _ in group]
    ops = [sent.op for sent in group]
    fields: dict[str, Sequence[Any]] = {
        "op": ops,
        "op_raw": [inner.op for inner in inners],
        "before_image": before_words,
        "after_image": after_words,
        "event_time": event_times,
        "sent_time": plain_times(inners) or list(map(sent_micros, inners, warnings)),
        "order": orders_of(sources, ops),
        "snapshot": [is_snapshot_row(s.op, s.source) for s in group],
        "warnings": warnings,
    }
    if not _NONE.issuperset([source.scn for source in sources]):
        fields["scn"] = list(map(scn_of, sources))
    if any(inner.transaction for inner in inners) or any(
        s.gtid or s.txId is not None for s in sources
    ):
        fields["tx_id"] = list(map(transaction_of, sources, [i.transaction for i in inners]))
    untyped = [] if columns.shape(table.columns).typed else [Code.UNTYPED.value]
    if rows.doubts or untyped or "partial" in (*words, after_word):
        for sent, own, before, after in zip(
            group, warnings, before_words, after_words, strict=True
        ):
            own += _image_warnings(sent.after, after, rows=rows, untyped=untyped)
            own += _image_warnings(sent.before, before, rows=rows, untyped=untyped)
    return [
        Changes(
            [sent.at for sent in group],
            _of_table(table, columns),
            fields,
            table.columns,
            rows.of([sent.before for sent in group]),
            rows.of([sent.after for sent in group]),
        )
    ]


def _image_warnings(
    place: int | None, word: str | None, *, rows: TextRows, untyped: list[str]
) -> list[str]:
    """The warnings of the image at `place`, whose completeness is `word`; none without an image."""
    if place is None:
        return []
    partial = [Code.PARTIAL_IMAGE.value] if word == "partial" else []
    return [*rows.doubts.get(place, ()), *untyped, *partial]


def _of_table(table: _Table, columns: Columns) -> Event:
    """What all changes of a table have in common."""
    db, schema, name = table.names
    return Event(
        op="update",
        db=db,
        schema=schema,
        table=name,
        key_columns=table.key,
        types=columns.types,
        crowded=table.crowded,
    )


def _event_times(group: list[_Sent]) -> tuple[list[_Sent], Sequence[int | None]]:
    """The changes whose time is not in doubt, and these times in microseconds."""
    plain = plain_times([sent.source for sent in group])
    if plain is not None:
        return group, plain
    readable: list[_Sent] = []
    times: list[int | None] = []
    for sent in group:
        doubts: list[str] = []
        with suppress(DecodeError):
            time = micros(sent.source, doubts)
            if not doubts:
                times.append(time)
                readable.append(sent)
    return readable, times


def _sent(at: int, inner: Inner, texts: list[bytes]) -> _Sent | None:
    """A change with its images, which join `texts`; None if the message is not regular."""
    source, op = inner.source, OPS.get(inner.op or "")
    if source is None or op not in _ROWS or inner.ddl is not None:
        return None
    if source.table is None or source.keyspace is not None or source.connector in _BY_ROW:
        return None
    if source.value_capture_type is not None or source.pkNames is not None:
        return None
    if source.cluster is not None:
        return None
    before, after = bytes(inner.before), bytes(inner.after)
    has_before, has_after = before not in _NO_IMAGE, after not in _NO_IMAGE
    if has_after is (op == "delete") or (has_before is not (op == "delete") and op != "update"):
        return None
    start = len(texts)
    if has_before:
        texts.append(before)
    if has_after:
        texts.append(after)
    return _Sent(
        at,
        str(op),
        inner,
        source,
        start if has_before else None,
        start + has_before if has_after else None,
    )
