"""The times of an envelope: numbers since the epoch, and texts."""

from __future__ import annotations

from datetime import UTC, datetime

from ingest.codes import Code
from ingest.errors import DecodeError
from ingest.memo import Memo
from ingest.values import canonical
from ingest.wire.contract import Loss

ZONES_OF_INSTANTS = Loss(
    "zones of instants",
    "a time that comes with its zone or offset, as Oracle's TIMESTAMP WITH TIME ZONE and SQL "
    "Server's datetimeoffset have one, is kept as the instant, in UTC: bronze alone has the zone",
)
"""A loss of the formats that carry values of databases that keep a zone with each."""


class Clock:
    """Reads zone-less times in the source's zone, and remembers them, since they repeat."""

    def __init__(self, zone: str | None) -> None:
        self._zone = zone
        self._memo: Memo[str, tuple[int | None, list[str]]] = Memo(most=65_536)

    def micros(self, text: str | None, warnings: list[str]) -> int | None:
        """Microseconds since the epoch of a change's time; None if there is no time.

        If it cannot be read, the warning is `event_time_unread`.
        """
        if not text:
            return None
        found = self._read(text, warnings)
        if found is None:
            warnings.append(Code.EVENT_TIME_UNREAD.value)
        return found

    def _read(self, text: str, warnings: list[str]) -> int | None:
        found = self._memo.get(text)
        if found is None:
            doubts: list[str] = []
            found = civil_micros(text, self._zone, doubts), doubts
            self._memo[text] = found
        warnings += found[1]
        return found[0]

    def sent_micros(self, given: object, warnings: list[str]) -> int | None:
        """As `micros`, for the time at which a message was sent, whatever JSON stands there.

        No change is refused because of this time: if it cannot be read, the event has the warning
        `sent_time_unread`.
        """
        if given is None or given == "":
            return None
        found = None
        if given.__class__ is str:
            try:
                found = self._read(str(given), warnings)
            except DecodeError:
                pass
        if found is None:
            warnings.append(Code.SENT_TIME_UNREAD.value)
        return found


def epoch_micros(number: int, warnings: list[str], expected: int | None = None) -> int | None:
    """Microseconds of an epoch number whose unit follows from its magnitude.

    `expected` is the documented unit as units per second; if another unit is found, the warning is
    `ts_unit_inferred`. 0 and -1 mean unknown: None.
    """
    if number in (0, -1):
        return None
    unit = _likely_unit(abs(number))
    micros = number * 1_000_000 // unit
    if not canonical.EARLIEST <= micros <= canonical.LATEST:
        raise DecodeError(
            Code.BAD_VALUE, f"expected a time within years 1..9999, got {str(number)[:40]}"
        )
    if expected is not None and unit != expected:
        warnings.append(Code.TS_UNIT_INFERRED.value)
    return micros


def _likely_unit(size: int) -> int:
    """The units per second of an epoch number of this size: as seconds, milliseconds, microseconds
    or nanoseconds it is a time near our own."""
    if size < 10**11:
        return 1
    if size < 10**14:
        return 10**3
    return 10**6 if size < 10**17 else 10**9


def civil_micros(text: str, zone: str | None, warnings: list[str]) -> int | None:
    """Microseconds since the epoch of a date-time text, read in `zone` if it names none; None for
    any other text."""
    instant = canonical.instant_text(text, zone, warnings)
    if not instant.endswith("Z"):
        return None
    try:
        moment = datetime.fromisoformat(instant[:19]).replace(tzinfo=UTC)
    except ValueError:
        return None
    digits = instant[20:-1][:6].ljust(6, "0") if len(instant) > 20 else "0"
    if not (digits.isascii() and digits.isdigit()):
        return None
    return int(moment.timestamp()) * 1_000_000 + int(digits)
