"""Late classification: batch by batch with the fold of history only for late keys, gold comes out
the same as the database. The MERGE is played by a few lines here.
"""

from __future__ import annotations

import random
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from ingest.fold import Change, State, fold, voided
from ingest.late import Floors, classify
from pipelines.careful import linked
from tests.databases import Database, delivered
from tests.test_fold import change

Key = tuple[str, ...]


class Gold:
    """One target, brought forward as `pipelines.careful` does it."""

    def __init__(self) -> None:
        self.rows: dict[Key, tuple[dict[str, Any], tuple[int, ...]]] = {}
        self.history: list[Change] = []
        self.floors = Floors()
        self.refolded = 0

    def apply(self, batch: list[Change]) -> None:
        earlier = list(self.history)
        self.history += batch
        cuts = [c for c in self.history if c.op == "truncate"]
        live = [c for c in batch if c.op != "truncate" and not voided(c, cuts)]
        new_cuts = [c for c in batch if c.op == "truncate"]
        by_key: dict[Key, list[Change]] = {}
        for event in live:
            assert event.key is not None
            by_key.setdefault(event.key, []).append(event)
        late: set[Key] = set()
        on_time: dict[Key, State] = {}
        partials = self.floors.partials or any(event.partial for event in batch)
        floors = self.floors._replace(partials=partials)
        for key, events in by_key.items():
            stored = self.rows.get(key)
            pos = stored[1] if stored and not any(stored[1] < cut.pos for cut in cuts) else None
            verdict = classify(events, pos, floors)
            named = any(
                key in (c.key, c.key_before) and c.pos > verdict.lowest
                for c in earlier
                if c.op == "delete" or (c.key != c.key_before and c.key_before) or c.partial
            )
            if verdict.late or (verdict.doubtful and named):
                late |= {name for e in events for name in (e.key, e.key_before) if name}
            else:
                newer = [event for event in events if pos is None or event.pos > pos]
                folded = fold(newer, base=True)
                assert folded.baseless == []
                on_time.update(folded.states)
        on_time = {key: state for key, state in on_time.items() if key not in late}
        changed = self._merge(on_time, exact=False)
        self._refold(late)
        for key, (_, pos) in list(self.rows.items()):
            if key not in on_time and key not in late and any(pos < cut.pos for cut in new_cuts):
                del self.rows[key]
        self._note(batch, partials, changed < len(on_time))

    def _refold(self, late: set[Key]) -> None:
        edges = [
            (c.key_before, c.key)
            for c in self.history
            if c.key_before and c.key and c.key_before != c.key
        ]
        keys = linked(late, edges) if late else {}
        self.refolded += len(keys)
        states = fold([c for c in self.history if c.op == "truncate" or c.key in keys]).states
        absent = {key: None for key in keys if key not in states}
        self._merge({key: state for key, state in states.items() if key in keys}, exact=True)
        for key in absent:
            self.rows.pop(key, None)

    def _merge(self, states: dict[Key, State], *, exact: bool) -> int:
        changed = 0
        for key, state in states.items():
            stored = self.rows.get(key)
            if stored is not None and not exact and state.pos <= stored[1]:
                continue
            if state.row is None:
                changed += self.rows.pop(key, None) is not None
            elif stored is None:
                if state.stands:
                    self.rows[key] = (dict(state.row), state.pos)
                    changed += 1
            else:
                row = {**stored[0], **state.row} if state.keeps else dict(state.row)
                if row != stored[0]:
                    self.rows[key] = (row, state.pos)
                    changed += 1
        return changed

    def _note(self, batch: list[Change], partials: bool, skipped: bool) -> None:
        floors = self.floors
        top = max((c.pos for c in batch), default=None)
        removing = [
            c.pos
            for c in batch
            if c.op in ("delete", "truncate") or (c.key_before and c.key_before != c.key)
        ]
        self.floors = Floors(
            skipped=max(filter(None, [floors.skipped, top if skipped else None]), default=None),
            removed=max(filter(None, [floors.removed, *removing]), default=None),
            partials=partials,
            orphans=max(
                filter(None, [floors.orphans, *(c.pos for c in batch if c.partial)]), default=None
            ),
        )


def _batches(database: Database, chance: random.Random) -> list[list[Change]]:
    offsets: dict[int, int] = {}
    result = []
    for batch in delivered(database.told, chance, partitions=3, batches=5):
        changes = []
        for partition, lane in enumerate(batch):
            for told in lane:
                offset = offsets[partition] = offsets.get(partition, -1) + 1
                changes.append(change(told, partition=partition, offset=offset))
        result.append(changes)
    return result


@settings(max_examples=300, deadline=None)
@given(st.integers(0, 2**32), st.booleans(), st.booleans())
def test_batch_by_batch_equals_the_database(seed: int, partials: bool, truncates: bool) -> None:
    chance = random.Random(seed)
    database = Database(chance, partials=partials, truncates=truncates)
    database.live(60)
    gold = Gold()
    for batch in _batches(database, chance):
        gold.apply(batch)
    rows = {key: row for key, (row, _) in gold.rows.items()}
    assert rows == {(str(key),): row for key, row in database.rows.items()}


def test_49_a_snapshot_after_the_stream_folds_only_what_a_delete_names() -> None:
    def event(op: str, number: int, key: int, phase: int = 1) -> Change:
        image = None if op == "delete" else {"id": str(key)}
        pos = (0, phase, number, 0, 0, 0, 0, 0, number, 0, 1)
        return Change(op, pos, "t", (str(key),), image=image, digest=number)

    gold = Gold()
    gold.apply([event("insert", number, number) for number in range(1000)])
    gold.apply([event("delete", 2000, 7)])
    gold.apply([event("snapshot", number, number, phase=0) for number in range(1500)])
    assert gold.refolded == 1
    assert ("7",) not in gold.rows
    assert len(gold.rows) == 1499
