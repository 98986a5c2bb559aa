"""Patterns by commands: requests that are refused, patterns that are removed, and how far they have come."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from ha_core.model import Cluster, Mask, Mirror, MirrorPattern, PatternLook, PatternTopic
from ha_core.operations.engine.environment import utc_now
from stack.memory_store import MemoryStore
from tests.cli.invoking import document, problems, run, seeded, shown, use

EAST = Cluster(name="east", bootstrap="127.0.0.1:1", default=True)
CLUSTERS = (EAST, Cluster(name="west", bootstrap="127.0.0.1:1"), Cluster(name="north", bootstrap="127.0.0.1:1"))
WHY = ("--reason", "a standby")


def pattern(text: str = "orders.*", source: str = "east", since: str = "2026-11-23T10:00:00Z") -> MirrorPattern:
    key = MirrorPattern.key_of(text, source, "west")
    return MirrorPattern(key=key, pattern=text, source=source, target="west", since=since, by="ops", reason="a standby")


def mirror(topic: str, by: str = "ops") -> Mirror:
    return Mirror.of(topic, "east", "west", "link-1", "2026-11-23T10:00:00Z", by)


def topic(name: str, state: Any, code: str = "", reason: str = "") -> PatternTopic:
    return PatternTopic(topic=name, state=state, code=code, reason=reason)


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> MemoryStore:
    store = seeded(*CLUSTERS, pattern(), mirror("orders.eu", pattern().actor), mirror("bills"))
    use(store, monkeypatch)
    return store


def patterns(store: MemoryStore) -> dict[str, MirrorPattern]:
    return {one.key: one for one in store.client().mirror_patterns()}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("bills.*", "users"), "bills.* is kept for later topics too, users is not. Give two commands."),
        (("users", "--all-topics"), "* is kept for later topics too, users is not."),
        (("bills *",), "'bills *' matches no topic"),
        (("bills.[ab",), "'bills.[ab' matches no topic"),
        (("bills.*", "--exclude", "a b"), "'a b' matches no topic"),
        (("users", "--exclude", "users.eu"), "--exclude is for patterns"),
        (("bills.*", "--from", "west"), "Source and target are the same cluster, west."),
        (("bills.*", "--max-bytes-s", "5"), "1024 or more"),
        ((), "The scope is empty"),
        # Clusters are judged as for a link: these do not answer
        (("bills.*",), "east (127.0.0.1:1) cannot be reached"),
        (("--all-topics",), "east (127.0.0.1:1) cannot be reached"),
    ],
)
def test_a_pattern_that_cannot_be_kept_is_refused_with_the_value(
    store: MemoryStore, words: tuple[str, ...], said: str
) -> None:
    route = () if "--from" in words else ("--from", "east")
    code, answer = run("mirror", "link", *words, *route, "--to", "west", *WHY, "--yes")
    assert code in {2, 4}
    assert said in answer["error"]
    assert patterns(store).keys() == {pattern().key}


def test_a_dry_run_of_a_pattern_shows_what_refuses_it_and_changes_nothing(store: MemoryStore) -> None:
    code, proposal = run("mirror", "link", "bills.*", "--from", "east", "--to", "west", *WHY, "--dry-run")
    assert code != 0
    assert {verdict["code"] for verdict in proposal["verdicts"]} == {"unreachable-cluster"}
    assert (proposal["links"], proposal["patterns"][0]["pattern"]) == ([], "bills.*")
    assert store.client().operations(9) == []


def test_a_pattern_is_removed_and_its_mirrors_stay(store: MemoryStore) -> None:
    would = run("mirror", "unlink", "orders.*", "--to", "west", *WHY, "--dry-run")
    assert (would[0], would[1]["mirrors"], would[1]["result"]) == (0, ["orders.eu@west"], "planned")
    assert patterns(store).keys() == {pattern().key}
    # When it is removed
    code, answer = run("mirror", "unlink", "orders.*", "--to", "west", *WHY, "--yes")
    # Then only it is gone, by an operation with its reason
    assert (code, answer["result"]) == (0, "succeeded")
    assert patterns(store) == {}
    assert store.client().load().mirrors.keys() == {"orders.eu@west", "bills@west"}
    (operation,) = document("history")["operations"]
    assert (operation["kind"], operation["reason"]) == ("unlink-pattern", WHY[1])
    # And it cannot be removed again
    code, answer = run("mirror", "unlink", "orders.*", "--to", "west", *WHY, "--yes")
    assert (code, "no pattern orders.* with copies in west" in answer["error"]) == (2, True)


def test_a_pattern_with_several_sources_is_removed_by_its_source_and_no_copy_with_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    store = seeded(*CLUSTERS, pattern(), pattern(source="north"))
    use(store, monkeypatch)
    remove = ("mirror", "unlink", "orders.*", "--to", "west", *WHY, "--yes")
    assert "the sources east, north" in run(*remove)[1]["error"]
    assert "no copies of its own" in run(*remove, "--delete-copy")[1]["error"]
    assert run(*remove, "--from", "north")[0] == 0
    assert patterns(store).keys() == {pattern().key}


def test_a_topic_that_is_unlinked_is_left_out_by_its_pattern_in_the_same_revision(store: MemoryStore) -> None:
    would = run("mirror", "unlink", "orders.eu", "--to", "west", *WHY, "--dry-run")[1]
    assert would["left_out_by"] == [pattern().key]
    before = store.client().load().revision
    code, answer = run("mirror", "unlink", "orders.eu", "--to", "west", *WHY, "--yes")
    assert (code, answer["revision"]) == (0, before + 1)
    assert patterns(store)[pattern().key].exclude == ("orders.eu",)
    # And a topic of no pattern changes none
    assert run("mirror", "unlink", "bills", "--to", "west", *WHY, "--yes")[0] == 0
    assert patterns(store)[pattern().key].exclude == ("orders.eu",)


def looked(store: MemoryStore, *topics: PatternTopic, trouble: str = "", at: str = "") -> None:
    counts = {} if trouble else {"matching": 9, "linked": 5, "due": 1}
    at = at or utc_now()
    store.client().keep_pattern_look(PatternLook(key=pattern().key, at=at, trouble=trouble, topics=topics, **counts))


def test_mirrors_and_status_show_how_far_patterns_have_come(store: MemoryStore) -> None:
    looked(
        store,
        topic("orders.a", "refused", "foreign-data", "west has 7 offsets of its own"),
        topic("orders.b", "elsewhere", reason="it is written in west"),
        topic("orders.c", "elsewhere", reason="it is written in west"),
        topic("orders.gone", "gone", reason="east does not have it any more; its mirror stands"),
    )
    # Then `mirrors` has them, and topics with one reason in one row
    page = " ".join(shown("mirrors").split())
    assert "west has 7 offsets of its own" in page
    assert "orders.b, orders.c" in page
    # And `status` has all of it for programs
    (found,) = document("status")["mirror_patterns"]
    assert [found[key] for key in ("pattern", "from", "to", "matching", "linked", "due")] == [
        "orders.*", "east", "west", 9, 5, 1,
    ]  # fmt: skip
    assert [one["topic"] for one in found["topics"]] == ["orders.a", "orders.b", "orders.c", "orders.gone"]
    # And a refused topic waits for an operator, while a topic that is gone raises no alarm
    told = {one["about"]: one["text"] for one in problems()}
    assert told["topic orders.a"].endswith("has no mirror there: west has 7 offsets of its own")
    assert not [about for about in told if about.startswith("pattern")]
    (notice,) = [one for one in document("status")["notices"] if one["about"].startswith("pattern")]
    assert "orders.gone" in notice["text"]
    assert "mirror unlink orders.gone --to west" in notice["remedy"]


def about_patterns() -> list[str]:
    return [one["text"] for one in problems() if one["about"].startswith("pattern")]


def test_a_pattern_that_no_job_looks_at_is_an_alarm_after_a_while(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert about_patterns() == ["New topics get no mirror by it: no job has looked at its topics."]
    assert "no job has looked at it yet" in " ".join(shown("mirrors").split())
    looked(store)
    assert about_patterns() == []
    later = (datetime.now(UTC) + timedelta(seconds=600)).isoformat()
    use(store, monkeypatch, now=lambda: later)
    assert about_patterns() == ["New topics get no mirror by it: the job last looked at its topics 10 min ago."]
    # And its counts are those of that look
    (found,) = document("status")["mirror_patterns"]
    assert found["matching"] == 9


def test_a_source_that_does_not_answer_is_an_alarm_but_for_a_masked_one(monkeypatch: pytest.MonkeyPatch) -> None:
    store = seeded(*CLUSTERS, pattern())
    use(store, monkeypatch)
    looked(store, trouble="east cannot be reached")
    assert about_patterns() == ["New topics get no mirror by it: east cannot be reached"]
    (found,) = document("status")["mirror_patterns"]
    assert [found[key] for key in ("matching", "linked", "due")] == [None, None, None]
    masked = EAST.changed(masked=Mask(since="now", reason="rack fire", by="ops"))
    store = seeded(masked, *CLUSTERS[1:], pattern())
    use(store, monkeypatch)
    looked(store, trouble="east is masked since now by ops: rack fire")
    assert about_patterns() == []


def test_a_pattern_with_an_unreadable_document_is_named_and_hides_no_other(store: MemoryStore) -> None:
    looked(store)
    store.plant("/mirror_patterns/east%3Ewest%3Abills.%2A", b"{")
    assert "Invalid JSON" in shown("mirrors")
    assert [one["about"] for one in problems() if one["about"].startswith("pattern")] == ["pattern east>west:bills.*"]
    # And no mirror is ended that it could link again
    code, answer = run("mirror", "unlink", "orders.eu", "--to", "west", *WHY, "--yes")
    assert (code != 0, "/mirror_patterns/east%3Ewest%3Abills.%2A" in answer["error"]) == (True, True)


def test_many_topics_without_a_mirror_are_counted_in_the_check(store: MemoryStore) -> None:
    looked(store, *(topic(f"orders.{number:02}", "refused", "not-created", "no") for number in range(30)))
    told = [one["text"] for one in problems() if one["about"].startswith(("topic", "patterns"))]
    assert len(told) == 21
    assert told[-1] == "10 more topics may have no mirror."
