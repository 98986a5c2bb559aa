"""Operations of a DAG run are found by the run's name."""

from datetime import UTC, datetime
from itertools import repeat

import pytest

from ha_core.model import Operation
from ha_core.model.operation import OperationState
from tests.dags import airflow_home
from tests.kit.operations import a_switch

assert airflow_home  # before anything of airflow: the package below imports it

from ha_core.operators.dag_run import MAX_ATTEMPTS, base_id, current_id, known_ids  # noqa: E402

RUN = ("switch", "moves", "manual__2026-01-02T03:04:05+00:00", datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC))


UNDONE: OperationState = "undone"


class Operations:
    """Operations by id."""

    def __init__(self, *states: OperationState) -> None:
        base = base_id(*RUN)
        ids = [base, *(f"{base}.{number}" for number in range(2, len(states) + 1))]
        self.known = dict(zip(ids, states, strict=False))

    def read(self, operation_id: str) -> Operation | None:
        state = self.known.get(operation_id)
        if state is None:
            return None
        return a_switch(id=operation_id, state=state)


def test_the_operation_id_of_a_run_is_stable_and_differs_between_runs() -> None:
    assert base_id(*RUN) == base_id(*RUN)
    assert base_id(*RUN) != base_id(*RUN[:2], RUN[2] + "x", RUN[3])
    assert base_id(*RUN).startswith("switch-20260102-030405-")
    assert base_id("mirror", *RUN[1:]) == base_id(*RUN).replace("switch", "mirror")


def test_the_id_of_the_last_attempt_is_a_legal_operation_id() -> None:
    operations = Operations(*repeat(UNDONE, MAX_ATTEMPTS - 1))

    a_switch(id=current_id(base_id(*RUN), operations.read))


@pytest.mark.parametrize("state", ["planned", "running", "fenced", "cut", "succeeded", "failed"])
def test_a_run_continues_its_operation_unless_that_was_undone(state: OperationState) -> None:
    assert current_id(base_id(*RUN), Operations(state).read) == base_id(*RUN)


def test_after_an_undone_operation_the_run_begins_a_new_one() -> None:
    assert current_id(base_id(*RUN), Operations("undone").read) == f"{base_id(*RUN)}.2"
    assert current_id(base_id(*RUN), Operations("undone", "running").read) == f"{base_id(*RUN)}.2"
    assert current_id(base_id(*RUN), Operations("undone", "undone").read) == f"{base_id(*RUN)}.3"


def test_a_run_whose_attempts_were_all_undone_asks_for_a_new_run() -> None:
    with pytest.raises(ValueError, match="Trigger a new run"):
        current_id(base_id(*RUN), Operations(*repeat(UNDONE, MAX_ATTEMPTS)).read)


def test_the_operations_of_a_run_are_those_that_exist() -> None:
    base = base_id(*RUN)

    assert known_ids(base, Operations().read) == []
    assert known_ids(base, Operations("undone", "cut").read) == [base, f"{base}.2"]
