"""`switchyard mirrors`: the state of each partition of each mirror, from the reports of its task."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Literal

import pytest

from ha_core.model import Cluster, Mirror, MirrorReport, MirrorSync, PartitionReport, SyncFinding, Topic
from ha_core.model.evidence import MoveEvidence
from ha_core.model.extent import identity
from ha_core.operations.engine.environment import utc_now
from ha_core.store.commits import StateChange
from stack.memory_store import MemoryStore
from tests.cli.invoking import document, problems, run, seeded, shown, use
from tests.kit.operations import a_switch

CLUSTERS = (
    Cluster(name="east", bootstrap="127.0.0.1:1", default=True),
    Cluster(name="west", bootstrap="127.0.0.1:1"),
)


def mirror(topic: str) -> Mirror:
    return Mirror.of(topic, "east", "west", "link-1", "2026-11-23T10:00:00Z", "test")


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> MemoryStore:
    store = seeded(*CLUSTERS, mirror("orders"), mirror("payments"))
    use(store, monkeypatch)
    return store


def told(partition: int, state: Literal["copying", "stopped"], **more: Any) -> PartitionReport:
    return PartitionReport(mirror="orders@west", topic="orders", partition=partition, state=state, **more)


def test_a_mirror_between_cut_and_end_of_a_switch_is_not_suggested_for_linking(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    store = seeded(*CLUSTERS)
    use(store, monkeypatch)
    further = {"orders": tuple(mirror("orders").changed(key=f"orders@{name}", target=name) for name in ("up", "down"))}
    evidence = MoveEvidence(ended={"orders": mirror("orders")}, mirrored=("orders",), also_mirrored=further)
    cut = a_switch(state="cut", evidence=evidence.model_copy(update={"kept_out": {"orders@down": "it has more"}}))
    store.client().create_operation(cut, ["topic:orders"])

    row, repointed = document("mirrors")

    assert (repointed["from"], repointed["to"], repointed["state"]) == ("west", "up", "held")
    assert repointed["reason"] == "operation switch-1 has switched it to west, from where it goes on"
    assert (row["topic"], row["from"], row["to"], row["state"]) == ("orders", "west", "east", "held")
    assert row["reason"] == "operation switch-1 has switched it to west, and reverses its mirror"
    assert "mirror link" not in shown("mirrors")


def test_partitions_are_shown_as_reported_and_unreported_topics_are_named(store: MemoryStore) -> None:
    # Given a task that has just lost partition 1 to another one
    lost = told(1, "stopped", reason="another task copies it")
    client = store.client()
    client.register(MirrorReport(slot=0, job="j", partitions=(told(0, "copying", source_end=9, lag_records=2), lost)))
    client.register(MirrorReport(slot=1, job="j", partitions=(told(1, "copying", source_end=4, lag_records=0),)))
    # When mirrors are listed
    found = document("mirrors")
    # Then each partition has one row, and so has the topic without reports
    rows = [(one["topic"], one["partition"], one["state"], one["lag_records"]) for one in found]
    assert rows == [("orders", 0, "copying", 2), ("orders", 1, "copying", 0), ("payments", None, "nobody", None)]
    assert found[0] == {
        "topic": "orders",
        "partition": 0,
        "from": "east",
        "to": "west",
        "state": "copying",
        "lag_records": 2,
        "lag_bytes": None,
        "lag_ms": None,
        "rpo_s": None,
        "bytes_s": 0,
        "reason": "",
    }
    assert "check that the job `mirror` is running" in shown("mirrors")


def test_a_mirror_is_summarised_from_the_reports_of_its_partitions(store: MemoryStore) -> None:
    lags = {"source_end": 9, "lag_records": 2, "lag_bytes": 2_400_000, "lag_ms": 1_500, "rpo_s": 3, "bytes_s": 500}
    parts = (told(0, "copying", **lags), told(1, "stopped", rpo_s=400, reason="retention has overtaken the copy"))
    store.client().register(MirrorReport(slot=0, job="j", partitions=parts))

    found, wholes, page = document("mirrors"), document("status")["mirrors"], shown("mirrors")

    whole = wholes[0]
    assert [whole[name] for name in ("topic", "from", "to", "max_bytes_s")] == ["orders", "east", "west", None]
    assert [whole[name] for name in ("partitions", "copying", "stopped", "unknown")] == [2, 1, 1, 1]
    assert [whole[name] for name in ("lag_records", "lag_bytes", "lag_ms", "rpo_s")] == [2, 2_400_000, 1_500, 400]
    assert [found[0][name] for name in ("lag_bytes", "rpo_s", "bytes_s")] == [2_400_000, 3, 500]
    assert "2.4 MB" in page
    assert "2, 1 unknown" in page
    # And nothing is claimed about unreported partitions
    assert (wholes[1]["rpo_s"], wholes[1]["lag_bytes"]) == (None, None)


def test_a_mirror_left_out_of_a_full_report_is_not_reported_as_uncopied(store: MemoryStore) -> None:
    full = MirrorReport(slot=0, job="j", partitions=(told(0, "copying", source_end=9),), left_out=3)
    store.client().register(full)

    found = document("mirrors")

    assert [(one["topic"], one["state"]) for one in found] == [("orders", "copying"), ("payments", "unreported")]


def test_an_empty_list_of_mirrors_names_the_command_that_makes_one(monkeypatch: pytest.MonkeyPatch) -> None:
    use(seeded(*CLUSTERS), monkeypatch)
    assert document("mirrors") == []
    assert "switchyard mirror link" in shown("mirrors")


def test_a_dry_run_of_unlink_or_throttle_names_its_mirrors_and_changes_nothing(store: MemoryStore) -> None:
    before = store.client().load().revision

    ends = run("mirror", "unlink", "orders", "--to", "west", "--reason", "test", "--dry-run")
    slows = run("mirror", "throttle", "*", "--max-bytes-s", "5000", "--reason", "test", "--dry-run")
    wrong = run("mirror", "unlink", "users", "--to", "west", "--reason", "test", "--dry-run")

    assert (ends[0], [one["topic"] for one in ends[1]["mirrors"]], ends[1]["deletes"]) == (0, ["orders"], [])
    assert (slows[0], slows[1]["words"]) == (
        0,
        "orders@west, payments@west: would be copied 5,000 bytes a second at most",
    )
    assert (wrong[0], "users has no mirror in west" in wrong[1]["error"]) == (2, True)
    assert (store.client().load().revision, store.client().operations(9)) == (before, [])
    assert set(store.client().load().mirrors) == {"orders@west", "payments@west"}


def limits(store: MemoryStore) -> dict[str, int | None]:
    return {key: one.max_bytes_s for key, one in store.client().load().mirrors.items()}


def test_a_mirror_is_throttled_and_unthrottled_each_in_one_revision_with_its_reason(store: MemoryStore) -> None:
    why = ("--reason", "the line is needed elsewhere")
    # When one of two mirrors is throttled
    code, answer = run("mirror", "throttle", "orders", "--max-bytes-s", "2000000", *why)
    # Then only that one is, with the reason in its operation
    assert (code, answer["result"]) == (0, "succeeded")
    assert limits(store) == {"orders@west": 2_000_000, "payments@west": None}
    shown_last = document("history")["operations"][0]
    assert (shown_last["kind"], shown_last["reason"]) == ("throttle", why[1])
    # And repeating it changes nothing
    before = store.client().load().revision
    code, answer = run("mirror", "throttle", "orders", "--max-bytes-s", "2000000", *why)
    assert (code, "already" in answer["words"], store.client().load().revision) == (0, True, before)
    # And a pattern unthrottles all
    assert run("mirror", "throttle", "*", "--max-bytes-s", "none", *why)[0] == 0
    assert set(limits(store).values()) == {None}


@pytest.mark.parametrize("limit", ["fast", "1000", "-5", ""])
def test_an_invalid_limit_is_refused_and_changes_nothing(store: MemoryStore, limit: str) -> None:
    code, answer = run("mirror", "throttle", "orders", f"--max-bytes-s={limit}", "--reason", "test")
    assert (code, f"{limit!r}" in answer["error"], "1024 or more" in answer["error"]) == (2, True, True)
    code, answer = run("mirror", "link", "users", "--from", "east", "--to", "west", f"--max-bytes-s={limit}",
                       "--reason", "test", "--yes")  # fmt: skip
    assert (code, "1024 or more" in answer["error"]) == (2, True)
    assert set(limits(store).values()) == {None}


def test_the_status_check_names_uncopied_mirrors_and_stopped_partitions(store: MemoryStore) -> None:
    client = store.client()
    reports = (told(0, "copying"), told(1, "stopped", reason="retention has overtaken the copy"))
    client.register(MirrorReport(slot=0, job="j", partitions=reports))
    found = {problem["about"]: problem["text"] for problem in problems()}
    assert found["mirrors in west"].startswith("No job copies payments in west:")
    assert found["mirror of orders-1 in west"] == "Its copier has stopped: retention has overtaken the copy."


def test_a_copy_of_a_copy_is_told_as_such_and_named_once_its_source_is_no_copy_any_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Given a copy that is copied itself
    pinned = Topic(name="orders", writer="east", partitions={0: identity("east")})
    behind = Mirror.of("orders", "west", "north", "link-2", "2026-11-23T10:00:00Z", "test")
    store = seeded(*CLUSTERS, pinned, mirror("orders"), behind)
    use(store, monkeypatch)
    told_of = {"topic": "orders", "partition": 0, "state": "copying", "source_end": 9, "lag_records": 0}
    reports = tuple(PartitionReport.model_validate({"mirror": key, **told_of}) for key in ("orders@west", behind.key))
    store.client().register(MirrorReport(slot=0, job="j", partitions=reports))
    # When mirrors are listed, then its lag is told as that to the first copy
    reasons = {row["to"]: row["reason"] for row in document("mirrors")}
    assert reasons == {"west": "", "north": "its source is a copy: it trails the writer by the lag of both"}
    assert "mirror of orders in north" not in [problem["about"] for problem in problems()]
    # When the first copy is none any more, then the second one is a problem, though it has no lag
    stored = store.client().read(Mirror, "orders@west")
    assert stored is not None
    gone = {(Mirror, "orders@west"): stored[1]}
    store.client().commit(StateChange(change_id="end", deletes=((Mirror, "orders@west"),), expected=gone))  # type: ignore[arg-type]
    found = {problem["about"]: problem["text"] for problem in problems()}
    assert "west, its source, is neither the writer nor a copy any more" in found["mirror of orders in north"]


def test_a_mirror_less_than_a_minute_old_that_has_not_begun_is_no_alarm(monkeypatch: pytest.MonkeyPatch) -> None:
    # Given a mirror that was linked a moment ago
    store = seeded(*CLUSTERS, Mirror.of("orders", "east", "west", "link-1", utc_now(), "test"))
    use(store, monkeypatch)
    # When the status is checked now, and a minute later
    at_once = [problem["about"] for problem in problems()]
    later = (datetime.now(UTC) + timedelta(seconds=61)).isoformat()
    use(store, monkeypatch, now=lambda: later)
    # Then the check is quiet about it at first
    assert "mirrors in west" not in at_once
    assert "mirrors in west" in [problem["about"] for problem in problems()]


@pytest.mark.usefixtures("store")
def test_the_status_check_of_an_unreachable_cluster_suggests_the_copies_of_its_topics() -> None:
    remedies = {problem["about"]: problem["remedy"] for problem in problems()}
    # Topics with a copy go on there, the others move
    ways = remedies["cluster east"]
    assert "2 topics have copies in west (orders, payments)" in ways
    assert "`switchyard switch user:NAME --from east --to west --mode forced --unread wait" in ways
    assert "For the others, `switchyard mask`" in ways
    # And for a cluster that only has copies, no copies are suggested
    assert "have a copy" not in remedies["cluster west"]


def test_a_mirror_with_an_unreadable_document_is_named_and_hides_no_other(store: MemoryStore) -> None:
    store.client().register(MirrorReport(slot=0, job="j", partitions=(told(0, "copying", source_end=9),)))
    store.plant("/mirrors/payments%40west", b"{")
    found = document("mirrors")
    assert [(one["topic"], one["to"], one["state"]) for one in found] == [
        ("orders", "west", "copying"),
        ("payments", "west", "unreadable"),
    ]
    (problem,) = [one for one in problems() if one["about"].startswith("mirror")]
    assert problem["about"] == "mirror of payments in west"
    assert "/mirrors/payments%40west: the document: Invalid JSON" in problem["text"]


def synced(part: Literal["topics", "groups"], *findings: SyncFinding) -> MirrorSync:
    return MirrorSync.of("east", "west", part, "2026-11-23T10:00:00Z", 2, findings)


def test_differences_from_the_source_are_listed_and_only_those_for_operators_are_alarms(store: MemoryStore) -> None:
    # Given a standby with too many partitions, and a group with members there
    more = SyncFinding(what="partitions", about="topic orders", reason="west has 6, east 5", stop=True)
    lives = SyncFinding(what="offsets", about="group billing", reason="it has members in west")
    client = store.client()
    client.keep_mirror_sync(synced("topics", more))
    client.keep_mirror_sync(synced("groups", lives))
    # When mirrors are listed
    found = document("status")["mirror_syncs"]
    page = shown("mirrors")
    # Then both are there
    assert [(one["part"], one["looked_at"], one["findings"][0]["about"]) for one in found] == [
        ("groups", 2, "group billing"),
        ("topics", 2, "topic orders"),
    ]
    assert "west has 6, east 5" in page
    assert "it has members in west" in page
    # And the check reports the one for an operator
    told = [problem["text"] for problem in problems() if problem["about"] == "mirrors of east in west"]
    assert told == ["topic orders, partitions: west has 6, east 5"]


def test_excess_findings_are_counted_and_those_for_operators_come_first() -> None:
    findings = [SyncFinding(what="offsets", about=f"group {number:03}", reason="members") for number in range(600)]
    stop = SyncFinding(what="settings", about="topic z", reason="refused", stop=True)
    sync = synced("groups", *findings, stop)
    assert (len(sync.findings), sync.left_out, sync.findings[0]) == (500, 101, stop)


def test_a_topic_without_a_mirror_is_not_synced_and_an_unreachable_cluster_is_reported(store: MemoryStore) -> None:
    code, answer = run("mirror", "sync", "users")
    assert (code, "users has no mirror" in answer["error"]) == (2, True)
    code, answer = run("mirror", "sync", "orders")
    assert code == 6
    reasons = [one["reason"] for part in answer["parts"] for one in part["findings"] if one["stop"]]
    assert reasons
    assert all("127.0.0.1:1 cannot be reached" in reason for reason in reasons)


def test_mirrors_are_drawn_into_a_file_of_either_kind_and_no_other(store: MemoryStore, tmp_path: Path) -> None:
    store.client().register(MirrorReport(slot=0, job="j", partitions=(told(0, "copying", source_end=9, rpo_s=1),)))
    for name, begin in (("mirrors.svg", "<svg "), ("mirrors.html", "<!DOCTYPE html>")):
        path = tmp_path / name
        assert f"picture: {path}" in "".join(shown("mirrors", "--picture", str(path)).splitlines())
        assert path.read_text().startswith(begin)
        assert "orders: east → west" in path.read_text()
    code, answer = run("mirrors", "--picture", str(tmp_path / "mirrors.png"))
    assert (code, "end its name with .svg or .html" in answer["error"]) == (2, True)
