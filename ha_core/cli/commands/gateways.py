"""`gateways`: those that are alive, and those that are expected."""

from typing import Annotated

from typer import Argument

from ha_core.cli.command import CommandResult, CommandRun, command
from ha_core.model import ExpectedNumber
from ha_core.model.gateway import by_gateway
from ha_core.model.numeral import whole_number
from ha_core.operations.engine.errors import unchanged
from ha_core.present.status import gateways_page

MAX_NUMBER = 10_000
NO_NUMBER = "any"


@command("gateways list", "Gateways that are alive or expected.")
def list_gateways(session: CommandRun) -> CommandResult:
    store = session.environment.store
    gateways, expected, number = store.gateways(), store.expected_gateways(), store.expected_number()
    document = {
        "gateways": gateways,
        "expected": [*expected.values()],
        "number": None if number is None else number.number,
    }
    return CommandResult(document, gateways_page(store.load().revision, gateways, expected, number))


@command("gateways expect", "Declare which gateways have to be alive: `status --check` names those that are not.")
def expect(
    session: CommandRun,
    gateways: Annotated[
        list[str],
        Argument(
            metavar="NUMBER|GATEWAY…",
            help=f"How many, whatever their ids are; or their ids, which are added; `{NO_NUMBER}` ends the number.",
        ),
    ],
) -> CommandResult:
    environment = session.environment
    store = environment.store
    first = gateways[0]
    if len(gateways) == 1 and (first == NO_NUMBER or first.isdigit()):
        number = None if first == NO_NUMBER else whole_number(first, MAX_NUMBER)
        if first != NO_NUMBER and not number:
            raise unchanged(f"{first[:20]} gateways: give a number from 1 to {MAX_NUMBER:,}.")
        wanted = None if number is None else ExpectedNumber(number=number, by=environment.by, since=environment.now())
        store.expect_number(wanted)
        words = "No number of gateways is expected." if number is None else f"Expected gateways: {number}."
        return CommandResult({"result": "succeeded", "number": number}, [words])
    if wrong := [name for name in gateways if not name or name.isdigit() or name == NO_NUMBER]:
        raise unchanged(f"{wrong[0]!r} between ids: give one number, or ids of gateways.")
    for name in gateways:
        store.declare_gateway(name)
    document = {"result": "succeeded", "expected": sorted(store.expected_gateways())}
    return CommandResult(document, [f"Expected by name: {', '.join(gateways)}."])


@command("gateways forget", "Stop expecting a gateway that died or was stopped, and will not come back.")
def forget(session: CommandRun, gateway: Annotated[str, Argument(metavar="GATEWAY")]) -> CommandResult:
    store = session.environment.store
    if gateway in by_gateway(store.gateways()):
        raise unchanged(f"Gateway {gateway} is alive. Stop it by SIGTERM, which ends the expectation.")
    if not store.forget_gateway(gateway):
        expected = ", ".join(sorted(store.expected_gateways())) or "none"
        raise unchanged(f"Gateway {gateway} is not expected (expected: {expected}).")
    return CommandResult({"result": "succeeded", "gateway": gateway}, [f"Gateway {gateway} is not expected any more."])
