"""`status --check`: codes, ages, commands and folded problems, on the store in memory."""

from datetime import UTC, datetime, timedelta

import pytest

from ha_core.cli import command
from ha_core.cli.exits import ATTENTION, BAD_INPUT, OUT_OF_REACH, SUCCESS
from ha_core.kafka.admin import Admin
from ha_core.kafka.probe import Probe
from ha_core.model import (
    Cluster,
    ExpectedGateway,
    Extent,
    GatewayRecord,
    KnownTopic,
    Mirror,
    PlatformChange,
    Topic,
)
from ha_core.operations.engine.environment import utc_now
from ha_core.present.status import COLUMNS
from ha_core.store.errors import StoreUnavailableError
from stack.memory_store import MemoryStore
from tests.cli.invoking import document, problems, run, seeded, shown, use
from tests.kit.operations import a_switch

CLUSTERS = (
    Cluster(name="east", bootstrap="127.0.0.1:1", default=True),
    Cluster(name="west", bootstrap="127.0.0.1:1"),
)
GATEWAY = GatewayRecord(id="gw-1", host="h", port=1, node_id=1, revision=1, records_facts=True)


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> MemoryStore:
    """With one live gateway, and clusters that answer."""
    monkeypatch.setattr(Admin, "probe", lambda _self, **_options: Probe(True, answers=True))
    made = seeded(*CLUSTERS)
    made.client().register_gateway(GATEWAY)
    use(made, monkeypatch)
    return made


def later(store: MemoryStore, monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    """The next commands run so much later."""
    at = (datetime.now(UTC) + timedelta(seconds=seconds)).isoformat(timespec="milliseconds")
    use(store, monkeypatch, now=lambda: at.replace("+00:00", "Z"))


def notices() -> dict[str, str]:
    """Code → subject."""
    return {notice["code"]: notice["about"] for notice in document("status", "--check")["notices"]}


def test_a_problem_has_a_code_a_command_and_the_age_since_the_first_check(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.expect_gateway(ExpectedGateway(gateway="gw-2", host="h", port=1, since=utc_now()))

    (first,) = problems()
    later(store, monkeypatch, 40)
    (second,) = problems()

    assert (first["code"], first["command"]) == ("gateway-died", "switchyard gateways forget gw-2")
    assert (second["since"], second["age"]) == (first["since"], "seen")
    assert 39 < second["age_s"] - first["age_s"] < 60
    assert "gateway gw-2: gateway-died, seen for" in " ".join(check_text().split())


def check_text() -> str:
    from typer.testing import CliRunner

    from ha_core.cli.app import build

    return CliRunner().invoke(build(), ["status", "--check"]).stdout


def test_a_declared_number_of_gateways_is_an_alarm_after_a_minute_and_whichever_they_are(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given a pod that got another id at its restart, and two expected gateways of which one is there
    assert run("gateways", "expect", "2")[0] == SUCCESS
    assert notices() == {"gateways-missing": "number of gateways"}
    later(store, monkeypatch, 70)
    # Then the number is an alarm
    assert [problem["code"] for problem in problems()] == ["gateways-missing"]
    # When another one comes, then a gateway that vanished is not missed
    other = store.client()
    other.register_gateway(GATEWAY.changed(id="gw-7"))
    store.expect_gateway(ExpectedGateway(gateway="gw-2", host="h", port=1, since=utc_now()))
    assert problems() == []
    assert document("gateways", "list")["number"] == 2
    # And without the number it is
    assert run("gateways", "expect", "any")[0] == SUCCESS
    assert [problem["code"] for problem in problems()] == ["gateway-died"]


def test_a_vanished_gateway_below_the_declared_number_is_an_alarm_at_once(store: MemoryStore) -> None:
    run("gateways", "expect", "2")
    store.expect_gateway(ExpectedGateway(gateway="gw-2", host="h", port=1, since=utc_now()))

    (problem,) = problems()

    assert (problem["code"], "gw-2" in problem["text"]) == ("gateways-missing", True)


def test_a_gateway_declared_by_name_is_missed_when_it_was_stopped_and_is_not_back_in_ten_minutes(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run("gateways", "expect", "gw-1", "gw-2")[0] == SUCCESS
    store.expect_gateway(ExpectedGateway(gateway="gw-2", host="h", port=1, since=utc_now()))
    store.gateway_stopped("gw-2", utc_now())
    assert problems() == []

    later(store, monkeypatch, 700)

    (problem,) = problems()
    assert (problem["code"], problem["about"], problem["age"]) == ("gateway-stopped", "gateway gw-2", "stored")
    assert run("gateways", "forget", "gw-2")[0] == SUCCESS
    assert problems() == []


@pytest.mark.parametrize("words", [["0"], ["10001"], ["2", "gw-1"], ["any", "gw-1"], ["²"]])
def test_a_wrong_number_of_gateways_is_refused(store: MemoryStore, words: list[str]) -> None:
    code, answer = run("gateways", "expect", *words)

    assert (code, answer["result"]) == (BAD_INPUT, "refused")
    assert (store.expected_number(), store.expected_gateways()) == (None, {})


def test_a_command_killed_with_locks_is_a_notice_at_once_and_an_alarm_after_a_minute(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    started = (datetime.now(UTC) - timedelta(seconds=8)).isoformat()
    store.create_operation(a_switch(state="running", started=started), ["topic:a"])
    assert notices() == {"operation-without-executor": "operation switch-1"}

    later(store, monkeypatch, 60)

    (problem,) = problems()
    assert (problem["code"], problem["command"]) == ("operation-abandoned", "switchyard resume switch-1")
    assert 60 < problem["age_s"] < 100
    assert notices() == {}


def test_mirrors_of_a_dead_cluster_are_folded_below_it_and_advise_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    # Given a dead source with two topics, of which one has a copy that no job copies
    monkeypatch.setattr(
        Admin, "probe", lambda self, **_options: Probe(self.cluster.name == "west", answers=self.cluster.name == "west")
    )
    store = seeded(*CLUSTERS, Mirror.of("payments", "east", "west", "link-1", "2026-11-23T10:00:00Z", "test"))
    store.client().register_gateway(GATEWAY)
    known = [
        KnownTopic(cluster="east", name=name, at=utc_now(), ends={0: 1}, partitions=1, replication=1)
        for name in ("orders", "payments")
    ]
    store.keep_known(KnownTopic, "east", known)
    use(store, monkeypatch)
    # When the status is checked
    code, status = run("status", "--check")
    # Then one line names the cause, the command to go on, and the topic without a copy
    (problem,) = status["problems"]
    assert (code, problem["code"], problem["about"]) == (ATTENTION, "cluster-away", "cluster east")
    assert problem["command"].startswith("switchyard switch topic:payments --from east --to west --mode forced")
    assert "1 topic has no copy and cannot be written: orders" in problem["remedy"]
    assert [one["code"] for one in problem["follows"]] == ["mirror-not-copied"]
    assert "└ mirrors in west: mirror-not-copied" in check_text()
    assert "spark_jobs mirror" not in check_text()


def test_a_dead_cluster_where_nothing_is_written_after_a_failover_is_not_to_be_masked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(
        Admin, "probe", lambda self, **_options: Probe(self.cluster.name == "west", answers=self.cluster.name == "west")
    )
    east, west = (one.model_copy(update={"default": one.name == "west"}) for one in CLUSTERS)
    extents = (
        Extent(cluster="east", start=0, end=9, base=0, writer_epoch=0),
        Extent(cluster="west", start=0, base=9, writer_epoch=1),
    )
    failed_over = Topic(name="orders", writer="west", partitions={0: extents})
    store = seeded(east, west, failed_over)
    store.client().register_gateway(GATEWAY)
    use(store, monkeypatch)

    problem = next(one for one in run("status", "--check")[1]["problems"] if one["code"] == "cluster-away")

    assert problem["command"] == "switchyard clusters"
    assert "Readers of older records of orders wait for it." in problem["remedy"]
    assert "mask" not in problem["remedy"]


def test_a_check_without_zookeeper_has_a_code_and_an_exit_code_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    def away(*_: object, **_options: object) -> None:
        raise StoreUnavailableError("no ZooKeeper answers at h:1")

    monkeypatch.setattr(command, "connect", away)

    code, status = run("status", "--check")

    assert (code, [one["code"] for one in status["problems"]]) == (OUT_OF_REACH, ["zookeeper-away"])
    assert run("status")[0] == OUT_OF_REACH


def test_a_change_of_the_platform_that_no_gateway_follows_is_an_alarm_until_it_is_forgotten(store: MemoryStore) -> None:
    store.note_platform_change(PlatformChange(kind="users", changed_us=1_000_000, by="till", database="sqlite:////db"))

    (problem,) = problems()

    assert (problem["code"], problem["about"]) == ("platform-unfollowed", "users of the platform")
    assert "no gateway follows this database" in problem["text"]
    assert run("platform", "forget", "users")[0] == SUCCESS
    assert problems() == []
    assert run("platform", "forget", "users")[0] == BAD_INPUT


def test_quotas_that_a_service_has_published_since_are_no_problem(store: MemoryStore) -> None:
    store.note_platform_change(PlatformChange(kind="quotas", changed_us=7, by="till"))
    assert [problem["code"] for problem in problems()] == ["platform-unfollowed"]

    store.publish(store.publication(), 9, "service", [])

    assert problems() == []


def test_quotas_of_another_database_do_not_hide_that_the_change_is_in_force_nowhere(store: MemoryStore) -> None:
    store.publish(store.publication(), 9, "service", [])
    store.note_platform_change(PlatformChange(kind="quotas", changed_us=7, by="till", elsewhere_us=(9,)))

    assert [problem["code"] for problem in problems()] == ["platform-unfollowed"]


@pytest.mark.usefixtures("store")
def test_the_help_explains_each_column_of_status() -> None:
    help_ = " ".join(shown("status", "--help").replace("│", " ").split())

    assert all(f"{column}: " in help_ for columns in COLUMNS.values() for column in columns)


def test_a_mistyped_cluster_is_answered_with_the_like_one(store: MemoryStore) -> None:
    code, answer = run("mask", "eastt", "--reason", "test")

    assert (code, "Did you mean east?" in answer["error"]) == (BAD_INPUT, True)
    assert store.load().clusters["east"].masked is None
