"""Debezium's row changes read by column: the regular messages of a batch, table by table.

Regular is an envelope as the topic's others have it, with images of one set of columns whose values
are scalars, none of them the placeholder of an unavailable one. What such a message means is
decided by the functions that decide it for one message: those of `Rows`, and `row_event`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

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
    names_of,
    sent_micros,
)
from ingest.formats.debezium.events import row_event
from ingest.formats.debezium.flattened import Flattened
from ingest.formats.debezium.rows import Rows, completeness
from ingest.formats.debezium.schema import Block
from ingest.values import jsontext
from ingest.wire.contract import Changes, FormatOptions, Message, TableName
from ingest.wire.doubled_names import check_names
from ingest.wire.forms import Forms, Part
from ingest.wire.text_columns import TextRows, read_tables, text_rows

_ROWS = ("insert", "update", "delete", "snapshot")
_NO_IMAGE = (b"", b"null")
_START = b'{"schema":'
_TOPICS_MOST, _OPENINGS_MOST = 100, 32


class _Sent(NamedTuple):
    """One change as it was sent; `before` and `after` are places in the list of all images."""

    at: int
    op: str
    inner: Inner
    source: Source
    before: int | None
    after: int | None


class _Table(NamedTuple):
    """What changes that are read together have in common; `key`: the columns of the message key."""

    names: TableName
    family: str
    block: Block
    key: tuple[str, ...] | None
    columns: tuple[str, ...]


class _Opening(NamedTuple):
    """How messages begin: `{"schema":…` up to the payload, and what it says."""

    text: bytes
    block: Block


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
        self._openings: dict[str, list[_Opening]] = {}

    def of(self, message: Message) -> tuple[Inner, Block] | None:
        """The envelope of one message; None where it is not regular."""
        value = message.value or b""
        if not value.startswith(_START):
            inner = self._bare.read(value, message.topic) if jsontext.is_utf8(value) else None
            return None if inner is None else (inner, self._schemas.block(b""))
        opening = self._opening(value, message.topic)
        if opening is None:
            return None
        rest = b"{" + value[len(opening.text) + 1 :]
        outer = self._wrapped.read(rest, message.topic) if jsontext.is_utf8(rest) else None
        payload: Any = outer.payload if outer is not None else None
        return (payload, opening.block) if payload else None

    def _opening(self, value: bytes, topic: str) -> _Opening | None:
        """The opening of a message, which is that of others of its topic mostly."""
        known = self._openings.get(topic)
        for opening in known or ():
            if value.startswith(opening.text) and value.startswith(b",", len(opening.text)):
                return opening
        try:
            jsontext.check_utf8(value)
            raw = bytes(jsontext.members(value)["schema"])
            if not value.startswith(_START + raw + b","):
                return None
            check_names(value, flat=True, envelope=self._paths)
            block = self._schemas.block(raw)
        except (DecodeError, *jsontext.UNREADABLE):
            return None
        if not block.fields:
            return None
        if known is None:
            if len(self._openings) >= _TOPICS_MOST:
                self._openings.clear()
            known = self._openings[topic] = []
        found = _Opening(_START + raw, block)
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
        images = jsontext.plain_images(texts, marked=True)
        tables: dict[_Table, list[_Sent]] = {}
        for sent, block, message in found:
            table = self._table(sent, block, message, images=images)
            if table is not None:
                tables.setdefault(table, []).append(sent)
        return read_tables(
            tables, lambda table, group: self._changes(table, group, images, texts=texts)
        )

    def _table(
        self, sent: _Sent, block: Block, message: Message, *, images: list[dict[str, Any] | None]
    ) -> _Table | None:
        """The table of a change; None where an image is not regular."""
        family = family_of_connector(sent.source)
        columns: tuple[str, ...] | None = None
        for place in (sent.before, sent.after):
            if place is None:
                continue
            image = images[place]
            if image is None or (columns is not None and tuple(image) != columns):
                return None
            columns = tuple(image)
        if sent.before is not None and family == "postgres" and not self._rows.full_identity:
            # what of it is made up, each value tells
            return None
        key = self._rows.keys.names(message.key, needed=False) if message.key else None
        assert columns is not None
        if key and not set(key) <= set(columns):
            return None
        return _Table(names_of(sent.source), family, block, key, columns)

    def _changes(
        self,
        table: _Table,
        group: list[_Sent],
        images: list[dict[str, Any] | None],
        *,
        texts: list[bytes],
    ) -> list[Changes]:
        names, family, block, key, shape = table
        columns = self._rows.schemas.columns(block, block.row, names, family=family)
        places = [one.before for one in group if one.before is not None]
        begins = len(places)
        places += [one.after for one in group if one.after is not None]
        rows = text_rows(
            [images[place] or {} for place in places],
            [texts[place] for place in places],
            columns.readings(shape),
            refused=self._rows.placeholder.texts,
        )
        keys = columns.keys or key
        words = {
            after: completeness(shape, shape if after else None, keys, sent=columns.sent)
            for after in (True, False)
        }
        if self._rows.merge and "partial" in words.values():
            return []
        event_of = _ChangeDetails(table, columns, rows, words=words)
        changes = Changes([], [], shape, [], [])
        old, new = 0, begins
        for sent in group:
            before = after = None
            if sent.before is not None:
                before, old = old, old + 1
            if sent.after is not None:
                after, new = new, new + 1
            event = event_of(sent, before, after)
            if event is not None:
                changes.add(sent.at, event, before=rows.row(before), after=rows.row(after))
        return [changes]


class _ChangeDetails:
    """Tells of each change of a table what is said of it beside its rows."""

    def __init__(
        self, table: _Table, columns: Columns, rows: TextRows, *, words: dict[bool, str]
    ) -> None:
        self._names, self._key, self._types = table.names, table.key, columns.types
        self._words = words
        self._after_word = "full" if columns.sent <= len(table.columns) else "partial"
        self._untyped = [] if columns.shape(table.columns).typed else [Code.UNTYPED.value]
        self._doubts, self._odd = rows.doubts, rows.odd

    def __call__(self, sent: _Sent, before: int | None, after: int | None) -> Event | None:
        """The event without its rows, whose places are given; None where the change has to be read
        by itself."""
        if before in self._odd or after in self._odd:
            return None
        inner = sent.inner
        warnings: list[str] = []
        sent_time = sent_micros(inner, warnings)
        after_word = before_word = None
        if after is not None:
            after_word = self._after_word
            self._warn(warnings, after, after_word)
        if before is not None:
            before_word = self._words[after is not None]
            self._warn(warnings, before, before_word)
        try:
            event = row_event(
                sent.op,
                op_raw=inner.op,
                source=sent.source,
                names=self._names,
                key_columns=self._key,
                types=self._types,
                sent_time=sent_time,
                warnings=warnings,
                transaction=inner.transaction,
            )
        except DecodeError:
            return None
        event.before_image, event.after_image = before_word, after_word
        return event

    def _warn(self, warnings: list[str], row: int, word: str) -> None:
        if row in self._doubts:
            warnings += self._doubts[row]
        warnings += self._untyped
        if word == "partial":
            warnings.append(Code.PARTIAL_IMAGE.value)


def _sent(at: int, inner: Inner, texts: list[bytes]) -> _Sent | None:
    """A change with its images, which join `texts`; None where the message is no regular one."""
    source, op = inner.source, OPS.get(inner.op or "")
    if source is None or op not in _ROWS or inner.ddl is not None:
        return None
    if source.keyspace is not None or source.collection is not None:
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
