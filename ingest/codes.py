"""Every error and warning code, in one enum, with the sentence `ingest formats --codes` prints.

To add one: its line here, where others of its kind stand, and its cause and cure in CURES of
`pipelines/documentation/codes.py`; `make docs` lists it.
"""

from __future__ import annotations

from enum import StrEnum


class Code(StrEnum):
    """`Code.X.value` is what silver holds, `Code.X.text` explains it, `.severity` sorts it."""

    severity: str
    text: str

    def __new__(cls, value: str, severity: str, text: str) -> Code:
        code = str.__new__(cls, value)
        code._value_ = value
        code.severity = severity
        code.text = text
        return code

    # A message that is set aside whole, with its bytes.
    BAD_JSON = "bad_json", "error", "the message is not JSON, even leniently read"
    BAD_AVRO = "bad_avro", "error", "the bytes are not one datum of the expected Avro schema"
    BAD_FRAMING = "bad_framing", "error", "the record could not be cut or unpacked (hex, base64, …)"
    BAD_SHAPE = "bad_shape", "error", "JSON, but not of the shape the format prescribes"
    BAD_VALUE = "bad_value", "error", "a value contradicts the type that the message declares"
    UNKNOWN_SCHEMA_ID = (
        "unknown_schema_id",
        "error",
        "no schema is known for the id",
    )
    UNKNOWN_OP = "unknown_op", "error", "the operation is not one that the format knows"
    UNKNOWN_FORMAT = (
        "unknown_format",
        "error",
        "no format recognises the message; set the source's format",
    )
    AMBIGUOUS_FORMAT = "ambiguous_format", "error", "several formats fit; set the source's format"
    UNSUPPORTED = "unsupported", "error", "a documented variant this format does not decode"
    IMAGE_COUNT = "image_count", "error", "before and after images do not pair up"
    NO_IMAGE = "no_image", "error", "a row change without any row image or key"
    CONTRADICTION = (
        "contradiction",
        "error",
        "the operation contradicts the rest of the message, or a name has two values",
    )
    STATEMENT_DML = "statement_dml", "error", "rows changed by a statement, without images of them"
    DECODER_FAILED = "decoder_failed", "error", "the decoder failed on it: a defect, please report"
    TOO_LARGE = "too_large", "error", "larger than one of the source's limits; raise it and replay"
    EMPTY_VALUE = "empty_value", "error", "an empty value that is a delete, without a key"
    ORDER_KEY_MISSING = (
        "order_key_missing",
        "error",
        "no position in the log, which the source is ordered by",
    )
    FRAGMENT_INCOMPLETE = (
        "fragment_incomplete",
        "error",
        "a split message of which parts are missing",
    )
    # An event that gold sets aside.
    NO_KEY = "no_key", "error", "the table's key columns are unknown"
    NULL_KEY = "null_key", "error", "a key column is NULL or missing"
    TYPE_MISMATCH = "type_mismatch", "error", "a value does not fit the column's type"
    NO_BASE_IMAGE = "no_base_image", "error", "a partial image of a row that has not come yet"
    SHARD_KEY_CONFLICT = "shard_key_conflict", "error", "two source tables have a row with this key"
    LATE_BEYOND_HORIZON = "late_beyond_horizon", "error", "from before the history that was kept"
    # What was repaired or is in doubt; the event stands.
    CLOCK_STEPPED_BACK = (
        "clock_stepped_back",
        "warning",
        "the record's timestamp contradicts its offset; the offset decides",
    )
    LENIENT_JSON = "lenient_json", "warning", "read after dropping comments or trailing commas"
    DUP_KEY = "dup_key", "warning", "a name stood twice in an image; the last one won"
    PARTIAL_IMAGE = "partial_image", "warning", "the image lacks columns of the row"
    UNTYPED = "untyped", "warning", "no type is known for a column; its text stays as sent"
    TS_UNIT_INFERRED = (
        "ts_unit_inferred",
        "warning",
        "the unit of a time was inferred from its size",
    )
    TZ_ASSUMED = "tz_assumed", "warning", "a time without a zone was read as UTC; set time_zone"
    OLD_MISSING = "old_missing", "warning", "no previous values were sent for an update"
    OLD_COLUMN_NOT_IN_DATA = "old_column_not_in_data", "warning", "old names a column data lacks"
    SEQUENCE_UNIT_ASSUMED = (
        "sequence_unit_assumed",
        "warning",
        "a sequence of 14 or 15 digits was read as seconds and a counter; set sequence_unit",
    )
    EVENT_TIME_UNREAD = (
        "event_time_unread",
        "warning",
        "the time of the change cannot be read; left out",
    )
    SENT_TIME_UNREAD = "sent_time_unread", "warning", "the time of sending cannot be read; left out"
    ZERO_DATE = "zero_date", "warning", "an impossible date: text in silver, NULL in gold"
    PLACEHOLDER_VALUE = "placeholder_value", "warning", "the producer could not supply the value"
    KEY_NOT_IN_IMAGE = "key_not_in_image", "warning", "key columns are not among the row's columns"
    KEY_SPLIT = "key_split", "warning", "key names and values were paired by a fallback"
    BAD_MESSAGE_KEY = "bad_message_key", "warning", "the message's key cannot be read; ignored"
    TYPES_NOT_IN_IMAGE = "types_not_in_image", "warning", "types name columns the row lacks"
    BAD_BASE64 = "bad_base64", "warning", "not base64 where bytes are declared; text kept"
    UNKNOWN_CHARSET = (
        "unknown_charset",
        "warning",
        "text in an unknown character set; its bytes are kept, as base64",
    )
    BAD_BYTES = "bad_bytes", "warning", "characters above U+00FF in a latin-1 byte string"
    UNSIGNED_OVERFLOW = "unsigned_overflow", "warning", "an unsigned value came wrapped; unwrapped"
    DECIMAL_SCALE = "decimal_scale", "warning", "declared scale and precision contradict each other"
    VALUE_NOT_OF_TYPE = (
        "value_not_of_type",
        "warning",
        "a value contradicts its declared type; its text stays as sent",
    )
    TIME_AMBIGUOUS = (
        "time_ambiguous",
        "warning",
        "parts of a time contradict each other, or the zone's clocks show it twice or never",
    )
    INVALID_ENUM = "invalid_enum", "warning", "an ENUM or SET number outside the declared members"
    ENUM_NUMBER = (
        "enum_number",
        "warning",
        "an ENUM or SET came as its number, without its members; declare its type",
    )
    BEFORE_ON_INSERT = "before_on_insert", "warning", "an insert brought a before image; dropped"
    DDL_TEXT_MISSING = "ddl_text_missing", "warning", "a schema change without its statement"
    DDL_FLAG = (
        "ddl_flag",
        "warning",
        "isDdl and ddl contradict each other; taken as a schema change",
    )
    UNKNOWN_VERSION = "unknown_version", "warning", "a protocol version this decoder has not seen"
    SHARD = "shard", "warning", "one shard of a large record; put together when all have come"
    SPLIT_UPDATE = "split_update", "warning", "one half of an update; joined when the other comes"
    JOINED_UPDATE = "joined_update", "warning", "an update that came in two messages, joined"
