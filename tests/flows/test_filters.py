"""Filters of topics and groups by lists of patterns."""

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
