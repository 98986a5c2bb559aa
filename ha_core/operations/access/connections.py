"""Clients connected to the gateways, and how gateways treat a client's requests: each gateway answers for itself."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ha_core.operations.engine.environment import Environment
from ha_core.operations.engine.errors import RefusedError
from ha_core.operations.engine.gateway_queries import GatewayReply, ask_gateways
from ha_core.plan.access.shared_ids import SharedId, in_use, shared_ids
from ha_core.plan.preflight.clients import defects_of


@dataclass(frozen=True, slots=True)
class ConnectedClients:
    """:ivar rows: one for each connection, with `led_to` (clusters in use), `idle_to`, `defects` of its software, and
        `own` for Switchyard's processes.
    :ivar totals: gateway → number of its connections that match.
    :ivar shared: client ids that are used from several places.
    :ivar unanswered: gateway, or one of its workers → error.
    """

    rows: tuple[Mapping[str, Any], ...]
    totals: Mapping[str, int]
    shared: tuple[SharedId, ...]
    unanswered: Mapping[str, str]
    answered: bool

    def to_json(self) -> dict[str, Any]:
        return {
            "connections": self.rows,
            "totals": self.totals,
            "shared_ids": [shared_id._asdict() for shared_id in self.shared],
            "unanswered": self.unanswered,
        }


@dataclass(frozen=True, slots=True)
class Explanations:
    """:ivar agree: all gateways lead the client alike, if not for the same reasons."""

    answers: tuple[Mapping[str, Any], ...]
    agree: bool
    unanswered: Mapping[str, str]
    answered: bool

    def to_json(self) -> dict[str, Any]:
        return {"agree": self.agree, "explanations": self.answers, "unanswered": self.unanswered}


def connected(
    environment: Environment, fields: Mapping[str, str], limit: int = 1_000, gateway: str | None = None
) -> ConnectedClients:
    """:param fields: `user`, `client_id`, `instance`, `address`, `cluster`: only connections that match.
    :param limit: maximum number per gateway.
    :raises RefusedError: no such gateway lives, or the token for them cannot be read.
    """
    replies = ask_gateways(environment, "/connections", {**fields, "limit": str(limit)}, gateway)
    rows = tuple(
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
    )
    totals = {reply.gateway: reply.answer["total"] for reply in replies if reply.answer is not None}
    shared = tuple(shared_ids(row for row in rows if in_use(row) and not row["own"]))
    return ConnectedClients(rows, totals, shared, _unanswered(replies), _any(replies))


def explained(
    environment: Environment, user: str, instance: str, name: str, address: str = "", gateway: str | None = None
) -> Explanations:
    """:param name: a topic, or `group:GROUP`.
    :raises RefusedError: as `connected`, and if no user, topic or group is named.
    """
    kind, _, named = name.rpartition(":")
    if kind not in ("", "topic", "group") or not named or not user:
        raise RefusedError(f"{user} {name}: give a user, and a topic's name or group:NAME.")
    fields = {"user": user, "instance": instance, "address": address, kind or "topic": named}
    replies = ask_gateways(environment, "/explain", fields, gateway)
    answers = tuple(answer for reply in replies if reply.answer is not None for answer in _each(reply.answer))
    return Explanations(answers, len({*map(_outcome, answers)}) <= 1, _unanswered(replies), _any(replies))


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
    errors = {one.gateway: one.error for one in replies if one.answer is None}
    for reply in replies:
        if reply.answer is not None:
            errors |= reply.answer.get("unanswered", {})
    return errors


def _any(replies: Sequence[GatewayReply]) -> bool:
    return any(reply.answer is not None for reply in replies)
