"""A sound move of one user; each pre-flight test changes one thing of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from ha_core.model import (
    Cluster,
    GatewayRecord,
    Group,
    Lock,
    LostTail,
    Mask,
    Mirror,
    MoveRequest,
    Scope,
    SyncFinding,
    Topic,
    Usage,
    Use,
    UserBindings,
    View,
)
from ha_core.plan.facts.clusters import (
    ClusterFacts,
    CopyFacts,
    CopyLag,
    Facts,
    GroupFacts,
    Partition,
    TopicFacts,
    Trial,
)
from ha_core.plan.facts.verdict import Verdict, Verdicts
from ha_core.plan.move.closure import closure
from ha_core.plan.preflight import RULES, preflight
from ha_core.plan.preflight import PreflightCase as Judged

MASK = Mask(since="2026-01-01T00:00:00Z", reason="rack fire", by="ops")
SINCE = "2026-01-02T00:00:00Z"
HERE = TopicFacts(exists=True, partitions=2, starts={0: 0, 1: 0}, ends={0: 10, 1: 20}, replication=1)
NOWHERE = TopicFacts(exists=False)
EMPTY = TopicFacts(exists=True, partitions=2, starts={0: 0, 1: 0}, ends={0: 0, 1: 0}, replication=1)
MEMBERS = ("m-1",)
ALICE = Scope(users=("alice",))


@dataclass(frozen=True)
class Case:
    """A sound move of alice from east to west; tests change one thing."""

    scope: Scope = ALICE
    request: dict[str, Any] = field(default_factory=dict)
    clusters: dict[str, Cluster] = field(
        default_factory=lambda: {
            name: Cluster(name=name, bootstrap=f"{name}:9092", default=name == "east")
            for name in ("east", "west", "north")
        }
    )
    bindings: tuple[UserBindings, ...] = (UserBindings(user="alice", cluster="east"),)
    topics: tuple[Topic, ...] = ()
    groups: tuple[Group, ...] = ()
    usage: tuple[Usage, ...] = (
        Usage(
            user="alice",
            topics={"orders": (Use(instance="app", how="produce", since=SINCE),)},
            groups={"billing": (Use(instance="app", how="join", since=SINCE),)},
        ),
    )
    reach: dict[str, ClusterFacts] = field(
        default_factory=lambda: {
            name: ClusterFacts(name, reachable=True, brokers=(1,)) for name in ("east", "west", "north")
        }
    )
    topic_facts: dict[tuple[str, str], TopicFacts] = field(
        default_factory=lambda: {("east", "orders"): HERE, ("west", "orders"): NOWHERE, ("north", "orders"): NOWHERE}
    )
    group_facts: dict[tuple[str, str], GroupFacts] = field(
        default_factory=lambda: {
            ("east", "billing"): GroupFacts("Stable", "consumer", MEMBERS, {("orders", 0): 5}),
            ("west", "billing"): GroupFacts(),
        }
    )
    mirrors: tuple[Mirror, ...] = ()
    lags: dict[tuple[str, int], CopyLag] = field(default_factory=dict)
    copies: dict[Partition, CopyFacts] = field(default_factory=dict)
    noted: dict[Partition, int] = field(default_factory=dict)
    later: tuple[Partition, ...] = ()
    not_begun: tuple[Partition, ...] = ()
    findings: tuple[SyncFinding, ...] = ()
    tails: tuple[LostTail, ...] = ()
    trials: dict[str, Trial] = field(default_factory=dict)
    locks: tuple[Lock, ...] = ()
    gateways: tuple[GatewayRecord, ...] = (GatewayRecord(id="gw-1", host="h", port=1, node_id=1),)

    def with_topic(self, cluster: str, facts: TopicFacts, topic: str = "orders") -> Case:
        return replace(self, topic_facts={**self.topic_facts, (cluster, topic): facts})

    def with_group(self, cluster: str, facts: GroupFacts) -> Case:
        return replace(self, group_facts={**self.group_facts, (cluster, "billing"): facts})

    def with_cluster(self, name: str, **changes: Any) -> Case:
        return replace(self, clusters={**self.clusters, name: self.clusters[name].model_copy(update=changes)})

    def with_reach(self, name: str, **changes: Any) -> Case:
        return replace(self, reach={**self.reach, name: replace(self.reach[name], **changes)})

    def asking(self, **request: Any) -> Case:
        return replace(self, request={**self.request, **request})

    @property
    def forced(self) -> Case:
        """East is dead."""
        gone = {key: facts for key, facts in self.topic_facts.items() if key[0] != "east"}
        case = replace(self, topic_facts=gone, group_facts={("west", "billing"): GroupFacts()})
        return case.with_reach("east", reachable=False, error="timed out").asking(mode="forced")

    @property
    def usage_by_user(self) -> dict[str, Usage]:
        return {usage.user: usage for usage in self.usage}

    def parts(self) -> tuple[View, MoveRequest, Facts]:
        view = View(
            clusters=self.clusters,
            bindings={b.user: b for b in self.bindings},
            topics={t.name: t for t in self.topics},
            groups={g.name: g for g in self.groups},
            mirrors={mirror.key: mirror for mirror in self.mirrors},
        )
        fields = {"origin": "east", "target": "west", "reason": "test", **self.request}
        request = MoveRequest(scope=self.scope, **fields)
        return view, request, Facts(self.reach, self.topic_facts, self.group_facts)

    def judge(self, rules: Iterable[Callable[[Judged], Verdicts]] = RULES) -> list[Verdict]:
        return preflight(self.judged(), rules=rules)

    def judged(self) -> Judged:
        view, request, facts = self.parts()
        found, usage = closure(view, self.usage_by_user, request), self.usage_by_user
        return Judged(
            view,
            request,
            found,
            facts,
            self.locks,
            self.gateways,
            usage,
            lags=self.lags,
            copies=self.copies,
            noted=self.noted,
            later=self.later,
            not_begun=self.not_begun,
            findings=self.findings,
            tails=self.tails,
            trials=self.trials,
        )

    def moved(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        view, request, facts = self.parts()
        moves = Judged(view, request, closure(view, self.usage_by_user, request), facts).moves
        return moves.topics, moves.groups


SOUND = Case()
