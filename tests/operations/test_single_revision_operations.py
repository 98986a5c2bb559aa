from collections.abc import Callable
from unittest.mock import Mock

import pytest

from ha_core.model import Cluster, GatewayRecord, SingleOperation, Use, UserBindings, View
from ha_core.operations.access.bindings import apply_bindings, plan_bindings, with_client_ids, with_level
from ha_core.operations.access.bindings_file import parse
from ha_core.operations.clusters import registered
from ha_core.operations.clusters.masking import mask_cluster, unmask_cluster
from ha_core.operations.engine import single
from ha_core.operations.engine.environment import Environment
from ha_core.operations.engine.errors import RefusedError
from ha_core.operations.engine.journal import Journal
from ha_core.operations.engine.report import Report
from ha_core.operations.running import engine
from ha_core.store.commits import StateChange
from ha_core.store.errors import ConflictError, LockedError, StoreUnavailableError
from ha_core.store.usage import Sighting
from stack.memory_store import MemoryStore

BOTH = parse("bindings: {alice: {cluster: east, groups: {billing: west}}, bob: {cluster: west}}", "team.yaml")


def gateway(identifier: str, revision: int) -> GatewayRecord:
    return GatewayRecord(id=identifier, host="127.0.0.1", port=9092, node_id=1, revision=revision)


def test_masking_is_one_revision_with_an_operation_and_history_and_leaves_no_lock(environment: Environment) -> None:
    # Given a cluster that is not masked
    before = environment.store.load().revision
    # When it is masked
    outcome = mask_cluster(environment, "east", "power failure")
    # Then revision, operation and history say who did it and why, and no lock is left
    view = environment.store.load()
    assert view.revision == before + 1
    masked = view.clusters["east"].masked
    assert masked is not None
    assert (masked.reason, masked.by) == ("power failure", "test:operator")
    assert outcome.report is not None
    assert outcome.report.result == "succeeded"
    assert outcome.report.revision == view.revision
    (operation,) = environment.store.operations(10)
    assert (operation.kind, operation.state, operation.reason) == ("mask", "succeeded", "power failure")
    assert [(e.step, e.outcome) for e in environment.store.history(operation.id)] == [
        ("mask", "started"),
        ("mask", "done"),
        ("serve", "started"),
        ("serve", "done"),
    ]
    assert environment.store.locks() == []


def test_masking_a_masked_cluster_changes_nothing_and_says_so(environment: Environment) -> None:
    mask_cluster(environment, "east", "power failure")
    before = environment.store.load()

    outcome = mask_cluster(environment, "east", "again")

    assert outcome.report is None
    assert "power failure" in outcome.words
    assert environment.store.load() == before


def test_masking_an_unknown_cluster_names_the_known_ones(environment: Environment) -> None:
    with pytest.raises(RefusedError, match=r"'north' \(known: east, west\)"):
        mask_cluster(environment, "north", "power failure")


def test_a_cluster_whose_health_probe_fails_stays_masked(environment: Environment) -> None:
    mask_cluster(environment, "east", "power failure")

    with pytest.raises(RefusedError, match="stays masked"):
        unmask_cluster(environment, "east", "back")

    assert environment.store.load().clusters["east"].masked is not None


def test_a_declaration_is_planned_without_change_and_applied_as_one_revision(environment: Environment) -> None:
    # When a declaration is planned
    before = environment.store.load().revision
    plan = plan_bindings(environment, BOTH)
    # Then its differences are listed, and nothing has changed
    assert [line for d in plan.differences for line in d.lines()] == [
        "alice: (none) → east",
        "alice##billing: (none) → west",
        "bob: (none) → west",
    ]
    assert environment.store.load().revision == before
    # When it is applied
    report = apply_bindings(environment, plan, "team change")
    # Then all of it is stored by one revision, and nothing differs any more
    assert report.result == "succeeded"
    assert environment.store.load().revision == before + 1
    assert environment.store.load().bindings == dict(BOTH.bindings)
    assert plan_bindings(environment, BOTH).differences == ()
    assert environment.store.locks() == []


def test_a_user_declared_without_bindings_loses_its_document(environment: Environment) -> None:
    apply_bindings(environment, plan_bindings(environment, BOTH))

    apply_bindings(environment, plan_bindings(environment, parse("bindings: {bob: {}}", "team.yaml")))

    assert set(environment.store.load().bindings) == {"alice"}


def test_applying_bindings_waits_until_every_live_gateway_serves_the_revision(
    environment: Environment, store: MemoryStore
) -> None:
    # Given two gateways, of which one needs some time to catch up
    current = environment.store.load().revision
    first = store.client().register_gateway(gateway("gw-1", current))
    lagging = store.client().register_gateway(gateway("gw-2", current))
    pauses: list[float] = []

    def catch_up(pause_s: float) -> None:
        pauses.append(pause_s)
        first.update(gateway("gw-1", current + 1))
        if len(pauses) > 3:
            lagging.update(gateway("gw-2", current + 1))

    environment.sleep = catch_up
    # When bindings are applied
    report = apply_bindings(environment, plan_bindings(environment, BOTH))
    # Then the command has waited for the slower one
    assert report.result == "succeeded"
    assert len(pauses) > 3


def test_a_gateway_that_never_serves_the_revision_is_named_and_nothing_stays_locked(
    environment: Environment, store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.client().register_gateway(gateway("gw-9", 0))
    plan = plan_bindings(environment, BOTH)
    monkeypatch.setattr(single, "SERVED_S", 0.05)

    report = apply_bindings(environment, plan)

    assert report.result == "failed"
    assert "gw-9" in report.error
    assert environment.store.locks() == []
    assert environment.store.load().bindings["bob"].cluster == "west"


def test_applying_a_stale_plan_of_bindings_changes_nothing_and_leaves_no_lock(environment: Environment) -> None:
    stale = plan_bindings(environment, BOTH)
    apply_bindings(environment, plan_bindings(environment, with_level(environment.store.load(), "user:bob", "east")))

    with pytest.raises(ConflictError):
        apply_bindings(environment, stale)

    assert environment.store.load().bindings == {"bob": UserBindings(user="bob", cluster="east")}
    assert environment.store.locks() == []
    assert sorted(operation.state for operation in environment.store.operations(10)) == ["succeeded", "undone"]


def test_applying_bindings_of_a_user_that_another_operation_has_locked_is_refused(
    environment: Environment, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = plan_bindings(environment, BOTH)
    monkeypatch.setattr(Journal, "finish", lambda *_: None)
    apply_bindings(environment, plan_bindings(environment, parse("bindings: {bob: {cluster: west}}", "other.yaml")))

    with pytest.raises(LockedError, match="user:bob"):
        apply_bindings(environment, plan)


@pytest.mark.parametrize("end", [engine.resume, engine.undo, engine.release])
def test_an_operation_interrupted_before_its_revision_is_undone_and_unlocked(
    environment: Environment, end: Callable[[Environment, str], Report | None]
) -> None:
    # Given an operation with its lock and without a revision
    operation = SingleOperation(
        id="mask-1", kind="mask", state="running", by="test", reason="test", started=environment.now()
    )
    environment.store.create_operation(operation, ["cluster:east"])
    # When it is resumed, undone or released
    report = end(environment, "mask-1")
    # Then it is undone, and its cluster can be masked again
    assert report is not None
    assert report.result == "undone"
    assert environment.store.locks() == []
    assert mask_cluster(environment, "east", "power failure").report is not None


def test_an_operation_interrupted_after_its_revision_is_finished_by_resume(
    environment: Environment, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(single, "await_served", lambda _journal: None)
        report = mask_cluster(environment, "east", "power failure").report
    assert report is not None
    assert environment.store.locks() != []

    ended = engine.resume(environment, report.operation)

    assert ended.result == "succeeded"
    assert environment.store.locks() == []


def test_an_operation_killed_before_it_noted_its_revision_still_waits_for_every_gateway(
    environment: Environment, store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given a command that dies between its revision and its note of it, and a gateway that does not serve the revision
    store.client().register_gateway(gateway("gw-1", 0))
    monkeypatch.setattr(single, "SERVED_S", 0.05)
    with monkeypatch.context() as patched:
        patched.setattr(Journal, "update", Mock(side_effect=KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            mask_cluster(environment, "east", "power failure")
    (left,) = environment.store.running()
    # When another one ends it
    report = engine.resume(environment, left.id)
    # Then it says that the gateway does not serve it
    assert report.result == "failed"
    assert "gw-1" in report.error


def test_a_revision_whose_answer_was_lost_is_not_called_undone(
    environment: Environment, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given a commit that is made, and whose answer does not come
    commit = environment.store.commit

    def lost(change: StateChange) -> int:
        commit(change)
        raise StoreUnavailableError("whether it was done is unknown")

    with monkeypatch.context() as patched:
        patched.setattr(environment.store, "commit", lost)
        with pytest.raises(StoreUnavailableError):
            mask_cluster(environment, "east", "power failure")
    # When the next process continues it
    (left,) = environment.store.running()
    report = engine.resume(environment, left.id)
    # Then it has succeeded, and the cluster is masked
    assert report.result == "succeeded"
    assert environment.store.load().clusters["east"].masked is not None


def test_setting_or_deleting_a_binding_of_one_level_keeps_the_others(environment: Environment) -> None:
    apply_bindings(environment, plan_bindings(environment, BOTH))

    changed = with_level(environment.store.load(), "user:alice+app-1", "west")
    apply_bindings(environment, plan_bindings(environment, changed))
    changed = with_level(environment.store.load(), "user:alice##billing", None)
    apply_bindings(environment, plan_bindings(environment, changed))

    assert environment.store.load().bindings["alice"] == UserBindings(
        user="alice", cluster="east", instances={"app-1": "west"}
    )


@pytest.mark.parametrize("who", ["user:alice+nobody", "user:alice#nothing", "user:alice##nothing", "user:carol"])
def test_deleting_a_binding_that_does_not_exist_is_refused(environment: Environment, who: str) -> None:
    with pytest.raises(RefusedError, match="no binding"):
        with_level(environment.store.load(), who, None)


def test_a_binding_to_an_unknown_or_a_masked_cluster_is_refused(environment: Environment) -> None:
    mask_cluster(environment, "west", "maintenance")

    with pytest.raises(RefusedError, match="'north'"):
        plan_bindings(environment, parse("bindings: {alice: {cluster: north}}", "f"))
    with pytest.raises(RefusedError, match="maintenance"):
        plan_bindings(environment, BOTH)


def test_binding_a_user_in_use_gives_a_warning_because_a_binding_moves_no_records(environment: Environment) -> None:
    used = Use(how="produce", since=environment.now())
    environment.store.record_usage("bob", [Sighting("topic", "orders", used)])

    warnings = plan_bindings(environment, BOTH).warnings

    assert len(warnings) == 1
    assert warnings[0].startswith("bob ")


def test_registering_a_cluster_twice_changes_nothing_and_a_second_default_is_refused(environment: Environment) -> None:
    revision, changed = registered.add_cluster(environment, "north", "127.0.0.1:9092")
    assert changed
    assert registered.add_cluster(environment, "north", "127.0.0.1:9092") == (revision, False)

    with pytest.raises(RefusedError, match="east is the default"):
        registered.add_cluster(environment, "south", "127.0.0.1:9092", default=True)


@pytest.mark.parametrize(("name", "bootstrap"), [("North!", "a:1"), ("north", "a"), ("north", "a:x"), ("north", "a:0")])
def test_an_invalid_name_or_address_of_a_cluster_is_refused(
    environment: Environment, name: str, bootstrap: str
) -> None:
    with pytest.raises(RefusedError):
        registered.add_cluster(environment, name, bootstrap)


def test_a_cluster_that_a_binding_refers_to_is_not_removed(environment: Environment) -> None:
    apply_bindings(environment, plan_bindings(environment, with_level(environment.store.load(), "user:bob", "west")))

    with pytest.raises(RefusedError, match="binding of bob"):
        registered.remove_cluster(environment, "west")

    registered.remove_cluster(environment, "east")
    assert environment.store.read(Cluster, "east") is None


def test_declared_usage_is_kept_with_its_instance(environment: Environment) -> None:
    registered.declare_usage(environment, "alice", ("orders",), ("billing",), "app-1")

    usage = environment.store.usage()["alice"]

    assert usage.topics["orders"][0].instance == "app-1"
    assert usage.groups["billing"][0].how == "declared"


def test_forms_of_client_ids_are_set_and_removed_with_a_users_bindings(environment: Environment) -> None:
    # Given a user whose client ids have forms
    apply_bindings(environment, plan_bindings(environment, with_client_ids(View(), "user:alice", ("streams",))))
    stored = environment.store.load().bindings["alice"]
    assert stored == UserBindings(user="alice", client_ids=("streams",))
    # When the forms are removed
    view = View(bindings={"alice": stored})
    apply_bindings(environment, plan_bindings(environment, with_client_ids(view, "user:alice", ())))
    # Then the user has no bindings left
    assert "alice" not in environment.store.load().bindings
    with pytest.raises(RefusedError, match="No forms are set"):
        with_client_ids(View(), "user:alice", ())
    with pytest.raises(RefusedError, match="apply to the whole user"):
        with_client_ids(View(), "user:alice+till", ("streams",))


@pytest.mark.parametrize(
    ("bindings", "why"),
    [
        ("{client_ids: ['{instance}{number}']}", "between"),
        ("{client_ids: [streems]}", "Use streams, connect"),
        ("{client_ids: ['{instance}-{number}'], instances: {till-1: west}}", "Bind alice[+]till there"),
    ],
)
def test_malformed_forms_and_forms_that_leave_a_binding_without_clients_are_refused(
    environment: Environment, bindings: str, why: str
) -> None:
    with pytest.raises(RefusedError, match=why):
        plan_bindings(environment, parse(f"bindings: {{alice: {bindings}}}", "team.yaml"))
