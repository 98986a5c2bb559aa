"""The verdicts of a switch to copies, and of links, each with its code, number and way out."""

from dataclasses import replace
from typing import Any

import pytest

from ha_core.model import Crossing, Extent, LostTail, Mirror, Run, Scope, SyncFinding, Tail, Topic
from ha_core.model.extent import identity
from ha_core.model.operation import LinkRequest
from ha_core.plan.facts.clusters import CopyFacts, CopyLag, GroupFacts, Replicas
from ha_core.plan.facts.verdict import Verdict
from ha_core.plan.mirror.linking import LINK_RULES, PATTERN_RULES
from ha_core.plan.preflight import preflight
from tests.plan.preflight_case import EMPTY, HERE, NOWHERE, SOUND, Case

ORDERS = Mirror.of("orders", "east", "west", "link-1", "now", "me")
PINNED = Topic(name="orders", writer="east", partitions={p: identity("east") for p in (0, 1)})
LEVEL = CopyLag("copying", 0, 0, 4.0, reached=10)


def mirrored(*lags: CopyLag, forced: bool = False, **request: Any) -> Case:
    """Alice's `orders`, with a copy in west."""
    case = replace(
        SOUND.forced if forced else SOUND,
        topics=(PINNED,),
        mirrors=(ORDERS,),
        lags={(ORDERS.key, p): lag for p, lag in enumerate(lags)},
    ).with_topic("west", replace(HERE, ends={0: 10, 1: 20}))
    return case.asking(**({"unread": "wait"} if forced else {}) | request)


def of(case: Case, code: str) -> Verdict:
    """Its only verdict with this code."""
    (verdict,) = [one for one in case.judge() if one.code == code]
    assert verdict.remedy
    return verdict


def codes(case: Case, *levels: str) -> list[str]:
    return [verdict.code for verdict in case.judge() if verdict.level in (levels or ("error", "warning", "info"))]


def test_a_switch_to_a_level_copy_has_nothing_but_the_word_that_it_goes_there() -> None:
    verdicts = mirrored(LEVEL, LEVEL).judge()

    assert [(verdict.level, verdict.code, verdict.number, verdict.unit) for verdict in verdicts] == [
        ("info", "goes-to-copy", 0, "records")
    ]


@pytest.mark.parametrize(("there", "level"), [(3, "warning"), (1, "error")])
def test_a_copy_that_has_grown_since_its_dead_source_was_last_seen_holds_up_no_forced_switch(
    there: int, level: str
) -> None:
    grown = replace(HERE, ends=dict.fromkeys(range(there), 10), partitions=there)
    case = mirrored(LEVEL, LEVEL, forced=True).with_topic("west", grown)
    for seen in (case, case.with_topic("east", replace(HERE, age_s=30.0))):
        verdict = of(seen, "partition-count")
        assert (verdict.level, verdict.number) == (level, there)
    # One that can be asked knows how many it has
    assert of(case.with_topic("east", HERE), "partition-count").level == "error"
    assert of(mirrored(LEVEL, LEVEL).with_topic("west", grown), "partition-count").level == "error"


def test_the_lag_of_all_partitions_is_reported_with_number_and_unit() -> None:
    case = mirrored(CopyLag("copying", 1200, 2500, 4.0), CopyLag("copying", 34, 20, 1.0))

    verdict = of(case, "goes-to-copy")

    assert (verdict.number, verdict.unit) == (1234, "records")
    assert "1,234 records, the oldest of 2.5 s, as of 4 s ago" in verdict.text


@pytest.mark.parametrize(
    ("request_", "level", "number", "unit"),
    [
        ({"warn_lag_records": 1233}, "warning", 1234, "records"),
        ({"refuse_lag_records": 1233}, "error", 1234, "records"),
        ({"warn_lag_ms": 2499}, "warning", 2500, "ms"),
        ({"refuse_lag_ms": 2499}, "error", 2500, "ms"),
    ],
)
@pytest.mark.parametrize("forced", [False, True])
def test_a_lag_above_a_bound_that_was_asked_for_warns_or_refuses(
    request_: dict[str, int], level: str, number: int, unit: str, forced: bool
) -> None:
    lags = CopyLag("copying", 1200, 2500, 4.0), CopyLag("copying", 34, 20, 1.0)

    verdict = of(mirrored(*lags, forced=forced, **request_), "copy-lags")

    assert (verdict.level, verdict.number, verdict.unit) == (level, number, unit)
    (bound,) = request_
    assert f"--{bound.replace('_', '-')} {request_[bound]}" in verdict.text
    assert "copy-lags" not in codes(mirrored(*lags, forced=forced, **{bound: request_[bound] + 1}))


def test_a_level_copy_loses_only_what_its_dead_source_got_since() -> None:
    level = of(mirrored(LEVEL, LEVEL, forced=True), "goes-to-copy")
    behind = of(mirrored(LEVEL, CopyLag("copying", 40, 1_000, 1.0, reached=10), forced=True), "goes-to-copy")

    assert "lacked nothing" in level.text
    assert level.text.endswith("; what east got since is lost.")
    assert behind.text.endswith("; that, and what east got since, is lost.")


HALTED = {
    "stopped": CopyLag("stopped", None, None, 1.0, "the source was truncated"),
    "waiting for its source": CopyLag("waiting", None, None, 1.0, "the source does not answer"),
    "reported by nobody": None,
}


@pytest.mark.parametrize("forced", [False, True])
@pytest.mark.parametrize("halted", HALTED.values(), ids=HALTED)
@pytest.mark.parametrize("bound", ["refuse_lag_records", "refuse_lag_ms"])
def test_a_copy_with_one_partition_that_is_not_copied_passes_no_bound(
    halted: CopyLag | None, bound: str, forced: bool
) -> None:
    lags = (LEVEL,) if halted is None else (LEVEL, halted)

    case = mirrored(*lags, forced=forced)

    assert of(case, "copy-unknown").level == "warning"
    assert of(case.asking(**{bound: 1_000_000}), "copy-unknown").level == "error"
    assert "goes-to-copy" not in codes(case)


@pytest.mark.parametrize("halted", [lag for lag in HALTED.values() if lag], ids=["stopped", "waiting"])
def test_a_copy_that_is_not_copied_is_never_reported_without_lag(halted: CopyLag) -> None:
    every = of(mirrored(halted, halted, forced=True), "copy-unknown")
    assert every.number is None
    assert f"Its lag is unknown ({halted.state}: {halted.reason})" in every.text
    verdict = of(mirrored(LEVEL, halted, forced=True), "copy-unknown")
    assert f"unknown for partition 1 ({halted.state}: {halted.reason})" in verdict.text


def test_recorded_ends_of_a_dead_source_above_its_copiers_report_count_as_lag() -> None:
    # Given copiers that lost their source at offset 10 of both partitions, and a later reading of its end at 20
    case = mirrored(LEVEL, LEVEL, forced=True).with_topic("east", replace(HERE, age_s=5.0))

    verdict = of(case, "goes-to-copy")
    assert (verdict.level, verdict.number) == ("warning", 10)
    assert "mirror reconcile east" in verdict.remedy
    assert of(case.asking(refuse_lag_records=9), "copy-lags").level == "error"


def test_records_of_unknown_age_pass_no_bound_of_time() -> None:
    fresh = CopyLag("copying", 40, None, 1.0, reached=10)

    verdict = of(mirrored(LEVEL, fresh, forced=True, refuse_lag_ms=1_000_000), "copy-lags")

    assert (verdict.level, verdict.number) == ("error", None)
    assert "lacked 40 records of unknown age" in verdict.text


def test_losses_without_a_copier_are_reported_as_of_the_last_recorded_facts_of_the_dead_cluster() -> None:
    # Given ends of 10 and 20, and copies that had all of the one and 13 of the other
    stands = replace(mirrored(forced=True), noted={("orders", 0): 12, ("orders", 1): 13})
    seen = stands.with_topic("east", replace(HERE, age_s=40.0))

    verdict = of(seen, "copy-unknown")

    assert (verdict.level, verdict.number, verdict.unit) == ("warning", 7, "records")
    assert (
        "east was last seen 40 s ago, and by its copiers' notes the copy lacked at most 7 records that it had"
        ": that, and what east got since, is lost for readers."
    ) in verdict.text
    level = replace(seen, noted={("orders", 0): 10, ("orders", 1): 20})
    assert "the copy lacked none of its records: what east got since is lost" in of(level, "copy-unknown").text
    # A cluster that only hangs reports its ends itself
    assert "east answers now, and" in of(stands.with_topic("east", HERE), "copy-unknown").text
    # And nothing is guessed where not all of both is known
    nothing = replace(seen, noted={("orders", 0): 10})
    unseen = seen.with_topic("east", replace(HERE, age_s=40.0, ends={0: 10}))
    for case in (stands, nothing, unseen):
        verdict = of(case, "copy-unknown")
        assert (verdict.number, "what east acknowledged beyond it is lost" in verdict.text) == (None, True)


BEGUN_NOWHERE = {("orders", 0): 0, ("orders", 1): 0}


def never_begun(**request: Any) -> Case:
    case = replace(mirrored(forced=True, **request), noted=BEGUN_NOWHERE, not_begun=(*BEGUN_NOWHERE,))
    return case.with_topic("east", replace(HERE, age_s=40.0))


def test_a_forced_switch_goes_on_without_a_copy_that_was_never_begun_and_says_what_its_readers_do() -> None:
    waiting, skipping = of(never_begun(), "copy-empty"), of(never_begun(unread="skip"), "copy-empty")

    assert (waiting.level, waiting.number, waiting.unit) == ("warning", 30, "records")
    assert "readers below the cut wait for east, which has 30 records of it that the copy lacks" in waiting.text
    assert "readers skip 30 records that east has" in skipping.text
    assert not {"copy-unknown", "goes-to-copy"} & {*codes(never_begun())}
    assert of(never_begun(refuse_lag_records=9), "copy-empty").level == "error"
    # Also where no log end of the dead cluster is recorded
    unseen = replace(mirrored(forced=True), noted=BEGUN_NOWHERE, not_begun=(*BEGUN_NOWHERE,))
    assert of(unseen, "copy-empty").number is None


def test_partitions_of_a_copy_that_were_never_begun_are_named_beside_those_that_were() -> None:
    some = replace(never_begun(), noted={**BEGUN_NOWHERE, ("orders", 0): 9}, not_begun=(("orders", 1),))

    assert "Partitions 1 of it move as without a copy" in of(some, "copy-empty").text
    assert of(some, "copy-empty").number == 20
    assert of(some, "copy-unknown").number == 21


def test_an_empty_copy_of_an_empty_topic_or_before_a_planned_switch_is_no_finding() -> None:
    assert "copy-empty" not in codes(never_begun().with_topic("east", replace(HERE, ends={0: 0, 1: 0})))
    planned = replace(mirrored(), noted=BEGUN_NOWHERE, not_begun=(*BEGUN_NOWHERE,))
    assert "copy-empty" not in codes(planned)


def test_a_waiting_copy_of_a_dead_source_has_no_advice_to_wait() -> None:
    waiting = HALTED["waiting for its source"]
    assert waiting is not None

    dead = of(mirrored(waiting, forced=True), "copy-stopped").remedy
    alive = of(mirrored(waiting), "copy-stopped").remedy

    assert dead == "Nothing, while east does not answer: it is copied again after that is back."
    assert alive == "Wait until it is copied again (`switchyard mirrors`)."


def test_a_planned_switch_to_an_unreported_copy_reports_how_much_it_will_copy() -> None:
    verdict = of(replace(mirrored(), noted={("orders", 0): 9, ("orders", 1): 0}), "copy-unknown")

    assert verdict.number == 21
    assert "the copy lacks at most 21 records that it had: the switch copies missing records" in verdict.text


def test_a_refusal_by_a_bound_names_the_option_to_leave_out() -> None:
    remedy = of(mirrored(forced=True, refuse_lag_records=10), "copy-unknown").remedy

    assert remedy == "Start the mirror job, or leave out --refuse-lag-records and --refuse-lag-ms."


def test_a_stopped_copy_refuses_a_planned_switch_with_its_reason_but_not_a_forced_one() -> None:
    stopped = CopyLag("stopped", None, None, 4.0, "the source was truncated")

    planned = of(mirrored(LEVEL, stopped), "copy-stopped")

    assert (planned.level, planned.number, planned.unit) == ("error", 1, "partitions")
    assert "partition 1 (the source was truncated)" in planned.text
    assert of(mirrored(LEVEL, stopped, forced=True), "copy-stopped").level == "warning"
    waiting = of(mirrored(LEVEL, replace(stopped, state="waiting")), "copy-stopped")
    assert (waiting.level, "waiting" in waiting.text) == ("warning", True)


def test_a_group_that_has_read_beyond_all_copies_is_named_with_the_number_of_offsets() -> None:
    committed = GroupFacts("", offsets={("orders", 0): 15, ("orders", 1): 9}, age_s=3.0)
    case = mirrored(LEVEL, LEVEL, forced=True).with_group("east", committed)

    verdict = of(case, "beyond-copy")

    assert (verdict.level, verdict.about, verdict.number, verdict.unit) == ("warning", "group billing", 5, "offsets")
    assert "orders-0 by 5" in verdict.text
    within = GroupFacts("", offsets={("orders", 0): 10}, age_s=3.0)
    assert "beyond-copy" not in codes(mirrored(LEVEL, LEVEL, forced=True).with_group("east", within))


def test_the_end_of_a_copy_is_compared_in_offsets_of_clients() -> None:
    # Given a topic that came to east at client offset 100, where the copy has its first 10 offsets
    moved = (
        Extent(cluster="north", start=0, end=100, base=0, writer_epoch=0),
        Extent(cluster="east", start=100, end=None, base=0, writer_epoch=1),
    )
    case = replace(mirrored(LEVEL, forced=True), topics=(PINNED.changed(partitions={0: moved, 1: identity("east")}),))
    # When a group has committed 112
    verdict = of(case.with_group("east", GroupFacts("", offsets={("orders", 0): 112}, age_s=3.0)), "beyond-copy")
    # Then it is 2 ahead
    assert verdict.number == 2


def test_sync_findings_of_moving_topics_and_groups_are_reported_with_their_reason() -> None:
    looks = (
        SyncFinding(what="offsets", about="group billing", reason="it has members in west (Stable)"),
        SyncFinding(what="settings", about="topic orders", reason="west does not know x.y", stop=True),
        SyncFinding(what="offsets", about="group other", reason="whatever"),
    )
    planned = {
        verdict.about: verdict
        for verdict in replace(mirrored(LEVEL), findings=looks).judge()
        if "brought" in verdict.code
    }
    forced = {
        verdict.about: verdict
        for verdict in replace(mirrored(LEVEL, forced=True), findings=looks).judge()
        if "brought" in verdict.code
    }
    assert {about: verdict.level for about, verdict in planned.items()} == {
        "group billing": "info",
        "topic orders": "warning",
    }
    assert {about: verdict.level for about, verdict in forced.items()} == {
        "group billing": "warning",
        "topic orders": "warning",
    }
    assert "it has members in west (Stable)" in planned["group billing"].text
    # Groups of topics without a mirror are not judged
    assert "not-brought-over" not in [verdict.code for verdict in replace(SOUND, findings=looks).judge()]


def test_too_few_replicas_in_sync_in_the_target_refuse_a_planned_switch_and_warn_a_forced_one() -> None:
    few = replace(
        HERE,
        ends={0: 10, 1: 20},
        config={"min.insync.replicas": "2"},
        replicas={0: Replicas(1, 3), 1: Replicas(2, 3)},
    )
    for forced, level in ((False, "error"), (True, "warning")):
        case = mirrored(LEVEL, LEVEL, forced=forced).with_topic("west", few)
        refused, warned = of(case, "not-in-sync"), of(case, "under-replicated")
        assert (refused.level, refused.number, refused.unit) == (level, 1, "partitions")
        assert "demands 2" in refused.text
        assert "partition 0 has 1" in refused.text
        assert (warned.level, warned.number) == ("warning", 1)
        assert "partition 1 2 of 3" in warned.text
    by_default = replace(few, config={}, default_min_in_sync=3, replicas={0: Replicas(2, 3), 1: Replicas(3, 3)})
    assert of(mirrored(LEVEL, LEVEL).with_topic("west", by_default), "not-in-sync").number == 1
    whole = replace(few, replicas={0: Replicas(3, 3), 1: Replicas(3, 3)})
    assert codes(mirrored(LEVEL, LEVEL).with_topic("west", whole), "error", "warning") == []


@pytest.mark.parametrize("forced", [False, True])
def test_records_of_a_copy_that_a_map_has_no_room_for_are_counted_before_the_switch(
    monkeypatch: pytest.MonkeyPatch, forced: bool
) -> None:
    # Given a copy of five runs of ten records, and a map with room for two
    monkeypatch.setattr("ha_core.plan.preflight.mirrors.MAX_EXTENTS_AT_ONCE", 2)
    runs = tuple(Run(20 * at, 11 * at, 10) for at in range(5))
    copies = {("orders", 0): CopyFacts(90, runs, whole=True)}
    # When the switch is judged
    verdict = of(replace(mirrored(LEVEL, forced=forced), copies=copies), "no-room-in-map")
    # Then the records of the three oldest are counted
    assert (verdict.level, verdict.number, verdict.unit) == ("warning", 30, "records")
    assert ("cannot be read before that is back" in verdict.text) == forced
    # With enough room there is no verdict
    monkeypatch.setattr("ha_core.plan.preflight.mirrors.MAX_EXTENTS_AT_ONCE", 5)
    assert "no-room-in-map" not in codes(replace(mirrored(LEVEL, forced=forced), copies=copies))


@pytest.mark.parametrize(
    ("request_", "words"),
    [
        ({}, "6 records were deleted there that east still has. After the switch readers get them from east."),
        ({"mode": "forced", "unread": "wait"}, "at most 6 records were deleted there that east had. They cannot be"),
        ({"mode": "forced", "unread": "skip"}, "at most 6 records were deleted there that east had. Readers skip them"),
    ],
)
def test_records_that_a_copy_has_deleted_and_its_source_still_has_are_counted_before_the_switch(
    request_: dict[str, Any], words: str
) -> None:
    # Given a copy of 20 records that begins at the tenth, and a source that begins at the fourth
    copies = {("orders", p): CopyFacts(20, (Run(0, 1, 20),), whole=True) for p in (0, 1)}
    there = replace(HERE, starts={0: 0, 1: 11}, ends={0: 21, 1: 21})
    here = replace(HERE, starts={0: 0, 1: 4}, age_s=5.0 if request_ else None)
    forced = bool(request_)
    case = replace(mirrored(LEVEL, LEVEL, forced=forced), copies=copies, noted={("orders", p): 20 for p in (0, 1)})
    case = case.asking(**request_).with_topic("west", there).with_topic("east", here)
    # When the pre-flight check judges the switch
    verdict = of(case, "copy-begins-later")
    # Then a warning counts these records, and names the effect on readers
    assert (verdict.level, verdict.number, verdict.unit) == ("warning", 6, "records")
    assert words in verdict.text
    # And if the runs are unreadable, their number in the warning is unknown
    for unread in (replace(case, copies={}, noted={}), replace(case, copies={}, later=(("orders", 1),))):
        unknown = of(unread, "copy-begins-later")
        assert (unknown.level, unknown.number) == ("warning", None)
        assert "how many of them east still has is unknown" in unknown.text
    # And there is no warning if the copy begins with its source, or below it
    for start in (0, 5):
        level = replace(there, starts={0: 0, 1: start})
        assert "copy-begins-later" not in codes(case.with_topic("west", level))


@pytest.mark.parametrize(("forced", "level"), [(False, "error"), (True, "warning")])
def test_a_switch_to_a_compacted_copy_with_a_lost_tail_is_refused_until_the_topic_is_created_again(
    forced: bool, level: str
) -> None:
    # Given a copy that was the log, with five records of partition 1 that were never mirrored
    tail = LostTail(
        key=LostTail.key_of("orders", "west", "switch-1"),
        topic="orders",
        cluster="west",
        target="east",
        operation="switch-1",
        since="now",
        link="link-1",
        log="copies",
        log_partitions=1,
        partitions={
            0: Tail(mirrored=4, client=4, start=4, end=6, records=0),
            1: Tail(mirrored=4, client=4, start=4, end=9, records=5),
        },
        counted="now",
    )
    runs = (Run(0, 0, 4), Run(4, 10, 6))
    copies = {("orders", p): CopyFacts(20, runs, whole=True) for p in (0, 1)}
    case = replace(mirrored(LEVEL, LEVEL, forced=forced), tails=(tail,), copies=copies)
    # When the topic has become compacted, in either cluster
    log = replace(HERE, ends={0: 10, 1: 20})
    compacted = replace(log, config={"cleanup.policy": "compact,delete"})
    for here, there in ((log, compacted), (compacted, log)):
        cleaned = case.with_topic("east", here).with_topic("west", there)
        # Then the verdict has their number and the way out
        verdict = of(cleaned, "tail-in-copy")
        assert (verdict.level, verdict.number, verdict.unit) == (level, 5, "records")
        assert "delete the topic there, and link it again" in verdict.remedy
        # And there is no verdict if other records, or none, are in their place: it is another topic
        anew = {("orders", 1): CopyFacts(20, (Run(0, 0, 7),), whole=True)}
        assert "tail-in-copy" not in codes(replace(cleaned, copies=anew))
        fresh = replace(there, ends={0: 0, 1: 4})
        assert "tail-in-copy" not in codes(replace(cleaned, copies={}).with_topic("west", fresh))
        # nor of a tail in another cluster
        assert "tail-in-copy" not in codes(replace(cleaned, tails=(tail.changed(cluster="north"),)))
    # And a topic that is not compacted is not judged by it
    assert "tail-in-copy" not in codes(case.with_topic("east", log).with_topic("west", log))


def test_a_mirrored_topic_goes_nowhere_but_to_its_copy() -> None:
    elsewhere = Mirror.of("orders", "east", "north", "link-1", "now", "me")

    assert of(replace(mirrored(forced=True, force=True), mirrors=(elsewhere,)), "mirrored").level == "error"


THIRD = Mirror.of("orders", "east", "north", "link-2", "now", "me")


def with_third(case: Case, *lags: CopyLag) -> Case:
    """A second mirror of the topic, whose copy exists."""
    known = {**case.lags, **{(THIRD.key, partition): lag for partition, lag in enumerate(lags)}}
    return replace(case, mirrors=(ORDERS, THIRD), lags=known).with_topic("north", HERE)


def test_a_planned_switch_carries_a_second_mirror_of_the_topic_along() -> None:
    verdict = of(with_third(mirrored(LEVEL), CopyLag("copying", 25, 10, 1.0)), "also-mirrored")

    assert verdict.level == "info"
    assert "mirrored to north, too, which lacked 25 records" in verdict.text
    assert "goes on from west, where it is" in verdict.text


def test_a_planned_switch_throws_no_second_copy_away_unseen() -> None:
    case = with_third(mirrored(LEVEL), LEVEL)
    stopped = with_third(mirrored(LEVEL), CopyLag("stopped", None, None, 1.0, "the source was truncated"))

    away = of(case.with_reach("north", reachable=False), "third-cluster")
    assert (away.level, away.cause) == ("error", "away")
    for refused, why in (
        (case.with_topic("north", NOWHERE), "its copy there was deleted"),
        (stopped, "partition 0 (the source was truncated)"),
    ):
        verdict = of(refused, "third-cluster")
        assert (verdict.level, verdict.cause) == ("error", "asked")
        assert why in verdict.text
        assert "mirror unlink orders --to north" in verdict.remedy


def test_a_mirror_of_the_copy_or_of_another_topic_is_not_judged() -> None:
    chained = Mirror.of("orders", "west", "north", "link-2", "now", "me")
    bills = Mirror.of("bills", "east", "north", "link-3", "now", "me")

    case = replace(mirrored(LEVEL), mirrors=(ORDERS, chained, bills))

    assert not {"also-mirrored", "third-cluster", "mirrored"} & set(codes(case))


def test_a_forced_switch_reports_another_copy_that_has_more_with_the_way_out() -> None:
    # Given a second mirror, which is further than the one whose copy is to be gone on with
    behind = CopyLag("copying", 10, 2_000, 1.0, reached=4_000)
    case = with_third(mirrored(behind, forced=True), CopyLag("copying", 3, 10, 1.0, reached=4_007))
    # When the topic is to go on at its copy in the west
    verdict = of(case, "third-cluster")
    # Then the loss that the other copy would spare is named
    assert (verdict.level, verdict.number, verdict.unit) == ("warning", 7, "offsets")
    assert "clients lose these records, that mirror ends" in verdict.text
    assert "Switch to north, which has them" in verdict.remedy
    assert "mirror link orders --from west --to north" in verdict.remedy
    # And if it has no more, that mirror goes on
    level = with_third(mirrored(behind, behind, forced=True), behind, behind)
    assert of(level, "also-mirrored").level == "info"
    # And what is not known is no more and no less
    for unknown in (CopyLag("waiting", None, None, 1.0), CopyLag("copying", 10, 10, 1.0)):
        assert of(with_third(mirrored(behind, forced=True), unknown), "also-mirrored").level == "warning"
    assert of(with_third(mirrored(behind, forced=True)), "also-mirrored").level == "warning"


def link(*mirrors: Mirror, topic: Topic | None = PINNED) -> Case:
    """A mirror of `orders` from east to west is asked for."""
    scope, topics = Scope(topics=("orders",)), (() if topic is None else (topic,))
    return replace(SOUND, scope=scope, topics=topics, mirrors=mirrors).asking(include_other_users=True)


def refusals(case: Case) -> dict[str, Verdict]:
    verdicts: dict[str, Verdict] = {
        verdict.code: verdict for verdict in case.judge(LINK_RULES) if verdict.level == "error"
    }
    assert all(verdict.remedy for verdict in verdicts.values())
    return verdicts


def chained_refusals(*mirrors: Mirror, origin: str = "west", target: str = "north") -> dict[str, Verdict]:
    """Refusals of a mirror of `orders`, which east writes, from the copy in `origin`."""
    case = link(*mirrors).with_topic("west", HERE).with_topic("north", NOWHERE).asking(origin=origin, target=target)
    judged = case.judged()
    judged = replace(judged, request=LinkRequest.model_validate(judged.request.model_dump()))
    return {one.code: one for one in preflight(judged, rules=LINK_RULES) if one.level == "error"}


def test_a_copy_may_be_mirrored_while_its_records_come_from_the_writer() -> None:
    assert chained_refusals(ORDERS) == {}
    # But not a topic that has no copy there, nor one whose copy comes from elsewhere
    assert list(chained_refusals()) == ["written-elsewhere"]
    assert "written-elsewhere" in chained_refusals(ORDERS.changed(source="south"))
    # Nor in a circle, nor twice
    behind = Mirror.of("orders", "west", "north", "link-2", "now", "me")
    assert "north → east" in chained_refusals(ORDERS, behind, origin="north", target="east")["loop"].text
    assert list(chained_refusals(ORDERS, behind)) == ["mirrored"]


def test_a_topic_with_a_chain_of_copies_goes_to_the_first_only() -> None:
    behind = Mirror.of("orders", "west", "north", "link-2", "now", "me")
    case = replace(mirrored(LEVEL), mirrors=(ORDERS, behind)).with_topic("north", HERE)

    assert "mirrored" not in codes(case)
    assert "can be moved there, to its copy" in of(case.asking(target="north"), "mirrored").text


def test_a_sound_link_is_not_refused() -> None:
    assert refusals(link(topic=None)) == refusals(link()) == {}


@pytest.mark.parametrize("other", ["west", "north"])
def test_a_pattern_links_no_topic_without_a_map_that_another_cluster_has_too(other: str) -> None:
    # Given an empty topic of that name in another cluster, to which clients may be bound
    two = link(topic=None).with_topic(other, EMPTY)
    (verdict,) = [one for one in two.judge(PATTERN_RULES) if one.level == "error"]
    assert (verdict.code, verdict.about) == ("name-taken", "topic orders")
    assert verdict.text.startswith(f"{other} has a topic orders too")
    # Then an operator may link it, and so may a pattern if a map leads all clients to one of them
    assert refusals(two) == {}
    mapped = link().with_topic(other, EMPTY)
    assert not [one for one in mapped.judge(PATTERN_RULES) if one.level == "error"]


def test_a_link_that_would_close_a_circle_is_refused_with_the_way_round() -> None:
    back = Mirror.of("orders", "west", "east", "link-1", "now", "me")
    over_north = (
        Mirror.of("orders", "west", "north", "link-1", "now", "me"),
        Mirror.of("orders", "north", "east", "link-2", "now", "me"),
    )
    assert "west → east → west" in refusals(link(back))["loop"].text
    assert "west → north → east → west" in refusals(link(*over_north))["loop"].text
    other = Mirror.of("bills", "west", "east", "link-1", "now", "me")
    assert refusals(link(other)) == {}


def test_a_copy_gets_no_second_copier_and_no_mirror_twice() -> None:
    assert (
        "mirror unlink orders"
        in refusals(link(Mirror.of("orders", "north", "west", "l", "now", "me")))["second-writer"].remedy
    )
    assert list(refusals(link(ORDERS))) == ["mirrored"]


def test_a_topic_that_another_cluster_writes_in_part_or_has_records_of_is_refused() -> None:
    def with_second(cluster: str) -> Case:
        return link(topic=PINNED.changed(partitions={0: identity("east"), 1: identity(cluster)}))

    assert "written in north" in refusals(with_second("north"))["third-cluster"].text
    assert "two writers" in refusals(with_second("west"))["second-writer"].text
    older = (
        Extent(cluster="north", start=0, end=5, base=0, writer_epoch=0),
        Extent(cluster="east", start=5, end=None, base=0, writer_epoch=1),
    )
    assert (
        "switchyard age orders"
        in refusals(link(topic=PINNED.changed(partitions={0: older})))["written-elsewhere"].remedy
    )


def test_a_topic_that_is_migrating_is_not_linked() -> None:
    partitions = {
        0: (
            Extent(cluster="east", start=0, end=50, base=0, writer_epoch=0),
            Extent(cluster="north", start=50, end=None, base=0, writer_epoch=1),
        )
    }
    crossing = Crossing(operation="migrate-1", state="open")
    verdicts = refusals(link(topic=PINNED.changed(partitions=partitions, crossing=crossing)))

    assert "operation migrate-1" in verdicts["migrating"].text


def test_a_standby_topic_with_records_or_another_number_of_partitions_is_refused() -> None:
    assert refusals(link(topic=None).with_topic("west", HERE))["foreign-data"].number == 30
    three = refusals(link(topic=None).with_topic("west", replace(HERE, ends={}, partitions=3)))["partition-count"]
    assert (three.number, three.unit) == (3, "partitions")
