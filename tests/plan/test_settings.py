"""A topic behaves alike in another cluster, whatever its brokers' defaults; and copies accept more."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ha_core.plan.facts.clusters import TopicSetting
from ha_core.plan.facts.settings import (
    COMPARISONS,
    OF_A_COPY,
    Settings,
    as_copy,
    as_writer,
    differing,
    keeps_all,
    settings_of,
    to_create,
)

FOREVER = str(2**63 - 1)
KAFKA_4 = {
    "retention.ms": "604800000",
    "retention.bytes": "-1",
    "segment.bytes": "1000",
    "cleanup.policy": "delete",
    "delete.retention.ms": "86400000",
    "max.message.bytes": "1048588",
    "compression.type": "producer",
    "min.insync.replicas": "1",
    "unclean.leader.election.enable": "false",
    "leader.replication.throttled.replicas": "",
    "message.timestamp.type": "CreateTime",
    "message.timestamp.before.max.ms": FOREVER,
    "message.timestamp.after.max.ms": "3600000",
}
KAFKA_3_9 = KAFKA_4 | {"message.timestamp.after.max.ms": FOREVER, "message.timestamp.difference.max.ms": FOREVER}
KAFKA_3_5 = {key: value for key, value in KAFKA_3_9.items() if key[18:] not in {"before.max.ms", "after.max.ms"}}


def settings(brokers: dict[str, str] = KAFKA_4, /, **own: str) -> dict[str, TopicSetting]:
    return settings_of({key.replace("_", "."): value for key, value in own.items()}, brokers)


def copied(there: dict[str, TopicSetting]) -> dict[str, TopicSetting]:
    """The topic as a copy that has nothing else of its own."""
    changes = as_copy(settings(), there, 1).changes
    return there | {key: TopicSetting(value, own=True, default=there[key].beneath) for key, value in changes.items()}


def not_for_copies() -> dict[str, TopicSetting]:
    """A source whose own settings a copy does not take: by a rule, or as the operator has excluded them."""
    return settings(
        leader_replication_throttled_replicas="0:1", unclean_leader_election_enable="true", retention_ms="1"
    )


def changed(there: Settings, changes: dict[str, str | None]) -> Settings:
    """The topic's settings as its brokers show them when the changes are made."""
    topic_settings = dict(there)
    for key, value in changes.items():
        beneath = there[key].beneath if key in there else None
        topic_settings[key] = (
            TopicSetting(beneath, own=False) if value is None else TopicSetting(value, own=True, default=beneath)
        )
    return topic_settings


@pytest.mark.parametrize(
    ("key", "here", "there"),
    [
        ("max.message.bytes", "8000000", "1048588"),
        ("retention.ms", "604800000", "86400000"),
        ("retention.bytes", "-1", "1000000"),
        ("cleanup.policy", "delete", "compact"),
        ("compression.type", "producer", "gzip"),
        ("message.timestamp.type", "CreateTime", "LogAppendTime"),
        ("message.timestamp.after.max.ms", FOREVER, "3600000"),
        ("min.insync.replicas", "2", "1"),
        ("unclean.leader.election.enable", "false", "true"),
    ],
)
def test_a_default_that_matters_and_differs_is_set_for_the_topic(key: str, here: str, there: str) -> None:
    source, brokers = settings(KAFKA_4 | {key: here}), KAFKA_4 | {key: there}

    created = to_create(source, brokers, replication=3)

    assert created.changes == {key: here}
    assert created.explicit == {key: there}
    assert as_writer(source, settings(brokers), 3).changes == {key: here}
    assert [(one.key, one.here, one.there) for one in differing(source, settings(brokers), 3)] == [(key, here, there)]
    # And values set for this reason are not removed
    assert as_writer(source, changed(settings(brokers), {key: here}), 3).changes == {}


@pytest.mark.parametrize(
    ("key", "here", "there"),
    [("min.insync.replicas", "1", "2"), ("unclean.leader.election.enable", "true", "false")],
)
def test_a_default_that_is_safer_than_the_sources_stays(key: str, here: str, there: str) -> None:
    assert to_create(settings(KAFKA_4 | {key: here}), KAFKA_4 | {key: there}, 3).changes == {}


def test_a_topic_of_brokers_with_the_same_defaults_gets_nothing_of_its_own() -> None:
    assert to_create(settings(), KAFKA_4, 3).changes == {}
    assert to_create(settings(retention_ms="1000"), KAFKA_4, 3).changes == {"retention.ms": "1000"}


def test_with_unknown_defaults_of_the_target_all_relevant_settings_are_set() -> None:
    created = to_create(settings(), {}, 1)

    assert created.changes.keys() == COMPARISONS.keys() & KAFKA_4.keys() - {"delete.retention.ms"}
    assert set(created.explicit.values()) == {""}


def test_retention_matters_where_records_are_deleted_and_tombstones_where_they_are_compacted() -> None:
    source = KAFKA_4 | {"retention.ms": "1", "delete.retention.ms": "2"}

    def carried(policy: str) -> set[str]:
        return {*to_create(settings(source, cleanup_policy=policy), KAFKA_4, 1).changes} - {"cleanup.policy"}

    assert carried("delete") == {"retention.ms"}
    assert carried("compact") == {"delete.retention.ms"}
    assert carried("compact,delete") == {"retention.ms", "delete.retention.ms"}


def test_settings_that_are_left_alone_are_not_created() -> None:
    source = settings(KAFKA_3_9, segment_bytes="16384", retention_ms="1")

    created = to_create(source, KAFKA_4, 1, ("segment.bytes", "message.timestamp.*"))

    assert created.changes == {"retention.ms": "1"}


@pytest.mark.parametrize(
    ("source", "target", "carried"),
    [
        pytest.param(settings(KAFKA_3_5), KAFKA_4, {"after": FOREVER}, id="3.5-to-4"),
        pytest.param(settings(KAFKA_3_9), KAFKA_4, {"after": FOREVER}, id="3.9-to-4"),
        pytest.param(
            settings(KAFKA_3_5, message_timestamp_difference_max_ms="10"),
            KAFKA_4,
            {"before": "10", "after": "10"},
            id="one-bound-of-3.5-to-4",
        ),
        pytest.param(
            settings(KAFKA_3_9, message_timestamp_difference_max_ms="10"),
            KAFKA_4,
            {"before": "10", "after": "10"},
            id="one-bound-of-3.9-to-4",
        ),
        pytest.param(settings(), KAFKA_3_9, {"after": "3600000"}, id="4-to-3.9"),
        pytest.param(settings(), KAFKA_3_5, {}, id="4-to-3.5-takes-the-wider-of-both"),
        pytest.param(
            settings(message_timestamp_before_max_ms="10"), KAFKA_3_5, {"difference": "3600000"}, id="two-bounds-to-3.5"
        ),
    ],
)
def test_bounds_of_times_are_carried_by_the_names_that_the_target_knows(
    source: Settings, target: dict[str, str], carried: dict[str, str]
) -> None:
    wanted = {f"message.timestamp.{key}.max.ms": value for key, value in carried.items()}

    assert to_create(source, target, 1).changes == wanted


def test_a_lower_size_limit_of_the_target_loses_records_and_a_higher_one_does_not() -> None:
    larger, smaller = settings(max_message_bytes="2000000"), settings(max_message_bytes="1000")

    assert [one.loses for one in differing(settings(), smaller, 1)] == [True]
    assert [one.loses for one in differing(settings(), larger, 1)] == [False]
    assert list(differing(settings(), smaller, 1, ["max.message.*"])) == []


def test_settings_of_the_source_are_set_for_the_copy_and_others_are_taken_away() -> None:
    source = settings(retention_ms="1000")
    target = copied(settings(cleanup_policy="compact", index_interval_bytes="1"))
    wanted = {"retention.ms": "1000", "cleanup.policy": None, "index.interval.bytes": None}
    assert as_copy(source, target, 3).changes == wanted


def test_a_default_that_has_the_sources_value_is_set_all_the_same_because_brokers_may_change_it() -> None:
    assert as_copy(settings(cleanup_policy="delete"), settings(), 3).changes["cleanup.policy"] == "delete"


def test_no_more_replicas_have_to_be_in_sync_than_the_copy_has() -> None:
    assert as_copy(settings(min_insync_replicas="2"), settings(), 1).changes["min.insync.replicas"] == "1"
    assert as_copy(settings(min_insync_replicas="2"), settings(), 3).changes["min.insync.replicas"] == "2"


def test_how_many_replicas_of_the_copy_have_to_be_in_sync_is_not_left_to_its_brokers() -> None:
    assert "min.insync.replicas" not in as_copy(settings(), settings(min_insync_replicas="1"), 1).changes


def test_times_are_the_sources_in_a_copy_and_the_brokers_again_when_it_is_written_to() -> None:
    source = settings(message_timestamp_type="LogAppendTime")
    changes = as_copy(source, settings(message_timestamp_type="LogAppendTime"), 1).changes
    assert changes["message.timestamp.type"] == "CreateTime"
    assert changes["message.timestamp.after.max.ms"] == FOREVER
    copy = copied(settings())
    assert as_copy(source, copy, 1).changes == {}
    written = as_writer(source, copy, 1).changes
    assert written["message.timestamp.type"] == "LogAppendTime"
    assert written["message.timestamp.after.max.ms"] is None


def test_a_copy_gets_no_throttled_replicas_no_unclean_election_and_no_excluded_setting() -> None:
    there = copied(settings(cleanup_policy="compact"))

    assert as_copy(not_for_copies(), there, 1, ("retention.*", "cleanup.policy")).changes == {}


def test_a_writer_gets_the_unclean_election_of_the_source_but_no_throttled_replicas_and_no_excluded_setting() -> None:
    changes = as_writer(not_for_copies(), settings(), 1, ("retention.*",)).changes

    assert changes == {"unclean.leader.election.enable": "true"}


def test_a_setting_unknown_to_the_targets_brokers_is_reported_and_not_set() -> None:
    due = as_copy(settings(retention_ms="1", something_new="x"), settings(retention_ms="1"), 1)
    assert due.unknown == ("something.new",)
    assert "something.new" not in due.changes


def test_a_limit_that_the_target_does_not_take_of_a_copy_is_raised_to_that_of_the_source_at_least() -> None:
    source = settings(KAFKA_4 | {"max.message.bytes": "8000000"})

    assert as_copy(source, settings(), 1).instead["max.message.bytes"] == {"max.message.bytes": "8000000"}
    # And one that an operator has raised further is not lowered
    raised = settings(max_message_bytes="9000000")
    assert as_copy(source, raised, 1).instead["max.message.bytes"] == {}


def test_a_limit_that_is_left_alone_stays_as_an_operator_has_set_it() -> None:
    raised = copied(settings()) | {"max.message.bytes": TopicSetting("9000000", own=True, default="1048588")}

    assert as_copy(settings(), raised, 1, ("max.message.bytes",)).changes == {}


def test_a_copy_is_compacted_as_its_source_once_no_record_without_a_key_can_come() -> None:
    source = settings(cleanup_policy="compact")

    begun = changed(settings(), dict(as_copy(source, settings(), 1, keyless=True).changes))

    assert {key: begun[key].value for key in ("cleanup.policy", "retention.ms", "retention.bytes")} == {
        "cleanup.policy": "delete",
        "retention.ms": "-1",
        "retention.bytes": "-1",
    }
    assert keeps_all(begun)
    assert as_copy(source, begun, 1, keyless=True).changes == {}
    level = as_copy(source, begun, 1).changes
    assert level == {"cleanup.policy": "compact", "retention.ms": None}
    assert as_writer(source, begun, 1).changes.items() >= level.items()


def test_an_uncompacted_copy_keeps_all_records() -> None:
    assert "retention.ms" not in as_copy(settings(), settings(), 1, keyless=True).changes


def test_a_copy_keeps_a_segment_more_than_its_source_where_bytes_are_bounded() -> None:
    source = settings(retention_bytes="5000", segment_bytes="700")

    assert as_copy(source, settings(), 1).changes["retention.bytes"] == "5700"
    assert as_writer(source, settings(retention_bytes="5700"), 1).changes["retention.bytes"] == "5000"


_VALUES = {
    "retention.ms": ("1", "2", "-1"),
    "retention.bytes": ("-1", "9"),
    "max.message.bytes": ("10", "20"),
    "cleanup.policy": ("delete", "compact", "compact,delete"),
    "message.timestamp.after.max.ms": ("5", FOREVER),
    "min.insync.replicas": ("1", "2"),
    "unclean.leader.election.enable": ("true", "false"),
    "compression.type": ("producer", "gzip"),
}
_SOME = st.fixed_dictionaries({}, optional={key: st.sampled_from(values) for key, values in _VALUES.items()})


@given(_SOME, _SOME, _SOME, _SOME, st.integers(1, 3))
def test_applied_changes_make_the_topic_equal_to_the_source_and_are_not_due_again(
    brokers: dict[str, str], own: dict[str, str], others: dict[str, str], theirs: dict[str, str], replication: int
) -> None:
    source, target = settings_of(own, KAFKA_4 | brokers), settings_of(theirs, KAFKA_4 | others)

    written = changed(target, dict(as_writer(source, target, replication).changes))
    assert as_writer(source, written, replication).changes == {}
    assert list(differing(source, written, replication)) == []

    for keyless in (True, False):
        copy = changed(target, dict(as_copy(source, target, replication, keyless=keyless).changes))
        assert as_copy(source, copy, replication, keyless=keyless).changes == {}
        assert all(copy[key].value == value for key, value in OF_A_COPY.items() if key in copy)
        again = changed(copy, dict(as_writer(source, copy, replication).changes))
        assert list(differing(source, again, replication)) == []
