"""Commands on the store in memory, with two registered clusters that do not answer."""

import json
import re
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from ha_core.cli.app import build
from ha_core.cli.exits import ATTENTION, BAD_INPUT, DEFECT, OUT_OF_REACH
from ha_core.kafka.admin import Admin
from ha_core.kafka.facts import GroupDescription, LogEnds
from ha_core.kafka.probe import Probe
from ha_core.kafka.topics import TopicDescription
from ha_core.model import (
    Cluster,
    ExpectedGateway,
    Extent,
    Fence,
    GatewayRecord,
    KnownGroup,
    KnownTopic,
    MoveRequest,
    Scope,
    Topic,
    Use,
    WaitingApproval,
)
from ha_core.operations.engine.environment import utc_now
from ha_core.operations.overview import gateway_health, operation_health
from ha_core.store.commits import StateChange
from ha_core.store.usage import Sighting
from stack.memory_store import MemoryStore
from tests.cli.invoking import document, problems, run, seeded, shown, use
from tests.kit.operations import a_migration, a_switch

CLUSTERS = (
    Cluster(name="east", bootstrap="127.0.0.1:1", default=True),
    Cluster(name="west", bootstrap="127.0.0.1:1"),
)
MOVED = Topic(
    name="orders",
    writer="west",
    partitions={
        0: (
            Extent(cluster="east", start=0, end=9, base=0, writer_epoch=0),
            Extent(cluster="west", start=9, end=None, base=0, writer_epoch=1),
        )
    },
)


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> MemoryStore:
    store = seeded(*CLUSTERS, MOVED)
    use(store, monkeypatch)
    return store


@pytest.fixture
def healthy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every cluster answers."""
    monkeypatch.setattr(Admin, "probe", lambda _self, **_options: Probe(True, answers=True))


@pytest.mark.usefixtures("store")
def test_status_lists_clusters_gateways_operations_and_locks() -> None:
    code, status = run("status")

    assert code == 0
    assert status["revision"] == 1
    assert [(c["name"], c["reachable"]) for c in status["clusters"]] == [("east", False), ("west", False)]
    assert (status["gateways"], status["operations"], status["locks"]) == ([], [], [])
    assert "not reachable" in shown("status")


def test_a_binding_is_set_listed_and_deleted(store: MemoryStore) -> None:
    assert run("bindings", "set", "user:alice##billing", "west")[0] == 0
    assert document("bindings", "list")["bindings"]["alice"]["groups"] == {"billing": "west"}
    assert "alice##billing" in shown("bindings", "list", "alice")

    assert run("bindings", "delete", "user:alice##billing")[0] == 0

    assert store.load().bindings == {}


def test_a_user_reads_from_copies_until_the_setting_is_deleted(store: MemoryStore) -> None:
    assert run("usage", "declare", "alice", "--topic", "orders")[0] == 0

    assert run("bindings", "set", "user:alice", "--read", "nearest")[0] == 0  # moves nothing: no confirmation
    assert "alice reads" in shown("bindings", "list", "alice")
    assert run("bindings", "set", "user:alice", "--read", "west")[0] == 0

    assert document("bindings", "list")["bindings"]["alice"]["read"] == "west"
    assert run("bindings", "delete", "user:alice", "--read")[0] == 0
    assert store.load().bindings == {}


def test_usage_is_listed_with_changing_client_ids_and_withdrawn(store: MemoryStore) -> None:
    uses = [
        Use(instance=f"app-{n}", how="fetch", since="2025-01-01T00:00:00Z", last="2025-01-01T00:00:00Z")
        for n in range(6)
    ]
    store.record_usage("alice", [Sighting("topic", "orders", use) for use in uses])

    assert document("usage", "list")["ids_made_at_each_start"] == [
        {"user": "alice", "thing": "topic orders", "family": "app-*", "instances": 6}
    ]
    assert "app-*" in shown("usage", "list")
    code, told = run("usage", "forget", "alice", "--topic", "orders", "--instance", "app-1", "--dry-run")
    assert (code, told["forgotten"]) == (0, [{"what": "topic", "name": "orders", "instance": "app-1"}])
    assert "Withdrawn: 6 uses." in shown("usage", "forget", "alice")
    assert store.usage() == {}


@pytest.mark.parametrize(
    "words", [("usage", "list"), ("usage", "list", "--json"), ("usage", "forget", "no\x1b[2J\nerror: fake")]
)
def test_client_names_cannot_control_the_terminal(store: MemoryStore, words: tuple[str, ...]) -> None:
    hostile = "x\x1b[1A\x1b[2K\x1b]52;c;ZXZpbA==\x07\nadmin root-console\u202e\u200b\x9b"
    use = Use(instance=hostile, how="fetch", since="2026-01-01T00:00:00Z")
    store.record_usage(hostile, [Sighting("group", hostile, use)])

    result = CliRunner().invoke(build(), list(words))

    told = (result.stdout + result.stderr).splitlines()
    assert told
    assert all(line.isprintable() for line in told)
    assert not any(line.startswith(("admin", "error: fake")) for line in told)
    if words[-1] == "--json":
        assert json.loads(result.stdout)["usage"][hostile]["groups"][hostile][0]["instance"] == hostile


def test_a_cluster_is_in_a_zone_until_the_zone_is_cleared(store: MemoryStore) -> None:
    def add(*more: str) -> str | None:
        assert run("clusters", "add", "west", "--bootstrap", "h:1", "--unprobed", *more)[0] == 0
        return store.load().clusters["west"].zone

    assert add("--zone", "south-2") == "south-2"
    assert add() == "south-2"
    assert "south-2" in shown("clusters", "list")
    assert add("--zone", "") is None


def test_a_declared_file_is_shown_by_a_dry_run_and_then_applied_once(store: MemoryStore, tmp_path: Path) -> None:
    # Given a file that binds two users
    file = tmp_path / "team.yaml"
    file.write_text("bindings: {alice: {cluster: east}, bob: {cluster: west}}")
    # When it is shown by a dry run
    code, plan = run("bindings", "set", "--file", str(file), "--dry-run")
    # Then both differ, and nothing has changed
    assert code == 0
    assert [d["user"] for d in plan["differences"]] == ["alice", "bob"]
    assert store.load().revision == 1
    # When it is applied twice
    code, report = run("bindings", "set", "--file", str(file))
    # Then the first time makes a revision, and the second one finds no difference
    assert (code, report["result"], report["revision"]) == (0, "succeeded", 2)
    code, again = run("bindings", "set", "--file", str(file))
    assert (code, again["differences"]) == (0, [])
    assert store.load().revision == 2


def test_binding_a_user_in_use_needs_a_confirmation(store: MemoryStore) -> None:
    assert run("usage", "declare", "alice", "--topic", "orders", "--group", "billing")[0] == 0

    code, refused = run("bindings", "set", "user:alice", "west")
    assert (code, refused["result"]) == (2, "refused")
    assert store.load().bindings == {}

    assert run("bindings", "set", "user:alice", "west", "--yes")[0] == 0
    assert store.load().bindings["alice"].cluster == "west"


@pytest.fixture
def root(store: MemoryStore) -> str:
    """A super user of east, which has a binding to it."""
    assert run("clusters", "add", "east", "--bootstrap", "127.0.0.1:1", "--unprobed", "--super-user", "root")[0] == 0
    assert run("bindings", "set", "user:root", "east")[0] == 0
    return "root"


@pytest.mark.parametrize(
    "who", [("user:root", "west"), ("user:root#orders", "west"), ("user:root##g", "west"), ("user:root+app", "west")]
)
def test_no_level_of_a_super_user_is_bound_away_from_its_cluster(
    store: MemoryStore, root: str, who: tuple[str, str]
) -> None:
    code, said = run("bindings", "set", *who, "--yes")

    assert (code, "root is a super user of east" in said["error"]) == (BAD_INPUT, True)
    assert store.load().bindings[root].instances == {}


@pytest.mark.usefixtures("root")
@pytest.mark.parametrize(
    "declared",
    ["{bindings: {root: {cluster: west}}}", "{bindings: {root: {cluster: east, read: west}}}"],
)
def test_a_declaration_that_routes_a_super_user_elsewhere_is_refused_as_a_whole(
    store: MemoryStore, tmp_path: Path, declared: str
) -> None:
    file = tmp_path / "team.yaml"
    file.write_text(declared)
    revision = store.load().revision

    code, said = run("bindings", "set", "--file", str(file), "--yes")

    assert (code, "root is a super user of east" in said["error"]) == (BAD_INPUT, True)
    assert store.load().revision == revision


@pytest.mark.usefixtures("root")
def test_the_binding_that_keeps_a_super_user_in_its_cluster_is_not_deleted(store: MemoryStore) -> None:
    # Given another default cluster
    for cluster, is_default in (("east", "--no-default"), ("west", "--default")):
        assert run("clusters", "add", cluster, "--bootstrap", "127.0.0.1:1", "--unprobed", is_default)[0] == 0
    # When the binding is to be deleted, by itself and by a complete declaration
    code, said = run("bindings", "delete", "user:root", "--yes")
    # Then it stays
    assert (code, "would go to the default cluster, west" in said["error"]) == (BAD_INPUT, True)
    assert store.load().bindings["root"].cluster == "east"


@pytest.mark.usefixtures("healthy", "store")
def test_status_reports_a_super_user_that_the_default_cluster_would_serve() -> None:
    assert run("clusters", "add", "west", "--bootstrap", "h:1", "--unprobed", "--super-user", "ops")[0] == 0

    (notice,) = document("status", "--check")["notices"]

    assert notice["about"] == "user ops"
    assert notice["remedy"] == "`switchyard bindings set user:ops west`"


@pytest.mark.usefixtures("healthy")
def test_status_names_a_run_that_waits_for_approval_until_the_wait_expires(store: MemoryStore) -> None:
    # Given a run that waits, and one that was marked failed while it waited, long ago
    for run_id, since, answer_by in (
        ("old", "2020-01-01T00:00:00+00:00", "2020-01-02T00:00:00+00:00"),
        ("new", "2020-01-01T06:00:00+00:00", "2999-01-01T00:00:00+00:00"),
    ):
        store.await_approval(
            WaitingApproval(
                run=f"airflow:switch/{run_id}", by="alice", reason="drill", since=since, answer_by=answer_by
            )
        )

    (notice,) = document("status", "--check")["notices"]

    assert notice["about"] == "approval of airflow:switch/new"
    assert re.fullmatch("alice asked for it .* ago: drill. Airflow rejects it in .*", notice["text"])


def test_a_new_approval_request_removes_the_records_of_expired_ones(store: MemoryStore) -> None:
    for run_id, since, answer_by in (("a", "2020-01-01", "2020-01-02"), ("b", "2020-01-03", "2020-01-04")):
        store.await_approval(WaitingApproval(run=run_id, by="", since=since, answer_by=answer_by))

    assert [approval.run for approval in store.waiting_approvals()] == ["b"]


@pytest.mark.usefixtures("store")
@pytest.mark.parametrize(
    ("words", "error"),
    [
        (("bindings", "set", "user:alice", "north"), "'north'"),
        (("bindings", "set", "alice", "east"), "user:NAME"),
        (("bindings", "set", "topic:orders", "east"), "only users have bindings"),
        (("bindings", "delete", "user:alice"), "no binding"),
        (("bindings", "set", "user:alice", "--read", "north"), "known: east, west, nearest"),
        (("bindings", "set", "user:alice#orders", "--read", "west"), "a part of a user"),
        (("bindings", "delete", "user:alice", "--read"), "reads where topics are written"),
        (("clusters", "add", "nearest", "--bootstrap", "h:1", "--unprobed"), "nearest"),
        (("bindings", "set", "--file", "no-such-file.yaml"), "no-such-file.yaml"),
        (("mask", "north", "--reason", "test"), "'north'"),
        (("mask", "east", "--reason", " "), "--reason"),
        (("history", "no-such-operation"), "no-such-operation"),
        (("resume", "no-such-operation"), "no-such-operation"),
        (("undo", "no-such-operation"), "no-such-operation"),
        (("rollback", "no-such-operation"), "no-such-operation"),
        (("settle", "no-such-operation"), "no-such-operation"),
        (("topic", "no-such-topic"), "no-such-topic"),
        (("clusters", "remove", "north"), "'north'"),
        (("clusters", "remove", "west"), "topic orders"),
        (("clusters", "add", "North", "--bootstrap", "a:1"), "North"),
        (("switch", "alice", "--from", "east", "--to", "west", "--reason", "test"), "user:NAME"),
        (("switch", "user:a", "--from", "east", "--to", "west", "--reason", ""), "reason"),
        (("switch", "user:a", "--from", "east", "--to", "west", "--reason", "t", "--mode", "soft"), "soft"),
        (
            ("switch", "topic:orders", "--from", "east", "--to", "west", "--reason", "t", "--verify", "half"),
            "--verify 'half' is not usable",
        ),
        (
            ("switch", "user:a", "--from", "east", "--to", "west", "--reason", "t", "--drain-timeout", "0"),
            "drain-timeout",
        ),
        (("clusters", "add", "north", "--bootstrap", "127.0.0.1:1"), "127.0.0.1:1 cannot be reached"),
        (("clusters", "add", "north", "--bootstrap", "no-such-name.invalid:9092"), "does not resolve"),
    ],
)
def test_bad_input_exits_with_code_2_and_one_paragraph(words: tuple[str, ...], error: str) -> None:
    code, data = run(*words)

    assert code == 2
    assert error in data["error"]
    assert "\n" not in data["error"]


@pytest.mark.usefixtures("store")
def test_a_switch_with_an_unreachable_cluster_exits_with_its_own_code() -> None:
    code, data = run("switch", "user:a", "--from", "east", "--to", "west", "--reason", "t", "--yes")

    assert code == OUT_OF_REACH
    assert "cannot be reached" in data["error"]


def test_registering_a_known_cluster_under_a_second_name_is_refused(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        Admin, "probe", lambda _self, **_options: Probe(True, answers=True, brokers={1: "b:1"}, cluster_id="abc")
    )
    before = store.load()

    code, data = run("clusters", "add", "north", "--bootstrap", "127.0.0.1:2")

    assert code == 2
    assert "is the cluster east" in data["error"]
    assert store.load() == before


def test_a_cluster_with_topics_that_never_moved_is_removed_only_by_force(
    store: MemoryStore,
) -> None:
    # Given a cluster with a topic that never moved
    run("clusters", "add", "north", "--unprobed", "--bootstrap", "127.0.0.1:1")
    seen = KnownTopic(cluster="north", name="bills", at="2026-08-01T12:00:00.000Z", partitions=1, replication=1)
    store.keep_known(KnownTopic, "north", [seen])
    before = store.load()
    # When it is removed
    code, data = run("clusters", "remove", "north")
    # Then that is refused with the topic's name, and done by force
    assert code == 2
    assert "1 topic is written in north and never moved: bills" in data["error"]
    assert store.load() == before
    assert run("clusters", "remove", "north", "--force")[0] == 0


def test_changing_an_address_keeps_a_cluster_the_default_without_the_option(store: MemoryStore) -> None:
    again = ("clusters", "add", "east", "--unprobed", "--bootstrap", "127.0.0.1:3")

    assert run(*again)[0] == 0
    moved = store.load().clusters["east"]
    assert run(*again, "--no-default")[0] == 0

    assert (moved.bootstrap, moved.default) == ("127.0.0.1:3", True)
    assert not store.load().clusters["east"].default


def test_super_users_are_declared_with_a_cluster_kept_and_taken_away(store: MemoryStore) -> None:
    add = ("clusters", "add", "east", "--unprobed", "--bootstrap", "127.0.0.1:3")

    assert run(*add, "--super-user", "root", "--super-user", "admin", "--super-user", "root")[0] == 0
    assert run(*add)[0] == 0
    kept = store.load().clusters["east"].super_users
    assert kept == ("root", "admin")
    assert "root, admin" in shown("clusters", "list")
    assert run(*add, "--super-user", "")[0] == 0
    assert store.load().clusters["east"].super_users == ()
    code, data = run(*add, "--super-user", "r" * 256)
    assert code == 2
    assert "super_users" in data["error"]


def test_adding_changing_and_removing_a_cluster_are_in_the_history(store: MemoryStore) -> None:
    # When a cluster is added, changed, changed without a difference, and removed
    add = ("clusters", "add", "north", "--unprobed", "--reason", "a third hall", "--bootstrap")

    assert document(*add, "127.0.0.1:2")["changed"]
    assert document(*add, "127.0.0.1:3")["changed"]
    assert not document(*add, "127.0.0.1:3")["changed"]
    assert run("clusters", "remove", "north")[0] == 0
    # Then the history has the three changes, with the previous values
    operations = sorted(store.operations(10), key=lambda operation: operation.revision)
    assert [operation.kind for operation in operations] == ["add-cluster", "add-cluster", "remove-cluster"]
    assert operations[0].reason == "a third hall"
    assert operations[0].by.startswith("cli:")
    (changed,) = [
        entry for entry in store.history(operations[1].id) if (entry.step, entry.outcome) == ("add-cluster", "done")
    ]
    assert (changed.detail["bootstrap"], changed.detail["before"]["bootstrap"]) == ("127.0.0.1:3", "127.0.0.1:2")
    assert store.locks() == []


def test_history_shows_scope_origin_and_target_of_an_operation(store: MemoryStore) -> None:
    # Given a switch and a mask
    request = MoveRequest(
        scope=Scope(users=("ann",), topics=("a",), partitions={"a": (0, 1)}), origin="east", target="west", reason="t"
    )
    moved = a_switch(request=request)
    store.create_operation(moved, ["topic:a"])
    run("mask", "east", "--reason", "power failure")
    # When the history is shown
    lines = shown("history").splitlines()
    # Then each has its scope
    assert lines[0].split()[4:7] == ["scope", "from", "to"]
    assert any("user:ann, topic:a:0-1" in line and "east" in line and "west" in line for line in lines)
    assert any("cluster:east" in line and "power failure" in line for line in lines)
    assert "user:ann, topic:a:0-1, east → west" in shown("history", "switch-1")


def test_the_status_check_has_an_exit_code_for_problems_and_lists_them(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given clusters that do not answer, no live gateway, and the fence of an operation that has ended
    fenced = MOVED.model_copy(update={"name": "bills", "fence": Fence(operation="switch-1")})
    store.commit(StateChange(change_id="fence", puts=(fenced,), expected={(Topic, "bills"): None}))
    # When the status is checked
    code, status = run("status", "--check")
    # Then each problem is named, and the last one with the way out; without the check the code is 0
    assert code == ATTENTION
    assert [problem["about"] for problem in status["problems"]] == [
        "cluster east",
        "cluster west",
        "gateways",
        "topic bills",
    ]
    assert {problem["text"].split(":")[0] for problem in status["problems"][:2]} == {"It is not reachable"}
    assert "switchyard resume switch-1" in status["problems"][-1]["remedy"]
    assert run("status")[0] == 0


@pytest.mark.usefixtures("healthy")
def test_the_status_check_finds_no_problem_in_a_healthy_system(store: MemoryStore) -> None:
    record = GatewayRecord(id="gw-1", host="h", port=1, node_id=1, revision=1, records_facts=True)
    store.client().register_gateway(record)

    assert run("status", "--check") == (0, document("status"))
    assert "nothing waits for an operator" in shown("status", "--check")


@pytest.mark.usefixtures("healthy")
def test_the_status_check_names_a_gateway_that_died_until_it_is_back_or_forgotten(store: MemoryStore) -> None:
    # Given two registered gateways, one of which has died
    record = GatewayRecord(id="gw-1", host="h", port=1, node_id=1, revision=1, records_facts=True)
    store.client().register_gateway(record)
    for name in ("gw-1", "gw-2"):
        store.expect_gateway(ExpectedGateway(gateway=name, host="h", port=1, since=utc_now()))
    # When the status is checked
    (problem,) = problems()
    # Then it is named, with the way out
    assert problem["about"] == "gateway gw-2"
    assert "was not stopped: it has died" in problem["text"]
    assert "`switchyard gateways forget gw-2`" in problem["remedy"]
    # When it is back
    back = store.client()
    back.register_gateway(record.changed(id="gw-2"))
    # Then no problem is left, and a live gateway cannot be forgotten
    assert problems() == []
    assert run("gateways", "forget", "gw-2")[0] == BAD_INPUT
    # When it has died for good and is forgotten
    back.close()
    assert run("gateways", "forget", "gw-2")[0] == 0
    # Then it is not reported any more, and an unexpected one is refused
    assert problems() == []
    assert run("gateways", "forget", "gw-2")[0] == BAD_INPUT


@pytest.mark.usefixtures("healthy")
def test_the_status_check_names_readers_that_wait_for_a_cluster_that_answers_again(store: MemoryStore) -> None:
    # Given a topic whose old cluster was dead at the cut and answers again, and one whose readers skip that cluster
    closed = Extent(cluster="east", start=0, end=900, base=0, writer_epoch=0, known_end=9)
    later = Extent(cluster="west", start=900, end=None, base=0, writer_epoch=1)
    bills, skipped = (
        Topic(name=name, writer="west", partitions={0: (closed.changed(ignored=ignored), later)})
        for name, ignored in (("bills", False), ("skipped", True))
    )
    for topic in (bills, skipped):
        store.commit(StateChange(change_id=topic.name, puts=(topic,), expected={(Topic, topic.name): None}))
    record = GatewayRecord(id="gw-1", host="h", port=1, node_id=1, revision=3, records_facts=True)
    store.client().register_gateway(record)
    # When the status is checked
    (problem,) = problems()
    # Then the readers of the first topic alone are named, with the command
    assert (problem["about"], "Readers of bills that are below" in problem["text"]) == ("cluster east", True)
    assert "`switchyard origins check`" in problem["remedy"]


@pytest.mark.usefixtures("healthy")
@pytest.mark.parametrize(
    ("driver", "quiet_s", "told"), [("command", 1, False), ("command", 8, True), ("run", 8, False), ("run", 90, True)]
)
def test_an_operation_without_executor_that_holds_locks_is_reported_without_an_alarm(
    store: MemoryStore, driver: str, quiet_s: int, told: bool
) -> None:
    # Given an operation without an executor that no client waits for
    record = GatewayRecord(id="gw-1", host="h", port=1, node_id=1, revision=1, records_facts=True)
    store.client().register_gateway(record)
    started = (datetime.now(UTC) - timedelta(seconds=quiet_s)).isoformat()
    store.create_operation(a_switch(state="running", started=started, driver=driver), ["topic:a", "user:alice"])
    # When the status is checked
    code, status = run("status", "--check")
    # Then it is reported with its locks and the commands that end it, and the exit code stays 0
    assert (code, [one["about"] for one in status["notices"]]) == (0, ["operation switch-1"] if told else [])
    if told:
        (notice,) = status["notices"]
        assert "holds 2 locks" in notice["text"]
        assert "`switchyard resume switch-1`, or `switchyard undo switch-1`" in notice["remedy"]
        assert "worth knowing, no alarm" in shown("status", "--check")


@pytest.mark.usefixtures("healthy")
def test_status_shows_workers_as_one_gateway_at_the_revision_of_the_last_worker(store: MemoryStore) -> None:
    # Given
    record = GatewayRecord(id="gw-1.0", worker_of="gw-1", host="h", port=1, node_id=1, revision=1, drained=("a", "b"))
    for gateway in (record, record.changed(id="gw-1.1", revision=0, drained=("b",))):
        store.client().register_gateway(gateway)
    # When
    (line,) = [line.split() for line in shown("status").splitlines() if line.startswith("gw-1")]
    # Then
    assert line == ["gw-1", "(2", "workers)", "h:1", "0", "1", "0", "b"]
    # And a query for all facts shows each worker
    assert [one["id"] for one in document("status")["gateways"]] == ["gw-1.0", "gw-1.1"]


@pytest.mark.usefixtures("healthy")
def test_status_names_a_gateway_with_a_worker_that_is_away(store: MemoryStore) -> None:
    # Given one of two workers, while the other one has lost its session
    record = GatewayRecord(id="gw-1.1", worker_of="gw-1", workers=2, host="h", port=1, node_id=1, revision=1)
    store.client().register_gateway(record.changed(records_facts=True))
    # When
    (line,) = [line.split() for line in shown("status").splitlines() if line.startswith("gw-1")]
    # Then
    assert line[:5] == ["gw-1", "(1", "of", "2", "workers)"]
    (problem,) = problems()
    assert problem["about"] == "gateway gw-1"
    assert problem["text"].startswith("1 of its 2 workers is away")


@pytest.mark.usefixtures("healthy")
def test_the_status_check_names_a_gateway_that_lags_but_not_one_that_catches_up(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given a gateway at an older revision
    monkeypatch.setattr(gateway_health, "MAX_LAG_S", 0.5)
    record = GatewayRecord(id="gw-1", host="h", port=1, node_id=1, revision=0, records_facts=True)
    follows = store.client().register_gateway(record)
    # When the status is checked
    # Then it is named
    assert [problem["about"] for problem in problems()] == ["gateway gw-1"]
    # When it catches up while the check waits
    catching_up = threading.Timer(0.2, lambda: follows.update(record.model_copy(update={"revision": 1})))
    catching_up.start()
    # Then it is not
    assert run("status", "--check")[0] == 0
    catching_up.join()


@pytest.mark.usefixtures("healthy")
def test_the_status_check_names_an_abandoned_operation_but_not_an_open_crossing(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given an operation abandoned under its fence, one that has just begun, and an open crossing
    monkeypatch.setattr(operation_health, "LEFT_S", 0.8)
    left: dict[str, Any] = {"by": "cli:somebody", "reason": "test", "started": "2026-01-01T12:00:00Z"}
    store.create_operation(a_switch(state="fenced", **left), ["topic:a"])
    waits = {**left, "started": utc_now()}
    store.create_operation(a_switch(id="switch-2", state="running", **waits), ["topic:c"])
    store.create_operation(a_migration(state="crossing", **left), ["topic:b"])
    # When the status is checked
    found = problems()
    # Then the first one alone is named
    (abandoned,) = [problem for problem in found if problem["about"].startswith("operation")]
    assert abandoned["about"] == "operation switch-1"
    assert "Its fence stands: clients wait." in abandoned["text"]


@pytest.mark.usefixtures("healthy")
def test_the_status_check_knows_a_live_executor_by_its_hold_not_by_its_history(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given an executor that lives and has long written nothing, and one that has just died under its fence
    monkeypatch.setattr(operation_health, "LEFT_S", 0.8)
    lives, dies = store.client(), store.client()
    begun = {"by": "cli:somebody", "reason": "test", "state": "fenced"}
    for executor, name, at in ((lives, "switch-1", "2026-01-01T12:00:00Z"), (dies, "switch-2", utc_now())):
        operation = a_switch(id=name, started=at, **begun)
        executor.create_operation(operation, [f"topic:{name}"])
    with lives.hold("switch-1", 0), dies.hold("switch-2", 0):
        # When the status is checked while both have their sessions
        # Then neither is named
        assert not any("operation" in problem["about"] for problem in problems())
        # When its session has ended
        dies.expire_session()
        # Then it is named at once, and the other is not
        found = problems()
        assert [problem["about"] for problem in found if "operation" in problem["about"]] == ["operation switch-2"]


@pytest.mark.usefixtures("healthy")
def test_the_status_check_ignores_an_operation_that_is_taken_over_while_it_looks(store: MemoryStore) -> None:
    # Given an abandoned operation that another executor is about to take over
    begun = {"by": "cli:somebody", "reason": "test", "state": "fenced", "started": utc_now()}
    store.create_operation(a_switch(**begun), ["topic:a"])
    looked, caretaker = threading.Event(), store.client()
    done = threading.Event()

    def take_up() -> None:
        looked.wait(5)
        with caretaker.hold("switch-1", caretaker.take_over("switch-1", 1)):
            done.wait(5)

    working = threading.Thread(target=take_up)
    working.start()
    threading.Timer(0.4, looked.set).start()
    # When the status is checked meanwhile
    found = problems()
    # Then it is not named
    done.set()
    working.join()
    assert not any("operation" in problem["about"] for problem in found)


@pytest.mark.usefixtures("healthy")
def test_the_status_check_names_a_masked_cluster_only_when_topics_are_written_there(store: MemoryStore) -> None:
    # Given both clusters masked, of which the west is the writer of a topic that was moved
    for name in ("east", "west"):
        shown("mask", name, "--reason", "test", "--force")

    def masked() -> dict[str, str]:
        found = problems()
        return {problem["about"]: problem["text"] for problem in found if problem["about"].startswith("cluster ")}

    # When the status is checked
    # Then only that one is reported
    assert list(masked()) == ["cluster west"]
    assert "1 topic is written there and nowhere else: orders" in masked()["cluster west"]
    # And the other one as soon as it is known to have a topic that was never moved
    bills = KnownTopic(cluster="east", name="bills", at=utc_now(), partitions=1, replication=1)
    store.keep_known(KnownTopic, "east", [bills])
    assert "bills" in masked()["cluster east"]


@pytest.mark.usefixtures("healthy")
def test_groups_and_topics_are_listed_with_their_lag(store: MemoryStore, monkeypatch: pytest.MonkeyPatch) -> None:
    # Given `orders`, cut over at 9, with 4 more in west; `billing` of east, which has committed 5; `bills`, not read
    def ends(end: int) -> dict[int, LogEnds]:
        return {0: LogEnds(0, end, end, end, 1, 0)}

    there = {
        "east": {
            "orders": TopicDescription("orders", 1, 1, {}, ends(9)),
            "bills": TopicDescription("bills", 1, 1, {}, ends(3)),
        },
        "west": {"orders": TopicDescription("orders", 1, 1, {}, ends(4))},
    }
    monkeypatch.setattr(Admin, "topics", lambda self, *_names, **_options: there[self.cluster.name])
    monkeypatch.setattr(
        Admin, "list_groups", lambda self, **_options: {"billing": "Empty"} if self.cluster.name == "east" else {}
    )
    monkeypatch.setattr(
        Admin,
        "describe_groups",
        lambda _self, names, **_options: {n: GroupDescription(n, "Empty", "", "", (), 1) for n in names},
    )
    monkeypatch.setattr(Admin, "group_offsets", lambda *_args, **_options: {"billing": {("orders", 0): (5, "")}})
    # When groups and topics are listed
    (group,) = document("groups")["groups"]
    topics = {topic["topic"]: topic for topic in document("topics")["topics"]}
    # Then each has its records and its lag over both clusters
    assert (group["group"], group["lag_records"], group["age_s"]) == ("billing", 8, None)
    assert (topics["orders"]["written_in"], topics["orders"]["older_in"]) == (["west"], ["east"])
    assert (topics["orders"]["records"], topics["orders"]["furthest"], topics["orders"]["lag_records"]) == (
        13,
        "billing",
        8,
    )
    assert (topics["bills"]["moved"], topics["bills"]["records"], topics["bills"]["groups"]) == (False, 3, 0)
    assert "bills" in shown("topics")
    assert "billing" in shown("groups")


def test_a_group_with_an_unreachable_coordinator_is_shown_with_its_last_seen_commits(store: MemoryStore) -> None:
    seen = KnownGroup(cluster="east", name="billing", at=utc_now(), state="Stable", offsets={"orders": {0: 5}})
    store.keep_known(KnownGroup, "east", [seen])

    text = shown("group", "billing")

    assert "last seen" in text
    assert "committed nothing" not in text
    assert "east cannot be asked" in text
    assert [partition["committed"] for partition in document("groups")["groups"][0]["partitions"]] == [5]


def test_masking_and_history_show_who_did_what_and_why(store: MemoryStore) -> None:
    # When a cluster is masked twice
    code, report = run("mask", "west", "--reason", "power failure", "--force")
    # Then the first time shows its dependents, and the second one changes nothing
    assert (code, report["result"], report["depends"]["written"]) == (0, "succeeded", ["orders"])
    _, again = run("mask", "west", "--reason", "power failure")
    assert (again["changed"], again["operation"]) == (False, None)
    # And the history has one operation with its reason and its steps
    (operation,) = document("history")["operations"]
    assert (operation["kind"], operation["reason"]) == ("mask", "power failure")
    assert operation["by"].startswith("cli:")
    _, detail = run("history", operation["id"])
    assert [entry["step"] for entry in detail["history"]] == ["mask", "mask", "serve", "serve"]
    assert operation["id"] in shown("history")


def test_a_cluster_with_written_topics_is_masked_only_by_force_and_a_dry_run_names_them(
    store: MemoryStore,
) -> None:
    before = store.load()

    assert "1 topic is written there: orders" in shown("mask", "west", "--reason", "test", "--dry-run")
    code, refused = run("mask", "west", "--reason", "test")

    assert code == 2
    assert "orders" in refused["error"]
    assert "--force" in refused["error"]
    assert store.load() == before
    assert run("mask", "east", "--reason", "test")[0] == 0


@pytest.mark.usefixtures("store")
def test_a_topic_is_drawn_as_text_and_given_whole_as_json() -> None:
    assert "west [9, …) → 0 term 1" in shown("topic", "orders")
    assert document("topic", "orders")["map"]["partitions"]["0"][1]["cluster"] == "west"


def test_a_defect_is_one_line_that_names_the_debug_option(store: MemoryStore, monkeypatch: pytest.MonkeyPatch) -> None:
    def defect(_store: MemoryStore) -> None:
        raise ZeroDivisionError("division by zero")

    monkeypatch.setattr(MemoryStore, "load", defect)

    ended = CliRunner().invoke(build(), ["status", "--json"])

    assert ended.exit_code == DEFECT
    assert "--debug" in json.loads(ended.stdout)["error"]
    assert "Traceback" not in ended.stderr


def test_unmasking_an_unreachable_cluster_fails_with_its_own_exit_code(
    store: MemoryStore,
) -> None:
    assert run("mask", "west", "--reason", "a flood", "--force")[0] == 0

    code, data = run("unmask", "west")

    assert code == OUT_OF_REACH
    assert "stays masked" in data["error"]


def test_the_bounds_of_the_lag_of_copies_are_those_of_the_request(store: MemoryStore) -> None:
    bounds = {"warn_lag_records": 1, "warn_lag_ms": 2, "refuse_lag_records": 5, "refuse_lag_ms": 7}
    options = [word for name, value in bounds.items() for word in (f"--{name.replace('_', '-')}", str(value))]
    move = ("switch", "topic:orders", "--from", "east", "--to", "west", "--reason", "drill", "--dry-run")

    asked = run(*move, *options)[1]["request"]

    assert {name: asked[name] for name in bounds} == bounds
    by_default = run(*move)[1]["request"]
    assert by_default["refuse_lag_records"] is by_default["refuse_lag_ms"] is None


@pytest.mark.parametrize("verify", ["none", "sample", "full"])
def test_how_much_of_copies_is_compared_before_a_switch_is_in_its_request(store: MemoryStore, verify: str) -> None:
    move = ("switch", "topic:orders", "--from", "east", "--to", "west", "--reason", "drill", "--dry-run")

    assert run(*move, "--verify", verify)[1]["request"]["verify"] == verify
    assert run(*move)[1]["request"]["verify"] == "sample"
