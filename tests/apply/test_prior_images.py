"""How far back silver is looked through for a late key."""

from __future__ import annotations

import pytest

from ingest.position import Pos
from pipelines.apply.prior_images import Span, spans
from pipelines.targets.progress import Watermarks


def at(number: int) -> Pos:
    return (0, 1, number)


def test_tops_rise_and_tell_of_all_batches_up_to_theirs() -> None:
    watermarks = Watermarks()
    for above, last, top in ((0, 2, 5), (2, 3, 9), (3, 5, 9), (5, 6, 12)):
        watermarks = Watermarks(
            batch_high_positions=watermarks.high_positions_after(above, last, at(top))
        )
    # Nothing in batches 4 and 5 was higher than what batch 3 had.
    assert watermarks.batch_high_positions == ((2, at(5)), (5, at(9)), (6, at(12)))
    # Batches from 3 on are applied again, with a renamed table: what was known of them goes.
    assert watermarks.high_positions_after(2, 7, at(12)) == ((2, at(5)), (7, at(12)))
    assert watermarks.high_positions_after(6, 7, None) == watermarks.batch_high_positions


def test_old_tops_are_thinned_out() -> None:
    watermarks = Watermarks()
    for batch in range(1, 1_000):
        watermarks = Watermarks(
            batch_high_positions=watermarks.high_positions_after(batch - 1, batch, at(batch))
        )
    batches = [batch for batch, _ in watermarks.batch_high_positions]
    assert len(batches) <= 32 and batches == sorted(batches)
    assert batches[-16:] == list(range(984, 1_000))
    assert batches[0] < 500


@pytest.mark.parametrize(
    ("ends", "above", "last", "expected"),
    [
        ((), 0, 3, [(1, 3, None)]),
        ((1, 2, 3, 4), 4, 5, [(1, 5, None)]),
        ((1, 2, 3, 4, 5), 5, 6, [(3, 6, 2), (1, 2, None)]),
        (range(1, 21), 20, 21, [(18, 21, 17), (14, 17, 13), (6, 13, 5), (1, 5, None)]),
        # What the target has not applied yet says nothing of what lies below.
        (range(1, 21), 4, 21, [(1, 21, None)]),
    ],
)
def test_spans(
    ends: range | tuple[int, ...],
    above: int,
    last: int,
    expected: list[tuple[int, int, int | None]],
) -> None:
    high_positions = [(batch, at(batch)) for batch in ends]
    assert list(spans(high_positions, above, last)) == [
        Span(range(low, high + 1), None if top is None else at(top)) for low, high, top in expected
    ]
