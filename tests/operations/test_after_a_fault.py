"""A cluster dies, its topics move on what was last seen of it, and it comes back: whole, with less, or with nothing."""

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from ha_core.model import Extent
from ha_core.operations.absence.returned import check_origins
from ha_core.operations.clusters.last_seen import record
from ha_core.operations.clusters.registered import declare_usage
from ha_core.operations.engine.environment import Environment, EnvironmentSettings, connect
from ha_core.operations.engine.errors import RefusedError
from ha_core.operations.proposal.proposal import plan
from ha_core.operations.proposal.requests import fault_request, make_request
from ha_core.operations.running import engine
from ha_core.plan.migration.cuts import RESERVE
from ha_core.present.lifecycle import return_line
from stack.harness import Stack
from tests.kit.running import bootstrap, create_topic
from tests.kit.stacks import own_stack
from tests.operations.real_clusters import fill, run_to_success, stored_topic

pytestmark = pytest.mark.stack
PARTITIONS, SEEN, BEYOND = 2, 40, 10
produce = partial(fill, partitions=PARTITIONS)
WAITING = ("whole", "less", "gone")
"""Topics whose readers wait; of `skipped` they skip what is unread."""


@dataclass(frozen=True)
class Aftermath:
    """East died with records beyond what was known, its topics were moved to west, and it is back."""

    stack: Stack
    proposal: tuple[str, ...]
    """The pre-flight's verdicts."""


def opened(stack: Stack) -> Environment:
    return connect(EnvironmentSettings(stack.zookeeper, session_timeout_s=4.0), by="test:operator")


stack = own_stack(gateways=0)


@pytest.fixture(scope="module")
def aftermath(stack: Stack) -> Aftermath:
    with opened(stack) as environment:
        for name in (*WAITING, "skipped"):
            create_topic(bootstrap(stack, "east"), f"t.{name}", PARTITIONS, **{"retention.ms": "3600000"})
            produce(stack, "east", f"t.{name}", SEEN)
        declare_usage(environment, "ann", ("t.whole",), ("billing",))
        east = environment.admin(environment.store.load().clusters["east"])
        east.set_group_offsets("billing", {("t.whole", 0): (33, ""), ("t.whole", 1): (34, "")})
        assert all(not look.error for look in record(environment))
        for name in (*WAITING, "skipped"):
            produce(stack, "east", f"t.{name}", BEYOND)
        with pytest.raises(RefusedError, match="--force"):
            plan(environment, a_fault(environment, "t.whole")).require_sound()
        stack.kill("cluster/east")

        proposal = plan(environment, a_fault(environment, *(f"t.{name}" for name in WAITING), with_groups=True))
        run_to_success(environment, engine.start(environment, proposal).id)
        skipping = plan(environment, a_fault(environment, "t.skip*", unread="skip"))
        run_to_success(environment, engine.start(environment, skipping).id)

        away = check_origins(environment)
        assert set(away.away) == {"east"}
        assert away.returns == ()
        (data,) = Path(stack.dir).glob("**/cluster-east*/data/t.less-0")
        shutil.rmtree(data)
        stack.restart("cluster/east")
        admin = AdminClient({"bootstrap.servers": bootstrap(stack, "east")})  # its futures die with it
        admin.delete_topics(["t.gone"])["t.gone"].result(30)
    return Aftermath(stack, tuple(f"{v.level}: {v.text}" for v in proposal.verdicts))


@pytest.fixture
def environment(aftermath: Aftermath) -> Iterator[Environment]:
    with opened(aftermath.stack) as environment:
        yield environment


def a_fault(environment: Environment, *topics: str, unread: str = "wait", with_groups: bool = False):  # type: ignore[no-untyped-def]
    return fault_request(
        environment,
        topics,
        "east",
        "west",
        unread=unread,
        reason="rack fire",
        groups=with_groups,
    )


def extents(environment: Environment, topic: str, partition: int = 0) -> tuple[Extent, ...]:
    return stored_topic(environment, topic).partitions[partition]


def test_topics_of_a_dead_cluster_are_created_as_last_seen_and_the_age_of_the_record_is_shown(
    aftermath: Aftermath, environment: Environment
) -> None:
    west = environment.admin(environment.store.load().clusters["west"])

    made = west.topics(["t.whole"])["t.whole"]

    assert (made.partitions, made.config["retention.ms"]) == (PARTITIONS, "3600000")
    assert any("were last recorded" in verdict and " s ago" in verdict for verdict in aftermath.proposal)


def test_groups_of_a_dead_cluster_move_at_their_last_known_offsets(environment: Environment) -> None:
    view = environment.store.load()
    west = environment.admin(view.clusters["west"])

    found = west.group_offsets(["billing"])["billing"]

    assert {key: offset for key, (offset, _) in found.items()} == {("t.whole", 0): 33, ("t.whole", 1): 34}
    assert view.bindings["ann"].groups == {"billing": "west"}


def test_a_returned_cluster_serves_records_taken_after_the_last_recording_in_their_place(
    environment: Environment,
) -> None:
    # Given a map whose cut leaves room above the end that was known
    before = extents(environment, "t.whole")
    assert before[0].known_end == SEEN
    assert (before[0].end or 0) >= SEEN + RESERVE
    # When the returned cluster is checked
    result = check_origins(environment, ["t.whole"])
    # Then its extent is closed where it truly ends, nothing else changes, and the history has the numbers
    assert {
        (returned.partition, returned.known_end, returned.found_end, returned.beyond) for returned in result.returns
    } == {(partition, SEEN, SEEN + BEYOND, BEYOND) for partition in range(PARTITIONS)}
    after = extents(environment, "t.whole")
    assert after[0] == before[0].changed(end=SEEN + BEYOND, known_end=None)
    assert after[1] == before[1]
    (report,) = result.reports
    (entry,) = [e for e in environment.store.history(report.operation) if (e.step, e.outcome) == ("return", "done")]
    assert entry.detail["topics"] == {
        "t.whole": {"partitions": {str(p): ["whole", SEEN, SEEN + BEYOND] for p in range(PARTITIONS)}}
    }
    assert check_origins(environment, ["t.whole"]).returns == ()


def test_a_cluster_that_returns_with_less_is_marked_until_the_loss_is_accepted(
    environment: Environment,
) -> None:
    # Given a map of a topic whose log was deleted while its cluster was away
    before = extents(environment, "t.less")
    # When it is checked twice
    first = check_origins(environment, ["t.less"])
    second = check_origins(environment, ["t.less"])
    # Then the loss is marked, told once, and no move leads back before it is accepted
    (less,) = first.unaccepted
    assert (less.partition, less.known_end, less.found_end, less.missing) == (0, SEEN, 0, SEEN)
    assert "Readers wait until you decide" in return_line(less)
    assert extents(environment, "t.less") == (before[0].changed(found_end=0), before[1])
    assert extents(environment, "t.less", 1)[0].end == SEEN + BEYOND
    assert first.newly_found == (less,)
    assert (second.newly_found, second.unaccepted, second.reports) == ((), (less,), ())
    back = plan(environment, make_request(["topic:t.less"], "west", "east", reason="back"))
    assert any(v.level == "error" and "--accept-loss" in v.remedy for v in back.verdicts)
    with pytest.raises(RefusedError, match="Give the topics"):
        check_origins(environment, accept_loss=True)
    # When the operator accepts it
    accepted = check_origins(environment, ["t.less"], accept_loss=True)
    # Then its extent is gone
    assert [returned.outcome for returned in accepted.returns] == ["accepted"]
    assert extents(environment, "t.less") == (before[1],)


def test_a_topic_missing_from_a_returned_cluster_counts_as_lost(environment: Environment) -> None:
    result = check_origins(environment, ["t.gone"], dry_run=True)

    assert [(returned.found_end, returned.missing) for returned in result.unaccepted] == [(0, SEEN)] * PARTITIONS
    assert extents(environment, "t.gone")[0].found_end is None


def test_skipped_extents_stay_skipped_until_serving_them_is_requested(environment: Environment) -> None:
    assert check_origins(environment, ["t.skipped"]).returns[0].skipped
    assert extents(environment, "t.skipped")[0].ignored
    assert extents(environment, "t.skipped")[0].end == SEEN + BEYOND

    check_origins(environment, ["t.skip*"], serve_skipped=True)

    assert not extents(environment, "t.skipped")[0].ignored
