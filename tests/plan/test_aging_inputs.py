"""The command and the Spark job collect the inputs of aging in different ways, and reach equal verdicts."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from typing import Any

import pytest

from ha_core.model import Cluster, Document, Group, KnownGroup, KnownTopic, Lock, Operation, Topic
from ha_core.model.cluster import Mask
from ha_core.model.extent import append, identity
from ha_core.model.topic import Fence
from ha_core.operations.engine.environment import Environment
from ha_core.operations.migration.aging import age
from ha_core.plan.facts.clusters import may_have_members
from ha_core.plan.migration.aging import (
    RESTLESS_MS,
    CommittedOffset,
    blocks,
    candidates,
    comparable,
    counts,
    locked_topics,
    worked_on,
)
from ha_core.store.commits import StateChange, key_of
from spark_jobs import broker_queries
from spark_jobs.aging import AgingEvidence, extents_to_judge, judge
from stack.memory_store import MemoryStore
from tests.spark_jobs.fake_fleet import FakeAdmin, fleet

NOW_MS = 20_000 * 24 * 3600 * 1000
ORDERS = Topic(name="orders", writer="west", partitions={0: append(identity("east"), "west", 100, 0)})
DRAINED = {"topics": {"orders": [[100, 100]]}}
GONE_ON = {"topics": {"orders": [[120, 120]]}}
BILLS = ORDERS.model_copy(update={"name": "bills"})
FENCE = Fence(operation="op-1")
OPERATION = Operation(id="op-1", kind="switch", state="planned", by="test", reason="r", started="2026-11-21T10:00:00Z")


def group(state: str, offset: int, **more: Any) -> dict[str, Any]:
    return {"groups": {"billing": {"state": state, "commits": [["orders", 0, offset]], **more}}}


@dataclass(frozen=True)
class Facts:
    """All facts of `orders`, which was cut at 100 and went from east to west. North is a bystander."""

    expected: list[str] | None
    """Reasons not to drop it, each once; None: it is not judged now."""
    east: dict[str, Any] = field(default_factory=lambda: DRAINED)
    north: dict[str, Any] = field(default_factory=dict)
    topic: Topic = ORDERS
    locked: bool = False
    masked: tuple[str, ...] = ()
    home: str | None = None
    """Where `billing` was moved to."""
    look: tuple[int, int] | None = None
    """How many milliseconds ago the end in east was recorded, and where it was."""
    recorded: tuple[str, int] | None = None
    """State and offset of `billing` in north, as last recorded."""


CASES = {
    "nothing_left": Facts([]),
    "locked": Facts(None, locked=True),
    "fenced": Facts(None, topic=ORDERS.model_copy(update={"fence": FENCE})),
    "fenced_for_transactions": Facts(None, topic=ORDERS.model_copy(update={"transaction_fence": FENCE})),
    "group_below": Facts(["dead"], north=group("Empty", 7)),
    "group_with_members_below": Facts(["lagging"], north=group("Stable", 7)),
    "group_of_the_newer_protocol": Facts(["lagging"], north=group("Stable", 7, described="Dead"), home="west"),
    "group_of_a_broker_that_tells_no_state": Facts(["dead"], north=group("", 7)),
    "old_copy": Facts([], north=group("Empty", 7), home="west"),
    "old_copy_with_members": Facts(["lagging"], north=group("Stable", 7), home="west"),
    "old_copy_of_a_cluster_that_is_down": Facts([], north={"down": True}, home="west", recorded=("Empty", 7)),
    "old_copy_last_seen_with_members": Facts(["lagging"], north={"down": True}, home="west", recorded=("Stable", 7)),
    "old_copy_last_seen_in_no_known_state": Facts(["lagging"], north={"down": True}, home="west", recorded=("", 7)),
    "bystander_never_seen": Facts(["unasked"], north={"down": True}),
    "masked_origin_that_answers": Facts(["masked"], masked=("east",), look=(10, 100)),
    "masked_bystander_never_seen": Facts(["masked"], masked=("north",)),
    "masked_bystander_is_not_asked": Facts(
        ["dead"], north=group("Empty", 100), masked=("north",), recorded=("Empty", 7)
    ),
    "gone_on_and_nothing_seen_before": Facts([], GONE_ON),
    "gone_on_since_a_young_look": Facts(["written"], GONE_ON, look=(60_000, 110)),
    "gone_on_since_an_old_look": Facts(["written"], GONE_ON, look=(RESTLESS_MS + 1, 110)),
    "gone_on_before_a_look": Facts([], GONE_ON, look=(60_000, 120)),
    "producer_wrote_just_now": Facts(["written"], GONE_ON | {"producers": {"orders-0": [NOW_MS - 5]}}),
    "producer_wrote_long_ago": Facts([], GONE_ON | {"producers": {"orders-0": [NOW_MS - RESTLESS_MS]}}),
    "producers_are_not_told": Facts(["unasked"], GONE_ON | {"secret_producers": True}),
    "topic_is_gone": Facts(["lost"], {"topics": {}}),
    "topic_was_made_anew_with_fewer_partitions": Facts(["lost"], {"topics": {"orders": []}}),
    "leader_is_away": Facts(["unasked"], {"topics": {"orders": [None]}}),
}


@pytest.fixture
def environment() -> Iterator[Environment]:
    with Environment(store=MemoryStore().client(), by="test:operator") as opened:
        opened.now = lambda: at(NOW_MS)
        yield opened


def at(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1000, UTC).isoformat()


def clusters_of(facts: Facts) -> dict[str, Cluster]:
    made = fleet({"east": facts.east, "west": {}, "north": facts.north}).clusters
    mask = Mask(since=at(NOW_MS), reason="rack fire", by="test")
    return {
        name: cluster.model_copy(update={"masked": mask if name in facts.masked else None})
        for name, cluster in made.items()
    }


def by_command(environment: Environment, facts: Facts) -> list[str] | None:
    """The reasons of `switchyard age`, with clusters that exist only here."""
    store = environment.store
    documents: list[Document] = [*clusters_of(facts).values(), facts.topic]
    documents += [Group(name="billing", cluster=facts.home)] if facts.home else []
    store.commit(StateChange(change_id="facts", puts=tuple(documents), expected=dict.fromkeys(map(key_of, documents))))
    if facts.locked:
        store.create_operation(OPERATION, ["topic:orders"])
    if facts.look is not None:
        ago_ms, end = facts.look
        seen = KnownTopic(
            cluster="east", name="orders", at=at(NOW_MS - ago_ms), partitions=1, replication=1, ends={0: end}
        )
        store.keep_known(KnownTopic, "east", [seen])
    if facts.recorded is not None:
        state, offset = facts.recorded
        known_group = KnownGroup(
            cluster="north", name="billing", at=at(NOW_MS), state=state, offsets={"orders": {0: offset}}
        )
        store.keep_known(KnownGroup, "north", [known_group])
    environment.admin = FakeAdmin  # type: ignore[method-assign,assignment]
    aging = age(environment, dry_run=True)
    if aging.put_off:
        return None
    (old,) = aging.extents
    return list(dict.fromkeys(block.reason for block in old.blocks))


def by_job(facts: Facts) -> list[str] | None:
    """The reasons of the job's functions, with joins made by hand."""
    clusters = clusters_of(facts)
    reach = fleet({"east": facts.east, "west": {}, "north": facts.north})._replace(clusters=clusters)
    lock = Lock(key="topic:orders", operation="op-1", by="test", since=at(NOW_MS))
    free, _ = candidates([facts.topic], locked_topics([lock] if facts.locked else []))
    if not free:
        return None
    (closed,) = extents_to_judge(free.values(), {})
    answering = [name for name in clusters if name not in facts.masked]
    here = closed.cluster in answering
    topic = next(
        broker_queries.read_topics(reach, [broker_queries.TopicAsked("east", "orders", 1)] if here else []), None
    )
    start, end = (topic.starts[0], topic.ends[0]) if topic is not None and topic.starts else (None, None)
    gone_on = closed.mapped_end is not None and end is not None and end > closed.mapped_end
    producers = next(
        broker_queries.read_producers(reach, [broker_queries.PartitionAsked("east", "orders", 0)] if gone_on else []),
        None,
    )
    listed = list(broker_queries.list_clusters(reach, [broker_queries.ToList(name) for name in answering]))
    groups = [
        broker_queries.GroupAsked(one.cluster, one.name, one.state)
        for one in listed
        if one.what == "group" and one.name
    ]
    committed = [
        commit_read for commit_read in broker_queries.read_commits(reach, groups) if commit_read.offset is not None
    ]
    commits = [
        CommittedOffset(commit_read.group, commit_read.cluster, commit_read.offset or 0, commit_read.live)
        for commit_read in committed
    ]
    troubled = {*facts.masked, *(one.cluster for one in listed if one.error)}
    if facts.recorded is not None:
        state, offset = facts.recorded
        commits = [CommittedOffset("billing", "north", offset, may_have_members(state))]
    looked = {"north"} & troubled if facts.recorded is not None else {"east"} & troubled if facts.look else set()
    homes = {"billing": {facts.home}} if facts.home else {}
    below = [commit for commit in commits if counts(commit, homes) and commit.offset < closed.end]
    masked = dict.fromkeys(facts.masked, "rack fire")
    row = AgingEvidence(
        partition=closed.partition,
        start=closed.start,
        extents=closed.extents,
        crossed_ms=closed.crossed_ms,
        partitions=topic.partitions if topic is not None and topic.exists is not None else None,
        config=topic.config if topic is not None else None,
        log_start=start,
        log_end=end,
        looked_ms=[NOW_MS - facts.look[0]] if facts.look and gone_on else None,
        ends=[facts.look[1]] if facts.look and gone_on else None,
        newest_record_ms=producers.newest_record_ms if producers is not None else None,
        producers_unknown=producers.error is not None if producers is not None else None,
        groups=[commit.group for commit in below] or None,
        coordinators=[commit.cluster for commit in below] or None,
        offsets=[commit.offset for commit in below] or None,
        lives=[commit.may_have_members for commit in below] or None,
        directs=[False for _ in below] or None,
    )
    against = partial(blocks, unasked=troubled - looked, masked=masked, last_seen=looked)
    return judge(against, NOW_MS, row).reasons


@pytest.mark.parametrize("facts", CASES.values(), ids=CASES)
def test_the_command_and_the_job_say_the_same_of_the_same_facts(environment: Environment, facts: Facts) -> None:
    assert (by_command(environment, facts), by_job(facts)) == (facts.expected, facts.expected)


@pytest.mark.parametrize(
    ("state", "members", "expected"),
    [
        ("Stable", (), True),
        ("PreparingRebalance", (), True),
        ("Reconciling", (), True),
        ("Empty", (), False),
        ("Dead", (), False),
        ("Empty", ("m-1",), True),
        ("", (), True),
    ],
)
def test_a_group_is_live_by_its_members_by_its_state_and_in_doubt(
    state: str, members: tuple[str, ...], expected: bool
) -> None:
    assert may_have_members(state, members) is expected


OLD, YOUNG = NOW_MS - RESTLESS_MS, NOW_MS - 60_000


@pytest.mark.parametrize(
    ("looks", "crossed_ms", "expected"),
    [
        ([], 0, None),
        ([(YOUNG, 7)], 0, 7),
        ([(OLD - 9, 3), (OLD, 5), (YOUNG, 7)], 0, 5),
        ([(YOUNG + 1, 8), (YOUNG, 7)], 0, 7),
        ([(OLD, 5), (YOUNG, 7)], OLD, 7),
        ([(OLD, 5), (YOUNG, 7)], YOUNG, None),
    ],
    ids=["none", "one", "newest_that_is_old", "oldest_of_the_young", "after_the_crossing", "all_before_the_crossing"],
)
def test_growth_counts_from_an_hour_ago_but_never_from_before_a_crossing_ended(
    looks: list[tuple[int, int]], crossed_ms: int, expected: int | None
) -> None:
    assert comparable(looks, NOW_MS, crossed_ms) == expected


def test_a_topic_is_worked_on_by_the_operation_that_has_locked_or_fenced_it() -> None:
    fenced = ORDERS.model_copy(update={"fence": FENCE})

    assert worked_on(ORDERS, {}) is None
    assert worked_on(ORDERS, {"orders": "op-2"}) == "op-2"
    assert worked_on(fenced, {}) == "op-1"
    assert candidates([fenced, BILLS], {}) == (
        {"bills": BILLS},
        {"orders": "operation op-1 works on it"},
    )
    assert candidates([Topic(name="bills", writer="west")], {}) == ({}, {})
