"""Keys that changes of the key link: they fold together (semantics.md, 40)."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from ingest.fold.fold import Key


def key_groups(keys: Collection[Key], edges: Sequence[tuple[Key, Key]]) -> dict[Key, int]:
    """The keys and every key that a chain of edges connects to one of them -> group number."""
    root: dict[Key, Key] = {}

    def find(key: Key) -> Key:
        while root.setdefault(key, key) != key:
            root[key] = root[root[key]]
            key = root[key]
        return key

    for before, after in edges:
        root[find(before)] = find(after)
    wanted = {find(key) for key in keys}
    numbers = {key: number for number, key in enumerate(sorted(wanted))}
    return {key: numbers[find(key)] for key in list(root) if find(key) in wanted}
