"""Migration commands on the store in memory, with two registered clusters that do not answer."""

import json

import pytest
from typer.testing import CliRunner

from ha_core.cli.app import build
from ha_core.cli.commands import moves
from ha_core.cli.exits import BAD_INPUT, FAILURE, OUT_OF_REACH, SUCCESS
from ha_core.model import Cluster, Crossing, Extent, MoveRequest, MoveSet, Scope, Topic
from ha_core.model.extent import Extents
from ha_core.operations.engine.report import Report
from ha_core.operations.migration.planning import MigrationBatch
from ha_core.operations.running import engine
from ha_core.operations.running.whole_cluster import ClusterProposal
from ha_core.present.state import age_words
from stack.memory_store import MemoryStore
from tests.cli.invoking import document, run, seeded, shown, use
from tests.kit.operations import a_migration

CLUSTERS = tuple(Cluster(name=name, bootstrap="127.0.0.1:1", default=name == "east") for name in ("east", "west"))
OPERATION = "migrate-20260101-120000-0a1b"
PARTITIONS: dict[int, Extents] = {
    0: (
        Extent(cluster="east", start=0, end=900, base=0, writer_epoch=0),
        Extent(cluster="west", start=900, end=None, base=0, writer_epoch=1),
    )
}
CROSSING = Topic(
    name="orders", writer="east", partitions=PARTITIONS, crossing=Crossing(operation=OPERATION, state="open")
)
MOVED = Topic(name="payments", writer="west", partitions=PARTITIONS)
AGED = Topic(name="old", writer="west", partitions={0: PARTITIONS[0][1:]})
NEVER = Topic(name="stays", writer="east", partitions={0: (Extent(cluster="east", start=0, base=0, writer_epoch=0),)})


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> MemoryStore:
    store = seeded(*CLUSTERS, CROSSING, MOVED, AGED, NEVER)
    request = MoveRequest(scope=Scope(topics=("orders",)), origin="east", target="west", reason="test", cut="predicted")
    operation = a_migration(id=OPERATION, state="crossing", started="2026-01-01T12:00:00Z", request=request)
    store.create_operation(operation, ["topic:orders"])
    use(store, monkeypatch, now=lambda: "2026-01-01T13:30:00Z")
    return store


@pytest.mark.usefixtures("store")
def test_migrations_lists_every_moved_or_moving_topic_with_its_status() -> None:
    # When migrations are listed
    code, data = run("migrations")
    # Then each topic that has moved or is moving has its status and its partitions
    assert code == 0
    found = {migration["topic"]: migration for migration in data["migrations"]}
    assert {name: migration["status"] for name, migration in found.items()} == {
        "orders": "Migrating",
        "payments": "Migrated",
        "old": "Aged",
    }
    assert (found["orders"]["cut"], found["orders"]["operation"], found["orders"]["age_s"]) == (
        "predicted",
        OPERATION,
        5400.0,
    )
    assert found["payments"]["partitions"] == [
        {
            "partition": 0,
            "status": "Migrated",
            "originClusterId": "east",
            "targetClusterId": "west",
            "endOffset": 900,
            "ignoreOrigin": False,
        }
    ]
    assert found["old"]["originClusterId"] is None


@pytest.mark.usefixtures("store")
def test_migrations_shows_what_blocks_a_running_migration() -> None:
    (migration,) = document("migrations", "--running")["migrations"]
    assert "log ends cannot be read" in migration["blocks"][0]
    assert "127.0.0.1:1" in migration["blocks"][0]
    text = shown("migrations")
    assert "1 h 30 min" in text
    assert "stays" not in text
    assert "crosses over (open)" in shown("topic", "orders")


@pytest.mark.usefixtures("store")
@pytest.mark.parametrize(
    ("words", "error"),
    [
        (("--cut-at", "orders=5"), "TOPIC:PARTITION=OFFSET"),
        (("--cut-at", "orders:x=5"), "TOPIC:PARTITION=OFFSET"),
        (("--cut-at", "orders:0=5", "--cut-at", "orders:0=6"), "partition 0"),
        (("--cut", "soft"), "soft"),
        (("--groups", "some"), "--groups"),
        (("--preparation", "-1"), "preparation"),
        (("--finish-after", "0"), "finish-after"),
        (("--rates", "no-such-file"), "no-such-file"),
    ],
)
def test_bad_input_of_migrate_exits_with_code_2_and_changes_nothing(
    words: tuple[str, ...], error: str, store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    if "--rates" in words:  # rates are only read if everything else is valid
        monkeypatch.setattr("ha_core.operations.migration.planning.JudgedTopics.judge", lambda *_: None)
    before = store.load()

    code, data = run("migrate", "payments-2", "--from", "east", "--to", "west", "--reason", "t", "--yes", *words)

    assert code == 2
    assert error in data["error"]
    assert "\n" not in data["error"]
    assert store.load() == before


@pytest.mark.usefixtures("store")
@pytest.mark.parametrize("topic", ["pay*", "payments-2"])
def test_migrate_from_an_unreachable_cluster_suggests_migrate_from_fault(topic: str) -> None:
    code, data = run("migrate", topic, "--from", "east", "--to", "west", "--reason", "t", "--yes")

    assert code in {BAD_INPUT, OUT_OF_REACH}
    assert "switchyard migrate-from-fault" in data["error"]
    assert "--mode" not in data["error"]


@pytest.mark.usefixtures("store")
def test_settle_with_unreachable_clusters_leaves_the_crossing_open() -> None:
    code, data = run("settle")

    assert code == 1
    (row,) = data["operations"]
    assert (row["operation"], row["state"]) == (OPERATION, "crossing")
    assert "127.0.0.1:1" in row["error"]


def test_ages_are_shown_in_their_two_largest_units() -> None:
    assert [age_words(s) for s in (5, 65, 3700, 90_000)] == ["5 s", "1 min 5 s", "1 h 1 min", "1 d 1 h"]


@pytest.mark.parametrize(("words", "continued"), [((), True), (("--cut-at", "stays:0=9"), False)])
def test_migrate_continues_an_equal_migration_that_was_interrupted_before_its_cuts(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], continued: bool
) -> None:
    # Given a migration whose command was killed while it prepared the target
    request = MoveRequest(
        scope=Scope(topics=("stays",)),
        origin="east",
        target="west",
        reason="test",
        cut="predicted",
        include_other_users=True,
    )
    operation = a_migration("stays", state="running", started="2026-01-01T13:00:00Z", request=request)
    store.create_operation(operation, ["topic:stays"])
    resumed: list[str] = []

    def resume(_: object, name: str) -> Report:
        resumed.append(name)
        return Report(name, "crossing", 7)

    monkeypatch.setattr(engine, "resume", resume)

    # When it is requested again
    asked = ("migrate", "stays", "--from", "east", "--to", "west", "--reason", "again", "--cut", "predicted", "--yes")
    code, data = run(*asked, *words)

    # Then it is continued, unless cuts are given: the interrupted migration may have others
    assert (resumed == ["migrate-1"], code == SUCCESS, data["result"] == "crossing") == (continued,) * 3


def test_a_batch_refused_after_others_have_moved_does_not_report_that_nothing_was_changed(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given a whole cluster in two parts, the second of which has a topic that another operation has locked
    def batch(number: int, topic: str) -> MigrationBatch:
        scope = Scope(topics=(topic,))
        request = MoveRequest(scope=scope, origin="east", target="west", reason="test", include_other_users=True)
        return MigrationBatch(number=number, request=request, moves=MoveSet(topics=(topic,)))

    parts = (batch(1, "stays"), batch(2, "orders"))
    whole = ClusterProposal(revision=1, origin="east", target="west", reason="test", mode="planned", batches=parts)
    monkeypatch.setattr(moves, "plan_cluster", lambda *_, **__: whole)
    monkeypatch.setattr(engine, "resume", lambda _, name: Report(name, "succeeded", 7))
    # When it is moved
    asked = ["switch", "cluster:east", "--from", "east", "--to", "west", "--reason", "test", "--yes", "--json"]
    ended = CliRunner().invoke(build(), asked)
    # Then the moved part is reported, and no text says that nothing was changed
    data = json.loads(ended.stdout)
    assert (ended.exit_code, data["result"]) == (FAILURE, "failed")
    assert [one["result"] for one in data["batches"]] == ["succeeded"]
    assert "batch 2 of 2 was not started: topic:orders is locked by operation" in " ".join(ended.stderr.split())
    assert "Nothing was changed" not in ended.stderr
