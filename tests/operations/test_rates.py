"""Rates as the job `offsets` leaves them."""

import json
from pathlib import Path
from types import SimpleNamespace

import pytest

from ha_core.model import Crossing, MoveRequest, Scope, Topic
from ha_core.model.evidence import CrossingEvidence
from ha_core.model.extent import append, identity
from ha_core.operations.engine.environment import Environment
from ha_core.operations.engine.errors import RefusedError
from ha_core.operations.migration import planning
from ha_core.operations.migration.crossing import ends
from ha_core.operations.migration.crossing.cuts import from_summary
from ha_core.operations.migration.planning import PartitionPlan
from ha_core.operations.proposal.requests import make_request
from ha_core.plan.facts.clusters import PartitionEnds
from ha_core.plan.migration.cuts import Rate
from tests.kit.operations import a_migration


def write(tmp_path: Path, document: object) -> Path:
    file = tmp_path / "rates.json"
    file.write_text(document if isinstance(document, str) else json.dumps(document))
    return file


def test_the_summary_gives_the_upper_rates_of_the_origin_and_their_chance(tmp_path: Path) -> None:
    # Given rates of three partitions, one of them in another cluster, one without an upper rate
    rows = [
        {"cluster": "east", "topic": "orders", "partition": 0, "rate": 5.0, "upper_rate": 9.5},
        {"cluster": "east", "topic": "orders", "partition": 1, "rate": 4.0, "upper_rate": None},
        {"cluster": "west", "topic": "orders", "partition": 2, "rate": 7.0, "upper_rate": 8.0},
    ]
    # When the summary is read
    rates = from_summary(write(tmp_path, {"chance": 0.01, "partitions": rows}), "east")
    # Then each partition of the origin has the highest that is known
    assert {key: rate.highest for key, rate in rates.by_partition.items()} == {("orders", 0): 9.5, ("orders", 1): 4.0}
    assert rates.of(("orders", 2)) == Rate(0.0, 0.0)
    assert "rates.json" in rates.words
    assert "0.01" in rates.words


def test_a_default_rate_of_the_job_does_not_count_as_a_recorded_rate(tmp_path: Path) -> None:
    rows = [
        {"cluster": "east", "topic": "orders", "partition": 0, "rate": 1000.0, "upper_rate": 1000.0, "how": "default"},
        {"cluster": "east", "topic": "orders", "partition": 1, "rate": 4.0, "upper_rate": 9.0, "how": "few"},
    ]

    rates = from_summary(write(tmp_path, {"chance": 0.01, "partitions": rows}), "east")

    assert rates.by_partition == {("orders", 1): Rate(highest=9.0, expected=4.0, source="history, few")}


class Log:
    """One partition that grows by 60 records between two looks."""

    def __init__(self) -> None:
        self.end = 0

    def ends(self, partitions: list[tuple[str, int]]) -> dict[tuple[str, int], SimpleNamespace]:
        self.end += 60
        return {key: SimpleNamespace(log_end=self.end) for key in partitions}


def test_without_recorded_rates_planning_measures_log_ends_and_says_so(
    tmp_path: Path, environment: Environment, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given a job that has run once, so that it knows its default only
    rows = [{"cluster": "east", "topic": "t", "partition": 0, "rate": 1000.0, "upper_rate": 1000.0, "how": "default"}]
    file = write(tmp_path, {"chance": 0.01, "partitions": rows})
    ticks = iter((0.0, 3.0))
    environment.monotonic = lambda: next(ticks)
    environment.sleep = lambda _s: None
    log = Log()
    monkeypatch.setattr(environment, "admin", lambda _cluster: log)
    request = make_request(["topic:t"], "east", "west", reason="test", cut="predicted")
    # When rates are asked for
    rates = planning._rates(environment, environment.store.load(), request, [("t", 0)], file)
    # Then the ends of the log were looked at twice, and no history is claimed
    assert rates.of(("t", 0)) == Rate(highest=40.0, expected=20.0, source="two looks")
    assert "recorded history" not in rates.words


def test_the_time_to_a_cut_is_estimated_by_the_expected_rate_not_the_upper_one() -> None:
    row = PartitionPlan(topic="t", partition=0, end=100, rate_per_s=20.0, expected_per_s=10.0, cut=6_100)

    assert row.reached == "in about 10 min at 10.0 records/s"
    assert row.model_copy(update={"expected_per_s": 0.0}).reached == "with its next 6000 records; it is idle now"


LOOKED_AT = {("orders", 0): PartitionEnds(target=0, origin=160)}


@pytest.mark.parametrize(
    ("now", "words"),
    [
        ("2026-11-21T10:00:02Z", "orders-0 lacks 740, reached in about 5 min at 2.5 records/s (as planned)"),
        ("2026-11-21T10:00:30Z", "orders-0 lacks 740, reached in about 6 min at 2.0 records/s (measured since"),
    ],
)
def test_the_progress_of_a_crossing_estimates_when_its_cut_is_reached_and_says_from_what(
    now: str, words: str, environment: Environment, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given an open crossing with the rate that was planned, and logs that have grown since
    environment.now = lambda: now
    monkeypatch.setattr(ends, "read_ends", lambda *_: SimpleNamespace(ends=LOOKED_AT, replicated=LOOKED_AT))
    monkeypatch.setattr(ends, "admin_of", lambda *_: SimpleNamespace(partition_counts=lambda _names: {"orders": 1}))
    topic = Topic(
        name="orders",
        writer="east",
        partitions={0: append(identity("east"), "west", 900, 0)},
        crossing=Crossing(operation="migrate-1", state="open"),
    )
    evidence = CrossingEvidence(
        expected={"orders": {0: 2.5}}, opened="2026-11-21T10:00:00Z", opened_at={"orders": {0: 100}}
    )
    operation = a_migration(
        state="crossing",
        request=MoveRequest(scope=Scope(topics=("orders",)), origin="east", target="west", reason="t", cut="predicted"),
        evidence=evidence,
    )
    # When it is looked at, soon or later
    progress = ends.progress_of(environment, operation, {"orders": topic})
    # Then the estimate is by the planned rate first, and by the measured one later
    assert words in progress.words
    environment.now = lambda: "2026-11-21T10:07:00Z"
    later = ends.progress_of(environment, operation, {"orders": topic})
    assert later.words != progress.words
    assert later.at == progress.at


@pytest.mark.parametrize("content", ["", "{", "[]", "{}", {"partitions": [{"cluster": "east"}]}, {"partitions": [1]}])
def test_a_malformed_rate_summary_is_refused_with_a_way_out(content: object, tmp_path: Path) -> None:
    with pytest.raises(RefusedError, match="leave --rates out"):
        from_summary(write(tmp_path, content), "east")
