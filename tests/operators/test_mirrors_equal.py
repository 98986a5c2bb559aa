"""Results of a run that compares mirrors."""

from typing import Any

import pytest

from tests.dags import airflow_home

assert airflow_home  # before anything of airflow

EQUAL: dict[str, Any] = {
    "equal": True,
    "partitions": 4,
    "differing": 0,
    "failed": 0,
    "incomplete": 0,
    "not_compared": 0,
    "compared": 1234,
    "behind": 0,
    "gone_in_source": 0,
    "sample": None,
    "worst": [],
}
WORST = {"topic": "orders", "source": "east", "target": "west", "partition": 3, "error": None}
DIFFERENT = {**WORST, "first_difference": 17, "difference": "another value"}
AWAY = {**WORST, "partition": None, "difference": None, "error": "Cluster west: nobody listens"}


def judged(monkeypatch: pytest.MonkeyPatch, summary: dict[str, Any]) -> list[str]:
    """The result that the task reports."""
    from ha_core.operators.mirrors import MirrorsEqualOperator

    task, said = MirrorsEqualOperator(task_id="verdict"), list[str]()
    assert task.proposal_of == "compare"
    monkeypatch.setattr(MirrorsEqualOperator, "proposal", lambda _: summary)
    monkeypatch.setattr(MirrorsEqualOperator, "done", lambda _, text: said.append(text))
    assert task.work() == summary
    return said


def test_equal_copies_are_reported_with_the_compared_sample(monkeypatch: pytest.MonkeyPatch) -> None:
    assert judged(monkeypatch, EQUAL) == ["1,234 records are equal in all of 4 partitions"]
    sampled = {**EQUAL, "sample": {"share": 0.25, "seed": 7}}
    assert judged(monkeypatch, sampled) == ["1,234 records are equal in a sample (25.0%, seed 7) of 4 partitions"]


def test_offsets_that_were_not_compared_are_reported_beside_equal_records(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert judged(monkeypatch, {**EQUAL, "behind": 5_000, "gone_in_source": 12}) == [
        "1,234 records are equal in all of 4 partitions; 5,000 offsets are not copied yet; 12 offsets are deleted in "
        "the source since"
    ]


@pytest.mark.parametrize(
    ("worst", "differing", "failed", "why"),
    [
        (DIFFERENT, 1, 0, "orders from east to west, partition 3, offset 17: another value"),
        (AWAY, 0, 1, "orders from east to west: Cluster west: nobody listens"),
    ],
)
def test_differences_and_failed_comparisons_fail_the_run(
    worst: dict[str, Any], differing: int, failed: int, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from airflow.sdk.exceptions import AirflowFailException

    found = {**EQUAL, "equal": False, "differing": differing, "failed": failed, "worst": [worst]}
    with pytest.raises(AirflowFailException) as refused:
        judged(monkeypatch, found)
    assert str(refused.value) == (f"{differing} of 4 partitions differ, {failed} could not be compared. {why}")


def test_a_copy_that_lacks_records_or_was_not_compared_fails_the_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from airflow.sdk.exceptions import AirflowFailException

    lacks = {**WORST, "first_difference": None, "difference": None, "why": "lacks 60 records of its source"}
    found = {**EQUAL, "equal": False, "incomplete": 2, "not_compared": 1, "worst": [lacks]}
    with pytest.raises(AirflowFailException) as refused:
        judged(monkeypatch, found)
    assert str(refused.value) == (
        "0 of 4 partitions differ, 0 could not be compared, 2 lack records of their sources, 1 not compared at "
        "all. orders from east to west, partition 3: lacks 60 records of its source"
    )


def test_without_mirrors_there_is_nothing_to_judge(monkeypatch: pytest.MonkeyPatch) -> None:
    from airflow.sdk.exceptions import AirflowSkipException

    with pytest.raises(AirflowSkipException):
        judged(monkeypatch, {**EQUAL, "partitions": 0})
