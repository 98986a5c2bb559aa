"""`gateways`: gateways that are expected to be alive."""

from __future__ import annotations

from typing import Annotated

from typer import Argument

from ha_core.cli.command import CommandResult, CommandRun, command
from ha_core.model.gateway import by_gateway
from ha_core.operations.engine.errors import unchanged


@command("gateways forget", "Stop expecting a gateway that died and will not come back.")
def forget(session: CommandRun, gateway: Annotated[str, Argument(metavar="GATEWAY")]) -> CommandResult:
    store = session.environment.store
    if gateway in by_gateway(store.gateways()):
        raise unchanged(f"Gateway {gateway} is alive. Stop it by SIGTERM, which ends the expectation.")
    if not store.forget_gateway(gateway):
        expected = ", ".join(sorted(store.expected_gateways())) or "none"
        raise unchanged(f"Gateway {gateway} is not expected (expected: {expected}).")
    return CommandResult({"result": "succeeded", "gateway": gateway}, [f"Gateway {gateway} is not expected any more."])
