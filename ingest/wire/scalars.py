"""The scalar fields of envelopes: sequence numbers and epoch times.

They come as numbers or as text; an absent one comes as JSON null, as `""` or as the word `"null"`.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from ingest.codes import Code
from ingest.errors import DecodeError
from ingest.memo import Memo
from ingest.values.jsontext import Glimpses, members
from ingest.wire.clock import epoch_micros
from ingest.wire.contract import TopLevel

Scalar = int | str | None
"""A number as a JSON integer or as its text."""

_MOST = 2**63
_WHOLE, _TEXTS = frozenset((int,)), frozenset((str,))
_DIGITS_SURE, _DIGITS_MOST = 18, 19
"""Every number of at most 18 digits fits a bigint, and none of more than 19."""
_UNKNOWN_TIMES = ("0", "-1")
# Years 2001 to 2100: the times that may stand in front of a store sequence.
_SECONDS = range(10**9, 4_102_444_800)
_MILLISECONDS = range(10**12, 4_102_444_800_000)
_COUNTERS = 10**15
"""More than the counter behind a time can be."""


def text_of(given: Scalar) -> str | None:
    """The field as sent; None if it says nothing."""
    return None if given is None or given == "" or given == "null" else str(given)


def number_of(given: Scalar) -> int | None:
    """A sequence number that fits a bigint; None for any other, whose event has no order key."""
    if given.__class__ is str:
        text = str(given)
        if not (text.isascii() and text.isdigit()):
            return None
        if len(text) > _DIGITS_MOST and len(text := text.lstrip("0") or "0") > _DIGITS_MOST:
            return None
        number = int(text)
    elif given.__class__ is int:
        number = int(given or 0)
    else:
        return None
    return number if 0 <= number < _MOST else None


def micros_of(given: Scalar, warnings: list[str], unit: int) -> int | None:
    """Microseconds of an epoch time documented in `unit`s to a second; 0 and -1 mean unknown.

    It is the time of a change: text that is no number has the warning `event_time_unread`. Raises
    bad_value for a time outside the years 1 to 9999.
    """
    if unit == 1000 and given.__class__ is int and 10**11 <= given < 10**14:
        return given * 1000
    number = _epoch_number(given)
    if number is not None:
        return epoch_micros(number, warnings, unit)
    if text_of(given) is not None:
        warnings.append(Code.EVENT_TIME_UNREAD.value)
    return None


def _epoch_number(given: Any) -> int | None:
    """An epoch time, which may come as text; None for anything else."""
    if given.__class__ is str:
        plain = given.isascii() and given.removeprefix("-").isdigit() and len(given) <= 20
        return int(given) if plain else None
    return int(given) if given.__class__ is int else None


def sent_micros_of(given: Any, warnings: list[str]) -> int | None:
    """Microseconds of the time at which a message was sent, given in milliseconds.

    No change is refused because of this time: if the JSON that stands there is no time of the years
    1 to 9999, the warning is `sent_time_unread`.
    """
    if given.__class__ is int and 10**11 <= given < 10**14:
        return int(given) * 1000
    if given is None or given == "" or given == "null":
        return None
    number = _epoch_number(given)
    try:
        found = None if number is None else epoch_micros(number, warnings, 1000)
    except DecodeError:
        found = None
    if found is None and str(given) not in _UNKNOWN_TIMES:
        warnings.append(Code.SENT_TIME_UNREAD.value)
    return found


def plain_numbers(given: list[Any]) -> list[int] | None:
    """The numbers if all are JSON integers that `number_of` returns as they are; else None."""
    if given and _WHOLE.issuperset(map(type, given)) and 0 <= min(given) and max(given) < _MOST:
        return given
    return None


def plain_digits(given: list[Any]) -> list[int] | None:
    """The numbers if all are texts of up to 18 digits that `number_of` reads; else None."""
    if not given or not _TEXTS.issuperset(map(type, given)) or "" in given:
        return None
    digits = "".join(given)
    if digits.isascii() and digits.isdigit() and max(map(len, given)) <= _DIGITS_SURE:
        return list(map(int, given))
    return None


def plain_millis(given: list[Any]) -> list[int] | None:
    """The times if all are milliseconds that `micros_of` and `sent_micros_of` simply multiply; else
    None."""
    if given and _WHOLE.issuperset(map(type, given)) and 10**11 <= min(given):
        return given if max(given) < 10**14 else None
    return None


def split_sequence(
    given: Scalar, unit: str, warnings: list[str], *, time: Scalar = None
) -> tuple[int, int] | None:
    """An OMS store sequence as (second, place in it); None if it is absent or 0.

    The number is a time followed by a counter of at most five digits whose padding is not
    documented, so `16093446721` (…672, 1) comes after `160934467110` (…671, 10). The two parts are
    therefore compared one by one; milliseconds count as the higher part of the second number.

    `unit` is the unit of the time: `seconds` are its first 10 digits, `milliseconds` its first 13.
    `auto` tries milliseconds if there are at least 16 digits, or 14 if `time`, the message's own,
    is in milliseconds; then seconds. A time must be of this century; without one, the whole number
    counts. Warns `sequence_unit_assumed` if 14 or 15 digits could be of either unit; the second is
    the same in both.
    """
    text = str(given)
    if not (text.isascii() and text.isdigit()):
        return None
    text = text.lstrip("0")
    size = len(text)
    if not 0 < size <= 28:
        return None
    milliseconds = unit == "auto" and 13 < size < 16 and _in_milliseconds(time)
    if unit != "seconds" and size >= (13 if milliseconds or unit == "milliseconds" else 16):
        moment = int(text[:13])
        if moment in _MILLISECONDS:
            second, rest = divmod(moment, 1000)
            return second, rest * _COUNTERS + int(text[13:] or 0)
    if unit != "milliseconds" and size > 10:
        second = int(text[:10])
        if second in _SECONDS:
            # Five digits that begin with a zero are a padded counter.
            if unit == "auto" and (size == 14 or (size == 15 and text[10] != "0")):
                warnings.append(Code.SEQUENCE_UNIT_ASSUMED.value)
            return second, int(text[10:])
    number = number_of(text)
    return None if number is None else (number, 0)


def _in_milliseconds(time: Scalar) -> bool:
    number = number_of(time)
    return number is not None and number in _MILLISECONDS


def of_protocol(top: TopLevel, *, versions: Collection[bytes], member: str) -> bool:
    """Whether a message has `payload.op`, and `schema.<member>` or one of the versions.

    Other messages may have such a version too. So messages that are recognised by the version alone
    may only be of the kinds that change nothing, with the time as the protocol has it
    (semantics.md, 69).
    """
    if "payload" not in top:
        return False
    if "schema" in top and _has(bytes(top["schema"]), member):
        return "op" in PAYLOADS.of(top["payload"])
    if "version" not in top or bytes(top["version"]) not in versions:
        return False
    payload = PAYLOADS.of(top["payload"])
    if "op" not in payload or bytes(payload["op"]).upper() not in _CONTROLS:
        return False
    return "timestamp" in payload and b'"eventTime"' in bytes(payload["timestamp"])


_CONTROLS = frozenset(
    f'"{word}"'.encode()
    for word in """
        HEARTBEAT MHEARTBEAT GTID BEGIN COMMIT ROLLBACK TRANSACTION_BEGIN TRANSACTION_END XACOMMIT
        XAROLLBACK
        """.split()
)
PAYLOADS = Glimpses()
"""Shared by all formats that are recognised by their payload."""


def _has(schema: bytes, member: str) -> bool:
    """Whether the object `schema` has this member; remembered, since it is the same in most
    messages."""
    known = _SCHEMAS.get((member, len(schema)))
    if known is not None and known[0] == schema:
        return known[1]
    found = False
    if schema.startswith(b"{") and f'"{member}"'.encode() in schema:
        found = member in members(schema)
    _SCHEMAS[member, len(schema)] = schema, found
    return found


_SCHEMAS: Memo[tuple[str, int], tuple[bytes, bool]] = Memo(most=1_000)
"""Member and length of a schema block -> the last such block, and whether it has the member."""
