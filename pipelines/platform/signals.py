"""How a run is asked to end: SIGTERM or SIGINT, heeded between batches."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType


class Stop:
    """Whether the user asked the run to end; may be called from any thread."""

    def __init__(self) -> None:
        self._asked = threading.Event()

    def __call__(self) -> bool:
        return self._asked.is_set()

    def ask(self) -> None:
        """End the run at the next batch."""
        self._asked.set()

    def wait(self, seconds: float) -> None:
        """Sleep, unless asked to end."""
        self._asked.wait(seconds)


@contextmanager
def heeding_signals(stop: Stop, say: Callable[[str], None]) -> Iterator[Callable[[], None]]:
    """SIGTERM and SIGINT ask `stop`; a second one has its usual effect.

    Yields a function that takes the signals again, since Spark, once started, sets its own handler
    of SIGINT. Outside the main thread, where Python allows no handlers, nothing is done.
    """
    if threading.current_thread() is not threading.main_thread():
        yield lambda: None
        return
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}

    def heed(number: int, frame: FrameType | None) -> None:
        stop.ask()
        say(f"{signal.Signals(number).name}: ends after the batch that is being written")
        restore()

    def take() -> None:
        for number in before:
            signal.signal(number, heed)

    def restore() -> None:
        for number, handler in before.items():
            signal.signal(number, handler)

    take()
    try:
        yield take
    finally:
        restore()
