"""Connections of clients to gateways, and the reasons how a client is served."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from ha_core.plan.access.shared_ids import SharedId
from ha_core.plan.facts.grouping import grouped
from ha_core.plan.facts.verdict import amount, listed
from ha_core.present.page import Marked, Page, Table

MAX_ROWS = 1_000
_BY = {
    "map": "by the topic's map",
    "group": "by the binding of the group",
    "user#topic": "by the binding of the user's topic",
    "hint": "by the binding of the topic that its client.id names",
    "user+instance": "by the binding of the user's instance",
    "user": "by the binding of the user",
    "topic": "because the topic is there",
    "default": "as the default, since nothing is bound",
}


def connections_page(
    rows: Collection[Mapping[str, Any]],
    totals: Mapping[str, int],
    unanswered: Mapping[str, str],
    own: bool = True,
    shared: Collection[SharedId] = (),
) -> Page:
    """:param own: show connections of Switchyard's own processes as rows; else they are only counted.
    :param shared: client ids that are used from several places.
    """
    of_clients = [row for row in rows if own or not row["own"]]
    columns = (
        "user",
        "client.id",
        "address",
        "software",
        "led to",
        "idle to",
        "login",
        "idle s",
        "in flight",
        "gateway",
    )
    cells = [
        (
            row["user"] or "not logged in",
            row["client_id"] or "",
            row["address"],
            Marked(row["software"] or "", "warning") if row["defects"] else row["software"] or "",
            ", ".join(row["led_to"]),
            ", ".join(row["idle_to"]),
            row["login"] or "",
            row["idle_ms"] // 1000,
            row["in_flight"],
            row["gateway"],
        )
        for row in of_clients
    ]
    yield Table(columns, cells, title="connections", max_rows=MAX_ROWS) if cells else "no client is connected"
    if hidden := len(rows) - len(of_clients):
        yield Marked(f"{amount(hidden, 'connection')} of Switchyard's own software: --own shows them", "dim")
    left_out = sum(totals.values()) - len(rows)
    if left_out > 0:
        yield Marked(f"{left_out} more are not shown: raise --limit, or name a user", "dim")
    for issue in sorted({issue for row in rows for issue in row["defects"]}):
        hit = sorted({f"{row['user']}+{row['client_id'] or ''}" for row in rows if issue in row["defects"]})
        yield Marked(f"{issue}: consumers among {', '.join(hit[:20])} may stop when their group moves", "warning")
    yield from (Marked(shared_id_words(shared_id), "warning") for shared_id in shared)
    yield from _silent(unanswered)


def shared_id_words(shared_id: SharedId) -> str:
    return (
        f"{shared_id.user}+{shared_id.client_id} is used from {amount(len(shared_id.addresses), 'place')} at once "
        f"({listed(shared_id.addresses)}): moving the instance moves all of them. Give each client an id of its own "
        "(client.id)."
    )


def explanations_page(answers: Sequence[Mapping[str, Any]], agree: bool, unanswered: Mapping[str, str]) -> Page:
    """One answer if all agree, else each; differing reasons are named."""
    if not agree:
        yield Marked("the gateways do not agree: one may follow a change a moment later; ask again", "warning")
    for answer in answers[:1] if agree else answers:
        gateways = "all gateways" if agree and len(answers) > 1 else f"gateway {answer['gateway']}"
        client = f"{answer['user']}+{answer['instance']}" if answer["instance"] else answer["user"]
        where = f"{gateways}, revision {answer['revision']}"
        yield Marked(f"{client}, {answer['kind']} {answer['name']} ({where})", "strong")
        if answer.get("remote_topic"):  # older gateways do not send it
            yield f"shows the remote topic {answer['remote_topic']}, which only its flow writes"
        yield from _led(answer["leading"])
        yield from _moved(answer["kind"], answer["moved"])
        yield from _allowed(answer["allowed"])
    if agree:
        yield from _reasons(answers)
    yield from _silent(unanswered)


def _reasons(answers: Sequence[Mapping[str, Any]]) -> Page:
    """Differences between gateways that choose the same cluster."""
    by = grouped((_BY.get(answer["leading"]["by"], answer["leading"]["by"]), answer["gateway"]) for answer in answers)
    copies = grouped((answer["moved"]["read_from"] or "the writer's cluster", answer["gateway"]) for answer in answers)
    if len(by) > 1:
        groups = "; ".join(f"{reason} at {', '.join(gateways)}" for reason, gateways in by.items())
        yield Marked(f"all choose it, for different reasons: {groups}", "dim")
    if len(copies) > 1:
        groups = "; ".join(f"{cluster} at {', '.join(gateways)}" for cluster, gateways in copies.items())
        yield f"gateways read from different clusters: {groups}"


def _led(leading: Mapping[str, Any]) -> Page:
    if leading["cluster"] is None:
        yield Marked("served by no cluster: nothing is bound, and there is no default", "error")
        return
    yield f"served by {leading['cluster']}, {_BY.get(leading['by'], leading['by'])}"
    if leading["exists_in"]:
        yield f"the topic exists in {', '.join(leading['exists_in'])}"
    if leading["differs"]:
        yield Marked("the bindings name another cluster, which has no such topic", "warning")
    if leading.get("no_commits_in"):  # older gateways do not send it
        yield Marked(
            f"groups of such a client keep their offsets in {leading['no_commits_in']}, which has no such topic and "
            "refuses each commit (UNKNOWN_TOPIC_OR_PARTITION): bind the client to the topic's cluster",
            "warning",
        )
    if leading["masked"] is not None:
        yield Marked(f"{leading['cluster']} is masked: {leading['masked']}", "warning")


def _moved(kind: str, moved: Mapping[str, Any]) -> Page:
    if moved["operation"] is not None:
        yield Marked(f"the {kind} is {moved['state']} by operation {moved['operation']}", "warning")
    elif moved["state"] != "as it is":
        extents = f", {amount(moved['extents'], 'extent')}" if moved["extents"] else ""
        yield f"the {kind} has moved before: {moved['state']}{extents}"
    if moved["read_from"] is not None:
        yield f"read from the copy in {moved['read_from']}"


def _allowed(allowed: Mapping[str, Any]) -> Page:
    if allowed["by"] != "rules":
        yield "may do everything: " + ("there are no rules" if allowed["by"] == "off" else "a super user")
        return
    may = ", ".join(allowed["operations"])
    yield f"may {may}" if may else Marked("may do nothing: no rule allows anything, or one denies all", "warning")
    yield from (f"  {rule}" for rule in allowed["rules"])


def _silent(unanswered: Mapping[str, str]) -> Page:
    yield from (Marked(f"gateway {gateway}: {why}", "error") for gateway, why in unanswered.items())
