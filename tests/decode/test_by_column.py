"""What is read by column is what is read message by message, to the last bit."""

from __future__ import annotations

import random
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ingest.config.sources import Source
from ingest.decode import batches
from ingest.decode.batches import decode
from ingest.decode.silver_rows import record_batch
from ingest.decode.source import DecodeSpec, SourceDecoder
from ingest.decode.spec import decode_spec
from ingest.decode.tables import Batch, Table, silver_batch
from ingest.formats import FORMATS
from ingest.position import stream_number
from ingest.wire.contract import Message
from tests.support.messages import folders, golden, mutated, samples
from tests.support.silver_rows import messages, source_of

BY_COLUMN = tuple(name for name, format_ in FORMATS.items() if format_.tables is not None)
NOW = 1_700_000_000_000_000_000


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Read by column what is one message alone, and all at one time."""
    monkeypatch.setattr("ingest.wire.text_columns.FEW", 1)
    monkeypatch.setattr("ingest.wire.forms.SEEN", 1)
    monkeypatch.setattr(time, "time_ns", lambda: NOW)


def bronze(sent: Iterable[tuple[str, int, Message]]) -> pa.RecordBatch:
    """Messages as a batch of bronze, each with its source and the source's epoch."""
    rows = [
        {
            "source": source,
            "topic": message.topic,
            "partition": message.partition,
            "offset": message.offset,
            "timestamp": None if message.timestamp is None else message.timestamp * 1000,
            "key": message.key,
            "value": message.value,
            "headers": [{"key": key, "value": value} for key, value in message.headers],
            "epoch": epoch,
            "place": message.place,
        }
        for source, epoch, message in sent
    ]
    header = pa.struct([("key", pa.string()), ("value", pa.binary())])
    types = {
        **dict.fromkeys(("source", "topic"), pa.string()),
        "partition": pa.int32(),
        "offset": pa.int64(),
        "timestamp": pa.timestamp("us", "UTC"),
        **dict.fromkeys(("key", "value"), pa.binary()),
        "headers": pa.list_(header),
        **dict.fromkeys(("epoch", "place"), pa.int64()),
    }
    return pa.RecordBatch.from_pylist(rows, schema=pa.schema(types.items()))


def one_by_one(
    readings: Mapping[str, DecodeSpec], sent: Iterable[tuple[str, int, Message]]
) -> pa.Table:
    """The rows of messages that are read one by one, formats in turn as in a batch."""
    readers = {name: SourceDecoder(reading) for name, reading in readings.items()}
    given = [
        (readers[source], epoch, message, readers[source].recognised(message))
        for source, epoch, message in sent
    ]
    rows = {}
    formats = [known.name if known else "" for *_, known in given]
    for at in sorted(range(len(given)), key=formats.__getitem__):
        reader, epoch, message, known = given[at]
        rows[at] = reader.rows(message, epoch, NOW // 1000, known=known)
    return pa.Table.from_batches(
        [record_batch([row for at in range(len(given)) for row in rows[at]])]
    )


def check(readings: Mapping[str, DecodeSpec], sent: list[tuple[str, int, Message]]) -> int:
    """Both ways give the same; how many messages were read by column."""
    count = 0
    failed: list[Exception] = []

    def counted(table: Table, batch: Batch) -> pa.RecordBatch:
        nonlocal count
        count += len(table.changes.at)
        return silver_batch(table, batch)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(batches, "_not_by_column", lambda _, error: failed.append(error))
        patch.setattr(batches, "silver_batch", counted)
        patch.setattr(batches, "_PART_ROWS", 10**9)
        found = pa.Table.from_batches(decode(readings)(iter([bronze(sent)])))
    assert failed == []
    expected = one_by_one(readings, sent)
    found.validate(full=True)
    if not found.equals(expected):
        for row, wanted in zip(found.to_pylist(), expected.to_pylist(), strict=True):
            assert row == wanted
    assert found.equals(expected)
    return count


def spec(source: Source, *, order: str) -> DecodeSpec:
    return decode_spec(source)._replace(order=order)


@pytest.mark.parametrize("name", BY_COLUMN)
def test_golden_messages(name: str) -> None:
    """Folder by folder, all messages and each one three times, by both orders."""
    count = 0
    for folder in folders(name):
        source, sent = source_of(folder), [*messages(folder), *map(compact, messages(folder))]
        for order in ("auto", "source", "arrival"):
            reading = spec(source, order=order)
            batch = [("s", source.epoch, message) for message in sent]
            count += check({"s": reading}, batch)
            for name_, epoch, one in batch:
                # What it says of its types is known from its first delivery.
                again = [one._replace(offset=one.offset + number) for number in range(3)]
                count += check({"s": reading}, [(name_, epoch, message) for message in again])
    assert count > 100


def compact(message: Message) -> Message:
    """A message without white space, as producers send it; golden ones are written to be read."""
    try:
        return message._replace(value=msgspec.json.format(message.value or b"", indent=-1))
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return message


def everything(name: str) -> tuple[dict[str, DecodeSpec], list[tuple[str, int, Message]]]:
    """All golden messages of a format, each with its source."""
    sources: dict[str, Source] = {}
    sent = []
    for source, message in golden(name):
        known = source.model_dump_json()
        sources[known] = source
        sent += [(known, source.epoch, message), (known, source.epoch, compact(message))]
    return {known: decode_spec(source) for known, source in sources.items()}, sent


ALL = {name: everything(name) for name in BY_COLUMN}


@pytest.mark.parametrize("name", BY_COLUMN)
def test_golden_messages_mixed(name: str) -> None:
    """In any order, some of them more than once, each read by any of the sources."""
    readings, sent = ALL[name]
    for seed in range(10):
        chance = random.Random(seed)
        given = [
            (source, epoch, message._replace(offset=at, partition=chance.randrange(3)))
            for at, (source, epoch, message) in enumerate(chance.choices(sent, k=2 * len(sent)))
        ]
        assert check(readings, given) > 0
        [source] = chance.sample(sorted(readings), 1)
        check(readings, [(source, epoch, message) for _, epoch, message in given])


@pytest.mark.parametrize("name", BY_COLUMN)
@settings(max_examples=400, deadline=None, suppress_health_check=list(HealthCheck), database=None)
@given(seed=st.integers(0, 2**64 - 1))
def test_damage(name: str, seed: int) -> None:
    """Damaged messages among sound ones."""
    chance = random.Random(seed)
    readings, sent = ALL[name]
    source = chance.choice(sorted(readings))
    values = tuple(
        message.value for known, _, message in sent if message.value and known == source
    ) or tuple(message.value for _, _, message in sent if message.value)
    keys = tuple(message.key for _, _, message in sent if message.key) or (None,)
    # Of a few kinds: types are known, and forms learnt, from those that came before.
    values = tuple(chance.choices(values, k=chance.randint(1, 3)))
    batch = []
    for offset in range(chance.randint(1, 12)):
        value = chance.choice(values)
        if chance.random() < 0.5:
            value = twisted(value, chance) if chance.random() < 0.5 else mutated(values, chance)
        message = Message(
            value,
            chance.choice(keys) if chance.random() < 0.3 else None,
            (("h", b"1"),) if chance.random() < 0.05 else (),
            topic=chance.choice(("t", "a.b.c")),
            offset=offset,
            timestamp=chance.choice((None, -1, 0, 1_700_000_000_000)),
            place=1_700_000_000_001 if chance.random() < 0.1 else None,
        )
        batch.append((source, 0, message))
    check(readings, batch)


def twisted(value: bytes, chance: random.Random) -> bytes:
    """A message whose objects have their members in another order, one twice, one more, or one
    less, with white space, negative zeros, numbers of other forms."""
    way = chance.randrange(9)
    if way == 0:
        return value.replace(b":0", b":-0")
    if way == 1:
        return value.replace(b":", chance.choice((b" :", b": ", b" : ")), chance.randint(1, 40))
    if way == 2:
        at = chance.choice([at for at, byte in enumerate(value) if byte in b"0123456789"] or [0])
        return (
            value[:at]
            + chance.choice((b"1e5", b"1.0", b"1E-2", b"12345678901234567890"))
            + value[at + 1 :]
        )
    if way == 3:
        return chance.choice((b" ", b"\n", b"\xef\xbb\xbf")) + value + chance.choice((b"", b"\n"))
    objects = list(_objects(value))
    if not objects:
        return value
    start, end = chance.choice(objects)
    members = msgspec.json.decode(value[start:end], type=dict[str, msgspec.Raw])
    pairs = [(msgspec.json.encode(name), bytes(raw)) for name, raw in members.items()]
    if way == 4:
        chance.shuffle(pairs)
    elif way in (5, 6) and pairs:
        name, raw = chance.choice(pairs)
        again = raw if way == 5 else chance.choice((b"null", b"1", b'"x"', chance.choice(pairs)[1]))
        pairs.insert(chance.randint(0, len(pairs)), (name, again))
    elif way == 7:
        pairs.insert(
            chance.randint(0, len(pairs)), (b'"more"', chance.choice((b"1", b"{}", b'"x"')))
        )
    elif pairs:
        pairs.pop(chance.randrange(len(pairs)))
    text = b"{" + b",".join(name + b":" + raw for name, raw in pairs) + b"}"
    return value[:start] + text + value[end:]


def _objects(value: bytes) -> Iterator[tuple[int, int]]:
    """Where the objects of a message stand."""
    opened: list[int] = []
    quoted = escaped = False
    for at, byte in enumerate(value):
        if quoted:
            quoted, escaped = escaped or byte != 0x22, not escaped and byte == 0x5C
        elif byte == 0x22:
            quoted = True
        elif byte == 0x7B:
            opened.append(at)
        elif byte == 0x7D and opened:
            start = opened.pop()
            try:
                msgspec.json.decode(value[start : at + 1], type=dict[str, msgspec.Raw])
            except (msgspec.MsgspecError, UnicodeDecodeError):
                continue
            yield start, at + 1


def test_samples(shared: Path) -> None:
    """What producers sent: of pinned formats, and of formats that are told from each message."""
    by_format: dict[str, list[Message]] = {}
    for name, message in samples(shared):
        by_format.setdefault(name, []).append(message)
    kafka = {"bootstrap_servers": "broker:9092", "topics": ["t"]}
    for name in BY_COLUMN:
        for format_ in (name, "auto"):
            source = Source.model_validate({"name": "s", "kafka": kafka, "format": format_})
            sent = [("s", 0, message) for message in by_format.get(name, ())]
            if sent:
                check({"s": decode_spec(source)}, sent)


DEBEZIUM = (
    b'{"before":%b,"after":%b,"source":{"connector":"mysql","db":"d","table":"t","ts_ms":5,'
    b'"snapshot":"false","file":"f.1","pos":%d,"row":0},"op":"%b","ts_ms":7%b}'
)
CANAL = (
    b'{"data":[%b],"old":%b,"database":"d","table":"t","pkNames":["a"],"isDdl":false,"sql":"",'
    b'"type":"%b","es":1704164645000,"ts":1704164645007,"id":%d,"mysqlType":{"a":"int","z":"%b"}}'
)


def of_debezium(before: bytes, after: bytes, word: bytes = b"c", more: bytes = b"") -> list[bytes]:
    return [DEBEZIUM % (before, after, number, word, more) for number in range(4)]


def of_canal(row: bytes, old: bytes = b"null", *, word: bytes, type_: bytes) -> list[bytes]:
    return [CANAL % (row, old, word, number, type_) for number in range(4)]


@pytest.mark.parametrize(
    ("name", "values", "by_column"),
    [
        ("debezium", of_debezium(b"null", b'{"a":0,"z":"-0"}'), 4),
        ("debezium", of_debezium(b"null", b'{"a":-0,"z":"-0"}'), 0),
        ("debezium", of_debezium(b"null", b'{"a": -0,"z":1}'), 0),
        ("debezium", of_debezium(b"null", b'{"a":-0.5,"z":false}'), 4),
        ("debezium", of_debezium(b'{"a":1}', b'{"a":1}', b"u", b',"ddl":"truncate t"'), 0),
        ("debezium", of_debezium(b'{"a":1}', b'{"a":1}', b"u", b',"ddl":null'), 4),
        ("debezium", of_debezium(b'{"a":1,"b":2}', b'{"b":1,"a":1}', b"u"), 0),
        ("debezium", of_debezium(b"null", b'{"a":{"b":1}}'), 0),
        ("debezium", of_debezium(b"null", b'{"a":":","b":"\\":"}'), 4),
        ("debezium", of_debezium(b"null", b'{"a":"\xff"}'), 0),
        ("debezium", of_debezium(b"null", b'{"a\\n":"1","b":1e400,"c":12345678901234567890}'), 4),
        ("debezium", of_debezium(b"null", b'{"a":' + b"1" * 5_000 + b"}"), 0),
        ("canal", of_canal(b'{"a":-0}', word=b"INSERT", type_=b"text"), 0),
        ("canal", of_canal(b'{"a":1}', b'[{"a":-0}]', word=b"UPDATE", type_=b"text"), 0),
        ("canal", of_canal(b'{"a":1}', b'[{"a":"-0"}]', word=b"UPDATE", type_=b"text"), 3),
        (
            "canal",
            of_canal(
                b'{"a":"1","z":"2020-01-01 00:00:00","b":"1"}', word=b"INSERT", type_=b"timestamp"
            ),
            3,
        ),
        (
            "canal",
            of_canal(
                b'{"a":"1","z":"2020-01-01 00:00:00","b":1}', word=b"DELETE", type_=b"timestamp"
            ),
            3,
        ),
        ("canal", of_canal(b'{"a":"1"}', b'[{"b":"1"}]', word=b"UPDATE", type_=b"int"), 0),
        ("canal", of_canal(b'{"a":"1"},{"a":"2"}', word=b"INSERT", type_=b"int"), 0),
    ],
)
def test_what_is_regular(name: str, values: list[bytes], by_column: int) -> None:
    kafka = {"bootstrap_servers": "broker:9092", "topics": ["t"]}
    source = Source.model_validate({"name": "s", "kafka": kafka, "format": name})
    sent = [
        ("s", 0, Message(value, topic="t", offset=number, timestamp=number))
        for number, value in enumerate(values)
    ]
    assert check({"s": decode_spec(source)}, sent) == by_column


@pytest.mark.parametrize(
    ("row", "by_column"),
    [
        ({"id": "1", "n": "ä½\u00a0å¥½", "c": '{"a":1}'}, 4),
        ({"id": "1", "n": "é", "c": "[1]"}, 4),
        ({"id": "1", "n": "x", "c": "JSON_REMOVE(c, '$.a')"}, 0),
        ({"id": "1", "n": "x", "c": "@1"}, 0),
    ],
)
def test_what_jdbc_codes_and_parts_of_json_come_to(row: dict[str, str], by_column: int) -> None:
    types = {"id": "bigint", "n": "text(500)", "c": "json"}
    codes = {"id": -5, "n": 2004, "c": 12}
    value: dict[str, Any] = {
        "data": [row],
        "old": None,
        "database": "d",
        "table": "t",
        "pkNames": ["id"],
    }
    value |= {"isDdl": False, "sql": "", "type": "INSERT", "es": 1704164645000, "ts": 7}
    value |= {"mysqlType": types, "sqlType": codes}
    kafka = {"bootstrap_servers": "broker:9092", "topics": ["t"]}
    source = Source.model_validate({"name": "s", "kafka": kafka, "format": "canal"})
    lines = [msgspec.json.encode({**value, "id": number}) for number in range(4)]
    sent = [("s", 0, Message(line, topic="t", offset=n)) for n, line in enumerate(lines)]
    # The first message with types not met before is read by itself.
    assert check({"s": decode_spec(source)}, sent) == max(by_column - 1, 0)


def test_deletes_of_ticdc_with_their_key_alone() -> None:
    value: dict[str, Any] = {"data": [{"id": "1"}], "old": None, "database": "d", "table": "t"}
    value |= {"id": 0, "isDdl": False, "sql": "", "type": "DELETE", "es": 1704164645000, "ts": 7}
    value |= {"mysqlType": {"id": "bigint"}, "sqlType": {"id": -5}, "pkNames": ["id"]}
    kafka = {"bootstrap_servers": "broker:9092", "topics": ["t"]}
    source = Source.model_validate({"name": "s", "kafka": kafka, "format": "canal"})
    line = msgspec.json.encode(value)
    sent = [("s", 0, Message(line, topic="t", offset=number)) for number in range(4)]
    assert check({"s": decode_spec(source)}, sent) == 0


@pytest.mark.parametrize("headers", [(("h", b"1"), ("h", None)), (("__debezium.context", b"x"),)])
def test_headers_that_say_nothing(headers: tuple[tuple[str, bytes | None], ...]) -> None:
    kafka = {"bootstrap_servers": "broker:9092", "topics": ["t"]}
    source = Source.model_validate({"name": "s", "kafka": kafka, "format": "debezium"})
    sent = [
        ("s", 0, Message(value, headers=headers[:number], topic="t", offset=number))
        for number, value in enumerate(of_debezium(b"null", b'{"a":1}'))
    ]
    assert check({"s": decode_spec(source)}, sent) == 4


def test_captured_lines_without_coordinates_are_in_the_order_of_their_files() -> None:
    """Whatever their paths are, where no timestamp tells; both ways of reading say so."""
    place = {"path": "landing/*", "framing": "kcat"}
    source = Source.model_validate({"name": "s", "files": place, "format": "canal"})
    lines = of_canal(b'{"a":"1"}', word=b"INSERT", type_=b"text")
    sent = []
    for ordinal, path in enumerate(["landing/a", "landing/b", "c", "landing/d"]):
        header = ("ingest.file", f"{ordinal} {path}".encode())
        sent += [
            ("s", 0, Message(line, None, (header,), path, ordinal, offset))
            for offset, line in enumerate(lines)
        ]
    assert check({"s": decode_spec(source)}, sent) > 0
    rows = pa.Table.from_batches(decode({"s": decode_spec(source)})(iter([bronze(sent)])))
    positions = [pos for pos in rows.column("pos").to_pylist() if pos is not None]
    assert len(positions) == len(sent)
    assert positions == sorted(positions)
    # A topic's own partition is one of a topic still.
    captured = [("s", 0, Message(lines[0], headers=(header,), topic="t", partition=3))]
    rows = pa.Table.from_batches(decode({"s": decode_spec(source)})(iter([bronze(captured)])))
    assert rows.column("pos").to_pylist()[-1][7] == stream_number("t", 3)


@pytest.mark.parametrize(
    ("transport", "ours"),
    [
        ({"kafka": {"bootstrap_servers": "h:1", "topics": ["t"]}}, ()),
        (
            {"files": {"path": "landing/*", "framing": "kcat"}},
            (("ingest.file", b"0 landing/a"),),
        ),
    ],
)
def test_a_sender_s_header_makes_no_file_of_its_partition(
    transport: dict[str, Any], ours: tuple[tuple[str, bytes], ...]
) -> None:
    source = Source.model_validate({"name": "s", "format": "canal", **transport})
    lines = of_canal(b'{"a":"1"}', word=b"INSERT", type_=b"text")
    headers = (("ingest.file", b"3 t"), *ours)
    sent = [
        ("s", 0, Message(line, None, headers, "t", 3, offset)) for offset, line in enumerate(lines)
    ]
    rows = pa.Table.from_batches(decode({"s": decode_spec(source)})(iter([bronze(sent)])))
    streams = {pos[7] for pos in rows.column("pos").to_pylist() if pos is not None}
    assert streams == {stream_number("t", 3)}


SOURCES = (
    b'"connector":"mysql","db":"d","table":"t","ts_ms":%d,"file":"f.1","pos":1,"row":0',
    b'"connector":"mysql","db":"d","table":"t","ts_ms":%d,"file":"f.1","pos":2,"row":0,"gtid":"g"',
    b'"connector":"mysql","db":"d","table":"t","ts_ms":%d,"ts_us":5,"file":"f.2","pos":1,"row":0',
    b'"connector":"mysql","db":"d","table":"t","ts_ms":%d,"ts_us":0,"file":"f.2","pos":1,"row":0',
    b'"connector":"mysql","db":"d","table":"u","ts_ms":%d,"file":"f.2","pos":1,"row":0',
    b'"connector":"mysql","db":"","table":"t","schema_name":"s","ts_ms":%d,"file":"f.1","pos":1',
    b'"db":"d","table":"t","ts_ms":%d,"file":"f.1","pos":3,"row":0,"snapshot":"first"',
    b'"db":"d","table":"t","ts_ms":%d,"lsn":7,"txId":8',
    b'"db":"d","table":"t","ts_ms":%d,"scn":9',
    b'"connector":"postgresql","db":"d","schema":"s","table":"t","ts_ms":%d,"lsn":7,"txId":8',
    b'"connector":"postgresql","db":"d","schema":"s","table":"t","ts_ms":%d,"sequence":"[\\"3\\",\\"4\\"]"',
    b'"connector":"oracle","db":"d","schema":"s","table":"t","ts_ms":%d,"scn":"12"',
)
HEADERS = (
    (),
    (("h", b"1"), ("h", None)),
    (("h", b"1"), ("__debezium.newkey", b'{"a":9}')),
    (("__debezium.oldkey", b'{"a":9}'),),
    (("ingest.error", b"bad_framing: no end"),),
)
TIMES = (5, 0, -1, 1_735_689_600_000, 1_735_689_600_001, 10**17)


@settings(max_examples=150, deadline=None, database=None)
@given(seed=st.integers(0, 2**64 - 1))
def test_neighbours_of_debezium(seed: int) -> None:
    """A change is read for itself, whatever stands beside it."""
    chance = random.Random(seed)
    first = chance.randrange(len(SOURCES) - 1)
    sources = SOURCES[first : first + chance.randint(1, 3)]
    rows = chance.sample(
        (b'{"a":1,"b":"x"}', b'{"a":2,"b":null}', b'{"b":"y","a":1}', b'{"a":0}'), 2
    )
    times = chance.sample(TIMES, chance.randint(1, 2))
    keys = chance.sample((None, b'{"a":1}', b'{"a":2}', b'{"b":2}', b'{"c":1}', b"7"), 2)
    sent = []
    for offset in range(chance.randint(4, 16)):
        word = chance.choice((b"c", b"u", b"d", b"r"))
        before = chance.choice((*rows, b"null")) if word in b"ud" else b"null"
        value = b'{"before":%b,"after":%b,"source":{%b},"op":"%b","ts_ms":%d,"transaction":%b}' % (
            before,
            b"null" if word == b"d" else chance.choice(rows),
            chance.choice(sources) % chance.choice(times),
            word,
            chance.choice(times),
            chance.choice((b"null", b"null", b'{"id":"t:1"}')),
        )
        headers = chance.choice(HEADERS) if chance.random() < 0.3 else ()
        message = Message(
            value, chance.choice(keys), headers, topic="t", offset=offset, timestamp=offset
        )
        sent.append(("s", 0, message))
    kafka = {"bootstrap_servers": "broker:9092", "topics": ["t"]}
    options = {"replica_identity": chance.choice(("full", "unknown"))}
    source = Source.model_validate(
        {"name": "s", "kafka": kafka, "format": "debezium", "options": options}
    )
    check({"s": spec(source, order=chance.choice(("auto", "source", "arrival")))}, sent)


@settings(max_examples=150, deadline=None, database=None)
@given(seed=st.integers(0, 2**64 - 1))
def test_neighbours_of_canal(seed: int) -> None:
    """The same: times and numbers of every form, ids that some messages lack, other keys, types."""
    chance = random.Random(seed)
    rows = chance.sample(
        (b'{"a":"1","b":"x"}', b'{"a":"2","b":null}', b'{"b":"y","a":"1"}', b'{"a":0,"b":"z"}'), 2
    )
    times = chance.sample((b"5", b"0", b"-1", b'"1704164645000"', b"null", b"1e3"), 1)
    times += [b"1704164645000", b"1704164645001"]
    ids = chance.sample((b"7", b"8", b"null", b'"9"', b"-1", b"9223372036854775808"), 2)
    types = chance.sample((b'{"a":"int","b":"text"}', b'{"a":"timestamp"}', b"null"), 2)
    beside = chance.sample(
        (b"", b',"gtid":"g"', b',"_tidb":{"commitTs":5}', b',"pkNames":["a"]', b',"pkNames":[]'), 2
    )
    sent = []
    for offset in range(chance.randint(4, 16)):
        word = chance.choice((b"INSERT", b"UPDATE", b"DELETE", b"INIT"))
        old = chance.choice((b"null", b'[{"b":"w"}]', b'[{"a":-0}]', b'[{"a":"2"}]'))
        value = (
            b'{"data":[%b],"old":%b,"database":"%b","table":"t","isDdl":false,"type":"%b","es":%b,'
            b'"ts":%b,"id":%b,"mysqlType":%b%b}'
        ) % (
            chance.choice(rows),
            old if word == b"UPDATE" else b"null",
            chance.choice((b"d", b"d", b"")),
            word,
            *(chance.choice(times) for _ in range(2)),
            *(chance.choice(of) for of in (ids, types, beside)),
        )
        sent.append(("s", 0, Message(value, topic="t", offset=offset, timestamp=offset)))
    kafka = {"bootstrap_servers": "broker:9092", "topics": ["t"]}
    options = {"order_key": chance.choice(("id", "id", "commit_ts"))}
    source = Source.model_validate(
        {"name": "s", "kafka": kafka, "format": "canal", "options": options}
    )
    check({"s": spec(source, order=chance.choice(("auto", "source", "arrival")))}, sent)


def test_a_transaction_whose_name_is_empty() -> None:
    source = {"connector": "yugabytedb", "name": "s", "ts_ms": 5, "snapshot": "false", "db": "d"}
    source |= {"schema": "s", "table": "t", "txId": "", "lsn": "1:6::0:0"}
    value = {"before": None, "after": {"label": None}, "op": "c", "ts_ms": 6, "source": source}
    lines = [msgspec.json.encode(value)] * 2
    reading = decode_spec(
        Source.model_validate(
            {"name": "s", "files": {"path": "p"}, "format": "debezium", "order": "arrival"}
        )
    )
    sent = [("s", 0, Message(line, offset=number)) for number, line in enumerate(lines)]
    assert check({"s": reading}, sent) == len(lines)


def test_a_defect_of_reading_by_column_costs_time_alone_and_is_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    kafka = {"bootstrap_servers": "broker:9092", "topics": ["t"]}
    source = Source.model_validate({"name": "s", "kafka": kafka, "format": "debezium"})
    reading = {"s": decode_spec(source)}
    sent = [("s", 0, Message(value)) for value in of_debezium(b"null", b'{"a":"secret"}')]

    def defect(*_: object) -> pa.RecordBatch:
        raise KeyError("secret")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(batches, "silver_batch", defect)
        found = [*decode(reading)(iter([bronze(sent), bronze(sent)]))]
    assert [part.column("after").to_pylist() for part in found] == [[[("a", "secret")]] * 4] * 2
    (said,) = caplog.messages
    assert "debezium" in said and "KeyError" in said and "secret" not in said
