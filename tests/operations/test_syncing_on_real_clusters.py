"""Mirrors' partitions, settings and offsets, synced from one real cluster to another."""

import uuid
from typing import Any

import pytest

from ha_core.kafka.facts import TopicSpec
from ha_core.model import KnownGroup, Mirror, SyncFinding, UserBindings
from ha_core.operations.copies.syncing.groups import Memory
from ha_core.operations.copies.syncing.pair import Synced
from ha_core.operations.copies.syncing.passes import MirrorsSynced, sync, sync_mirrors
from ha_core.operations.copies.syncing.topics import become_writers
from ha_core.operations.engine.cluster_admins import admin_of
from ha_core.operations.engine.environment import Environment
from ha_core.store.commits import StateChange
from tests.kit.moving import linked
from tests.kit.platform import soon
from tests.kit.stacks import operator
from tests.operations.real_clusters import fill, live_member

pytestmark = pytest.mark.stack
KEPT_MS = {"retention.ms": "7200000"}


environment = operator()


def mirrored(environment: Environment, config: dict[str, str], left_alone: tuple[str, ...] = ()) -> str:
    """A topic of the east with two partitions and 20 records in each, linked to the west."""
    name = f"synced-{uuid.uuid4().hex[:8]}"
    admin_of(environment, "east").create_topics([TopicSpec(name, 2, 1, config)])
    fill(environment, "east", name, 20, partitions=2)
    linked(environment, name, settings_left_alone=left_alone)
    return name


@pytest.fixture
def topic(environment: Environment) -> str:
    return mirrored(environment, KEPT_MS)


def own(environment: Environment, cluster: str, topic: str) -> dict[str, str]:
    return dict(admin_of(environment, cluster).topics([topic], offsets=False)[topic].config)


def effective(environment: Environment, cluster: str, topic: str, key: str) -> str | None:
    return admin_of(environment, cluster).settings([topic])[topic][key].value


def alter(environment: Environment, cluster: str, topic: str, **changes: str | None) -> None:
    """Until the brokers tell it: one that has been asked to applies it a moment after its controller has."""
    wanted = {key.replace("_", "."): value for key, value in changes.items()}
    assert admin_of(environment, cluster).alter_settings({topic: wanted}, lambda: None) == {}
    soon(lambda: wanted.items() <= {**dict.fromkeys(wanted), **own(environment, cluster, topic)}.items(), str(wanted))


def commit(environment: Environment, cluster: str, group: str, topic: str, *offsets: int) -> None:
    """Without joining the group."""
    wanted = {(topic, partition): (offset, "") for partition, offset in enumerate(offsets)}
    admin_of(environment, cluster).set_group_offsets(group, wanted)


def committed(environment: Environment, cluster: str, group: str, topic: str) -> dict[int, int]:
    found = admin_of(environment, cluster).group_offsets([group])[group]
    return {partition: offset for (name, partition), (offset, _) in sorted(found.items()) if name == topic}


def groups_synced(environment: Environment, topic: str, memory: Memory) -> Synced:
    clusters = admin_of(environment, "east"), admin_of(environment, "west")
    return sync(environment.store, clusters, "groups", environment.now(), memory, [topic])


def of(found: MirrorsSynced | Synced, about: str) -> list[SyncFinding]:
    parts = found.parts if isinstance(found, MirrorsSynced) else (found,)
    return [one for part in parts for one in part.findings if one.about == about]


def test_settings_that_change_in_the_source_change_in_the_copy_and_others_are_left_alone(
    environment: Environment, topic: str
) -> None:
    # Given a source whose settings were set, changed and taken away since the link, and a copy with one more
    alter(environment, "east", topic, retention_ms="3600000", segment_bytes="2000000", cleanup_policy="compact,delete")
    alter(environment, "west", topic, max_message_bytes="2000000")
    # When a dry run looks, nothing is changed
    before = own(environment, "west", topic)
    looked = sync_mirrors(environment, [topic], dry_run=True)
    assert own(environment, "west", topic) == before
    assert {change.text.partition("=")[0] for change in looked.changes if change.what == "settings"} >= {"retention.ms"}
    # When it is done
    done = sync_mirrors(environment, [topic])
    # Then the copy has them, and a second time there is nothing to do
    found = own(environment, "west", topic)
    assert (found["retention.ms"], found["segment.bytes"]) == ("3600000", "2000000")
    assert found["cleanup.policy"] == "compact,delete"
    assert found["max.message.bytes"] == str(2**31 - 1), "a copy takes whatever its source holds"
    assert [change.text for change in done.changes] == [change.text for change in looked.changes]
    assert sync_mirrors(environment, [topic]).changes == ()
    # And when the source has none of its own any more, neither has the copy
    alter(environment, "east", topic, retention_ms=None, segment_bytes=None, cleanup_policy=None)
    sync_mirrors(environment, [topic])
    assert not own(environment, "west", topic).keys() & {"retention.ms", "segment.bytes", "cleanup.policy"}


def test_a_setting_left_alone_and_a_refused_one_do_not_stop_the_others(environment: Environment) -> None:
    # Given a mirror that leaves retention alone, and a source with a setting that the target refuses
    topic = mirrored(environment, {}, left_alone=("retention.*",))
    alter(environment, "east", topic, retention_ms="3600000", segment_bytes="2000000")
    # When it is brought in sync
    syncs = sync_mirrors(environment, [topic])
    # Then all but that is there
    assert "retention.ms" not in own(environment, "west", topic)
    assert own(environment, "west", topic)["segment.bytes"] == "2000000"
    assert syncs.stops == ()


def test_a_copy_keeps_timestamps_until_it_becomes_the_writer(environment: Environment) -> None:
    # Given a topic whose brokers stamp records
    topic = mirrored(environment, {"message.timestamp.type": "LogAppendTime"})
    # Then its copy does not, and refuses no record for its time
    assert effective(environment, "west", topic, "message.timestamp.type") == "CreateTime"
    assert effective(environment, "west", topic, "message.timestamp.after.max.ms") == str(2**63 - 1)
    assert sync_mirrors(environment, [topic]).changes == ()
    # When it becomes the one that is written
    mirror = environment.store.load().mirrors[f"{topic}@west"]
    was = admin_of(environment, "east").settings([topic])
    assert become_writers(admin_of(environment, "west"), was, {topic: mirror}, lambda: None) == {}
    # Then it is as the source was, also where that was silent and the brokers' defaults differ
    ahead = {"message.timestamp.after.max.ms": str(2**63 - 1)}
    assert own(environment, "west", topic) == {**own(environment, "east", topic), **ahead}


def test_a_standby_grows_with_its_source_and_more_partitions_there_are_reported(
    environment: Environment, topic: str
) -> None:
    # When the source grows
    assert admin_of(environment, "east").grow_topics({topic: 5}, lambda: None) == {}
    grown = sync_mirrors(environment, [topic])
    # Then so does the standby
    assert [change.text for change in grown.changes if change.what == "partitions"] == ["2 → 5 partitions"]
    assert admin_of(environment, "west").partition_counts([topic]) == {topic: 5}
    # When the standby has more
    assert admin_of(environment, "west").grow_topics({topic: 6}, lambda: None) == {}
    more = sync_mirrors(environment, [topic])
    # Then that waits for an operator, with both counts, and nothing is done
    (stop,) = more.stops
    assert (stop.about, stop.what) == (f"topic {topic}", "partitions")
    assert "west has 6 partitions, east 5" in stop.reason
    assert admin_of(environment, "east").partition_counts([topic]) == {topic: 5}


def test_clusters_without_an_authoriser_have_no_rights_to_bring_over_and_that_stops_nothing(
    environment: Environment, topic: str
) -> None:
    syncs = sync_mirrors(environment, [topic])
    assert [(finding.what, finding.stop) for finding in of(syncs, "cluster east")] == [("rights", False)]
    assert "no authoriser" in of(syncs, "cluster west")[0].reason


def test_commits_follow_the_source_forwards_and_back_but_never_below_what_the_target_has_from_elsewhere(
    environment: Environment, topic: str
) -> None:
    group, memory = f"g-{topic}", Memory()
    # Given a group that has committed in the source
    commit(environment, "east", group, topic, 7, 9)
    # When groups are looked at
    groups_synced(environment, topic, memory)
    # Then its commits are in the target, and known in the store
    assert committed(environment, "west", group, topic) == {0: 7, 1: 9}
    known = environment.store.known(KnownGroup, "east", [group])[group]
    assert known.offsets[topic] == {0: 7, 1: 9}
    # When it goes on in the one and back in the other partition
    commit(environment, "east", group, topic, 12, 3)
    groups_synced(environment, topic, memory)
    assert committed(environment, "west", group, topic) == {0: 12, 1: 3}
    # When a group is further in the target than the source ever was
    commit(environment, "west", group, topic, 15, 3)
    commit(environment, "east", group, topic, 13, 4)
    synced = groups_synced(environment, topic, memory)
    # Then that is left, and told; the rest is copied
    assert committed(environment, "west", group, topic) == {0: 15, 1: 4}
    (finding,) = of(synced, f"group {group}")
    assert f"has 15 of {topic}-0, the source 13" in finding.reason
    # When its offsets are deleted in the source
    east = admin_of(environment, "east")
    assert east.delete_group_offsets(group, [(topic, 0), (topic, 1)], lambda: None) == ()
    synced = groups_synced(environment, topic, memory)
    # Then synced commits are deleted in the target, and others stay
    assert committed(environment, "west", group, topic) == {0: 15}
    # And a group that begins anew is followed
    commit(environment, "west", group, topic, 4)
    commit(environment, "east", group, topic, 4)
    groups_synced(environment, topic, memory)
    assert east.delete_group_offsets(group, [(topic, 0)], lambda: None) == ()
    groups_synced(environment, topic, memory)
    commit(environment, "east", group, topic, 1)
    groups_synced(environment, topic, memory)
    assert committed(environment, "west", group, topic) == {0: 1}


def test_a_reset_in_the_source_is_followed_by_a_process_that_has_just_begun(
    environment: Environment, topic: str
) -> None:
    group = f"g-{topic}"
    commit(environment, "east", group, topic, 15)
    groups_synced(environment, topic, Memory())
    # When it is reset, and another process looks
    commit(environment, "east", group, topic, 2)
    groups_synced(environment, topic, Memory())
    # Then it goes by what is known of the source
    assert committed(environment, "west", group, topic) == {0: 2}


def test_a_group_with_members_on_the_standby_is_left_alone_until_they_are_gone(
    environment: Environment, topic: str
) -> None:
    group = f"g-{topic}"
    commit(environment, "east", group, topic, 8, 8)
    with live_member(environment, "west", group, topic):
        synced = groups_synced(environment, topic, Memory())
        assert "has members in west" in of(synced, f"group {group}")[0].reason
        assert committed(environment, "west", group, topic) == {}
    assert of(groups_synced(environment, topic, Memory()), f"group {group}") == []
    assert committed(environment, "west", group, topic) == {0: 8, 1: 8}


def test_a_group_that_is_bound_to_the_standby_is_left_alone(environment: Environment, topic: str) -> None:
    bound, other = f"bound-{topic}", f"other-{topic}"
    for group in (bound, other):
        commit(environment, "east", group, topic, 8, 8)
    user = UserBindings(user=f"user-{topic}", groups={bound: "west"})
    environment.store.commit(StateChange(change_id=topic, puts=(user,), expected={(UserBindings, user.user): None}))
    synced = groups_synced(environment, topic, Memory())
    # Then what is bound to the standby is left alone, and the other one is copied
    assert "its coordinator is in west" in of(synced, f"group {bound}")[0].reason
    assert committed(environment, "west", bound, topic) == {}
    assert committed(environment, "west", other, topic) == {0: 8, 1: 8}


def test_a_pass_that_was_overtaken_by_the_end_of_the_mirror_changes_nothing_more(
    environment: Environment, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given a commit and a setting that are due, and mirrors that end right before each is brought over
    group, west = f"g-{topic}", admin_of(environment, "west")
    commit(environment, "east", group, topic, 8, 8)
    alter(environment, "east", topic, retention_ms="1000000")
    monkeypatch.setattr("ha_core.operations.copies.syncing.pair.FRESH_S", 0.0)

    def ended_before(name: str) -> None:
        goes_on = getattr(west, name)

        def later(*arguments: Any, **more: Any) -> Any:
            stored = environment.store.read(Mirror, f"{topic}@west")
            assert stored is not None
            mirror, version = stored
            other = mirror.changed(link=f"before-{name}")
            put = StateChange(change_id=f"{name} {topic}", puts=(other,), expected={(Mirror, mirror.key): version})
            environment.store.commit(put)
            return goes_on(*arguments, **more)

        monkeypatch.setattr(west, name, later)

    # When both are looked at
    ended_before("set_group_offsets")
    groups = groups_synced(environment, topic, Memory())
    ended_before("alter_settings")
    settings = sync(environment.store, (admin_of(environment, "east"), west), "topics", environment.now(), Memory())
    # Then nothing was changed, and that is told
    assert "has ended" in of(groups, f"group {group}")[0].reason
    assert committed(environment, "west", group, topic) == {}
    assert any("has ended" in finding.reason for finding in of(settings, "cluster west"))
    assert own(environment, "west", topic)["retention.ms"] == KEPT_MS["retention.ms"]
