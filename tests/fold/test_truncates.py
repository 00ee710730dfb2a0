"""What truncates come to for one key, however many there were."""

from __future__ import annotations

import random

from hypothesis import given, settings
from hypothesis import strategies as st

from ingest.fold.fold import Change, distinct, steps
from ingest.fold.truncates import Truncates
from ingest.position import SOURCE_PART, reaches
from tests.fold.test_fold import arrived
from tests.support.databases import Database


def log(chance: random.Random) -> list[Change]:
    """A table that is emptied often, some of its messages sent twice, in any order."""
    database = Database(chance, partials=chance.random() < 0.5, truncates=True)
    database.live(60)
    changes = arrived([[database.changes], [chance.sample(database.changes, 9)]])
    return chance.sample(changes, len(changes))


@settings(max_examples=300)
@given(st.integers(0, 2**32), st.booleans())
def test_the_next_ones_do_what_all_do(seed: int, soft: bool) -> None:
    chance = random.Random(seed)
    changes = log(chance)
    truncates = [change for change in changes if change.op == "truncate"]
    keys = {change.key for change in changes if change.key is not None}
    some = set(chance.sample(sorted(keys), chance.randrange(1, len(keys) + 1)))
    own = [change for change in changes if change.key in some or change.key_before in some]
    few = Truncates.of(truncates).next_after(own)
    assert list(steps([*own, *few], soft=soft)) == list(steps([*own, *truncates], soft=soft))


@settings(max_examples=300)
@given(st.integers(0, 2**32))
def test_what_lies_below_one_or_beside_it(seed: int) -> None:
    changes = log(random.Random(seed))
    truncates = distinct(change for change in changes if change.op == "truncate")
    ready = Truncates.of(truncates)
    for change in changes:
        above = [t for t in truncates if reaches(t.pos, change.pos, by_arrival=t.by_arrival)]
        assert ready.void(change) == bool(above)
        places = {t.pos[:SOURCE_PART] for t in truncates if not t.by_arrival}
        assert ready.stand_beside(change) == (change.pos[:SOURCE_PART] in places)


def test_by_arrival_one_reaches_what_came_in_its_partition() -> None:
    def change(op: str, stream: int, offset: int, half: int) -> Change:
        pos = (0, 1, 5, 0, 0, 0, 0, stream, offset, 0, half)
        key = None if op == "truncate" else (str(stream),)
        return Change(op, pos, "s.t", key, image={}, digest=offset, by_arrival=True)

    own = change("truncate", 1, 9, 2)
    ready = Truncates.of([own])
    assert [ready.void(change("insert", stream, 3, 1)) for stream in (0, 1, 2)] == [
        *(False, True, False)
    ]
