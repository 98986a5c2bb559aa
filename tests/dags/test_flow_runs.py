"""Runs of the DAGs about flows of MirrorMaker 2, against real clusters."""

import pytest

from ha_core.model import FlowDeclaration
from ha_core.operations.engine.environment import Environment
from tests.dags.conftest import Run
from tests.kit.running import bootstrap

pytestmark = [pytest.mark.stack, pytest.mark.airflow]
BOTH = {"look": "success", "change": "success", "release": "success", "report": "success"}


def test_flows_are_checked_declared_and_withdrawn(run_dag: Run, environment: Environment) -> None:
    keys = f"clusters = A, B\nA.bootstrap.servers = {bootstrap(environment, 'east')}\n"
    keys += f"B.bootstrap.servers = {bootstrap(environment, 'west')}\nA->B.enabled = true\n"
    form = {"name": "by-airflow", "properties": keys, "reason": "a test", "dry_run": False}

    def stored() -> bool:
        return environment.store.read(FlowDeclaration, "by-airflow") is not None

    looked = run_dag("mirror_flows", {**form, "dry_run": True})
    checked = run_dag("mirror_flows", {**form, "action": "check"})
    secret = run_dag("mirror_flows", {**form, "properties": keys + "A.ssl.key.password = s3cret\n"})
    before = stored()
    declared = run_dag("mirror_flows", form)
    there = stored()
    again = run_dag("mirror_flows", form)
    withdrawn = run_dag("mirror_flows", {**form, "action": "withdraw", "properties": None})

    assert looked.results["report"]["outcome"] == "DRY RUN: would declare by-airflow: 1 flow (A->B)"
    assert checked.tasks == {**BOTH, "change": "skipped"}
    assert checked.results["report"]["outcome"].startswith("DONE: checked, nothing was changed: by-airflow: 1 flow")
    assert secret.state == "failed"
    assert "A.ssl.key.password" in secret.results["report"]["outcome"]
    assert "s3cret" not in str(secret.results)
    assert not before
    assert declared.tasks == BOTH
    assert there
    assert again.tasks["change"] == "skipped"
    assert withdrawn.tasks == BOTH
    assert not stored()


def test_moving_a_group_by_an_undeclared_flow_is_refused(run_dag: Run) -> None:
    form = {"group": "billing", "flow": "east->west", "reason": "a test", "dry_run": False}

    outcome = run_dag("move_group", form)

    assert outcome.state == "failed"
    assert outcome.tasks["look"] == "failed"
    assert "No declaration has east->west" in outcome.results["report"]["outcome"]
