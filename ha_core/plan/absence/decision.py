"""A cluster that was away: how it stands, what its logs show, and what may be concluded from that.

Four operations decide about such a cluster, each in the module of its name:

- *without-origin* (`crossing_without_origin`): a crossing ends although its origin does not answer.
- *return* (`returned`): the extents that a forced cut left close at the true ends of their logs.
- *reconcile* (`reconciled`): the records above its copies are counted, and it becomes the standby.
- *give-up* (`given_up`): it never comes back, and its extents leave the maps.

The invariant of all four, after any number of interruptions:

1. A cut never moves. Records above it that the cluster has when it returns are in no extent, so no client offset ever
   means two records, and no later finding changes an offset that a client has seen.
2. Silence proves nothing. A cluster that answers in part is not dead, and a masked one is not asked, except before it
   is given up. A log is not short because its leader does not answer, or because its replicas have not caught up
   (`Unsettled`).
3. A number of records is exact, or it has a lower and an upper bound, or it is unknown. Unknown is None and never 0,
   and no sum hides it.
4. Only an operator concludes that records are lost. Until then readers wait for them, and the document that names them
   stays.

`PERMITS` says which operation may begin while the cluster stands as it does; `FINDINGS` says what its log settles.
"""

from collections.abc import Mapping
from typing import Literal, NamedTuple

from ha_core.model import View

AbsenceOperation = Literal["without-origin", "return", "reconcile", "give-up"]
State = Literal["unregistered", "masked", "away", "refuses", "back"]
"""`refuses`: it answers, but refuses the account, or only a part of its brokers answers. `back`: it can be asked."""
Permit = Literal["yes", "if declared", "no"]
"""`if declared`: only if the operator declares it, by --force or --accept-loss."""

PERMITS: Mapping[AbsenceOperation, Mapping[State, Permit]] = {
    "without-origin": {"unregistered": "yes", "masked": "yes", "away": "yes", "refuses": "yes", "back": "if declared"},
    "return": {"unregistered": "no", "masked": "no", "away": "no", "refuses": "no", "back": "yes"},
    "reconcile": {"unregistered": "no", "masked": "no", "away": "if declared", "refuses": "if declared", "back": "yes"},
    "give-up": {"unregistered": "no", "masked": "no", "away": "yes", "refuses": "if declared", "back": "if declared"},
}
"""Giving up asks a masked cluster too (`presence(behind_mask=True)`), so it never stands as `masked` there: a healthy
cluster still has its records."""


class Presence(NamedTuple):
    """How a cluster stands."""

    cluster: str
    state: State
    why: str = ""
    """The reason of its mask, or the error of the one look at it."""

    @property
    def answers(self) -> bool:
        """It is not dead, whatever else is wrong with it."""
        return self.state in ("refuses", "back")

    def permits(self, operation: AbsenceOperation, declared: bool = False) -> bool:
        """:param declared: the operator declares it."""
        permit = PERMITS[operation][self.state]
        return permit == "yes" or (permit == "if declared" and declared)

    @property
    def words(self) -> str:
        """Why it cannot be asked; with the way out if it is masked or away."""
        match self.state:
            case "unregistered":
                return "it is not registered any more"
            case "masked":  # it was not asked: it may be healthy, and a mask is no reason to give it up
                return f"it is masked: {self.why} ({unmask(self.cluster)})"
            case "away":
                return f"{self.why} ({gone_for_good(self.cluster)})"
            case _:
                return self.why


def out_of_service(view: View, name: str) -> Presence | None:
    """The presence of a cluster that is not to be asked; None: it may be asked."""
    if (cluster := view.clusters.get(name)) is None:
        return Presence(name, "unregistered")
    return None if cluster.masked is None else Presence(name, "masked", cluster.masked.reason)


def unmask(cluster: str) -> str:
    """The way out if `cluster` is masked, within a text."""
    return f"`switchyard unmask {cluster}` when it is healthy"


def gone_for_good(cluster: str) -> str:
    """The way out if `cluster` never comes back, as the end of a text."""
    return f"if it is gone for good: `switchyard origins give-up {cluster}`"


class LogHeld(NamedTuple):
    """The log of a partition that all in-sync replicas have, in the offsets of its cluster."""

    start: int
    end: int
    """Log end, exclusive."""
    last_stable: int


class Unsettled(NamedTuple):
    """The log cannot be judged yet."""

    why: str


Log = LogHeld | Unsettled | None
"""None: the cluster answers, and does not have the partition."""

Finding = Literal["whole", "counted", "less", "more", "gone", "other", "differs", "unknown"]
"""`counted`: the log has all that was mirrored, and the records above that are counted. `less`: it ends below the
offset up to which it had records. `more`: it goes on above the cut. `gone`: the topic is not there. `other`: it was
deleted and created again. `differs`: it has other records than its copy. `unknown`: its log is `Unsettled`."""


class FindingRule(NamedTuple):
    """The rule for a finding.

    :ivar waits_for: the operator decides, or the cluster has to recover; empty: it is settled.
    :ivar acceptable: what the operator's word (--accept-loss) settles nevertheless.
    """

    waits_for: Literal["", "operator", "cluster"]
    acceptable: tuple[Literal["extent", "tail"], ...] = ()


FINDINGS: Mapping[Finding, FindingRule] = {
    "whole": FindingRule(""),
    "counted": FindingRule(""),
    "less": FindingRule("operator", ("extent", "tail")),
    "more": FindingRule("operator", ("extent",)),
    "gone": FindingRule("operator", ("extent", "tail")),
    "other": FindingRule("operator", ("tail",)),
    "differs": FindingRule("operator", ("tail",)),
    # No reader waits for a tail, so it may stay uncounted; an extent closed now would lose records that are there.
    "unknown": FindingRule("cluster", ("tail",)),
}


def compare(end: int, least: int, upper_bound: int | None = None) -> Finding:
    """The finding about a log that ends at `end`.

    :param least: the end of the records that it is known to have had.
    :param upper_bound: no offset at or above this belongs to it; None: it has no such bound.
    """
    if end < least:
        return "less"
    return "more" if upper_bound is not None and end > upper_bound else "whole"


def settled(finding: Finding, what: Literal["extent", "tail"], accepted: bool) -> bool:
    """:param accepted: the operator accepts the loss."""
    rule = FINDINGS[finding]
    return not rule.waits_for or (accepted and what in rule.acceptable)
