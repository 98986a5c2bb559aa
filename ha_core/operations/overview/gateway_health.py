"""Problems of gateways: those that died, are missing, hang, or lack workers."""

from collections.abc import Collection, Iterator

from ha_core.model import ExpectedGateway, GatewayRecord, View
from ha_core.model.gateway import by_gateway
from ha_core.operations.engine.environment import Environment
from ha_core.plan.facts.problem import Problem
from ha_core.plan.facts.verdict import amount, duration, listed

PAUSE_S = 0.2
MAX_LAG_S = 3.0
"""A gateway may take this long for a new revision; one that lags for longer does not follow."""
RESTART_S = 60.0
"""In a rolling restart a gateway that was stopped on purpose is back within this time."""
UPGRADE_S = 600.0
"""A gateway that is declared by name may be stopped on purpose for this long."""
_SEE = "switchyard gateways list"
_NO_GATEWAY = ("gateways",)


def gateway_problems(environment: Environment, view: View, gateways: Collection[GatewayRecord]) -> Iterator[Problem]:
    yield from missing_gateways(environment, gateways)
    if not gateways:
        yield Problem("no-gateway", "gateways", "No gateway is alive: no client is served.", "Start them.", _SEE)
        return
    for name in sorted(_lagging(environment, view, gateways)):
        yield Problem(
            "gateway-behind",
            f"gateway {name}",
            f"It does not follow: it serves less than revision {view.revision}. Moves wait for it.",
            "Look at its log; stop it if it hangs: clients go to another one.",
            _SEE,
        )
    for name, workers in by_gateway(gateways).items():
        missing = max(gateway.workers for gateway in workers) - len(workers)
        if missing > 0:
            yield Problem(
                "worker-away",
                f"gateway {name}",
                f"{missing} of its {missing + len(workers)} workers {'is' if missing == 1 else 'are'} away: dead, or "
                "hanging. The others serve its clients.",
                "Look at its log, which names the worker and the reason; stop one that hangs: it is started again.",
                _SEE,
            )
    if not any(gateway.records_facts for gateway in gateways):
        yield Problem(
            "no-facts-recorder",
            "gateways that record facts",
            "None records facts about clusters, which a forced move needs when one dies.",
            "Set record_facts_s in a gateway, or run `switchyard facts record --every 60`.",
            "switchyard facts record --every 60",
        )


def missing_gateways(environment: Environment, gateways: Collection[GatewayRecord]) -> Iterator[Problem]:
    """Gateways that vanished, or were declared and are not there.

    While a number is declared, others may have replaced a gateway that vanished: a pod gets another id at each start.
    """
    live = by_gateway(gateways)
    expected, declared = environment.store.expected_gateways(), environment.store.expected_number()
    away = {name: one for name, one in sorted(expected.items()) if name not in live}
    counted = declared is not None
    for one in away.values():
        if one.declared or not (one.stopped or counted):
            yield from _away(environment, one)
    if declared is not None and len(live) < declared.number:
        died = [name for name, one in away.items() if not one.stopped]
        names = f" Not registered, and not stopped: {listed(died)}." if died else ""
        yield Problem(
            "gateways-missing",
            "number of gateways",
            f"{amount(len(live), 'gateway', 'is', 'are')} alive; {declared.by} declared that {declared.number} are "
            f"expected.{names}",
            "Start the others. If fewer are enough: `switchyard gateways expect NUMBER`.",
            _SEE,
            causes=_NO_GATEWAY,
            patience_s=0.0 if died else RESTART_S,
        )


def _away(environment: Environment, expected: ExpectedGateway) -> Iterator[Problem]:
    name = expected.gateway
    forget = f"switchyard gateways forget {name}"
    if expected.stopped:
        stopped_s = environment.age_s(expected.stopped)
        if stopped_s >= UPGRADE_S:
            yield Problem(
                "gateway-stopped",
                f"gateway {name}",
                f"It was stopped on purpose {duration(stopped_s)} ago, is declared as expected, and is not back.",
                f"Start it again. If it is not needed any more: `{forget}`.",
                forget,
                since=expected.stopped,
                causes=_NO_GATEWAY,
            )
        return
    if expected.since:
        ago = duration(environment.age_s(expected.since))
        text = (
            f"It is not registered. It was started {ago} ago at {expected.host}:{expected.port} and was not "
            "stopped: it has died, or does not reach ZooKeeper."
        )
    else:
        text = "It is declared as expected, and has never registered."
    yield Problem(
        "gateway-died",
        f"gateway {name}",
        text,
        f"Start it again, or look at its log. If it is gone for good: `{forget}`.",
        forget,
        causes=_NO_GATEWAY,
        patience_s=0.0 if expected.since else RESTART_S,
    )


def _lagging(environment: Environment, view: View, gateways: Collection[GatewayRecord]) -> set[str]:
    """Gateways that have not caught up with the view after `MAX_LAG_S` either."""
    lagging = {gateway.id for gateway in gateways if gateway.revision < view.revision}
    deadline = environment.monotonic() + MAX_LAG_S
    while lagging and environment.monotonic() < deadline:
        environment.sleep(PAUSE_S)
        lagging = {
            gateway.id
            for gateway in environment.store.gateways()
            if gateway.id in lagging and gateway.revision < view.revision
        }
    return lagging
