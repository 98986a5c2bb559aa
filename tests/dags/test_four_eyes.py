"""A real Airflow whose installation demands four eyes: the user who asked cannot approve, by any form or answer."""

import json
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest

from stack.demo.airflow_api import AirflowApi, AirflowError
from stack.harness import Stack
from tests.dags.conftest import Workload
from tests.kit.stacks import own_stack
from tests.kit.waiting import until

pytestmark = [pytest.mark.stack, pytest.mark.airflow, pytest.mark.long("ha_core/operators/four_eyes.py")]


@pytest.fixture(scope="module", autouse=True)
def four_eyes() -> Iterator[None]:
    """Airflow starts with the setting."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AIRFLOW__SWITCHYARD__FOUR_EYES", "True")
        yield


stack = own_stack(gateways=0, airflow=True)


@pytest.fixture(scope="module")
def airflow(stack: Stack) -> AirflowApi:
    assert stack.airflow is not None
    return AirflowApi(stack.airflow["url"], stack.airflow["user"], stack.airflow["password"])


def patched(airflow: AirflowApi, path: str, body: dict[str, Any]) -> bool:
    request = urllib.request.Request(
        f"{airflow.url}/api/v2/dags/switch/dagRuns/{path}",
        json.dumps(body).encode(),
        {"Content-Type": "application/json", "Authorization": f"Bearer {airflow.token()}"},
        method="PATCH",
    )
    try:
        urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=30).close()
    except OSError:  # refused, or the machine is busy
        return False
    return True


def form(workload: Workload, **more: Any) -> dict[str, Any]:
    return {"scope": [f"user:{workload.user}"], "from": "east", "to": "west", "reason": "a test", **more}


def test_the_user_who_asked_cannot_approve_and_no_form_goes_without_approval(
    airflow: AirflowApi, workload: Workload
) -> None:
    # A form that wants no approval is refused, and one that says nothing of it asks
    with pytest.raises(AirflowError):
        airflow.trigger("switch", "nobody", form(workload, dry_run=False, approval="nobody"))
    run_id = f"own-{workload.user}"
    airflow.trigger("switch", run_id, form(workload, dry_run=False))
    asked = {"deferred", "awaiting_input"}  # before and since Airflow 3.2
    until(lambda: airflow.states("switch", run_id).get("approve") in asked, "asked")
    # The user who asked approves, as often as Airflow takes an answer that comes at once for a failure
    answer = {"chosen_options": ["Approve"], "params_input": {}}
    path = f"{run_id}/taskInstances/approve/-1/hitlDetails"

    def ended() -> bool:
        patched(airflow, path, answer)
        return airflow.states("switch", run_id).get("report") in {"failed", "success"}

    until(ended, "ended", 120)

    assert airflow.states("switch", run_id)["acquire"] == "upstream_failed"
    assert airflow.states("switch", run_id)["report"] == "failed"
    assert workload.user not in workload.view.bindings
    assert workload.environment.store.waiting_approvals() == []
