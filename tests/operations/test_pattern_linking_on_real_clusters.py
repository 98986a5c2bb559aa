"""Topics that patterns choose get mirrors as they appear: once each, only where they are written, and others are shown
with the reason."""

import time
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import takewhile
from typing import Any, cast

import pytest

from ha_core.kafka.creation import TopicCreation
from ha_core.kafka.errors import KafkaAdminError
from ha_core.kafka.facts import TopicSpec
from ha_core.model import (
    Cluster,
    FlowId,
    KnownTopic,
    Mask,
    Mirror,
    MirrorPattern,
    Operation,
    PatternLook,
    PatternTopic,
    Topic,
)
from ha_core.model.operation import LinkOperation
from ha_core.operations.clusters.registered import remove_cluster
from ha_core.operations.engine.cluster_admins import admin_of
from ha_core.operations.engine.creating import create_operation
from ha_core.operations.engine.environment import Environment
from ha_core.operations.engine.errors import RefusedError
from ha_core.operations.engine.journal import Journal, holding
from ha_core.operations.mirror.linking import LinkSteps, link_request, plan_link
from ha_core.operations.mirror.pattern_topics import judge_links
from ha_core.operations.mirror.patterns import (
    PatternProposal,
    pattern_request,
    plan_patterns,
    put_patterns,
    remove_patterns,
    to_remove,
)
from ha_core.operations.mirror.unlinking import judged, unlink
from ha_core.operations.running import engine, pattern_linking
from ha_core.operations.running.pattern_linking import PatternLinking
from ha_core.plan.mirror.linking import STEPS
from ha_core.store.commits import StateChange
from ha_core.store.remote_topics import FlowTopics
from tests.kafka.clients import produce
from tests.kit.mirroring import await_copies
from tests.kit.moving import a_move, copiers_of, linked, moved
from tests.kit.stacks import operator
from tests.operations.real_clusters import at

pytestmark = pytest.mark.stack

EAST_WEST, WEST_EAST = ("east", "west"), ("west", "east")

environment = operator()


@pytest.fixture
def prefix(environment: Environment) -> Iterator[str]:
    """Begins the names of this test's topics; its patterns are gone afterwards."""
    yield f"p{uuid.uuid4().hex[:8]}"
    for pattern in environment.store.mirror_patterns():
        remove_patterns(environment, [pattern.pattern], pattern.target, "the test is over", pattern.source)


def create(environment: Environment, cluster: str, *topics: str, partitions: int = 2) -> None:
    specs = [TopicSpec(topic, partitions, 1, {"retention.ms": "7200000"}) for topic in topics]
    admin_of(environment, cluster).create_topics(specs)


def put(
    environment: Environment, text: str, route: tuple[str, str] = EAST_WEST, *exclude: str, **policy: Any
) -> PatternProposal:
    proposal = plan_patterns(environment, pattern_request([text], *route, exclude, "a standby", **policy))
    report = put_patterns(environment, proposal)
    assert report is None or (report.result, report.error) == ("succeeded", "")
    return proposal


def look(linking: PatternLinking, route: tuple[str, str] = EAST_WEST) -> PatternLook:
    """The look of the only pattern of a route, when nothing more can be linked at once."""
    assert route in linking.routes()
    more = True
    while more:
        (found,), more, _ = linking.look(route)
    return found


def mirror_of(environment: Environment, topic: str, target: str = "west") -> Mirror:
    stored = environment.store.read(Mirror, f"{topic}@{target}")
    assert stored is not None, f"{topic} has no mirror in {target}"
    return stored[0]


def mirrored(environment: Environment, prefix: str) -> set[str]:
    return {key for key in environment.store.load().mirrors if key.startswith(prefix)}


def links_of(environment: Environment, prefix: str) -> list[Operation]:
    """Links of these topics, whatever became of them."""
    return [
        one
        for one in environment.store.operations(200)
        if isinstance(one, LinkOperation) and any(name.startswith(prefix) for name in one.moves.topics)
    ]


def states(found: PatternLook) -> dict[str, tuple[str, str]]:
    return {topic.topic: (topic.state, topic.code) for topic in found.topics}


def test_todays_and_later_topics_get_mirrors_once_in_the_name_of_their_pattern(
    environment: Environment, prefix: str
) -> None:
    # Given a topic, and another one that the pattern does not choose
    create(environment, "east", f"{prefix}.a", prefix)
    proposal = put(environment, f"{prefix}.*", max_bytes_s=5_000_000)
    assert proposal.links == (f"{prefix}.a",)
    linking = PatternLinking(environment)
    # When the job looks, and once more after a topic was created
    first = look(linking)
    create(environment, "east", f"{prefix}.b")
    second = look(linking)
    # Then both have a mirror with the pattern's policy, made by a link with its history, in the pattern's name
    assert (first.matching, first.linked, first.due, first.topics) == (1, 1, 0, ())
    assert (second.matching, second.linked, second.due, second.topics) == (2, 2, 0, ())
    actor = f"pattern:east>west:{prefix}.*"
    for topic in (f"{prefix}.a", f"{prefix}.b"):
        mirror = mirror_of(environment, topic)
        assert (mirror.source, mirror.by, mirror.max_bytes_s) == ("east", actor, 5_000_000)
        operation = environment.operation(mirror.link)
        assert operation is not None
        assert (operation.state, operation.by, operation.reason) == ("succeeded", actor, "a standby")
        assert [entry.step for entry in environment.store.history(mirror.link) if entry.outcome == "done"] == [
            "start",
            *STEPS[:-1],
        ]
        assert admin_of(environment, "west").topics([topic])[topic].config["retention.ms"] == "7200000"
    assert mirrored(environment, prefix) == {f"{prefix}.a@west", f"{prefix}.b@west"}
    # And a look that finds nothing new, of this process or of another one, begins no operation
    before = len(links_of(environment, prefix))
    look(linking)
    look(PatternLinking(environment))
    assert len(links_of(environment, prefix)) == before == 2


def test_a_topic_that_a_check_refuses_is_shown_with_its_reason_and_leaves_no_trace_in_the_history(
    environment: Environment, prefix: str
) -> None:
    # Given a topic that has records of its own in the target, one that has another number of partitions there, and
    # one whose name is taken there
    good, foreign, wide, taken = (f"{prefix}.{name}" for name in ("good", "foreign", "wide", "taken"))
    create(environment, "east", good, foreign, wide, taken)
    create(environment, "west", foreign, taken)
    create(environment, "west", wide, partitions=5)
    produce(at(environment, "west"), foreign, 7)
    proposal = put(environment, f"{prefix}.*")
    linking = PatternLinking(environment)
    # When the job looks, several times
    found = [look(linking) for _ in range(3)][-1]
    # Then the others are linked, and these are refused with the verdicts that the proposal had
    assert mirrored(environment, prefix) == {f"{good}@west"}
    assert states(found) == {
        foreign: ("refused", "foreign-data"),
        wide: ("refused", "partition-count"),
        taken: ("refused", "name-taken"),
    }
    assert {(verdict.about, verdict.code) for verdict in proposal.refused_topics} >= {
        (f"topic {topic}", code) for topic, (_, code) in states(found).items()
    }
    assert proposal.links == (good,)
    assert next(topic.reason for topic in found.topics if topic.topic == foreign).startswith(
        f"Topic {foreign} has data of its own in west: 7 offsets"
    )
    assert [operation.state for operation in links_of(environment, prefix)] == ["succeeded"]
    # And when the cause is gone, and an operator asks again, they are linked
    west = admin_of(environment, "west")
    west.delete_topics(west.topic_ids([foreign, taken, wide]), lambda: None)
    put(environment, f"{prefix}.*", EAST_WEST, "nothing")
    assert look(linking).topics == ()
    assert len(mirrored(environment, prefix)) == 4


def test_topics_of_brokers_copiers_and_mirror_maker_are_never_chosen(environment: Environment, prefix: str) -> None:
    internal = ("mm2-offset-syncs.west.internal", "west.checkpoints.internal", "heartbeats", "west.heartbeats")
    users = (f"{prefix}-heartbeats", f"{prefix}.internal")
    create(environment, "east", *internal, *users)
    proposal = plan_patterns(environment, pattern_request(["*"], *EAST_WEST, (), "a whole cluster"))
    assert {*internal} <= {*proposal.internal}
    assert {*users} <= {*proposal.links, *(verdict.about for verdict in proposal.refused_topics)}
    assert not {*internal, "__consumer_offsets", "switchyard-copies"} & {*proposal.links, *proposal.left}
    east = admin_of(environment, "east")
    east.delete_topics(east.topic_ids(internal), lambda: None)


def test_many_topics_are_linked_by_several_operations_one_after_the_other(
    environment: Environment, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pattern_linking, "AT_ONCE", 2)
    create(environment, "east", *(f"{prefix}.{number}" for number in range(5)))
    put(environment, f"{prefix}.*")
    linking = PatternLinking(environment)
    linking.routes()
    (first,), more, _ = linking.look(EAST_WEST)
    assert (first.linked, first.due, more) == (2, 3, True)
    assert look(linking).linked == 5
    assert sorted(len(one.moves.topics) for one in links_of(environment, prefix) if isinstance(one, LinkOperation)) == [
        1,
        2,
        2,
    ]


def test_an_operation_that_is_undone_is_not_repeated_at_once_and_its_topics_are_tried_one_by_one(
    environment: Environment, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given a target that would create all topics, as it says, and then refuses one
    good, bad = f"{prefix}.good", f"{prefix}.bad"
    create(environment, "east", good, bad)
    creates = TopicCreation.create_topics

    def refuses(self: TopicCreation, specs: Any, *args: Any, **more: Any) -> Any:
        if any(spec.name == bad for spec in specs):
            raise KafkaAdminError("west", f"does not create {bad}: no right.")
        return creates(self, specs, *args, **more)

    monkeypatch.setattr(TopicCreation, "create_topics", refuses)
    put(environment, f"{prefix}.*")
    linking, later_s = PatternLinking(environment), 0.0
    environment.monotonic = lambda: time.monotonic() + later_s
    # When the job looks
    found = look(linking)
    # Then both are shown as failed, nothing is left of the attempt, and looks right after it attempt nothing
    assert {topic: state for topic, (state, _) in states(found).items()} == {good: "failed", bad: "failed"}
    assert "no right" in found.topics[0].reason
    look(linking)
    assert [one.state for one in links_of(environment, prefix)] == ["undone"]
    assert not environment.store.lock_keys() & {f"topic:{good}", f"topic:{bad}"}
    # And a new topic does not have to wait for them
    create(environment, "east", f"{prefix}.new")
    later_s += 15
    assert look(linking).linked == 1
    # And later they are tried alone, so that one of them is linked
    for _ in range(6):
        later_s += 300
        found = look(linking)
    assert states(found) == {bad: ("failed", "undone")}
    assert mirrored(environment, prefix) == {f"{good}@west", f"{prefix}.new@west"}
    assert len(links_of(environment, prefix)) <= 2 + 6


def begun(environment: Environment, prefix: str, killed_before: str) -> Operation:
    """A link of the pattern whose process died before this step."""
    (pattern,) = environment.store.mirror_patterns()
    proposal = judge_links(environment, pattern, [f"{prefix}.a", f"{prefix}.b"]).proposal
    owner = environment.by
    environment.by = pattern.actor
    operation = create_operation(environment, proposal)
    environment.by = owner
    with holding(environment, operation.id, engine.resume) as journal:
        for step in takewhile(lambda step: step != killed_before, STEPS):
            LinkSteps(cast(Journal[LinkOperation], journal)).perform(step)
    later = (datetime.now(UTC) + timedelta(seconds=20)).isoformat()
    environment.now = lambda: later
    return operation


@pytest.mark.parametrize("killed_before", [*STEPS, "release"])
def test_the_next_job_continues_a_link_that_died_before_any_step(
    environment: Environment, prefix: str, killed_before: str
) -> None:
    create(environment, "east", f"{prefix}.a", f"{prefix}.b")
    put(environment, f"{prefix}.*")
    operation = begun(environment, prefix, killed_before)
    # When another process looks
    found = look(PatternLinking(environment))
    # Then that operation has made the mirrors, and no other
    assert (found.linked, found.topics) == (2, ())
    assert {mirror_of(environment, f"{prefix}.{name}").link for name in "ab"} == {operation.id}
    assert [one.state for one in links_of(environment, prefix)] == ["succeeded"]
    assert not [lock for lock in environment.store.locks() if lock.operation == operation.id]


def test_a_link_that_died_is_undone_if_its_pattern_was_removed_meanwhile(environment: Environment, prefix: str) -> None:
    create(environment, "east", f"{prefix}.a", f"{prefix}.b")
    put(environment, f"{prefix}.*")
    operation = begun(environment, prefix, "link")
    remove_patterns(environment, [f"{prefix}.*"], "west", "not needed")
    # When the job looks
    linking = PatternLinking(environment)
    assert linking.routes() == [EAST_WEST]
    assert linking.look(EAST_WEST).patterns == []
    # Then neither mirror, map, copy nor lock is left
    stored = environment.operation(operation.id)
    assert stored is not None
    assert stored.state == "undone"
    assert mirrored(environment, prefix) == set()
    assert not environment.store.load().topics.keys() & {f"{prefix}.a", f"{prefix}.b"}
    assert not admin_of(environment, "west").topics([f"{prefix}.a", f"{prefix}.b"])
    assert f"topic:{prefix}.a" not in environment.store.lock_keys()


def test_a_topic_that_is_unlinked_is_left_out_from_then_on_and_a_link_by_name_brings_it_back(
    environment: Environment, prefix: str
) -> None:
    topic = f"{prefix}.a"
    create(environment, "east", topic)
    put(environment, f"{prefix}.*")
    linking = PatternLinking(environment)
    look(linking)
    # When its mirror is ended, and its copy deleted, while an operator is about to put the pattern again
    late = plan_patterns(environment, pattern_request([f"{prefix}.*"], *EAST_WEST, (), "once more", max_bytes_s=9_999))
    (pattern,) = judged(environment, [topic], "west", delete_copy=True).patterns
    assert pattern.exclude == (topic,)
    assert unlink(environment, [topic], "west", "made anew", delete_copy=True)[0].result == "succeeded"
    put_patterns(environment, late)
    # Then the pattern leaves it out, also when it is put again
    put(environment, f"{prefix}.*", EAST_WEST, f"{prefix}.x")
    found = look(linking)
    assert (found.matching, found.linked) == (0, 0)
    assert environment.store.mirror_patterns()[0].exclude == (topic, f"{prefix}.x")
    assert mirrored(environment, prefix) == set()
    # And an operator may link it by its name
    linked(environment, topic)
    assert look(linking).topics == ()


def test_a_link_that_began_before_an_unlink_is_not_carried_out_after_it(
    environment: Environment, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given a topic that was linked and unlinked while another process stood still between plan and operation
    topic = f"{prefix}.a"
    create(environment, "east", topic)
    put(environment, f"{prefix}.*")
    start = engine.start

    def late(slow: Environment, chosen: Any, **more: Any) -> Operation:
        monkeypatch.setattr(engine, "start", start)
        look(PatternLinking(environment))
        assert mirrored(environment, prefix) == {f"{topic}@west"}
        unlink(environment, [topic], "west", "not needed", delete_copy=True)
        return start(slow, chosen, **more)

    monkeypatch.setattr(engine, "start", late)
    look(PatternLinking(environment))
    # Then its operation is undone
    assert mirrored(environment, prefix) == set()
    assert sorted(one.state for one in links_of(environment, prefix)) == ["succeeded", "undone"]
    assert not admin_of(environment, "west").topics([topic])


def test_a_mirror_that_was_linked_meanwhile_is_never_replaced(environment: Environment, prefix: str) -> None:
    # Given a link that was judged before another one of the same topic began and ended. Its copiers would begin anew,
    # behind the records that the copy has, with the link id of the second.
    topic = f"{prefix}.a"
    create(environment, "east", topic)
    late = plan_link(environment, link_request([topic], "east", "west", "late"))
    first = linked(environment, topic)
    # When it begins after all
    operation = engine.start(environment, late, recheck=False)
    report = engine.resume(environment, operation.id)
    # Then it is undone, and the mirror, its map and its copy stand
    assert (report.result, f"linked {topic}@west meanwhile" in report.error) == ("undone", True)
    assert mirror_of(environment, topic).link == first.id
    assert environment.store.load().topics[topic].writers == {"east"}
    assert topic in admin_of(environment, "west").topics([topic])


def test_after_a_switch_patterns_of_both_directions_link_nothing_in_a_circle(
    environment: Environment, prefix: str
) -> None:
    # Given patterns of both directions, a topic of each cluster, and copiers
    here, there = f"{prefix}.here", f"{prefix}.there"
    create(environment, "east", here)
    create(environment, "west", there)
    put(environment, f"{prefix}.*", EAST_WEST)
    put(environment, f"{prefix}.*", WEST_EAST)
    linking = PatternLinking(environment)

    def looks() -> list[PatternLook]:
        return [look(linking, route) for route in (EAST_WEST, WEST_EAST)]

    looks()
    assert mirrored(environment, prefix) == {f"{here}@west", f"{there}@east"}
    with copiers_of(environment, {here: 2, there: 2}) as copiers:
        produce(at(environment, "east"), here, 20)
        with await_copies(copiers, here, "west"):
            # When one of them is switched
            assert moved(environment, a_move(here)).result == "succeeded"
    east_west, west_east = looks()
    # Then its mirror is turned round, and neither pattern links it again
    assert mirrored(environment, prefix) == {f"{here}@east", f"{there}@east"}
    assert mirror_of(environment, here, "east").source == "west"
    assert east_west.topics == (
        PatternTopic(topic=here, state="elsewhere", reason="it is written in west, and mirrored to east"),
        PatternTopic(topic=there, state="elsewhere", reason="it is written in west, and mirrored to east"),
    )
    assert (west_east.matching, west_east.linked, west_east.topics) == (2, 2, ())
    assert len(links_of(environment, prefix)) == 2


def test_mirrors_of_topics_that_are_gone_or_not_chosen_any_more_stand_and_are_told(
    environment: Environment, prefix: str
) -> None:
    gone, out = f"{prefix}.gone", f"{prefix}.out"
    create(environment, "east", gone, out)
    put(environment, f"{prefix}.*")
    linking = PatternLinking(environment)
    look(linking)
    # When one is deleted in its cluster, and one is left out by the pattern
    east = admin_of(environment, "east")
    east.delete_topics(east.topic_ids([gone]), lambda: None)
    put(environment, f"{prefix}.*", EAST_WEST, out)
    until = time.monotonic() + 30
    while gone in admin_of(environment, "east").list_topics() and time.monotonic() < until:
        time.sleep(0.2)
    found = look(linking)
    # Then both mirrors stand
    assert {topic: state for topic, (state, _) in states(found).items()} == {gone: "gone", out: "unmatched"}
    assert mirrored(environment, prefix) == {f"{gone}@west", f"{out}@west"}
    # And they outlive their pattern
    removed = to_remove(environment, [f"{prefix}.*"], "west")
    assert removed.mirrors == (f"{gone}@west", f"{out}@west")
    remove_patterns(environment, [f"{prefix}.*"], "west", "not needed")
    assert mirrored(environment, prefix) == {f"{gone}@west", f"{out}@west"}
    assert environment.store.pattern_looks() == {}


@pytest.mark.parametrize("masked", ["east", "west"])
def test_nothing_is_linked_while_a_cluster_is_masked(environment: Environment, prefix: str, masked: str) -> None:
    create(environment, "east", f"{prefix}.a")
    put(environment, f"{prefix}.*")
    stored = environment.store.read(Cluster, masked)
    assert stored is not None

    def write(cluster: Cluster, version: int, what: str) -> None:
        expected: Any = {(Cluster, cluster.name): version}
        environment.store.commit(StateChange(change_id=f"{what} {prefix}", puts=(cluster,), expected=expected))

    write(stored[0].changed(masked=Mask(since="now", reason="rack fire", by="ops")), stored[1], "mask")
    linking = PatternLinking(environment)
    found = look(linking)
    assert (found.trouble, found.matching) == (f"{masked} is masked since now by ops: rack fire", None)
    assert mirrored(environment, prefix) == set()
    # When it is back
    write(stored[0], stored[1] + 1, "unmask")
    assert look(linking).linked == 1


def test_a_topic_with_an_operation_is_linked_when_that_is_over(environment: Environment, prefix: str) -> None:
    topic = f"{prefix}.a"
    create(environment, "east", topic)
    put(environment, f"{prefix}.*")
    other = create_operation(environment, plan_link(environment, link_request([topic], "east", "west", "by hand")))
    linking = PatternLinking(environment)
    found = look(linking)
    assert [(one.topic, one.state) for one in found.topics] == [(topic, "waits")]
    assert other.id in found.topics[0].reason
    engine.undo(environment, other.id)
    assert look(linking).linked == 1


def test_a_source_that_is_not_known_any_more_is_told(environment: Environment, prefix: str) -> None:
    key = MirrorPattern.key_of(f"{prefix}.*", "gone", "west")
    pattern = MirrorPattern(
        key=key, pattern=f"{prefix}.*", source="gone", target="west", since="now", by="ops", reason="a standby"
    )
    expected: Any = {(MirrorPattern, key): None}
    environment.store.commit(StateChange(change_id=f"put {prefix}", puts=(pattern,), expected=expected))
    found = look(PatternLinking(environment), ("gone", "west"))
    assert (found.matching, "gone is not registered" in found.trouble) == (None, True)


def test_a_cluster_that_a_pattern_names_is_not_removed_and_a_wrong_request_names_the_value(
    environment: Environment, prefix: str
) -> None:
    with pytest.raises(RefusedError, match=r"'orders \*' matches no topic"):
        pattern_request(["orders *"], *EAST_WEST, (), "a standby")
    with pytest.raises(RefusedError, match="same cluster"):
        pattern_request(["*"], "east", "east", (), "a standby")
    with pytest.raises(RefusedError, match="'nowhere' is not registered"):
        put(environment, f"{prefix}.*", ("nowhere", "west"))
    with pytest.raises(RefusedError, match=rf"no pattern {prefix}\.\* with copies in west"):
        to_remove(environment, [f"{prefix}.*"], "west")
    put(environment, f"{prefix}.*")
    # Other tests' bindings may come before it in the list, which is cut off.
    with pytest.raises(RefusedError, match=rf"pattern {prefix}\.\*|and \d+ more"):
        remove_cluster(environment, "west", "a test", force=True)


def test_a_topic_that_both_clusters_have_without_a_map_is_left_to_an_operator(
    environment: Environment, prefix: str
) -> None:
    # Given a topic of each cluster, of one name, which clients of both may use
    topic = f"{prefix}.a"
    create(environment, "east", topic)
    create(environment, "west", topic)
    put(environment, f"{prefix}.*")
    assert states(look(PatternLinking(environment))) == {topic: ("refused", "name-taken")}
    assert environment.store.read(Topic, topic) is None
    # And an operator may link it by its name, because clients do not use the other one
    linked(environment, topic)
    assert look(PatternLinking(environment)).linked == 1


def test_a_third_cluster_that_is_away_counts_as_it_was_last_known(environment: Environment, prefix: str) -> None:
    # Given a third cluster that does not answer, and had a topic of that name when it was last seen
    new, known = f"{prefix}.new", f"{prefix}.known"
    create(environment, "east", new, known)
    north = Cluster(name="north", bootstrap="127.0.0.1:1")
    expected: Any = {(Cluster, "north"): None}
    environment.store.commit(StateChange(change_id=f"north {prefix}", puts=(north,), expected=expected))
    seen = KnownTopic(cluster="north", name=known, at=environment.now(), partitions=1, replication=1)
    environment.store.keep_known(KnownTopic, "north", [seen])
    try:
        put(environment, f"{prefix}.*")
        # Then only that topic is refused
        found = look(PatternLinking(environment))
    finally:
        gone: Any = {(Cluster, "north"): 0}
        change = StateChange(change_id=f"no north {prefix}", deletes=((Cluster, "north"),), expected=gone)
        environment.store.commit(change)
        environment.store.forget_known(KnownTopic, "north", [known])
    assert states(found) == {known: ("refused", "name-taken")}
    assert mirrored(environment, prefix) == {f"{new}@west"}


def test_a_topic_that_a_flow_writes_in_either_cluster_is_left_alone(environment: Environment, prefix: str) -> None:
    # Given flows into both clusters, and one into a cluster that is not of the route
    mine, remote, claimed, other = (f"{prefix}.{name}" for name in ("mine", "remote", "claimed", "other"))
    create(environment, "east", mine, remote, claimed, other)
    east, west = (admin_of(environment, name).probe().cluster_id for name in EAST_WEST)
    written = [("N->E", east, remote), ("N->W", west, claimed), ("N->S", "elsewhere", other)]
    for flow, target_id, topic in written:
        environment.store.write_remote_topics(FlowTopics(FlowId(flow, "north", target_id), {topic: "t"}))
    try:
        put(environment, f"{prefix}.*")
        found = look(PatternLinking(environment))
    finally:
        for flow, target_id, _ in written:
            environment.store.remove_remote_topics(FlowId(flow, "north", target_id))
    # Then their topics are told and left alone, and the others are linked
    assert [(topic.topic, topic.reason) for topic in found.topics] == [
        (claimed, "the flow N->W writes it"),
        (remote, "the flow N->E writes it"),
    ]
    assert mirrored(environment, prefix) == {f"{mine}@west", f"{other}@west"}
