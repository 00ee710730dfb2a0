"""The risk classes are the same everywhere: in their order, of kinds, in a policy, in the YAML."""

from __future__ import annotations

from dataclasses import dataclass
from typing import get_args

import pytest

from ingest.config.settings import DdlPolicy
from ingest.config.tables import TableOptions
from ingest.ddl.risks import KINDS, RISKS, PolicyRisk, Risk, worst
from ingest.ddl.widening import risk_within


@dataclass(frozen=True)
class Part:
    name: str
    risk: Risk


def test_a_policy_has_every_class_but_that_of_no_risk() -> None:
    assert ("none", *DdlPolicy.model_fields) == RISKS == get_args(Risk)
    assert get_args(PolicyRisk) == tuple(DdlPolicy.model_fields)


@pytest.mark.parametrize("risk", get_args(PolicyRisk))
def test_a_policy_says_what_happens_to_each(risk: PolicyRisk) -> None:
    assert DdlPolicy().choice(risk) == getattr(DdlPolicy(), risk)
    for choice in ("apply", "review", "ignore"):
        assert DdlPolicy().model_copy(update={risk: choice}).choice(risk) == choice


def test_a_table_may_have_a_policy_of_its_own_for_each() -> None:
    given = dict.fromkeys(get_args(PolicyRisk), "ignore")
    assert TableOptions.model_validate({"ddl": given}).ddl == given


def test_every_kind_is_of_a_class() -> None:
    assert set(KINDS.values()) <= set(RISKS)


def test_the_worst_is_the_first_of_the_highest_class() -> None:
    mild, first, second = Part("a", "widening"), Part("b", "destructive"), Part("c", "destructive")
    assert worst([mild, first, second]) is first
    assert worst([first, Part("d", "unparsed")]).name == "d"


@pytest.mark.parametrize(
    ("before", "after", "type_", "risk"),
    [
        ("double(10,4)", "double(10,2)", "double", "destructive"),
        ("float(9,2)", "float(9,4)", "double", "destructive"),
        ("float(9,2)", "double(11,4)", "double", "widening"),
        ("int unsigned", "bigint", "bigint", "widening"),
        ("int unsigned", "int", "bigint", "destructive"),
        ("int", "bigint unsigned", "bigint", "destructive"),
        ("enum('a','b')", 'ENUM("a","b","c")', "string", "widening"),
        ("enum('a','b')", 'ENUM("b")', "string", "destructive"),
    ],
)
def test_50_what_narrows_within_one_type_of_gold(
    before: str, after: str, type_: str, risk: str
) -> None:
    assert risk_within(before, after, type_) == risk
