"""`switchyard origins give-up` on the store in memory, with two registered clusters that do not answer."""

import pytest
from typer.testing import CliRunner

from ha_core.cli.app import build
from ha_core.kafka.admin import Admin
from ha_core.kafka.probe import Probe
from ha_core.model import Cluster, Document, KnownGroup, KnownTopic, Topic, UserBindings
from ha_core.model.extent import append, identity
from ha_core.operations.absence import given_up
from ha_core.operations.absence.given_up import give_up, plan_giving_up
from ha_core.operations.engine import single
from ha_core.operations.engine.environment import Environment
from ha_core.operations.engine.report import Report
from ha_core.store.commits import StateChange
from stack.memory_store import MemoryStore
from tests.cli.invoking import document, run, seeded, use
from tests.kit.operations import a_switch

AT = "2026-11-21T10:00:00Z"
CUT = 1_000_000
FORCED = append(identity("east"), "west", CUT, 0, known_end=40)
CLUSTERS = (
    Cluster(name="east", bootstrap="127.0.0.1:1"),
    Cluster(name="west", bootstrap="127.0.0.1:1", default=True),
)
MAPS = (
    Topic(name="orders", writer="west", partitions={0: FORCED, 1: FORCED}),
    Topic(name="bills", writer="west", partitions={0: append(identity("east"), "west", 9, 0)}),
    Topic(name="stays", writer="west", partitions={0: identity("west")}),
)
WRITTEN = Topic(name="left", writer="east", partitions={0: append(identity("west"), "east", 5, 0)})
DONE = ("origins", "give-up", "east", "--reason", "the hall has burnt down", "--yes")


@pytest.fixture
def store() -> MemoryStore:
    store = seeded(*CLUSTERS, *MAPS)
    group = KnownGroup(
        cluster="west", name="billing", at=AT, state="Empty", offsets={"orders": {0: 7}, "stays": {0: 1}}
    )
    store.keep_known(KnownGroup, "west", [group])
    seen = [KnownTopic(cluster="east", name=n, at=AT, partitions=1, replication=1) for n in ("orders", "forgotten")]
    store.keep_known(KnownTopic, "east", seen)
    return store


def opened(store: MemoryStore) -> Environment:
    return Environment(store=store.client(), by="test:operator", session_timeout_s=0.5)


@pytest.fixture(autouse=True)
def connected(store: MemoryStore, monkeypatch: pytest.MonkeyPatch) -> None:
    use(store, monkeypatch)


def put(store: MemoryStore, document: Topic | UserBindings, name: str) -> None:
    found = store.read(type(document), name)
    key: tuple[type[Document], str] = (type(document), name)
    store.commit(StateChange(change_id=f"put-{name}", puts=(document,), expected={key: found[1] if found else None}))


def answers(monkeypatch: pytest.MonkeyPatch, probe: Probe) -> None:
    monkeypatch.setattr(
        Admin, "probe", lambda self, **_options: probe if self.cluster.name == "east" else Probe(False, "dead")
    )


def test_a_dry_run_of_giving_up_reports_the_exact_loss_and_changes_nothing(store: MemoryStore) -> None:
    # Given topics with older records in a dead cluster
    before = store.load()
    # When giving it up is planned
    code, plan = run(*DONE, "--dry-run")
    # Then the loss of each extent and of each group is counted, and nothing has changed
    assert (code, plan["result"], plan["changed"]) == (0, "planned", False)
    assert (plan["known_lost"], plan["most_lost"]) == (40 + 40 + 9, CUT + CUT + 9)
    rows = [
        (extent["topic"], extent["partition"], extent["known_lost"], extent["most_lost"]) for extent in plan["extents"]
    ]
    assert rows == [("bills", 0, 9, 9), ("orders", 0, 40, CUT), ("orders", 1, 40, CUT)]
    assert [extent["exact"] for extent in plan["extents"]] == [True, False, False]
    (group,) = plan["groups"]
    assert (group["group"], group["offset"], group["next"], group["known"], group["most"]) == (
        "billing",
        7,
        CUT,
        33,
        CUT - 7,
    )
    assert plan["never_moved"] == ["forgotten"]
    assert store.load() == before
    assert store.operations(10) == []


def test_giving_up_shows_the_losses_and_the_remaining_work() -> None:
    shown = CliRunner().invoke(build(), [*DONE, "orders", "--dry-run"])

    assert "[0, 1000000)" in shown.stdout
    assert "group billing (no members, west) has committed 7 of orders-0: it continues at 1000000" in shown.stdout
    assert "80 offsets are known to be lost, 2000000 at most" in shown.stdout
    assert "these records are not served any more" in shown.stdout
    assert "1 still refer to east, move them away: topic bills" in shown.stdout


def test_giving_up_removes_the_extents_records_the_loss_and_lets_the_cluster_be_removed(store: MemoryStore) -> None:
    # When a cluster is given up
    code, done = run(*DONE)
    # Then its extents are gone, and the history has the loss
    assert (code, done["result"]) == (0, "succeeded")
    topics = store.load().topics
    assert topics["orders"].partitions == {0: FORCED[1:], 1: FORCED[1:]}
    assert topics["stays"] == MAPS[2]
    (operation,) = store.operations(10)
    assert (operation.kind, operation.state, operation.reason) == ("give-up", "succeeded", "the hall has burnt down")
    (entry,) = [e for e in store.history(operation.id) if (e.step, e.outcome) == ("give-up", "done")]
    assert entry.detail["cluster"] == "east"
    assert entry.detail["given_up"] == {
        "bills": {"known_lost": 9, "most_lost": 9, "extents": [[0, 0, 0, 9, None]], "groups": {}},
        "orders": {
            "known_lost": 80,
            "most_lost": 2 * CUT,
            "extents": [[0, 0, 0, CUT, 40], [1, 0, 0, CUT, 40]],
            "groups": {"billing": [1, 33, CUT - 7]},
        },
    }
    assert store.locks() == []
    # And it can be removed, by force since a topic never moved
    code, kept = run("clusters", "remove", "east")
    assert (code, "1 topic is written in east and never moved: forgotten" in kept["error"]) == (2, True)
    assert run("clusters", "remove", "east", "--force")[0] == 0


def test_giving_up_a_cluster_twice_changes_nothing(store: MemoryStore) -> None:
    run(*DONE)
    before = store.load()

    code, again = run(*DONE)

    assert (code, again["result"], again["changed"], again["extents"]) == (0, "succeeded", False, [])
    assert store.load() == before


def test_giving_up_takes_topic_patterns_and_lists_what_still_refers_to_the_cluster(store: MemoryStore) -> None:
    put(store, UserBindings(user="ann", cluster="east"), "ann")

    code, done = run(*DONE, "ord*")

    assert (code, done["pointing"], done["never_moved"]) == (0, ["binding of ann", "topic bills"], [])
    assert store.load().topics["bills"] == MAPS[1]
    refused = run("clusters", "remove", "east")
    assert refused[0] == 2


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (("north",), "'north' (known: east, west)"),
        (("east", "nothing"), "'nothing'"),
        (("east", "x*"), "Pattern 'x*'"),
        (("east", "forgotten"), "migrate-from-fault forgotten --from east"),
        (("east", "left"), "still written in east: left"),
        (("east",), "migrate-from-fault left --from east"),
        (("east", "orders", "--reason", " "), "--reason"),
    ],
)
def test_an_invalid_give_up_is_refused_and_changes_nothing(
    words: tuple[str, ...], error: str, store: MemoryStore
) -> None:
    put(store, WRITTEN, "left")
    before = store.load()

    code, data = run("origins", "give-up", "--reason", "fire", "--yes", *words)

    assert code == 2
    assert error in data["error"]
    assert store.load() == before
    assert store.operations(10) == []


def test_giving_up_without_confirmation_is_refused(store: MemoryStore) -> None:
    before = store.load()

    code, data = run("origins", "give-up", "east", "--reason", "fire")

    assert (code, data["result"]) == (2, "refused")
    assert store.load() == before


def test_giving_up_is_refused_for_all_topics_when_an_operation_has_locked_one(store: MemoryStore) -> None:
    running = a_switch(state="running")
    store.create_operation(running, ["topic:bills"])
    before = store.load()

    code, data = run(*DONE)

    assert code == 2
    assert "switch-1 works on topic bills" in data["error"]
    assert store.load() == before


@pytest.mark.parametrize(
    "probe",
    [
        Probe(True, answers=True),
        Probe(False, "no right", refused=True, answers=True),
        Probe(False, "broker 2 cannot be reached", answers=True),
    ],
    ids=["ready", "refusing", "with a broker away"],
)
def test_a_cluster_that_answers_is_given_up_only_by_force(
    probe: Probe, store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given a cluster that answers
    answers(monkeypatch, probe)
    before = store.load()
    # When it is given up
    code, refused = run(*DONE)
    # Then that is refused with the way out, and done by force
    assert code == 2
    assert "--force" in refused["error"]
    assert "origins check" in refused["error"]
    assert store.load() == before
    forced = run(*DONE, "--force")
    assert (forced[0], forced[1]["answers"]) == (0, True)


def test_giving_up_interrupted_after_its_revision_is_finished_by_the_next_run(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given a run for one topic that has died after its revision
    with monkeypatch.context() as patched, opened(store) as environment:
        patched.setattr(single, "await_served", lambda journal: Report(journal.operation.id, "failed", 0))
        give_up(environment, plan_giving_up(environment, "east", ["orders"]), "fire")
    left = store.locks()
    monkeypatch.setattr(given_up, "QUIET_S", 0.0)
    # When all is given up
    code, again = run(*DONE)
    # Then the first run is finished, and the rest is done
    assert left != []
    assert (code, again["result"]) == (0, "succeeded")
    assert [extent["topic"] for extent in again["extents"]] == ["bills"]
    assert store.locks() == []
    assert [operation.state for operation in store.operations(10)] == ["succeeded", "succeeded"]


def test_giving_up_leaves_a_map_that_changed_since_the_plan_to_the_next_run(store: MemoryStore) -> None:
    # Given a plan, and a map that has changed since
    with opened(store) as environment:
        plan = plan_giving_up(environment, "east")
        changed = Topic(name="orders", writer="west", partitions={0: FORCED, 1: FORCED, 2: identity("west")})
        put(store, changed, "orders")
        # When the plan is carried out
        done = give_up(environment, plan, "fire")
    # Then that map is unchanged, the others are done, and the next run gives it up
    assert not done.succeeded
    assert done.to_json()["result"] == "failed"
    assert done.put_off == ("orders: its map has changed since it was judged",)
    assert store.load().topics["orders"] == changed
    assert store.load().topics["bills"].partitions[0][0].cluster == "west"
    assert run(*DONE)[0] == 0


def test_every_view_of_a_topic_that_waits_for_a_dead_cluster_suggests_giving_it_up() -> None:
    way_out = "switchyard origins give-up east"
    (row,) = [migration for migration in document("migrations")["migrations"] if migration["topic"] == "orders"]
    aging = document("age", "bills", "--dry-run")["extents"][0]["blocks"]

    assert way_out in row["blocks"][0]
    assert way_out in next(block["text"] for block in aging if block["reason"] == "unasked")
    for words in (("origins", "check"), ("topic", "orders")):
        assert way_out in CliRunner().invoke(build(), list(words)).stdout
