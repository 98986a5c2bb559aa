"""Remote topics by cluster, and the rights of clients to them."""

from collections.abc import Iterable

from gateway.model.remote_topics import READING, KnownRemoteTopic, RemoteTopicIndex, RemoteVerdicts, led_to
from ha_core.model import Extent, FlowId, RemoteTopicPortion, Topic, View
from ha_core.model.access import AccessRule, AclOperation, ResourceType, User, access_rule
from ha_core.plan.access.rights import EVERYTHING, Rights, Verdicts

EAST, WEST, NORTH = "east-id", "west-id", "north-id"
INTO_WEST = RemoteTopicPortion.of(
    FlowId("A->B", EAST, WEST), 0, {"A.orders": "orders", "A.checkpoints.internal": "", "bills": "bills"}
)
INTO_NORTH = RemoteTopicPortion.of(FlowId("B->C", WEST, NORTH), 0, {"B.A.orders": "A.orders"})
TOPIC = ResourceType.TOPIC
READ, WRITE, DESCRIBE, DELETE = AclOperation.READ, AclOperation.WRITE, AclOperation.DESCRIBE, AclOperation.DELETE


def rules(*said: tuple[str, str, str], pattern: str = "literal", super_user: bool = False) -> Verdicts:
    """:param said: (topic, operation, effect)."""
    made = [rule(*each, pattern=pattern) for each in said]
    return Rights((User("alice", super_user=super_user),), made).of("alice", "10.0.0.1")


def rule(name: str, operation: str, effect: str = "allow", pattern: str = "literal") -> AccessRule:
    said = {"principal": "User:alice", "resource_type": "topic", "name": name, "operation": operation}
    return access_rule({**said, "effect": effect, "pattern": pattern})


def verdicts(
    base: Verdicts | None, *places: str, documents: Iterable[RemoteTopicPortion] = (INTO_WEST,)
) -> RemoteVerdicts:
    return RemoteVerdicts(base, RemoteTopicIndex(documents), lambda _: places)


def operations(found: int) -> set[str]:
    return {operation.name for operation in AclOperation if found >> operation & 1}


def test_a_topic_is_remote_only_in_its_flows_target() -> None:
    index = RemoteTopicIndex([INTO_WEST])

    assert index.find(WEST, "A.orders") == KnownRemoteTopic(INTO_WEST, "orders")
    assert [index.find(place, "A.orders") for place in (EAST, None)] == [None, None]
    assert index.find(WEST, "orders") is None
    assert (index.concerns(WEST), index.concerns(EAST)) == (True, False)


def test_while_a_cluster_id_is_unknown_a_topic_counts_as_remote_if_it_is_remote_anywhere() -> None:
    index = RemoteTopicIndex([INTO_WEST])

    assert index.find("", "A.orders") is not None
    assert index.concerns("")
    assert not RemoteTopicIndex().concerns("")


def test_a_mapped_topic_is_judged_in_the_clusters_that_write_it() -> None:
    extents = (Extent(cluster="west", start=0, base=0, writer_epoch=0),)
    moved = Topic(name="orders", writer="west", partitions={0: extents})

    assert set(led_to(View(topics={"orders": moved}), "orders", "east")) == {"west"}
    assert list(led_to(View(), "orders", "east")) == ["east"]
    assert list(led_to(View(), "orders", None)) == []


def test_without_rules_and_for_super_users_a_remote_topic_may_only_be_read() -> None:
    for base in (None, rules(super_user=True)):
        found = verdicts(base, WEST)
        assert found.operations(TOPIC, "A.orders") == READING
        assert found.operations(TOPIC, "orders") == EVERYTHING
        assert found.operations(ResourceType.CLUSTER) == EVERYTHING
        assert not found.everything


def test_a_topic_of_the_same_name_in_another_cluster_may_be_written() -> None:
    assert verdicts(None, EAST).operations(TOPIC, "A.orders") == EVERYTHING
    assert verdicts(None, EAST).operations(TOPIC, "bills") == EVERYTHING
    assert verdicts(None, WEST).operations(TOPIC, "bills") == READING


def test_users_that_may_read_the_source_may_read_its_copy() -> None:
    found = verdicts(rules(("orders", "read", "allow")), WEST)

    assert operations(found.operations(TOPIC, "A.orders")) == {"READ", "DESCRIBE"}
    assert found.operations(TOPIC, "A.checkpoints.internal") == 0


def test_users_that_may_do_everything_with_the_source_may_only_read_its_copy() -> None:
    found = verdicts(rules(("orders", "all", "allow")), WEST)

    assert found.operations(TOPIC, "A.orders") == READING


def test_users_that_may_only_write_the_source_do_not_see_its_copy() -> None:
    assert verdicts(rules(("orders", "write", "allow")), WEST).operations(TOPIC, "A.orders") == 0


def test_a_rule_for_the_copy_itself_allows_to_read_it() -> None:
    found = verdicts(rules(("A.", "all", "allow"), pattern="prefixed"), WEST)

    assert found.operations(TOPIC, "A.orders") == READING


def test_denials_of_the_source_and_of_the_copy_count() -> None:
    reads = ("orders", "read", "allow")
    of_copy = rules(reads, ("A.orders", "read", "deny"))
    of_source = rules(reads, ("A.orders", "read", "allow"), ("orders", "read", "deny"))

    assert not verdicts(of_copy, WEST).allows(READ, TOPIC, "A.orders")
    assert not verdicts(of_source, WEST).allows(READ, TOPIC, "A.orders")


def test_rights_to_the_source_do_not_count_if_the_flow_does_not_carry_them_over() -> None:
    silent = INTO_WEST.changed(readers_of_source=False)

    assert verdicts(rules(("orders", "read", "allow")), WEST, documents=[silent]).operations(TOPIC, "A.orders") == 0


def test_rights_follow_a_topic_over_several_hops() -> None:
    found = verdicts(rules(("orders", "read", "allow")), NORTH, documents=[INTO_NORTH, INTO_WEST])

    assert operations(found.operations(TOPIC, "B.A.orders")) == {"READ", "DESCRIBE"}


def test_rights_are_found_even_if_flows_of_equal_names_form_a_circle() -> None:
    circle = [
        RemoteTopicPortion.of(FlowId("B->A", WEST, EAST), 0, {"bills": "bills"}),
        RemoteTopicPortion.of(FlowId("A->B", EAST, WEST), 0, {"bills": "bills"}),
    ]

    assert verdicts(rules(("bills", "read", "allow")), EAST, documents=circle).allows(READ, TOPIC, "bills")


def test_an_objection_names_the_flow_only_to_users_that_could_write_otherwise() -> None:
    writes = rules(("A.orders", "write", "allow"))
    words = "A.orders is a remote topic: only flow A->B writes it, and its source is orders."

    assert verdicts(None, WEST).objection(WRITE, TOPIC, "A.orders") == words
    assert verdicts(writes, WEST).objection(WRITE, TOPIC, "A.orders") == words
    assert verdicts(writes, WEST).objection(DELETE, TOPIC, "A.orders") == ""
    assert verdicts(writes, WEST).objection(DELETE, TOPIC, "A.orders", anyway=True) == words
    assert verdicts(writes, WEST).objection(DESCRIBE, TOPIC, "A.orders") == ""
    assert verdicts(writes, EAST).objection(WRITE, TOPIC, "A.orders") == ""
    assert verdicts(None, WEST).objection(WRITE, TOPIC, "A.checkpoints.internal").endswith("flow A->B writes it.")


def test_an_objection_is_announced_before_names_are_asked_about() -> None:
    """Requests with many names skip the question about each of them otherwise."""
    judges = (verdicts(None, WEST), verdicts(rules(("A.", "all", "allow"), pattern="prefixed"), WEST))
    operations_and_kinds = [(operation, kind) for operation in AclOperation for kind in ResourceType]
    objects = {
        pair for pair in operations_and_kinds if any(one.objection(*pair, "A.orders", anyway=True) for one in judges)
    }

    assert (WRITE, TOPIC) in objects
    assert all(one.may_object(*pair) for one in judges for pair in objects)
    assert not verdicts(None, WEST).may_object(READ, TOPIC)
    assert not rules(super_user=True).may_object(WRITE, TOPIC)


def test_the_place_of_a_topic_that_no_flow_writes_is_not_looked_up() -> None:
    """Most topics of an installation with flows are ordinary ones, and a request may name a hundred thousand."""

    def places(name: str) -> Iterable[str]:
        raise AssertionError(f"looked up {name}")

    found = RemoteVerdicts(None, RemoteTopicIndex((INTO_WEST,)), places)

    assert found.operations(TOPIC, "orders") == EVERYTHING
    assert found.objection(WRITE, TOPIC, "orders") == ""


def test_remote_topics_are_found_by_their_source_and_its_alias() -> None:
    index = RemoteTopicIndex((INTO_WEST, INTO_NORTH))

    assert index.sources(WEST, "A") == {"orders": "A.orders"}
    assert index.sources(NORTH, "B") == {"A.orders": "B.A.orders"}
    assert not index.sources(NORTH, "A")
    assert not index.sources(WEST, "C")


def test_a_cluster_without_a_known_id_may_have_any_remote_topic_of_the_source() -> None:
    """So no name means the source first, and its copy a moment later."""
    assert RemoteTopicIndex((INTO_WEST, INTO_NORTH)).sources("", "A") == {"orders": "A.orders"}
