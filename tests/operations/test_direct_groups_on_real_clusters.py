"""Groups that read past the gateways go on in a copy at exactly their place, whatever offsets the copy has."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from ha_core.model import SyncFinding, Use
from ha_core.operations.access.bindings import plan_bindings, with_level
from ha_core.operations.access.carrying_groups import carry_group
from ha_core.operations.access.direct_groups import add_direct_groups, direct_groups, remove_direct_groups
from ha_core.operations.clusters.registered import declare_usage
from ha_core.operations.copies.syncing.copy_maps import CopyMaps
from ha_core.operations.copies.syncing.groups import Memory
from ha_core.operations.copies.syncing.pair import Synced
from ha_core.operations.copies.syncing.passes import sync_mirrors
from ha_core.operations.engine.cluster_admins import admin_of
from ha_core.operations.engine.environment import Environment
from ha_core.operations.engine.errors import RefusedError
from ha_core.operations.proposal.proposal import plan
from ha_core.store.usage import Sighting
from tests.kafka.mirroring import wait_until
from tests.kit.moving import a_move, linked, moved
from tests.kit.stacks import operator
from tests.kit.tools import GROUPS, tool
from tests.operations.past_gateways import (
    commit,
    committed,
    copy_now,
    created,
    read,
    synced,
    taken_over,
    transactional,
    write,
)
from tests.operations.real_clusters import at, live_member, stored_operation, stored_topic

pytestmark = pytest.mark.stack
OFTEN = {
    "cleanup.policy": "compact",
    "min.cleanable.dirty.ratio": "0.01",
    "max.compaction.lag.ms": "1000",
    "segment.ms": "1000",
}

environment = operator()


def at_once() -> Memory:
    return Memory(maps=CopyMaps(patient=False))


def of(found: Synced, group: str) -> list[SyncFinding]:
    return [one for one in found.findings if one.about == f"group {group}"]


@contextmanager
def named(environment: Environment, *patterns: str) -> Iterator[None]:
    add_direct_groups(environment, patterns, "they read past the gateways")
    yield
    left = [pattern for pattern in patterns if pattern in environment.store.load().direct_groups]
    if left:
        for pattern in left:
            for cluster in ("east", "west"):
                forget(environment, cluster, pattern)
        remove_direct_groups(environment, left, "the test is over")


def forget(environment: Environment, cluster: str, group: str) -> None:
    admin = admin_of(environment, cluster)
    admin.delete_group_offsets(group, list(admin.group_offsets([group])[group]), lambda: None)


def compacted(environment: Environment) -> str:
    """Keys that are written in turns, and a cleaner that has left holes, before and after the copy begins."""
    topic = created(environment, OFTEN)
    write(environment, topic, [f"a{n}" for n in range(40)], [f"k{n % 20}" for n in range(40)])

    def cleaned() -> bool:
        write(environment, topic, [f"tick-{time.monotonic_ns()}"], ["tick"])
        time.sleep(0.3)
        left = read(environment, "east", topic)
        return left[0].offset >= 20 and len(left) < left[-1].offset - 20

    wait_until(cleaned, lambda: read(environment, "east", topic), 90)
    linked(environment, topic)
    copy_now(environment, topic)
    write(environment, topic, [f"b{n}" for n in range(30)], [f"k{n % 10}" for n in range(30)])
    copy_now(environment, topic)
    return topic


@pytest.mark.parametrize("made", [compacted, transactional, taken_over])
def test_a_direct_group_resumes_in_the_copy_and_reads_each_record_once(environment: Environment, made: object) -> None:
    # Given a topic whose copy has other offsets, and groups at many places of the source
    assert callable(made)
    topic: str = made(environment)
    source = read(environment, "east", topic)
    end = admin_of(environment, "east").ends([(topic, 0)])[topic, 0].log_end
    places = sorted({*range(0, end, 5), source[0].offset, source[-1].offset, source[-1].offset + 1, end})
    groups = {f"{topic}-at-{place}": place for place in places}
    for group, place in groups.items():
        commit(environment, "east", group, topic, place)
    with named(environment, f"{topic}-at-*"):
        # When their commits are brought over
        found = synced(environment, topic, at_once())
        # Then a plain consumer of the copy gets exactly the records that it has not read in the source
        assert [finding for finding in found.findings if finding.about.startswith(f"group {topic}")] == []
        assert found.kinds == {"client": 0, "translated": len(groups)}
        got = {group: [record.value for record in read(environment, "west", topic, group)] for group in groups}
        # (both logs go on compacting: records that are left at the end were there all the time)
        left = {record.value for record in read(environment, "west", topic)}.intersection(r.value for r in source)
        for group, place in groups.items():
            wanted = [record.value for record in source if record.offset >= place and record.value in left]
            assert [value for value in got[group] if value in left] == wanted, (group, place)
        # And the source's numbers would have given other records
        assert any(committed(environment, "west", group, topic) != place for group, place in groups.items())
        # And one that has read all has no lag there, by Kafka's own tool
        west_end = admin_of(environment, "west").ends([(topic, 0)])[topic, 0].log_end
        assert committed(environment, "west", f"{topic}-at-{end}", topic) == west_end
        shown = tool(
            "4.3.1",
            GROUPS,
            str(at(environment, "west")["bootstrap.servers"]),
            "--describe",
            "--group",
            f"{topic}-at-{end}",
        )
        (row,) = [row for row in shown.rows() if row[1:3] == [topic, "0"]]
        assert row[3:6] == [str(west_end), str(west_end), "0"]
        for group in groups:
            for cluster in ("east", "west"):
                forget(environment, cluster, group)


def test_a_direct_group_is_followed_forwards_and_back_unless_a_consumer_of_the_copy_has_read_on(
    environment: Environment,
) -> None:
    topic, memory = taken_over(environment), at_once()
    group = f"g-{topic}"
    with named(environment, group):
        commit(environment, "east", group, topic, 9)
        synced(environment, topic, memory)
        first = committed(environment, "west", group, topic)
        commit(environment, "east", group, topic, 30)
        synced(environment, topic, memory)
        assert (committed(environment, "west", group, topic) or 0) > (first or 0)
        # When the source went back, a process that has just begun follows
        commit(environment, "east", group, topic, 9)
        synced(environment, topic, at_once())
        assert committed(environment, "west", group, topic) == first
        # When a consumer of the standby has read on, above all that the source ever had
        west_end = admin_of(environment, "west").ends([(topic, 0)])[topic, 0].log_end
        commit(environment, "west", group, topic, west_end)
        found = synced(environment, topic, memory)
        assert committed(environment, "west", group, topic) == west_end
        assert f"has {west_end} of {topic}-0, the source 9, which is {first} there" in of(found, group)[0].reason
        # While it is a member there, it is left alone
        with live_member(environment, "west", group, topic):
            assert "has members in west" in of(synced(environment, topic, at_once()), group)[0].reason
        # When its offsets are deleted in the source, those that came from there go
        commit(environment, "west", group, topic, first or 0)
        forget(environment, "east", group)
        synced(environment, topic, memory)
        assert committed(environment, "west", group, topic) is None


def test_naming_a_direct_group_translates_its_numbers_and_taking_the_name_back_restores_them(
    environment: Environment,
) -> None:
    topic, memory = transactional(environment), at_once()
    group = f"g-{topic}"
    source = read(environment, "east", topic)
    place = source[-3].offset
    commit(environment, "east", group, topic, place)
    # Given a group whose number was carried as a client offset: the difference is a finding
    found = synced(environment, topic, memory)
    assert committed(environment, "west", group, topic) == place
    (finding,) = of(found, group)
    assert "no gateway client of it is known" in finding.reason
    assert f"`switchyard direct-groups add {group}`" in finding.reason
    assert not finding.stop, "it has no members"
    # When it is named, then it has the copy's own number, and each record once
    with named(environment, group):
        synced(environment, topic, memory)
        translated = committed(environment, "west", group, topic)
        assert translated != place
        assert [record.value for record in read(environment, "west", topic, group)] == [r.value for r in source[-3:]]
        checkpoints = environment.store.checkpoints("east", "west")[group]
        assert checkpoints.offsets[topic] == {0: (place, translated)}
        # When the name is taken back, then it is the source's number again, although that is another direction
        remove_direct_groups(environment, [group], "its consumers use gateways now")
        synced(environment, topic, memory)
        assert committed(environment, "west", group, topic) == place
        assert group not in environment.store.checkpoints("east", "west")


def test_a_group_of_gateway_clients_keeps_client_offsets_and_cannot_be_named(environment: Environment) -> None:
    topic = taken_over(environment)
    group = f"g-{topic}"
    declare_usage(environment, f"user-{topic}", (), (group,))
    commit(environment, "east", group, topic, 12)
    # When it is named as direct, by name or by pattern, then that is refused with the user
    for pattern in (group, f"g-{topic[:-2]}*"):
        with pytest.raises(RefusedError, match=f"names group {group}, but gateways know users of it: user-{topic}"):
            add_direct_groups(environment, [pattern], "a mistake")
    # And its number is the source's, without a finding
    found = synced(environment, topic, at_once())
    assert (committed(environment, "west", group, topic), of(found, group)) == (12, [])
    # When both came to pass all the same, then that waits for an operator
    with named(environment, f"h-{topic}"):
        commit(environment, "east", f"h-{topic}", topic, 12)
        declare_past_the_check(environment, f"user-{topic}", f"h-{topic}")
        (finding,) = of(synced(environment, topic, at_once()), f"h-{topic}")
        assert (finding.stop, "gateways know clients of it" in finding.reason) == (True, True)
        assert [one.group for one in direct_groups(environment).conflicts] == [f"h-{topic}"]
        # And neither a declared use nor a binding leads a gateway client to a direct group
        with pytest.raises(RefusedError, match="which gateways refuse"):
            declare_usage(environment, f"user-{topic}", (), (f"h-{topic}",))
        view = environment.store.load()
        with pytest.raises(RefusedError, match="which gateways refuse"):
            plan_bindings(environment, with_level(view, f"user:user-{topic}##h-{topic}", "west"))


def declare_past_the_check(environment: Environment, user: str, group: str) -> None:
    """A gateway had seen a client of the group right before it served its name."""
    use = Use(how="commit", since=environment.now())
    environment.store.record_usage(user, [Sighting("group", group, use)])


def test_a_copy_log_without_a_reporting_copier_is_read_once_it_no_longer_grows(environment: Environment) -> None:
    # Given a copier that has ended before it wrote down its last progress
    topic, memory = taken_over(environment), Memory()
    group = f"g-{topic}"
    with named(environment, group):
        write(environment, topic, [f"later-{n}" for n in range(4)])
        copy_now(environment, topic)
        commit(environment, "east", group, topic, 37)
        # When two passes look, one after the other
        synced(environment, topic, memory)
        first = committed(environment, "west", group, topic)
        synced(environment, topic, memory)
        # Then the group goes on at the end of the known map, and then at its place
        assert [record.value for record in read(environment, "west", topic, group)] == [b"later-2", b"later-3"]
        assert (first or 0) <= (committed(environment, "west", group, topic) or 0)
        # And later passes know the copier's notes that were written since
        for turn in range(2):
            write(environment, topic, [f"last-{turn}-{n}" for n in range(3)])
            copy_now(environment, topic)
            commit(environment, "east", group, topic, 39 + 3 * turn + 2)
            for _ in range(2):
                synced(environment, topic, memory)
            assert [record.value for record in read(environment, "west", topic, group)] == [f"last-{turn}-2".encode()]


def test_a_dry_run_of_a_sync_changes_nothing(environment: Environment) -> None:
    topic = taken_over(environment)
    group = f"g-{topic}"
    with named(environment, group):
        commit(environment, "east", group, topic, 12)
        looked = sync_mirrors(environment, [topic], dry_run=True)
        assert [change.text for change in looked.changes if change.about == f"group {group}"] == [
            "1 partition, translated"
        ]
        assert committed(environment, "west", group, topic) is None
        assert group not in environment.store.checkpoints("east", "west")


def test_the_place_of_a_consumer_that_read_the_copy_is_carried_back_to_the_source(environment: Environment) -> None:
    # Given a consumer that has read some records of the copy, past the gateways
    topic = transactional(environment)
    group = f"g-{topic}"
    copy = read(environment, "west", topic)
    with named(environment, group, f"{group}-next"):
        commit(environment, "west", group, topic, copy[4].offset)
        # When its place is carried to the source, and for another group within the same cluster
        back = carry_group(environment, group, "west", target="east")
        carry_group(environment, group, "west", f"{group}-next")
        # Then each goes on with the next record
        assert back.left == {}
        wanted = [record.value for record in copy[4:]]
        assert [record.value for record in read(environment, "east", topic, group)] == wanted
        assert [record.value for record in read(environment, "west", topic, f"{group}-next")] == wanted
        # And a group that has read on is not set back
        commit(environment, "east", group, topic, read(environment, "east", topic)[-1].offset)
        with pytest.raises(RefusedError, match="it has read on"):
            carry_group(environment, group, "west", target="east")


def test_a_planned_switch_gives_direct_groups_their_place_and_the_way_back_is_translated_too(
    environment: Environment,
) -> None:
    # Given a direct group whose commit no sync has brought over, and one that goes to the gateways after the switch
    topic = transactional(environment)
    group, client = f"g-{topic}", f"client-of-{topic}"
    source = read(environment, "east", topic)
    with named(environment, group):
        commit(environment, "east", group, topic, source[3].offset)
        # When the topic is switched to its copy
        report = moved(environment, a_move(topic))
        # Then the group goes on there with its next record
        assert (report.result, report.error) == ("succeeded", "")
        assert "1 direct group has its place in west" in stored_operation(environment, report.operation).result
        wanted = [record.value for record in source[3:]]
        assert [record.value for record in read(environment, "west", topic, group)] == wanted
        # And another group gets its place as a client offset, which is the old cluster's number
        carry_group(environment, group, "west", client)
        assert committed(environment, "west", client, topic) == source[3].offset
        extents = stored_topic(environment, topic).partitions[0]
        assert {extent.cluster for extent in extents} == {"west"}
        # When it goes on in west, then the reversed mirror brings its place back to east, whose offsets it had
        west = read(environment, "west", topic)
        commit(environment, "west", group, topic, west[5].offset)
        synced(environment, topic, at_once(), ("west", "east"))
        assert committed(environment, "east", group, topic) == source[5].offset
        # And its name cannot be taken back as long as its number in west means another client offset
        with pytest.raises(
            RefusedError, match=f"Group {group} has committed offset {west[5].offset} of {topic}-0 in west"
        ):
            remove_direct_groups(environment, [group], "too early")
        forget(environment, "west", client)


def test_a_direct_group_cannot_move_as_a_group_of_gateway_clients(environment: Environment) -> None:
    topic = taken_over(environment)
    group, user = f"g-{topic}", f"user-{topic}"
    with named(environment, group):
        commit(environment, "east", group, topic, 12)
        declare_past_the_check(environment, user, group)
        asked = a_move(topic)
        scoped = asked.model_copy(update={"scope": asked.scope.model_copy(update={"user_groups": ((user, group),)})})
        verdicts = [verdict for verdict in plan(environment, scoped).verdicts if verdict.code == "direct-group"]
        assert [(verdict.level, verdict.about) for verdict in verdicts] == [("error", f"group {group}")]
