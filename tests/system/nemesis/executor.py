"""One step of an operation in a separate process, like a scheduler's task: `… ZOOKEEPER STEP JSON`.

It prints `begun` when everything is imported and connected, right before the step; strikes count from then.
"""

import json
import sys
from datetime import UTC, datetime, timedelta
from typing import Any

from ha_core.model import Operation
from ha_core.operations.engine.environment import Environment, EnvironmentSettings, connect
from ha_core.operations.migration.planning import plan_migration
from ha_core.operations.proposal.proposal import plan
from ha_core.operations.proposal.requests import make_request
from ha_core.operations.running import engine
from ha_core.operations.running.settling import wait_for
from tests.kit.running import ZOOKEEPER_ROOT
from tests.system.nemesis.schedule import Kind

PREPARATION_S = 3.0
SETTLE_S = 20.0


def start(environment: Environment, told: dict[str, Any]) -> Operation:
    """Create the operation, or find the existing one."""
    topic, origin, target, operation_id = told["topic"], told["origin"], told["target"], told["operation"]
    if told["kind"] == Kind.SWITCH:
        request = make_request(
            [f"topic:{topic}", *told["users"].split()],
            origin,
            target,
            reason="test",
            drain_timeout_s=30.0,
            include_other_users=True,
        )
        return engine.start(environment, plan(environment, request), operation_id)
    proposal = plan_migration(
        environment,
        [topic],
        origin,
        target,
        reason="test",
        cut=told["kind"],
        preparation_s=PREPARATION_S,
        drain_timeout_s=30.0,
    )
    proposal.require_sound()
    return engine.start(environment, proposal.batches[0], operation_id)


def carry_out(environment: Environment, step: str, told: dict[str, Any]) -> str:
    """Result of the operation."""
    operation_id = told["operation"]
    if step == "start":
        return start(environment, told).state
    if step == "run":
        report = engine.resume(environment, operation_id)
        return f"{report.result} {report.error}"
    if step == "settle":
        (look,) = wait_for(environment, [operation_id], SETTLE_S)
        return f"{look.operation.state} {look.error}"
    return engine.run_task(environment, operation_id, step).state


def main() -> None:
    zookeeper, step, told = sys.argv[1], sys.argv[2], json.loads(sys.argv[3])
    ahead = timedelta(seconds=float(told["clock_s"]))

    def now() -> str:
        return (datetime.now(UTC) + ahead).isoformat(timespec="milliseconds")

    with connect(EnvironmentSettings(zookeeper, ZOOKEEPER_ROOT), by="test", progress=print) as environment:
        environment.now = now
        print("begun", flush=True)
        print(carry_out(environment, step, told), flush=True)


if __name__ == "__main__":
    main()
