"""Filters of topics and groups by lists of patterns."""

import pickle

import pytest

from ha_core.flows.errors import FlowError
from ha_core.flows.filters import NameFilter, Patterns, parts


def chosen(include: str, exclude: str = "") -> NameFilter:
    return NameFilter(Patterns.of("topics", parts(include)), Patterns.of("topics.exclude", parts(exclude)))


@pytest.mark.parametrize(
    ("include", "exclude", "accepted", "refused"),
    [
        (".*", "", ["orders", "a-b"], []),
        ("orders, invoices", "", ["orders", "invoices"], ["orders2", "my-orders", "order"]),
        ("orders.*,pay-\\d+", "", ["orders", "orders.eu", "pay-17"], ["pay-", "xorders"]),
        (".*", r"mm2.*\.internal,.*\.replica,__.*", ["orders", "my.internal"], ["mm2-a.internal", "x.replica", "__x"]),
        ("orders.*", "orders.secret", ["orders"], ["orders.secret", "orders-secret"]),
        (r"\w+", "", ["orders"], ["ärger"]),  # Java's \w has ASCII only, Python's does not
        ("", "", [], ["orders"]),
        (" , ", "", [], ["orders", ""]),
    ],
)
def test_a_filter_accepts_names_that_match_as_a_whole_and_are_not_excluded(
    include: str, exclude: str, accepted: list[str], refused: list[str]
) -> None:
    names = chosen(include, exclude)
    assert [name for name in accepted if not names.accepts(name)] == []
    assert [name for name in refused if names.accepts(name)] == []


@pytest.mark.parametrize("text", ["orders(", r"\p{Alpha}+", "[a-z&&[^b]"])
def test_an_invalid_pattern_is_reported_with_its_key(text: str) -> None:
    with pytest.raises(FlowError, match=r"topics: .* cannot be used as a regular expression here") as error:
        chosen(f"fine,{text}")
    assert repr(text) in str(error.value)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("(?P<x>a),(?P<x>b)", "redefinition of group name"),
        ("a,(?i)b", "global flags not at the start"),
    ],
)
def test_patterns_that_cannot_be_used_together_are_an_error(text: str, reason: str) -> None:
    with pytest.raises(FlowError, match=f"topics: its parts cannot be used together .*{reason}"):
        chosen(text)


def test_a_pattern_that_is_nested_too_deeply_is_an_error_with_a_bounded_text() -> None:
    with pytest.raises(FlowError, match="its groups are nested too deeply") as error:
        chosen("(" * 5_000 + "a" + ")" * 5_000)
    assert len(str(error.value)) < 500


@pytest.mark.parametrize(
    ("include", "accepted", "refused"),
    [
        ("(?!internal).*", ["orders", "my.internal"], ["internal", "internal.x"]),
        ("^(?!(a|b)$).*", ["ab", "c"], ["a", "b"]),
        ("(?!__)(?!.*-secret).*", ["orders"], ["__x", "my-secret"]),
        (r"(?![\](a])x.*|[|)]y|\|z", ["x", "|y", ")y", "|z"], ["y", "z"]),
        ("(?!x)(?:x|y|z), x1", ["y", "z", "x1"], ["x", "x2"]),
        ("(?!.*[^]|]).*|ab", ["]|", "ab"], ["abc"]),
    ],
)
def test_a_negative_look_ahead_at_the_beginning_of_a_pattern_leaves_names_out(
    include: str, accepted: list[str], refused: list[str]
) -> None:
    names = chosen(include)
    assert [name for name in accepted if not names.accepts(name)] == []
    assert [name for name in refused if names.accepts(name)] == []


@pytest.mark.parametrize("text", [r"(?:(?!secret).)*", r".*(?<!-secret)", r"(a)\1", "a++b", "(?i)(?!x).*", "x(?=y).*"])
def test_a_pattern_that_no_engine_matches_in_linear_time_is_refused_with_the_way_out(text: str) -> None:
    with pytest.raises(FlowError, match=r"topics: .* matched in linear time by RE2") as error:
        chosen(text)
    assert repr(text) in str(error.value)
    assert "Names that are to be left out belong in topics.exclude." in str(error.value)


@pytest.mark.parametrize("text", ["(a+)+$", "(a|aa)+$", "(.*a){20}", "(?!(a+)+$).*b"])
def test_a_name_that_a_backtracking_engine_would_never_judge_is_judged(text: str) -> None:
    assert not chosen(text).accepts("a" * 249 + "!")


def test_a_list_of_many_topics_is_one_pattern() -> None:
    topics = [f"a-topic-of-some-length-{number}" for number in range(30_000)]
    names = chosen(",".join(topics))
    assert all(map(names.accepts, topics[::100]))
    assert not names.accepts("a-topic-of-some-length-30000")


def test_a_filter_is_sent_to_other_processes_and_stays_equal() -> None:
    """Spark sends flows to its executors, and a worker restarts flows that differ."""
    names = chosen("(?!x).*, orders", "a+")
    assert pickle.loads(pickle.dumps(names)) == names == chosen("(?!x).*, orders", "a+")
    assert names != chosen("(?!x).*, orders", "b+")
