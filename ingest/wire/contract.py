"""What a wire format is to the rest of the product: a decoder, and what can be said about it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple

from ingest.events import Event
from ingest.files.record import Record

TableName = tuple[str | None, str | None, str | None]
"""Database, schema, table."""

TopLevel = Mapping[str, Any]
"""A JSON message's top level: name -> `msgspec.Raw` of its value."""


class Message(NamedTuple):
    """One message as the transport delivered it. `timestamp` is in milliseconds since the epoch.

    `place`: where arrival puts the message among those of other partitions, in milliseconds too,
    where that is not its timestamp (`pipelines.silver.arrivals`). `read`: what recognising the
    message has read of it, for its decoder, who may change it.
    """

    value: bytes | None
    key: bytes | None = None
    headers: Sequence[tuple[str, bytes | None]] = ()
    topic: str = ""
    partition: int = 0
    offset: int = 0
    timestamp: int | None = None
    place: int | None = None
    read: object = None

    @classmethod
    def of(cls, record: Record, topic: str, *, partition: int, offset: int) -> Message:
        """A record as a message, at its own coordinates where it has some."""
        return cls(
            value=record.value,
            key=record.key,
            headers=record.headers or (),
            topic=topic if record.topic is None else record.topic,
            partition=partition if record.partition is None else record.partition,
            offset=offset if record.offset is None else record.offset,
            timestamp=record.timestamp,
        )


class FormatOptions(NamedTuple):
    """What a source's YAML tells its decoder.

    `keys` and `columns` are per source table (`db.table` or `db.schema.table`, as written);
    `options` holds the format's own options with their defaults filled in.
    """

    time_zone: str | None = None
    default_database: str | None = None
    default_schema: str | None = None
    default_table: str | None = None
    keys: Mapping[str, Sequence[str]] = {}
    columns: Mapping[str, Mapping[str, str]] = {}
    options: Mapping[str, Any] = {}

    def completed(self, names: TableName) -> TableName:
        """Database, schema and table, with the source's defaults for those a message leaves out."""
        db, schema, table = names
        return (
            db or self.default_database,
            schema or self.default_schema,
            table or self.default_table,
        )


class Option(NamedTuple):
    """One option of a format: `choices` for kind choice; `text` says what it changes.

    `secret`: no message repeats what was given. `least`: the smallest number that it may be.
    `check` raises ValueError for what it may not be, and says what was expected.
    """

    kind: Literal["choice", "bool", "text", "list", "number", "folder", "URL"]
    default: Any
    text: str
    choices: tuple[str, ...] = ()
    secret: bool = False
    least: int = 1
    check: Callable[[Any], object] | None = None


Decoder = Callable[[Message], Iterator[Event]]
"""One message -> its events, in order. It raises DecodeError, remembers nothing but memos, and
opens nothing but the place where its schemas are kept."""

Texts = tuple[str | None, ...]
"""The canonical texts of a row, in the order of its columns."""


class Changes(NamedTuple):
    """Changes of one table whose rows have the same columns, read by column: one event a message.

    `at`: the indexes of their messages, ascending. `event`: what is said of all of them, except the
    images. `varying`: the fields of Event in which they differ, each with its value for each
    change. `names`: the columns of all images. `before`, `after`: the rows, None for a change
    without such an image.
    """

    at: list[int]
    event: Event
    varying: Mapping[str, Sequence[Any]]
    names: tuple[str, ...]
    before: list[Texts | None]
    after: list[Texts | None]

    def each(self, field: str) -> Sequence[Any]:
        """A field's value of each change."""
        values = self.varying.get(field)
        return [getattr(self.event, field)] * len(self.at) if values is None else values

    def without(self, lost: Collection[int]) -> Changes:
        """The same without the columns in these places."""
        if not lost:
            return self
        kept = [at for at in range(len(self.names)) if at not in lost]

        def rest(row: Texts | None) -> Texts | None:
            return None if row is None else tuple([row[at] for at in kept])

        return self._replace(
            names=tuple([self.names[at] for at in kept]),
            before=list(map(rest, self.before)),
            after=list(map(rest, self.after)),
        )

    def tail(self) -> Changes:
        """All but the first."""
        return self._replace(
            at=self.at[1:],
            varying={field: values[1:] for field, values in self.varying.items()},
            before=self.before[1:],
            after=self.after[1:],
        )


TableDecoder = Callable[[Sequence[tuple[int, Message]]], list[Changes]]
"""Messages in UTF-8, each with its index, that have no header which says something -> the changes
that can be read by column, each exactly as the decoder reads it. It never raises: the other
messages are left to the decoder."""


class Loss(NamedTuple):
    """What a format does not carry of a value or a change, and why.

    `mended`: the source's `columns:` bring it back.
    """

    what: str
    why: str
    mended: bool = False


SPACES_OF_JSON = Loss(
    "white space of nested JSON", "a value that is an object or array stays as it was sent"
)
"""A loss of the formats whose rows hold JSON as it is, not as text."""


def repeats_without_key(why: str) -> Loss:
    """The loss of formats in which a place in the source's log does not tell rows apart, where a
    table has no key (semantics.md, 66); `why` says which rows share a place."""
    return Loss(
        "repeats of a table without a key",
        f"{why}, so each delivery is a change: declare keys: where there is one",
    )


EQUAL_ROWS_OF_A_SNAPSHOT = Loss(
    "equal rows of a snapshot",
    "where a table has no key they count as one that was delivered again, since a snapshot reads "
    "all rows at one place: set order: arrival for such tables",
)
"""The loss of formats with snapshots, whose rows have no place of their own in the log."""


def equal_changes_of_a_row(why: str, *, by_default: bool = False) -> Loss:
    """The loss of formats in which a place in the source's log does not tell the changes of one row
    apart, although a source is ordered by it; `why` says which changes share a place. `by_default`:
    sources of the format are ordered so unless they say otherwise."""
    asked, instead = ("", "set order: arrival") if by_default else _ASKED_FOR
    return Loss(
        "equal changes of a row",
        f"{asked}{why}, and equal changes there count as one: a row that is inserted, deleted and "
        f"inserted again as it was is gone: {instead}",
    )


_ASKED_FOR = "with order: source ", "leave order: auto"


class Format(NamedTuple):
    """One row of FORMATS.

    How messages are told and read:

    - `recognise` is asked with the top level of a JSON message (see `detect`): is the message of
      this format? `recognise_bytes` is asked with any other message and gives what it has read of
      it, or true; the decoder finds both in `Message.read`.
    - `tables` reads the regular messages of a batch by column, if the format has a way to.
    - `envelope`: the dotted paths of the objects in a JSON message, or in lists of it, whose names
      belong to the format and are no columns. No name in them has two values.
    - `headers`: the names of the headers that the decoder reads and `tables` does not.
    - `flat`: a message may be a row whose columns stand on the top level.
    - `empty`: a message without a value says something by its key, and is decoded. `empty_header`:
      only a message without a value that has this header says something.
    - `dialect`: the SQL of its statements, unless a message or an option says it.

    What silver and gold ask of it:

    - `whole_rows`: a new row has every column of its table; in other formats it may lack those that
      are NULL.
    - `untyped`: no message tells the types of its columns.
    - `splits_updates`: an update may come as two messages, whose changes are joined in silver.
    - `shards`: a large message may come in several.
    - `ends`: what in its messages tells the end of a transaction that they name; empty: nothing
      does.
    - `read_positions`: a row of a snapshot tells where in the log it was read.
    - `tenants`: the extra value `tenant` says whose table a change names.

    How changes are ordered: `order` is what `order: auto` means. `positions`: messages may carry
    positions although `auto` goes by arrival. `log` names the log of these positions if other
    formats tell positions of the same log. `orderless` says what to do about a message that lacks
    the order key which `order: source` takes.

    What people read: `impossible` names what the format cannot carry, with the vendor's line;
    `losses` what arrives otherwise than the source had it; `recognised` and `ordered` are sentences
    for `ingest formats NAME`.
    """

    decoder: Callable[[FormatOptions], Decoder]
    order: Literal["source", "arrival"]
    summary: str
    source: str
    recognised: str
    ordered: str
    tables: Callable[[FormatOptions], TableDecoder] | None = None
    recognise: Callable[[TopLevel], bool] | None = None
    recognise_bytes: Callable[[Message], object] | None = None
    envelope: tuple[str, ...] = ()
    headers: frozenset[str] = frozenset()
    flat: bool = False
    empty: bool = False
    empty_header: str | None = None
    whole_rows: bool = False
    untyped: bool = False
    splits_updates: bool = False
    shards: bool = False
    ends: str = ""
    read_positions: bool = False
    tenants: bool = False
    dialect: str | None = None
    log: str | None = None
    positions: bool = False
    orderless: str = "set order: arrival for this source if it never sends one"
    options: Mapping[str, Option] = {}
    impossible: Mapping[str, str] = {}
    losses: tuple[Loss, ...] = ()
