"""Groups and their adoption on real brokers of two versions."""

from collections.abc import Callable

import pytest

from ha_core.kafka.admin import Admin
from ha_core.kafka.adoption import adopt_group, keep_members_alive, remove_members
from ha_core.kafka.errors import GroupNotStableError, RequestRefusedError, StandsInTheWayError
from ha_core.kafka.facts import Adopted, GroupDescription, MemberDescription, TopicSpec
from ha_core.model import Member
from ha_core.store.errors import FencedOffError
from ha_core.wire.sasl import SecurityProfile
from tests.kafka.clients import Settings, live_members, settings

pytestmark = pytest.mark.stack
Fresh = Callable[[str], str]


def test_committed_offsets_are_copied_with_their_metadata(either: Admin, fresh: Fresh) -> None:
    # Given a topic, and offsets with and without metadata
    topic, group, other = fresh("t"), fresh("g"), fresh("g")
    either.create_topics([TopicSpec(topic, 3, 1)])
    offsets = {(topic, 0): (1 << 40, "note é"), (topic, 2): (0, "")}
    # When they are committed for one group, and others for another
    either.set_group_offsets(group, offsets)
    either.set_group_offsets(other, {(topic, 1): (5, "")})
    # Then each group has its own, and an unknown one has none
    nobody = fresh("nobody")
    found = either.group_offsets([group, other, nobody])
    assert found[group] == offsets
    assert found[other] == {(topic, 1): (5, "")}
    assert found[nobody] == {}


def test_deleting_offsets_removes_them_and_missing_ones_are_no_error(either: Admin, fresh: Fresh) -> None:
    topic, group = fresh("t"), fresh("g")
    either.create_topics([TopicSpec(topic, 3, 1)])
    either.set_group_offsets(group, {(topic, p): (p, "") for p in range(3)})

    assert either.delete_group_offsets(group, {(topic, 0), (topic, 2)}, lambda: None) == ()
    assert either.delete_group_offsets(fresh("nobody"), {(topic, 0)}, lambda: None) == ()
    assert either.group_offsets([group])[group] == {(topic, 1): (1, "")}


def test_an_executor_that_was_taken_over_neither_commits_nor_deletes_offsets(either: Admin, fresh: Fresh) -> None:
    # Given an idle group, to which any client may commit
    topic, group = fresh("t"), fresh("g")
    either.create_topics([TopicSpec(topic, 1, 1)])
    either.set_group_offsets(group, {(topic, 0): (9, "newer")})

    def taken_over() -> None:
        raise FencedOffError("op", 1, 2)

    # When a stalled executor commits what it read before
    with pytest.raises(FencedOffError):
        either.set_group_offsets(group, {(topic, 0): (3, "older")}, still_ours=taken_over)
    with pytest.raises(FencedOffError):
        either.delete_group_offsets(group, {(topic, 0)}, taken_over)
    # Then the group is where it was
    assert either.group_offsets([group])[group] == {(topic, 0): (9, "newer")}


def test_thousands_of_offsets_are_committed_in_portions(east: Admin, fresh: Fresh) -> None:
    topic, group = fresh("t"), fresh("g")
    east.create_topics([TopicSpec(topic, 300, 1)])
    offsets = {(topic, partition): (partition, "m" * 4000) for partition in range(300)}
    east.set_group_offsets(group, offsets)
    assert east.group_offsets([group])[group] == offsets


def test_offsets_for_a_topic_that_does_not_exist_are_refused_by_name(either: Admin, fresh: Fresh) -> None:
    topic, group = fresh("absent"), fresh("g")
    with pytest.raises(RequestRefusedError, match=f"{group} \\({topic}-0\\): UNKNOWN_TOPIC_OR_PARTITION"):
        either.set_group_offsets(group, {(topic, 0): (1, "")})


def test_a_group_that_does_not_exist_is_dead_and_cannot_be_adopted(either: Admin, fresh: Fresh) -> None:
    group = fresh("nobody")
    description = either.describe_groups([group])[group]
    assert (description.state, description.members) == ("Dead", ())
    with pytest.raises(GroupNotStableError, match=f"{group} cannot be adopted while it is Dead with 0 members"):
        adopt_group(either, description)


@pytest.mark.parametrize(("origin", "target"), [("east", "west"), ("west", "east")])
def test_two_live_members_are_adopted_with_their_assignment_without_a_rebalance(
    origin: str, target: str, request: pytest.FixtureRequest, fresh: Fresh, account: SecurityProfile
) -> None:
    # Given two live consumers of a group in one cluster, one of them a static member
    here: Admin = request.getfixturevalue(origin)
    there: Admin = request.getfixturevalue(target)
    topic, group = fresh("t"), fresh("g")
    for admin in (here, there):
        admin.create_topics([TopicSpec(topic, 4, 1)])
    members: list[Settings] = [{"client.id": "plain"}, {"client.id": "static", "group.instance.id": "seat-1"}]
    base = settings(here.cluster, account)
    with live_members(here, base, group, topic, members) as stable:
        before = stable()
        generation = here.group_generation(before)

        # When the group is adopted in the other cluster
        adopted = adopt_group(there, before)

        # Then each is a member there with the same client, protocol and assignment
        after = there.describe_groups([group])[group]
        assert (after.state, after.protocol_type, after.protocol) == ("Stable", before.protocol_type, before.protocol)
        assert _holdings(after, {new: old for old, new in adopted.members.items()}) == _holdings(before, None)
        # and can be kept alive, and commit
        keep_members_alive(there, adopted)
        member = Member(member_id=next(iter(adopted.members.values())), generation=adopted.generation)
        there.set_group_offsets(group, {(topic, 0): (42, "from a member")}, member)
        assert there.group_offsets([group])[group] == {(topic, 0): (42, "from a member")}
        # while other members cannot
        with pytest.raises(StandsInTheWayError, match=group):
            there.set_group_offsets(group, {(topic, 0): (1, "")})
        with pytest.raises(StandsInTheWayError, match="generation"):
            there.set_group_offsets(group, {(topic, 0): (1, "")}, member.model_copy(update={"generation": 77}))
        # and the original has not rebalanced
        assert here.group_generation(stable()) == generation

        # When it is undone
        remove_members(there, adopted)
        assert there.describe_groups([group])[group].state == "Empty"
        with pytest.raises(StandsInTheWayError, match="Adopt the group again"):
            keep_members_alive(there, adopted)
        remove_members(there, adopted)


def test_adopting_a_group_again_recognises_the_first_adoption(either: Admin, fresh: Fresh) -> None:
    group = _group(fresh("g"), 3)
    first = adopt_group(either, group)
    assert adopt_group(either, group) == first
    remove_members(either, first)


def test_forty_members_are_adopted_in_one_generation(either: Admin, fresh: Fresh) -> None:
    group = _group(fresh("g"), 40)
    # When a group of forty members is adopted
    adopted = adopt_group(either, group)
    description = either.describe_groups([group.name])[group.name]
    # Then each of them holds the assignment that it had
    held = {member.member_id: member.assignment for member in description.members}
    assert {member.member_id: held[adopted.members[member.member_id]] for member in group.members} == {
        member.member_id: member.assignment for member in group.members
    }
    keep_members_alive(either, adopted)
    remove_members(either, adopted)


def test_live_members_of_the_target_are_named_and_left_alone(either: Admin, fresh: Fresh) -> None:
    name = fresh("g")
    theirs = adopt_group(either, _group(name, 2, "stranger"))
    with pytest.raises(StandsInTheWayError, match=next(iter(theirs.members.values()))):
        adopt_group(either, _group(name, 2))
    keep_members_alive(either, theirs)
    remove_members(either, theirs)


def test_too_many_members_are_refused_before_anybody_joins(east: Admin, fresh: Fresh) -> None:
    group = _group(fresh("g"), 1001)
    with pytest.raises(RequestRefusedError, match="1001 members, at most 1000"):
        adopt_group(east, group)
    assert east.describe_groups([group.name])[group.name].state == "Dead"


def test_the_generation_of_a_group_is_found_after_many_rebalances(either: Admin, fresh: Fresh) -> None:
    # Given a group that has been adopted and left twelve times
    group = _group(fresh("g"), 1)
    adopted: Adopted | None = None
    for _ in range(12):  # each leave and each join makes a new generation
        # When it is adopted and left each time
        adopted = adopt_group(either, group)
        remove_members(either, adopted)
    # When it is adopted once more
    adopted = adopt_group(either, group)
    # Then its generation is found
    assert adopted.generation > 12
    assert either.group_generation(either.describe_groups([group.name])[group.name]) == adopted.generation
    remove_members(either, adopted)


# Version 0, topic "t", no user data. Brokers of both versions never answer a join whose subscription they cannot parse.
SUBSCRIPTION = b"\0\0" + b"\0\0\0\1" + b"\0\1t" + b"\xff\xff\xff\xff"


def _group(name: str, members: int, client: str = "app") -> GroupDescription:
    """A stable group as another cluster would describe it; the assignments are opaque bytes to brokers."""
    described = (
        MemberDescription(f"{client}-{n}-origin", None, f"{client}-{n}", "/10.0.0.1", SUBSCRIPTION, str(n).encode())
        for n in range(members)
    )
    return GroupDescription(name, "Stable", "consumer", "range", tuple(described), coordinator=1)


def _holdings(group: GroupDescription, names: dict[str, str] | None) -> dict[str, tuple[object, ...]]:
    return {
        (names[member.member_id] if names else member.member_id): (
            member.client_id,
            member.instance_id,
            member.metadata,
            member.assignment,
        )
        for member in group.members
    }
