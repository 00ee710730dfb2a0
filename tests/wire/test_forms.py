"""Envelopes that are alike are read by a form; of those that are not, little is remembered."""

from __future__ import annotations

import json
import tracemalloc

import msgspec

from ingest.wire.forms import SEEN, Forms, Part


class _Envelope(msgspec.Struct):
    op: str
    row: msgspec.Raw = msgspec.Raw()


def _forms() -> Forms[_Envelope]:
    return Forms(Part(_Envelope))


def test_a_form_reads_what_came_before_in_its_shape() -> None:
    forms, value = _forms(), b'{"op":"c","row":{"a":1},"other":7}'
    read = [forms.read(value, "t") for _ in range(SEEN)]
    assert read[:-1] == [None] * (SEEN - 1)
    assert read[-1] is not None and (read[-1].op, bytes(read[-1].row)) == ("c", b'{"a":1}')
    # A name that stands twice, white space, one member more, one less: each is for another reader.
    for odd in (
        b'{"op":"c","row":{"a":1},"other":7,"op":"d"}',
        b'{"op":"c", "row":{"a":1},"other":7}',
        b'{"op":"c","row":{"a":1},"other":7,"more":1}',
        b'{"op":"c","row":{"a":1}}',
        b'{"op":"c","row":{"a":1},"other":7',
    ):
        assert forms.read(odd, "t") is None
    again = forms.read(value, "t")
    assert again is not None and again.op == "c"


def test_hostile_envelopes_leave_little_behind() -> None:
    """Each of its own thousands of names, or of few that are long."""
    forms = _forms()
    tracemalloc.start()
    try:
        for number in range(200):
            many = {f"n{number}x{place}": 0 for place in range(2_000)}
            long = {f"{number}{place}" + "n" * 10_000: 0 for place in range(3)}
            for sent in (many, long):
                assert forms.read(json.dumps(sent, separators=(",", ":")).encode(), "t") is None
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert kept < 2 * 2**20
