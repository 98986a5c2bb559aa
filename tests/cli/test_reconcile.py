"""`switchyard mirror reconcile` and `status`, without a cluster that answers."""

from pathlib import Path
from typing import Any

import pytest

from ha_core.cli.exits import BAD_INPUT, FAILURE, OUT_OF_REACH, SUCCESS
from ha_core.model import Cluster, LostTail, Mask, MoveRequest, Scope, Tail
from ha_core.operations.absence.reconciling import reconcile
from ha_core.operations.engine.environment import Environment, utc_now
from ha_core.plan.facts.judged import judgement
from ha_core.plan.facts.verdict import warning
from stack.memory_store import MemoryStore
from tests.cli.invoking import document, problems, run, seeded, shown, use
from tests.kit.operations import a_switch, a_tail

EAST = Cluster(name="east", bootstrap="127.0.0.1:1", default=True)
WEST = Cluster(name="west", bootstrap="127.0.0.1:1")
TAIL = a_tail()
FORCED = MoveRequest(
    scope=Scope(topics=("orders",)), origin="east", target="west", mode="forced", reason="east is down", unread="wait"
)
ASKED = ("mirror", "reconcile", "east", "--reason", "it is back", "--yes")


def store(monkeypatch: pytest.MonkeyPatch, *more: LostTail, east: Cluster = EAST) -> MemoryStore:
    memory_store = seeded(east, WEST, *more)
    use(memory_store, monkeypatch)
    return memory_store


def left_behind() -> list[dict[str, Any]]:
    """What `status` says of clusters that a forced switch has left."""
    return [problem for problem in problems() if problem["about"] == "cluster east" and "moved away" in problem["text"]]


def test_an_uncounted_tail_is_reported_as_a_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    counted = TAIL.changed(key="bills@east:switch-1", topic="bills", counted="2026-11-23T11:00:00Z")
    store(monkeypatch, TAIL, counted)
    (found,) = left_behind()
    assert found["text"].startswith("Clients were moved away from it ")
    assert (
        " ago, by a switch (switch-1): topic orders is written in west since, where its copy was. It is no standby of "
        "that yet, and the records that it had acknowledged and no copy had are not counted"
    ) in found["text"]
    assert "switchyard mirror reconcile east" in found["remedy"]
    assert "by a switch (switch-1)" in shown("status")


def test_a_tail_of_a_newer_version_is_a_problem_and_stops_a_reconciliation(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    store(monkeypatch, TAIL).plant("/lost_tails/bills%40east%3Aswitch-1", TAIL.changed(schema_=2).to_bytes())

    (found,) = [problem for problem in problems() if problem["about"] == "/lost_tails"]
    assert "/lost_tails/bills%40east%3Aswitch-1: schema 2 is newer than 1" in found["remedy"]
    assert "zkCli.sh delete ROOT/lost_tails/bills%40east%3Aswitch-1" in found["remedy"]
    code, said = run(*ASKED)
    assert (code, said["result"]) == (FAILURE, "failed")
    assert "schema 2 is newer than 1" in said["error"]


def test_a_tail_of_a_newer_version_stops_no_move_of_another_topic_and_no_reconciliation_of_another_cluster(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    newer = TAIL.changed(schema_=2).to_bytes()
    store(monkeypatch, TAIL).plant("/lost_tails/bills%40west%3Aswitch-1", newer)
    move = ("--to", "west", "--from", "east", "--reason", "drill", "--include-other-users", "--dry-run")

    assert "schema 2 is newer than 1" not in str(run("switch", "topic:orders", *move)[1])
    assert "schema 2 is newer than 1" not in str(run(*ASKED)[1])
    # But one of the topic itself
    assert "schema 2 is newer than 1" in str(run("switch", "topic:bills", *move)[1])


def test_status_of_a_lost_cluster_names_the_switches_and_the_clusters_of_its_topics(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    audit = TAIL.changed(key="audit@east:switch-1", topic="audit")
    other = TAIL.changed(key="bills@east:switch-2", topic="bills", target="north", operation="switch-2")
    left = store(monkeypatch, TAIL, audit, other)
    left.client().create_operation(a_switch(by="alice (airflow:switch/r)", state="succeeded", request=FORCED), ["x"])
    (found,) = left_behind()
    assert (
        "by a forced switch (switch-1 of alice (airflow:switch/r), switch-2): topics audit, bills, orders are"
        in (found["text"])
    )
    assert "are written in north, west since, where their copies were" in found["text"]


def test_mirrors_of_a_lost_cluster_are_listed_with_the_clusters_of_their_topics(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    store(monkeypatch, TAIL)
    picture = tmp_path / "mirrors.html"
    assert "`switchyard mirror reconcile east --reason …` when it is back" in shown(
        "mirrors", "--picture", str(picture)
    )
    assert "topic orders is written in west since" in picture.read_text()
    # And no command to link it again, which is only suggested if nothing waits
    assert "mirror link" not in shown("mirrors")
    store(monkeypatch)
    assert "`switchyard mirror link TOPIC…" in shown("mirrors")


def test_a_log_that_differs_from_its_copy_is_a_problem_with_the_first_offset(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    differing = Tail(mirrored=20, client=20, records=3, differs_at=17, difference="another value")
    store(monkeypatch, TAIL.changed(partitions={0: Tail(mirrored=9, client=9), 1: differing}))
    (found,) = [problem for problem in problems() if problem["about"] == "topic orders"]
    assert (
        "Below the end of the copy in west, east has other records than the copy: partition 1 at offset 17"
        in found["text"]
    )
    assert "switchyard mirror reconcile east orders --verify full" in found["remedy"]


def test_an_unknown_amount_of_comparison_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    store(monkeypatch, TAIL)
    code, answer = run(*ASKED, "--verify", "some")
    assert code == BAD_INPUT
    assert "--verify 'some' is not usable: give none, sample, full" in answer["error"]


def test_a_cluster_that_is_away_is_not_reconciled_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    before = store(monkeypatch, TAIL)
    code, answer = run(*ASKED)
    assert (code, answer["result"]) == (OUT_OF_REACH, "refused")
    assert before.client().lost_tails() == [TAIL]
    # And the remedy: now, later, and if it never comes back
    assert answer["error"].startswith("Nothing was changed. cluster east: It is not back yet")
    assert "Start it, and run this again when `switchyard status` shows it as reachable" in answer["error"]
    assert "no client waits for it: orders is written in west" in answer["error"]
    assert "gone for good, --accept-loss with the topics" in answer["error"]
    assert "127.0.0.1:1" in answer["error"]
    (verdict,) = answer["verdicts"]
    assert (verdict["code"], verdict["cause"]) == ("unreachable-cluster", "away")


def test_the_loss_of_a_cluster_that_never_comes_back_is_accepted_for_named_topics(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    left = store(monkeypatch, TAIL)
    # Not for all topics at once
    assert run(*ASKED, "--accept-loss")[0] == BAD_INPUT
    # But for named ones
    answer = document(*ASKED[:3], "orders", *ASKED[3:], "--accept-loss")
    assert [(tail["outcome"], tail["records"]) for tail in answer["tails"]] == [("unknown", None)]
    (after,) = left.client().lost_tails()
    assert after.counted is not None
    assert after.partitions == TAIL.partitions
    assert not left_behind()


def test_the_history_of_a_reconciled_tail_has_the_findings_before_it_and_those_of_the_dry_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    left = store(monkeypatch, TAIL)
    shown_first = judgement("2026-11-23T10:30:00Z", 1, [warning("tail-uncounted", "partition orders-0", "away")])
    with Environment(left.client(), by="test", now=utc_now) as environment:
        done = reconcile(
            environment, "east", ["orders"], accept_loss=True, reason="it burnt", shown={TAIL.key: shown_first}
        )
    (report,) = done.reports

    before, at_start = document("history", report.operation)["answers"]["checked"]

    assert before["at"] == "2026-11-23T10:30:00Z"
    assert before["findings"][0]["text"] == "away"
    (finding,) = at_start["findings"]
    assert (finding["level"], finding["code"], finding["about"]) == ("warning", "tail-uncounted", "partition orders-0")
    assert finding["text"].startswith("its leader in east does not answer")
    assert "not known" not in shown("history", report.operation).split("6 what was checked:")[1].split("\n")[0]


def test_a_dry_run_of_a_reconciliation_has_its_findings_for_the_history(monkeypatch: pytest.MonkeyPatch) -> None:
    left = store(monkeypatch, TAIL)
    with Environment(left.client(), by="test", now=utc_now) as environment:
        proposed = reconcile(environment, "east", ["orders"], accept_loss=True, dry_run=True, reason="")

    assert proposed.judged[TAIL.key].counts["warning"] >= 1
    assert proposed.reports == ()


def test_a_cluster_without_a_tail_has_nothing_to_reconcile(monkeypatch: pytest.MonkeyPatch) -> None:
    store(monkeypatch)
    code, answer = run(*ASKED)
    assert (code, answer["tails"]) == (SUCCESS, [])
    assert "nothing to reconcile" in shown(*ASKED)


def test_a_misspelt_topic_is_no_proof_that_nothing_was_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    store(monkeypatch, TAIL)
    code, answer = run(*ASKED[:3], "order", *ASKED[3:])
    assert code == BAD_INPUT
    assert (
        "No switch has moved order from east to a copy while that was away, but it has orders. Correct the name."
        in answer["error"]
    )


def test_a_misspelt_topic_beside_a_correct_one_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    store(monkeypatch, TAIL)
    code, answer = run(*ASKED[:3], "orders", "order", *ASKED[3:])
    assert code == BAD_INPUT
    assert (
        "No switch has moved order from east to a copy while that was away, but it has orders. Correct the name."
        in answer["error"]
    )


@pytest.mark.parametrize(
    ("east", "words", "why"),
    [
        (EAST, ("north", "--reason", "r"), "no cluster 'north'"),
        (EAST, ("east", "--reason", " "), "needs a reason"),
        (EAST.changed(masked=Mask(since="now", reason="rack fire", by="me")), ("east", "--reason", "r"), "unmask east"),
    ],
)
def test_an_impossible_reconciliation_is_refused_with_the_remedy(
    monkeypatch: pytest.MonkeyPatch, east: Cluster, words: tuple[str, ...], why: str
) -> None:
    store(monkeypatch, TAIL, east=east)
    code, answer = run("mirror", "reconcile", *words, "--yes")
    assert code == BAD_INPUT
    assert why in answer["error"]
