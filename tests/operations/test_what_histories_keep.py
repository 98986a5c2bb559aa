"""A history keeps what was checked before a move, the people behind it, and the cost of its fence for clients."""

import pytest

from ha_core.model import GatewayRecord, MoveSet, Provenance
from ha_core.model.evidence import ComparedCopies, MoveEvidence
from ha_core.model.gateway import FenceCost
from ha_core.operations.audit.answers import answers
from ha_core.operations.engine.creating import create_operation
from ha_core.operations.engine.environment import Environment
from ha_core.operations.engine.journal import Journal
from ha_core.operations.engine.single import begin_single
from ha_core.operations.move.client_costs import client_costs
from ha_core.operations.proposal.proposal import Proposal
from ha_core.plan.facts.judged import MAX_FINDINGS, MAX_NAMES, MAX_TEXT, judgement
from ha_core.plan.facts.verdict import error, info, warning
from ha_core.present.audit import answers_page
from stack.memory_store import MemoryStore
from tests.kit.moving import a_move
from tests.kit.operations import a_switch

AT = "2026-11-21T10:00:00.000Z"


def test_a_move_begins_with_the_judgement_that_people_saw_and_with_that_of_its_start(environment: Environment) -> None:
    # Given a proposal that was judged twice
    environment.provenance = Provenance(asked_by="alice", approved_by="bob", run_url="https://airflow.example/r")
    shown = judgement(AT, 3, [warning("copy-lags", "topic a", "lags")], lag_records={"g": None})
    again = judgement(AT, 4, [])
    proposal = Proposal(request=a_move("a"), revision=4, moves=MoveSet(topics=("a",)), judged=again)
    # When it begins
    operation = create_operation(environment, proposal, "switch-1", shown)
    # Then both are in its first entry, with the people behind it
    (entry,) = environment.store.history("switch-1")
    found = answers(operation, [entry])
    assert found.checked == (shown, again)
    assert (found.asked_by, found.approved_by, found.approved_at) == ("alice", "bob", None)
    assert found.run_url == "https://airflow.example/r"
    stored = environment.operation("switch-1")
    assert stored is not None
    assert (stored.asked_by, stored.approved_by, stored.approved_at) == ("alice", "bob", None)


def test_the_page_of_an_operation_says_how_many_ranges_of_all_were_compared() -> None:
    compared = ComparedCopies(verify="sample", records=1, partitions=3, ranges=2, of_ranges=11, seed=7, seconds=0.1)
    operation = a_switch(evidence=MoveEvidence(compared=compared))

    lines = [str(line) for line in answers_page(operation, answers(operation, []))]

    assert "  copies: 2 of 11 ranges compared (1 record), equal" in lines


def test_operations_of_one_revision_have_these_fields_too(environment: Environment) -> None:
    environment.provenance = Provenance(asked_by="alice", bundle_version="4f2a")

    operation = begin_single(environment, "mask", "r", ["cluster:east"]).operation

    assert (operation.asked_by, operation.bundle_version, operation.approved_by) == ("alice", "4f2a", None)


def test_an_entry_names_an_executor_that_is_not_the_first(environment: Environment) -> None:
    operation = a_switch(by="alice (airflow:switch/r)")
    epoch = environment.store.create_operation(operation, [])

    Journal(environment, operation, epoch).append("undo", "done")
    Journal(environment, operation.changed(by=environment.by), epoch).append("undo", "done")

    assert [entry.by for entry in environment.store.history(operation.id)] == [environment.by, None]


def test_a_judgement_is_bounded_and_counts_what_it_leaves_out() -> None:
    # Given more findings, groups and topics than there is room for, the error last
    many = [info("compacted", f"topic {n}", "x" * 1_000) for n in range(200)]
    lags: dict[str, int | None] = {f"g{n}": n for n in range(100)}
    # When
    kept = judgement(
        AT, 1, [*many, error("locked", "topic z", "is locked")], lag_records={**lags, "unknown": None},
        creates={f"t{n}": 1 for n in range(60)},
    )  # fmt: skip
    # Then the worst come first, and the others are counted
    assert (kept.findings[0].code, len(kept.findings), kept.left_out) == ("locked", MAX_FINDINGS, 201 - MAX_FINDINGS)
    assert kept.counts == {"info": 200, "error": 1}
    assert len(kept.findings[1].text) == MAX_TEXT
    assert [*kept.lag_records][:2] == ["unknown", "g99"]
    assert (kept.lags_left_out, kept.creates_left_out) == (101 - MAX_NAMES, 60 - MAX_NAMES)
    assert len(kept.model_dump_json()) < 60_000


def register(store: MemoryStore, name: str, revision: int, costs: dict[str, FenceCost] | None) -> None:
    record = GatewayRecord(id=name, host="h", port=1, node_id=1, revision=revision, fence_costs=costs)
    store.register_gateway(record)


def test_the_cost_for_clients_is_the_sum_over_gateways_and_names_those_that_do_not_tell(
    environment: Environment, store: MemoryStore
) -> None:
    # Given gateways that count, one that lags, one of an earlier version, one that never saw the fence, one that died
    register(store, "gw-1", 9, {"switch-1": FenceCost(refused=3, users={"ann": (2, 50.0), "bob": (1, 7.0)})})
    register(store, "gw-2", 9, {"switch-1": FenceCost(refused=5, users={"ann": (5, 20.0)}, users_left_out=4)})
    register(store, "late", 8, {"switch-1": FenceCost(refused=1)})
    register(store, "old", 9, None)
    register(store, "new", 9, {})
    operation = a_switch("a")
    operation = operation.noting(gateways=("gw-1", "died"))
    # When
    found = client_costs(environment, operation, 9)
    # Then
    assert found == {
        "reported": ["gw-1", "gw-2"],
        "not_known_of": ["died", "late", "new", "old"],
        "refused": 8,
        "users": {"ann": [7, 50.0], "bob": [1, 7.0]},
        "users_left_out": 4,
    }


@pytest.mark.parametrize(("moves", "reported"), [(MoveSet(), ["gw-1"]), (MoveSet(topics=("a",)), [])])
def test_a_move_of_bindings_alone_has_no_fence_and_that_is_known(
    environment: Environment, store: MemoryStore, moves: MoveSet, reported: list[str]
) -> None:
    register(store, "gw-1", 9, {})

    found = client_costs(environment, a_switch("a", moves=moves), 9)

    assert found is not None
    assert (found["reported"], found["refused"]) == (reported, 0)
