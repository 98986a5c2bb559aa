"""Differences of two clusters that stand in for each other."""

from collections.abc import Mapping
from dataclasses import replace

from ha_core.model.parity import Drift
from ha_core.plan.facts.clusters import BrokerQuotaEntity, TopicAcl, TopicSetting
from ha_core.plan.parity.drifts import ClusterContents, drifts

ALICE = TopicAcl("literal", "orders", "User:alice", "*", 3, True)
EAST = ClusterContents(
    name="east",
    bootstrap="east-1:9092",
    topics={"orders": 6, "bills": 3},
    settings={
        "orders": {
            "retention.ms": TopicSetting("1000", True),
            "x.replication.throttled.replicas": TopicSetting("1", True),
        }
    },
    rights=frozenset({ALICE}),
    quotas={(("user", "alice"),): {"producer_byte_rate": 1e6}, (("client-id", None), ("user", None)): {"request": 5.0}},
    schemas={"orders-value": {1: "AVRO id 1: {}", 2: "AVRO id 2: []"}},
)
WEST = replace(EAST, name="west", bootstrap="west-1:9092")
AT_WEST = "--bootstrap-server west-1:9092"


def kinds(source: ClusterContents, target: ClusterContents, *ignored: str) -> list[tuple[str, str, str, str]]:
    return [(one.kind, one.about, one.source, one.target) for one in drifts(source, target, ignored)]


def test_equal_clusters_have_no_drift_and_more_in_the_target_is_none() -> None:
    more = replace(
        WEST,
        topics={"orders": 12, "bills": 3, "local": 1},
        rights=frozenset({ALICE, ALICE._replace(principal="User:bob")}),
        quotas={**(WEST.quotas or {}), (("user", "bob"),): {"producer_byte_rate": 1.0}},
        schemas={**(WEST.schemas or {}), "local-value": {1: "x"}},
    )

    assert kinds(EAST, WEST) == []
    assert kinds(EAST, more) == []


def test_a_missing_topic_and_missing_partitions_come_with_the_command_that_mends_them() -> None:
    found = [*drifts(EAST, replace(WEST, topics={"orders": 3}, settings={}))]

    assert [(one.kind, one.about, one.target) for one in found] == [
        ("topic", "bills", ""),
        ("partitions", "orders", "3"),
    ]
    assert found[0].command == "switchyard mirror link bills --from east --to west --reason parity"
    assert found[1].command == f"kafka-topics.sh {AT_WEST} --alter --topic orders --partitions 6"
    mirrored = drifts(EAST, replace(WEST, topics={"orders": 3, "bills": 3}), mirrored={"orders"})
    assert next(mirrored).command == "switchyard mirror sync orders --to west"


def test_settings_differ_by_their_effective_values_unless_they_name_brokers_or_are_ignored() -> None:
    west = replace(
        WEST,
        settings={
            "orders": {
                "retention.ms": TopicSetting("2000", False),
                "x.replication.throttled.replicas": TopicSetting("9", True),
            }
        },
    )

    assert kinds(EAST, west) == [("setting", "orders", "1000", "2000")]
    (drift,) = drifts(EAST, west)
    named = "--entity-type topics --entity-name orders"
    assert drift.command == f"kafka-configs.sh {AT_WEST} --alter {named} --add-config retention.ms=1000"
    both = replace(EAST, settings={"orders": {"cleanup.policy": TopicSetting("compact,delete", True)}})
    delete = replace(WEST, settings={"orders": {"cleanup.policy": TopicSetting("delete", True)}})
    assert next(drifts(both, delete)).command.endswith(f"{named} --add-config 'cleanup.policy=[compact,delete]'")
    assert kinds(EAST, west, "retention.*") == []
    # Older brokers do not know a setting
    assert kinds(EAST, replace(WEST, settings={"orders": {}})) == []


def test_a_right_is_missing_unless_a_wider_rule_has_it() -> None:
    (missing,) = drifts(EAST, replace(WEST, rights=frozenset()))

    assert (missing.kind, missing.what) == ("right", "User:alice from * may Read")
    assert missing.command == (
        f"kafka-acls.sh {AT_WEST} --add --allow-principal User:alice --allow-host '*' --operation Read "
        "--topic orders --resource-pattern-type literal"
    )
    (synced,) = drifts(EAST, replace(WEST, rights=frozenset()), mirrored={"orders"})
    assert synced.command == "switchyard mirror sync orders --to west"
    for wider in (ALICE._replace(name="*"), ALICE._replace(pattern="prefixed", name="ord")):
        assert kinds(EAST, replace(WEST, rights=frozenset({wider}))) == []
    denied = ALICE._replace(allows=False, name="*")
    assert len(kinds(EAST, replace(WEST, rights=frozenset({denied})))) == 1


def test_quotas_and_schemas_differ_by_their_values() -> None:
    west = replace(
        WEST,
        quotas={(("user", "alice"),): {"producer_byte_rate": 2e6}},
        schemas={"orders-value": {1: "AVRO id 7: {}"}},
    )

    found: list[Drift] = [*drifts(EAST, west)]

    assert [(one.kind, one.about, one.what) for one in found] == [
        ("quota", "client-id (default), user (default)", "request"),
        ("quota", "user alice", "producer_byte_rate"),
        ("schema", "orders-value", "version 1"),
        ("schema", "orders-value", "version 2"),
    ]
    assert "--entity-type clients --entity-default --entity-type users --entity-default" in found[0].command
    named = "--entity-type users --entity-name alice"
    assert found[1].command == f"kafka-configs.sh {AT_WEST} --alter {named} --add-config producer_byte_rate=1000000"


def test_the_command_for_a_quota_has_all_its_digits() -> None:
    exact: Mapping[BrokerQuotaEntity, Mapping[str, float]] = {
        (("user", "alice"),): {"producer_byte_rate": 1_234_567.0, "request_percentage": 12.345678901}
    }
    none = replace(WEST, quotas={})

    commands = [one.command for one in drifts(replace(EAST, quotas=exact), none)]

    assert [command.rpartition("=")[2] for command in commands] == ["1234567", "12.345678901"]


def test_a_part_that_was_not_read_is_not_compared() -> None:
    unread = replace(WEST, settings=None, rights=None, quotas=None, schemas=None)

    assert kinds(EAST, unread) == []
    assert kinds(unread, EAST) == []
