"""Effects of the target's settings on topics are reported before anything is changed."""

from dataclasses import replace

import pytest

from ha_core.model import Mirror, Topic
from ha_core.model.extent import identity
from ha_core.plan.facts.clusters import Trial
from ha_core.plan.facts.verdict import Verdict
from ha_core.plan.mirror.linking import LINK_RULES
from tests.plan.preflight_case import EMPTY, HERE, SOUND, Case

EAST = {"max.message.bytes": "8000000", "retention.ms": "604800000", "cleanup.policy": "delete"}
WEST = EAST | {"max.message.bytes": "1048588"}
BETWEEN = SOUND.with_topic("east", replace(HERE, defaults=EAST)).with_reach("west", topic_defaults=WEST)


def there(**own: str) -> Case:
    """The topic exists in the west, with settings of its own."""
    config = {key.replace("_", "."): value for key, value in own.items()}
    return BETWEEN.with_topic("west", replace(EMPTY, config=config, defaults=WEST))


def found(case: Case, code: str) -> Verdict:
    (one,) = [verdict for verdict in case.judge() if verdict.code == code]
    return one


@pytest.mark.parametrize("rules", ["moves", "links"])
def test_a_differing_default_is_reported_with_both_values_and_the_topics_value(rules: str) -> None:
    verdicts = BETWEEN.judge(LINK_RULES) if rules == "links" else BETWEEN.judge()

    (one,) = verdicts
    assert (one.level, one.code, one.about) == ("info", "default-differs", "setting max.message.bytes")
    assert (one.number, one.unit) == (1, "topics")
    for word in ("orders", "8000000", "that of west is 1048588", "--leave-setting max.message.bytes"):
        assert word in one.text + one.remedy


def test_an_excluded_default_is_not_reported() -> None:
    assert BETWEEN.asking(settings_left_alone=("max.*",)).judge() == []


def test_unreadable_defaults_of_the_target_are_reported_as_unknown() -> None:
    unknown = BETWEEN.with_reach("west", topic_defaults={})

    assert {one.about for one in unknown.judge()} == {f"setting {key}" for key in EAST}
    assert all("not known" in one.text for one in unknown.judge())


def test_a_topic_that_would_refuse_records_in_the_target_refuses_a_planned_move() -> None:
    refusing = found(there(), "setting-differs")

    assert refusing.level == "error"
    assert "max.message.bytes is 1048588, not 8000000" in refusing.text
    assert "--add-config max.message.bytes=8000000" in refusing.remedy
    assert "--leave-setting max.message.bytes" in refusing.remedy
    # And its way out is one
    assert there().asking(settings_left_alone=("max.message.bytes",)).judge() == []
    assert there(max_message_bytes="8000000").judge() == []


def test_a_topic_that_keeps_records_for_another_time_in_the_target_is_a_warning() -> None:
    assert found(there(max_message_bytes="8000000", retention_ms="1000"), "setting-differs").level == "warning"


def test_a_copy_is_not_compared_because_it_gets_the_settings_of_its_source() -> None:
    pinned = Topic(name="orders", writer="east", partitions={p: identity("east") for p in (0, 1)})
    case = replace(there(), topics=(pinned,), mirrors=(Mirror.of("orders", "east", "west", "link-1", "now", "me"),))
    assert "setting-differs" not in {verdict.code for verdict in case.judge()}


def test_a_refusal_by_the_target_is_an_error_with_setting_value_and_way_out() -> None:
    why = "Invalid value 16384 for configuration segment.bytes: Value must be at least 1048576"
    refusing = replace(SOUND, trials={"orders": Trial(refused={"segment.bytes": ("16384", why)})})

    verdict = found(refusing, "setting-refused")

    assert (verdict.level, verdict.about) == ("error", "topic orders")
    for word in ("west refuses segment.bytes=16384", "at least 1048576", "--leave-setting segment.bytes"):
        assert word in verdict.text + verdict.remedy


def test_a_name_that_collides_in_the_target_is_an_error() -> None:
    colliding = replace(SOUND, trials={"orders": Trial(why="Topic 'a.b' collides with existing topics: a_b")})

    verdict = found(colliding, "not-created")

    assert verdict.level == "error"
    assert "collides with existing topics: a_b" in verdict.text


def test_a_setting_that_the_target_does_not_know_is_a_warning_unless_newer_brokers_need_it_no_more() -> None:
    unknown = {"remote.storage.enable": "true", "message.format.version": "2.8"}
    some = replace(SOUND, trials={"orders": Trial(unknown=unknown)})

    levels = {verdict.text.split(" know ")[1].split(",")[0]: verdict.level for verdict in some.judge()}

    assert levels == {"remote.storage.enable": "warning", "message.format.version": "info"}


def test_an_origin_that_may_lose_records_by_itself_is_named_before_a_crossing() -> None:
    unsafe = replace(HERE, defaults={"unclean.leader.election.enable": "true"}, default_min_in_sync=1)
    crossing = SOUND.with_topic("east", unsafe).asking(cut="predicted")

    verdicts = [(verdict.level, verdict.about) for verdict in crossing.judge() if verdict.code == "unsafe-origin"]

    assert verdicts == [("warning", "cluster east"), ("info", "cluster east")]
    safe = replace(HERE, defaults={"unclean.leader.election.enable": "false"}, default_min_in_sync=2)
    with_two = SOUND.with_reach("west", brokers=(1, 2)).with_topic("east", safe).asking(cut="predicted")
    assert [verdict for verdict in with_two.judge() if verdict.code == "unsafe-origin"] == []
    assert [verdict for verdict in SOUND.with_topic("east", unsafe).judge() if verdict.code == "unsafe-origin"] == []
