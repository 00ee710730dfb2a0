"""The scalar fields of the OMS and DataWorks envelopes: sequence numbers and epoch times.

They come as numbers or as text, absent as JSON null, as `""` or as the word `"null"`.
"""

from __future__ import annotations

from ingest import values

Scalar = int | str | None
"""A number as a JSON integer or as its text."""

_MOST = 2**63
# Years 2001 to 2100: what can be the time in front of a store sequence.
_SECONDS = range(10**9, 4_102_444_800)
_MILLISECONDS = range(10**12, 4_102_444_800_000)


def text_of(given: Scalar) -> str | None:
    """The field as sent; None where it says nothing."""
    return None if given is None or given == "" or given == "null" else str(given)


def number_of(given: Scalar) -> int | None:
    """A sequence number that fits a bigint, else None: such an event has no order key."""
    if given.__class__ is str:
        text = str(given)
        if len(text) > 19 or not (text.isascii() and text.isdigit()):
            return None
        number = int(text)
    elif given.__class__ is int:
        number = int(given or 0)
    else:
        return None
    return number if 0 <= number < _MOST else None


def micros_of(given: Scalar, warnings: list[str], unit: int) -> int | None:
    """Microseconds of an epoch time documented in `unit`s to a second; 0 and -1 mean unknown."""
    if given.__class__ is str:
        text = str(given)
        if not (text.isascii() and text.removeprefix("-").isdigit() and len(text) <= 20):
            return None
        given = int(text)
    if given.__class__ is not int:
        return None
    micros = values.epoch_micros(int(given or 0), warnings, unit)
    return micros if micros is not None and -_MOST <= micros < _MOST else None


def split_sequence(given: Scalar, unit: str = "auto") -> tuple[int, int] | None:
    """An OMS store sequence as (time, counter); None where it is absent or 0.

    The number is a time followed by a counter of at most five digits whose padding is not
    documented, so `16093446721` (…672, 1) comes after `160934467110` (…671, 10): the two parts
    are compared one by one. `unit` is that of the time, `seconds` or `milliseconds`; `auto` takes
    13 digits of milliseconds from 16 digits on, else 10 of seconds, where they make a time of this
    century, else the whole number.
    """
    text = str(given)
    if not (text.isascii() and text.isdigit()) or not text.strip("0") or len(text) > 30:
        return None
    if unit != "seconds":
        time = int(text[:13])
        if time in _MILLISECONDS and len(text) >= (13 if unit == "milliseconds" else 16):
            return time, int(text[13:] or 0)
    if unit != "milliseconds":
        time = int(text[:10])
        if time in _SECONDS and len(text) > 10:
            return time, int(text[10:]) if len(text) < 29 else 0
    number = number_of(text)
    return None if number is None else (number, 0)
