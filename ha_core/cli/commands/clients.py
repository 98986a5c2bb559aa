"""`connections`, `explain`: who is connected to the gateways, and what becomes of a client's requests there."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument

from ha_core.cli.command import CommandResult, CommandRun, command, option
from ha_core.cli.exits import OUT_OF_REACH, SUCCESS
from ha_core.operations.engine.errors import RefusedError
from ha_core.plan.access.shared_ids import in_use, shared_ids
from ha_core.plan.preflight.clients import defects_of
from ha_core.present.clients import connections_page, explanations_page

if TYPE_CHECKING:
    from ha_core.operations.engine.gateway_queries import Said

_Gateway = Annotated[str | None, option("Ask only this one, by its id.")]


@command("connections", "Who is connected to the gateways: from where, with which software, to which cluster.")
def connections(
    session: CommandRun,
    user: Annotated[str | None, option("Only of this user.")] = None,
    client_id: Annotated[str | None, option("Only with this client.id.")] = None,
    instance: Annotated[str | None, option("Only of this instance; the user's client-id forms apply.")] = None,
    address: Annotated[str | None, option("Only from this address.")] = None,
    cluster: Annotated[str | None, option("Only at brokers of this cluster.")] = None,
    gateway: _Gateway = None,
    limit: Annotated[int, option("At most so many of each gateway.", min=1, max=10_000)] = 1000,
    own: Annotated[bool, option("Show those of Switchyard's own processes, too.", "--own")] = False,
) -> CommandResult:
    asked = (
        ("user", user),
        ("client_id", client_id),
        ("instance", instance),
        ("address", address),
        ("cluster", cluster),
    )
    fields = {field: value for field, value in asked if value is not None}
    said = _ask(session, "/connections", {**fields, "limit": str(limit)}, gateway)
    rows = [
        {"gateway": one.gateway, **row, **_clusters(row), "defects": defects_of(row.get("software")), "own": _own(row)}
        for one in said
        if one.answer is not None
        for row in one.answer["connections"]
    ]
    totals = {one.gateway: one.answer["total"] for one in said if one.answer is not None}
    shared = tuple(shared_ids(row for row in rows if in_use(row) and not row["own"]))
    told = [one._asdict() for one in shared]
    document = {"connections": rows, "totals": totals, "shared_ids": told, "unanswered": _unanswered(said)}
    page = connections_page(rows, totals, _unanswered(said), own or bool(fields), shared)
    return CommandResult(document, page, _code(said))


@command("explain", "What becomes of a client's requests for a topic or group, and what decides it, at each gateway.")
def explain(
    session: CommandRun,
    user: Annotated[str, Argument(metavar="USER")],
    instance: Annotated[str, Argument(metavar="INSTANCE", help='The client.id; "" for none.')],
    name: Annotated[str, Argument(metavar="TOPIC|group:GROUP")],
    address: Annotated[str, option("Where the client comes from, for rules that name addresses.")] = "",
    gateway: _Gateway = None,
) -> CommandResult:
    kind, _, named = name.rpartition(":")
    if kind not in ("", "topic", "group") or not named or not user:
        raise RefusedError(f"{user} {name}: give a user, and a topic's name or group:NAME.")
    fields = {"user": user, "instance": instance, "address": address, kind or "topic": named}
    said = _ask(session, "/explain", fields, gateway)
    answers = [answer for one in said if one.answer is not None for answer in _each(one.answer)]
    agree = len({*map(_outcome, answers)}) <= 1
    document = {"agree": agree, "explanations": answers, "unanswered": _unanswered(said)}
    return CommandResult(document, explanations_page(answers, agree, _unanswered(said)), _code(said))


def _ask(session: CommandRun, path: str, fields: Mapping[str, str], gateway: str | None) -> list[Said]:
    # It brings an HTTP client along, which no other command needs.
    from ha_core.operations.engine.gateway_queries import ask_gateways

    return ask_gateways(session.environment, path, fields, gateway)


def _each(answer: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Of a gateway whose workers do not say the same, that of each worker."""
    return [{key: value for key, value in answer.items() if key != "others"}, *answer.get("others", ())]


def _outcome(answer: Mapping[str, Any]) -> str:
    """What becomes of the client's requests, apart from the reasons. Gateways agree where this is equal.

    Reasons differ while a gateway has not seen a new topic yet, and readers of a gateway in another zone may have
    another copy near them: neither leads a client elsewhere.
    """
    leading, moved = dict(answer["leading"]), dict(answer["moved"])
    for reason in ("by", "exists_in", "differs", "no_commits_in"):
        leading.pop(reason, None)
    moved.pop("read_from", None)
    return json.dumps([leading, moved, answer["allowed"]], sort_keys=True)


def _clusters(row: Mapping[str, Any]) -> dict[str, Any]:
    """Where the connection leads, and where it only exists: clients keep connections to brokers that they left."""
    clusters = row["clusters"] or ([row["cluster"]] if row["cluster"] else [])
    used = in_use(row)
    return {"led_to": clusters if used else [], "idle_to": [] if used else clusters}


def _own(row: Mapping[str, Any]) -> bool:
    """By its own word, so it is only hidden from the table, and counted there."""
    return str(row.get("software") or "").startswith("switchyard/")


def _unanswered(said: Sequence[Said]) -> dict[str, str]:
    """Gateway, or worker of one, → why."""
    found = {one.gateway: one.error for one in said if one.answer is None}
    for one in said:
        if one.answer is not None:
            found |= one.answer.get("unanswered", {})
    return found


def _code(said: Sequence[Said]) -> int:
    return SUCCESS if any(one.answer is not None for one in said) else OUT_OF_REACH
