"""`connections`, `explain`: clients connected to the gateways, and how gateways treat a client's requests."""

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
    from ha_core.operations.engine.gateway_queries import GatewayReply

_Gateway = Annotated[str | None, option("Ask only this gateway, by its id.")]


@command("connections", "Clients connected to the gateways: address, software, cluster.")
def connections(
    session: CommandRun,
    user: Annotated[str | None, option("Only this user.")] = None,
    client_id: Annotated[str | None, option("Only with this client.id.")] = None,
    instance: Annotated[str | None, option("Only this instance; the user's client-id forms apply.")] = None,
    address: Annotated[str | None, option("Only from this address.")] = None,
    cluster: Annotated[str | None, option("Only at brokers of this cluster.")] = None,
    gateway: _Gateway = None,
    limit: Annotated[int, option("Maximum number per gateway.", min=1, max=10_000)] = 1000,
    own: Annotated[bool, option("Also show connections of Switchyard's own processes.", "--own")] = False,
) -> CommandResult:
    filters = (
        ("user", user),
        ("client_id", client_id),
        ("instance", instance),
        ("address", address),
        ("cluster", cluster),
    )
    fields = {field: value for field, value in filters if value is not None}
    replies = _ask(session, "/connections", {**fields, "limit": str(limit)}, gateway)
    rows = [
        {
            "gateway": reply.gateway,
            **row,
            **_clusters(row),
            "defects": defects_of(row.get("software")),
            "own": _own(row),
        }
        for reply in replies
        if reply.answer is not None
        for row in reply.answer["connections"]
    ]
    totals = {reply.gateway: reply.answer["total"] for reply in replies if reply.answer is not None}
    shared = tuple(shared_ids(row for row in rows if in_use(row) and not row["own"]))
    shared_json = [shared_id._asdict() for shared_id in shared]
    document = {"connections": rows, "totals": totals, "shared_ids": shared_json, "unanswered": _unanswered(replies)}
    page = connections_page(rows, totals, _unanswered(replies), own or bool(fields), shared)
    return CommandResult(document, page, _code(replies))


@command("explain", "How each gateway treats a client's requests for a topic or group, and why.")
def explain(
    session: CommandRun,
    user: Annotated[str, Argument(metavar="USER")],
    instance: Annotated[str, Argument(metavar="INSTANCE", help='The client.id; "" for none.')],
    name: Annotated[str, Argument(metavar="TOPIC|group:GROUP")],
    address: Annotated[str, option("The client's address, for rules that name addresses.")] = "",
    gateway: _Gateway = None,
) -> CommandResult:
    kind, _, named = name.rpartition(":")
    if kind not in ("", "topic", "group") or not named or not user:
        raise RefusedError(f"{user} {name}: give a user, and a topic's name or group:NAME.")
    fields = {"user": user, "instance": instance, "address": address, kind or "topic": named}
    replies = _ask(session, "/explain", fields, gateway)
    answers = [answer for reply in replies if reply.answer is not None for answer in _each(reply.answer)]
    agree = len({*map(_outcome, answers)}) <= 1
    document = {"agree": agree, "explanations": answers, "unanswered": _unanswered(replies)}
    return CommandResult(document, explanations_page(answers, agree, _unanswered(replies)), _code(replies))


def _ask(session: CommandRun, path: str, fields: Mapping[str, str], gateway: str | None) -> list[GatewayReply]:
    # It imports an HTTP client, which no other command needs.
    from ha_core.operations.engine.gateway_queries import ask_gateways

    return ask_gateways(session.environment, path, fields, gateway)


def _each(answer: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The gateway's answer, followed by those of workers that differ from it."""
    return [{key: value for key, value in answer.items() if key != "others"}, *answer.get("others", ())]


def _outcome(answer: Mapping[str, Any]) -> str:
    """The treatment of the client's requests, without the reasons. Gateways agree if it is equal.

    Reasons differ while a gateway has not seen a new topic yet, and gateways in another zone may read another
    copy near them: neither routes a client elsewhere.
    """
    leading, moved = dict(answer["leading"]), dict(answer["moved"])
    for reason in ("by", "exists_in", "differs", "no_commits_in"):
        leading.pop(reason, None)
    moved.pop("read_from", None)
    return json.dumps([leading, moved, answer["allowed"]], sort_keys=True)


def _clusters(row: Mapping[str, Any]) -> dict[str, Any]:
    """Clusters of a connection in use, and of an idle one: clients keep connections to brokers that they have left."""
    clusters = row["clusters"] or ([row["cluster"]] if row["cluster"] else [])
    used = in_use(row)
    return {"led_to": clusters if used else [], "idle_to": [] if used else clusters}


def _own(row: Mapping[str, Any]) -> bool:
    """True for Switchyard's own software name. Clients can claim it, so such rows are hidden but still counted."""
    return str(row.get("software") or "").startswith("switchyard/")


def _unanswered(replies: Sequence[GatewayReply]) -> dict[str, str]:
    """Gateway, or one of its workers → error."""
    errors = {one.gateway: one.error for one in replies if one.answer is None}
    for reply in replies:
        if reply.answer is not None:
            errors |= reply.answer.get("unanswered", {})
    return errors


def _code(replies: Sequence[GatewayReply]) -> int:
    return SUCCESS if any(reply.answer is not None for reply in replies) else OUT_OF_REACH
