"""What to do about each error and warning code."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from ingest.codes import Code
from pipelines.documentation.pages import code


class Cure(NamedTuple):
    """Where a code comes from as a rule, and what to do."""

    cause: str
    cure: str


CURES: Mapping[Code, Cure] = {
    Code.BAD_JSON: Cure(
        "The message was cut short, is several documents in one, or is no JSON at all: another "
        "producer writes to the topic, or the framing is wrong.",
        "Look at it with `ingest rejects show ID`. Mend the producer, or set `files.framing`. If "
        "it is worth nothing, `ingest rejects dismiss`.",
    ),
    Code.BAD_AVRO: Cure(
        "The bytes were written with another schema than the one that is read with.",
        "Set the right schema, registry or format, then `ingest rejects replay`.",
    ),
    Code.BAD_FRAMING: Cure(
        "A line is no hexadecimal digits or base64, a packed file is damaged, or a length points "
        "beyond the end.",
        "Set `files.framing`, or deliver the file again under another name.",
    ),
    Code.BAD_SHAPE: Cure(
        "It is JSON, but names or values stand where the format has others: another version of the "
        "producer, or another format.",
        "The error says what was expected. Set `format`, or an option of the format.",
    ),
    Code.BAD_VALUE: Cure(
        "A value is not what the message itself, or your `columns`, says it is.",
        "Correct `columns` in the source, run `ingest redecode --source S` where silver has the "
        "table, then replay.",
    ),
    Code.UNKNOWN_SCHEMA_ID: Cure(
        "The schema registry does not know the id, or cannot be reached from Spark's workers.",
        "Check `schema_registry` and the way there, or put the schema into `schema_folder`; "
        "replay.",
    ),
    Code.UNKNOWN_OP: Cure(
        "The producer uses a word for the operation that the format does not know.",
        "Where an option of the format names the words (GoldenGate's `op_types`), set it; "
        "otherwise report it with the message.",
    ),
    Code.UNKNOWN_FORMAT: Cure(
        "Something else writes to the topic, a line is one of `kcat -J`, or the format is none "
        "of ours.",
        "Set `format` so that the error says what is wrong with the message; `framing: kcat` for "
        "captures; dismiss what is worth nothing.",
    ),
    Code.AMBIGUOUS_FORMAT: Cure(
        "Under `format: auto` the message has no mark that only one format has.",
        "Set the source's `format`.",
    ),
    Code.UNSUPPORTED: Cure(
        "The producer writes a variant that the page of the format names as not decoded.",
        "Change the producer's setting that the error names.",
    ),
    Code.IMAGE_COUNT: Cure(
        "The lists of rows before and after have different lengths.",
        "A defect of the producer: report it there with the message.",
    ),
    Code.NO_IMAGE: Cure(
        "The message says that a row changed, and not which.",
        "Let the database log rows whole (`binlog_row_image=FULL`, `REPLICA IDENTITY FULL`).",
    ),
    Code.CONTRADICTION: Cure(
        "A truncate with rows, a heartbeat with a change, a name with two values.",
        "Nothing of it is applied. Report it to whoever writes the messages; dismiss it.",
    ),
    Code.STATEMENT_DML: Cure(
        "The database logs statements, not rows.",
        "Set MySQL's `binlog_format=ROW`. Rows that such statements changed have to be sent again.",
    ),
    Code.DECODER_FAILED: Cure(
        "A defect of the decoder.", "Report it with the message; replay later."
    ),
    Code.TOO_LARGE: Cure(
        "The message exceeds one of the source's `limits`.",
        "Raise the limit that the error names, then replay.",
    ),
    Code.EMPTY_VALUE: Cure(
        "A message without a value is a delete here, by `tombstone: delete` or by its headers, and "
        "it has no key that says of which row.",
        "Let the producer send keys; take `tombstone: delete` away where such messages delete "
        "nothing, then replay.",
    ),
    Code.ORDER_KEY_MISSING: Cure(
        "The source is ordered by its log, or the table by `sequence_by`, and the message has no "
        "such position.",
        "Switch the position on at the producer, or set `order: arrival`; then redecode or replay.",
    ),
    Code.FRAGMENT_INCOMPLETE: Cure(
        "Shards of a large record did not arrive, or arrived out of order, within `shard_seconds`.",
        "Let the producer send the record again; raise `shard_seconds` where they are only slow. "
        "Where bronze has all of them by now, as when some were rejects that are replayed since, "
        "`ingest redecode` puts them together.",
    ),
    Code.NO_KEY: Cure(
        "The table keeps versions, and neither the messages nor the YAML name a key.",
        "Declare `keys`, then `ingest rebuild TABLE`.",
    ),
    Code.NULL_KEY: Cure(
        "A key column is NULL or was not sent.",
        "Declare other `keys`, or mend the rows at the source.",
    ),
    Code.TYPE_MISMATCH: Cure(
        "A value does not fit gold's column: a number that outgrew it, text in a number.",
        "For a number approve the wider type that `ingest ddl list` proposes; otherwise correct "
        "`columns` in the tables file and run `ingest rebuild TABLE`.",
    ),
    Code.NO_BASE_IMAGE: Cure(
        "An update of some columns came, and the row they belong to has not come yet.",
        "Nothing: it is applied when the row comes. If it never will, take a new snapshot of the "
        "table.",
    ),
    Code.SHARD_KEY_CONFLICT: Cure(
        "Two source tables that share a target have a row with the same key.",
        "Set `shard_column`, which makes the source table part of the key, and rebuild with "
        "`--yes`.",
    ),
    Code.LATE_BEYOND_HORIZON: Cure(
        "The change belongs before the part of silver that `retention` has removed.",
        "Take a new snapshot of the row, or keep silver longer than changes can be late.",
    ),
    Code.CLOCK_STEPPED_BACK: Cure(
        "A later message of a partition has an earlier timestamp.",
        "The order is right nevertheless. Mend the producer's clock, or let the broker stamp "
        "(`message.timestamp.type=LogAppendTime`).",
    ),
    Code.LENIENT_JSON: Cure(
        "Trailing commas, comments or raw line breaks.", "Mend the producer when you can."
    ),
    Code.DUP_KEY: Cure(
        "A column stands twice in a row.", "Mend the producer; the last value counts."
    ),
    Code.PARTIAL_IMAGE: Cure(
        "The producer sends changed columns only.",
        "Nothing: what was not sent keeps its value. Whole rows make late changes cheaper.",
    ),
    Code.UNTYPED: Cure(
        "Neither the messages nor the YAML tell the column's type, so it is a string.",
        "Declare `columns` in the source, then `ingest redecode --source S`.",
    ),
    Code.TS_UNIT_INFERRED: Cure(
        "A time is a bare number.", "Declare the column's type in `columns` if the time is wrong."
    ),
    Code.TZ_ASSUMED: Cure(
        "Times come without a zone and none is declared.",
        "Set `time_zone` of the source, then `ingest redecode --source S`.",
    ),
    Code.OLD_MISSING: Cure(
        "The producer sends no previous values.",
        "Set `binlog_row_image=FULL` if you want to see them in history.",
    ),
    Code.OLD_COLUMN_NOT_IN_DATA: Cure(
        "A column was dropped while the message was made.", "Nothing."
    ),
    Code.SEQUENCE_UNIT_ASSUMED: Cure(
        "The sequence's time could be seconds or milliseconds.",
        "Set the option `sequence_unit`.",
    ),
    Code.EVENT_TIME_UNREAD: Cure(
        "The time of the change is in an unknown form.",
        "Correct the producer if you ask for a table as of a time, or keep versions: the change "
        "counts as of any time, and its version begins where the one before it did.",
    ),
    Code.SENT_TIME_UNREAD: Cure("The time of sending is in an unknown form.", "Nothing."),
    Code.ZERO_DATE: Cure(
        "MySQL's `0000-00-00`, which is no date.",
        "Nothing, or declare the column as string to see the text in gold.",
    ),
    Code.PLACEHOLDER_VALUE: Cure(
        "The producer could not read the value: an unchanged TOAST or large object.",
        "Nothing: the column keeps its value. `REPLICA IDENTITY FULL` sends it.",
    ),
    Code.KEY_NOT_IN_IMAGE: Cure(
        "The key's columns are not among those that were sent.",
        "Let the producer send them, or declare other `keys`.",
    ),
    Code.KEY_SPLIT: Cure(
        "Names and values of the key came in different numbers.",
        "Declare `keys` so that nothing has to be paired.",
    ),
    Code.BAD_MESSAGE_KEY: Cure(
        "The record's key is in another encoding than its value.",
        "Declare `keys`, or set the producer's key converter.",
    ),
    Code.TYPES_NOT_IN_IMAGE: Cure(
        "The types of the message name columns that its row lacks.", "Nothing."
    ),
    Code.BAD_BASE64: Cure(
        "A binary column came as something else than base64.",
        "Set the format's option for binary columns, then redecode.",
    ),
    Code.UNKNOWN_CHARSET: Cure(
        "The text is in a character set that Python does not know.",
        "Its bytes stand in silver; convert them in a view.",
    ),
    Code.BAD_BYTES: Cure(
        "Binary data was written as text in another way than Latin-1.",
        "Set `blob_encoding`, then redecode.",
    ),
    Code.UNSIGNED_OVERFLOW: Cure("The producer sends unsigned numbers as signed ones.", "Nothing."),
    Code.DECIMAL_SCALE: Cure(
        "The message declares a scale above its precision, or a value with another scale.",
        "Declare the column's type in `columns`.",
    ),
    Code.VALUE_NOT_OF_TYPE: Cure(
        "A value is not what its declared type says.",
        "Its text stands in silver; gold sets it aside if it does not fit. Correct `columns`.",
    ),
    Code.TIME_AMBIGUOUS: Cure(
        "Parts of one time contradict each other, or it has no zone and the clocks of "
        "`time_zone` show it twice or never, as they are turned.",
        "Report the first to the producer. The second is read as by the clocks before they were "
        "turned; a connection in UTC at the producer ends it.",
    ),
    Code.INVALID_ENUM: Cure(
        "The number of an ENUM or SET is none of the members that are declared.",
        "Declare the members as they are today: `columns: {t: {c: \"enum('a','b')\"}}`.",
    ),
    Code.ENUM_NUMBER: Cure(
        "The message has the number of an ENUM or SET and not its members.",
        "Declare the members: `columns: {t: {c: \"enum('a','b')\"}}`; then redecode.",
    ),
    Code.BEFORE_ON_INSERT: Cure("An insert brought a row before.", "Nothing: it is dropped."),
    Code.DDL_TEXT_MISSING: Cure(
        "The producer sends schema changes without the statement.",
        "Nothing: new columns are found in the data.",
    ),
    Code.DDL_FLAG: Cure("`isDdl` and the statement contradict each other.", "Nothing."),
    Code.UNKNOWN_VERSION: Cure(
        "The producer is newer than this decoder.",
        "Compare a row with the source; report it if anything is wrong.",
    ),
    Code.SHARD: Cure("A large record comes in shards.", "Nothing: it is put together."),
    Code.SPLIT_UPDATE: Cure("An update comes as two messages.", "Nothing: they are joined."),
    Code.JOINED_UPDATE: Cure("Two messages were joined to one update.", "Nothing."),
}


def reference(severity: str) -> str:
    """Every code of a severity: what it says, where it comes from, what to do."""
    parts = [
        f"### `{found.value}`\n\n{_sentence(found.text)}\n\n- **Cause**: {CURES[found].cause}\n"
        f"- **Cure**: {CURES[found].cure}"
        for found in Code
        if found.severity == severity
    ]
    return "\n\n".join(parts)


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}.".replace("<", "\\<")


def listed() -> str:
    """All codes in two lines, to find one by."""
    return "\n\n".join(
        f"**{severity.capitalize()}s**: "
        + ", ".join(f"[{code(c.value)}](#{anchor(c)})" for c in Code if c.severity == severity)
        for severity in ("error", "warning")
    )


def anchor(found: Code) -> str:
    """Where its heading is."""
    return found.value
