"""What is remembered of keys, up to a bound."""

from __future__ import annotations

from ingest.memo import Memo


def test_a_further_key_takes_the_place_of_all_that_were_there() -> None:
    memo: Memo[str, int] = Memo(most=2)
    for number, key in enumerate("abc"):
        memo[key] = number
        assert memo.get(key) == number
    assert memo == {"c": 2}


def test_another_value_of_a_known_key_forgets_no_other() -> None:
    memo: Memo[str, int] = Memo(most=2)
    memo["a"], memo["b"] = 1, 2
    memo["a"] = 3
    assert memo == {"a": 3, "b": 2}
