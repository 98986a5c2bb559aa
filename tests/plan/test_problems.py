"""Problems: each code has a meaning, and what follows from a cause is folded below it."""

from typing import get_args

from ha_core.plan.facts.problem import CAUSES, MEANINGS, Problem, ProblemCode, flat, folded
from ha_core.plan.facts.similar import did_you_mean


def problem(code: ProblemCode, about: str, *causes: str) -> Problem:
    return Problem(code, about, "It is so.", "Mend it.", "switchyard status", causes=causes)


DEAD = problem("cluster-away", "cluster east")
LATE = problem("mirror-stopped", "mirror of a-0 in west", "cluster west", "cluster east")


def test_each_code_has_one_meaning_and_a_level() -> None:
    assert set(MEANINGS) == set(get_args(ProblemCode))
    assert set(MEANINGS) >= CAUSES
    assert all(meaning.meaning.endswith(".") and meaning.subject for meaning in MEANINGS.values())


def test_problems_of_a_dead_cluster_are_folded_below_it_and_stand_alone_without_it() -> None:
    (head,) = folded([LATE, DEAD])

    assert (head.code, head.follows) == ("cluster-away", (LATE,))
    assert flat([head]) == [head, LATE]
    assert folded([LATE]) == [LATE]


def test_a_problem_of_another_cluster_is_not_folded_below_the_dead_one() -> None:
    other = problem("mirror-stopped", "mirror of b-0 in north", "cluster north")

    assert [one.about for one in folded([DEAD, other])] == ["cluster east", "mirror of b-0 in north"]


def test_a_known_name_like_the_mistyped_one_is_proposed_and_an_unlike_one_is_not() -> None:
    assert did_you_mean("ordres", ["orders", "payments"]) == " Did you mean orders?"
    assert did_you_mean("xyz", ["orders"]) == ""
    assert did_you_mean("", ["orders"]) == ""
    assert did_you_mean("o" * 10_000, ["orders"]) == ""


def test_the_number_of_compared_names_is_bounded() -> None:
    names = (f"topic-{number:06d}" for number in range(10**9))  # a comparison of all would not end

    assert did_you_mean("topic-00000x", names) != ""
