"""Collects the planner's facts about clusters before a move, in parallel and without changes.

Transactional producers are known from the states that leaders remember, and from the answers of their coordinators."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import reduce

from ha_core.kafka.admin import Admin
from ha_core.kafka.errors import KafkaAdminError, UnsupportedByClusterError
from ha_core.mirror.notes import COPIERS
from ha_core.model import Cluster, MoveRequest, MoveSet, View, legal_name
from ha_core.operations.clusters.last_seen import with_last_known
from ha_core.operations.engine.environment import Environment
from ha_core.operations.engine.errors import RefusedError
from ha_core.plan.facts.clusters import (
    ClusterFacts,
    Facts,
    GroupFacts,
    OpenTransaction,
    Partition,
    ProducerFacts,
    TopicFacts,
)
from ha_core.plan.facts.settings import mattering
from ha_core.plan.preflight.case import outside_topics
from ha_core.plan.preflight.clusters import LIMITS

HANGING_S = 900.0
"""By default a broker allows no longer transactions (`transaction.max.timeout.ms`): then its coordinator ends it."""
MAX_ASKED = 1_000
"""Producers to ask coordinators about, for the topics of one look."""
MAX_NAMED = 100
"""Transactional ids, and open transactions, of a topic."""
_UNDER_WAY = frozenset({"Ongoing", "PrepareCommit", "PrepareAbort"})


@dataclass(frozen=True, slots=True)
class Transactions:
    """:ivar producers: the transactional ones, by partition.
    :ivar answers: producer id → transactional id and state, from the coordinators.
    :ivar asked: producers that all coordinators have answered about.
    """

    producers: Mapping[Partition, tuple[ProducerFacts, ...]]
    answers: Mapping[int, tuple[str, str]]
    asked: frozenset[int]

    @classmethod
    def read(
        cls, admin: Admin, producers: Mapping[Partition, tuple[ProducerFacts, ...]], timeout_s: float
    ) -> Transactions:
        """:param producers: states that leaders remember, read before."""
        transactional = {
            key: some
            for key, all_of in producers.items()
            if (some := tuple(producer for producer in all_of if producer.transactional))
        }
        # Open transactions first: the number of producers to ask about is limited.
        ids = dict.fromkeys(
            producer.producer_id for some in transactional.values() for producer in some if producer.in_transaction
        )
        ids |= dict.fromkeys(producer.producer_id for some in transactional.values() for producer in some)
        asked_ids = [*ids][:MAX_ASKED]
        try:
            answers = admin.transactions(asked_ids, timeout_s=timeout_s)
        except KafkaAdminError:
            return cls(transactional, {}, frozenset())
        # A topic that was a copy has markers of its copiers, which are no client's transactions.
        copiers = {answer for answer, (name, _) in answers.items() if name.startswith(COPIERS)}
        clients = (
            (key, tuple(producer for producer in some if producer.producer_id not in copiers))
            for key, some in transactional.items()
        )
        return cls({key: some for key, some in clients if some}, answers, frozenset(asked_ids))

    @property
    def topics(self) -> frozenset[str]:
        return frozenset(topic for topic, _ in self.producers)

    def ids(self, topic: str) -> tuple[str, ...]:
        known = (self._answer(facts)[0] for _, facts in self._of(topic))
        return tuple(sorted({name for name in known if name}))[:MAX_NAMED]

    def open(self, topic: str, now_ms: int) -> tuple[OpenTransaction, ...]:
        """Hanging ones first, then the oldest."""
        found = []
        for partition, facts in self._of(topic):
            if not facts.in_transaction:
                continue
            (name, state), age_s = self._answer(facts), max(0.0, (now_ms - facts.last_timestamp_ms) / 1000)
            hanging = facts.producer_id in self.asked and state not in _UNDER_WAY and age_s > HANGING_S
            found.append(OpenTransaction(partition, facts.transaction_start_offset, age_s, name, hanging))
        return tuple(sorted(found, key=lambda one: (not one.hanging, -one.age_s))[:MAX_NAMED])

    def _of(self, topic: str) -> Iterator[tuple[int, ProducerFacts]]:
        for (name, partition), some in sorted(self.producers.items()):
            if name == topic:
                yield from ((partition, facts) for facts in some)

    def _answer(self, facts: ProducerFacts) -> tuple[str, str]:
        return self.answers.get(facts.producer_id, ("", ""))


PATIENCE_S = 15.0
"""No client waits for a plan, and a broker with thousands of partitions may be slow."""
FORCED_S = 5.0
"""For a forced move, which clients wait for: timeout of a cluster that does not answer at all."""
JUST_NOW_S = 5.0
"""A dead cluster that hung this recently is not waited for again within one plan or its repetition."""


def gather(
    environment: Environment,
    view: View,
    clusters: Collection[str],
    moves: MoveSet,
    timeout_s: float = PATIENCE_S,
    dead: str | None = None,
) -> Facts:
    """Facts of the moved topics and groups in each of `clusters` that is registered.

    A cluster that cannot be asked is described as such; its topics and groups are then missing.

    :param dead: a cluster without which the move continues if it cannot be asked.
    """
    questioned = [view.clusters[name] for name in dict.fromkeys(clusters) if name in view.clusters]
    hung = {name for name in (dead,) if name is not None and environment.is_silent(name, JUST_NOW_S)}
    parts = environment.pool.map(
        lambda cluster: _silent(cluster.name) if cluster.name in hung else _one(environment, cluster, moves, timeout_s),
        questioned,
    )
    return reduce(Facts.also, parts, Facts())


def gather_all(
    environment: Environment,
    view: View,
    clusters: Collection[str],
    moves: MoveSet,
    timeout_s: float = PATIENCE_S,
    dead: str | None = None,
) -> Facts:
    """As `gather`, and facts of other topics that the groups have committed offsets of.

    :param dead: a cluster that counts as last seen if it cannot be asked now.
    """
    facts = gather(environment, view, clusters, moves, timeout_s, dead)
    if dead is not None:
        facts = with_last_known(environment, dead, moves, facts)
    if not (outside := outside_topics(moves, facts)):
        return facts
    more = gather(environment, view, clusters, MoveSet(topics=outside), timeout_s, dead)
    return facts.also(Facts(topics=more.topics))


def gather_beside_silent(environment: Environment, view: View, request: MoveRequest, moves: MoveSet) -> Facts:
    """As `gather` of all clusters, for a plan that is made again and again: a third cluster that is masked, or did not
    answer a moment ago, is not waited for, and counts as it was last known."""
    route = {request.origin, request.target}
    spared = {
        cluster.name
        for cluster in view.clusters.values()
        if cluster.name not in route and (cluster.masked is not None or environment.is_silent(cluster.name))
    }
    facts = gather(environment, view, view.clusters.keys() - spared, moves)
    facts = reduce(Facts.also, map(_silent, sorted(spared)), facts)
    for name in sorted(view.clusters.keys() - route):
        if not facts.clusters[name].reachable:
            facts = with_last_known(environment, name, moves, facts)
    return facts


def _silent(cluster: str) -> Facts:
    return Facts({cluster: ClusterFacts(cluster, False, f"Cluster {cluster} gave no answer a moment ago.")})


def _one(environment: Environment, cluster: Cluster, moves: MoveSet, timeout_s: float) -> Facts:
    name = cluster.name
    try:
        admin = environment.admin(cluster)
    except RefusedError as error:
        return Facts({name: ClusterFacts(name, False, str(error), refused=True)})
    probe = admin.probe(topics=moves.topics, groups=moves.groups, timeout_s=timeout_s)
    lacking = f"the service account lacks {', '.join(probe.lacking)}" if probe.lacking else ""
    facts = ClusterFacts(
        name,
        probe.reachable,
        probe.error or lacking,
        refused=probe.refused or bool(lacking),
        answers=probe.answers,
        brokers=tuple(sorted(probe.brokers)),
        describe_producers=probe.describe_producers,
    )
    if not probe.reachable:
        if not probe.answers:
            environment.note_silent(name)
        return Facts({name: facts})
    try:
        topics = _topics(admin, moves.topics, timeout_s, environment.now_ms())
        if moves.topics:
            facts = replace(facts, topic_defaults=admin.topic_defaults(timeout_s))
        if moves.topics or moves.groups:
            facts = replace(facts, limits=admin.broker_settings([*LIMITS], timeout_s))
        groups = groups_of(admin, moves.groups, timeout_s)
    except KafkaAdminError as error:
        # It has answered a moment ago, so it is not out of reach, whatever the error.
        return Facts({name: ClusterFacts(name, False, str(error), answers=True)})
    return Facts(
        {name: facts},
        {(name, topic): topic_facts for topic, topic_facts in topics.items()},
        {(name, group): group_facts for group, group_facts in groups.items()},
    )


def _topics(admin: Admin, names: Collection[str], timeout_s: float, now_ms: int) -> dict[str, TopicFacts]:
    if not names:
        return {}
    # Usage may have illegal topic names, for which a healthy cluster would refuse the whole request.
    topics = admin.topics([name for name in names if legal_name(name)], timeout_s=timeout_s)
    try:
        keys = [(name, partition) for name, topic in topics.items() for partition in topic.ends]
        producers = admin.producers(keys, timeout_s=timeout_s)
    except UnsupportedByClusterError:
        producers = {}
    transactions = Transactions.read(admin, producers, timeout_s)
    facts = {name: TopicFacts(exists=False) for name in names}
    for name, topic in topics.items():
        facts[name] = TopicFacts(
            exists=True,
            partitions=topic.partitions,
            config=topic.config,
            defaults=mattering(topic.defaults),
            starts={partition: ends.start for partition, ends in topic.ends.items()},
            ends={partition: ends.log_end for partition, ends in topic.ends.items()},
            replication=topic.replication,
            replicas=topic.replicas,
            leaderless=dict.fromkeys(topic.leaderless),
            default_min_in_sync=topic.min_in_sync,
            transactional=name in transactions.topics,
            transactional_ids=transactions.ids(name),
            open_transactions=transactions.open(name, now_ms),
            producers=sum(len(states) for key, states in producers.items() if key[0] == name),
        )
    return facts


def groups_of(admin: Admin, names: Collection[str], timeout_s: float) -> dict[str, GroupFacts]:
    """Facts about groups from the coordinators of one cluster; a group that does not exist is dead."""
    if not names:
        return {}
    described = admin.describe_groups(names, timeout_s=timeout_s)
    # Not only stable offsets: an open transaction must not make a look wait.
    committed = admin.group_offsets(names, stable=False, timeout_s=timeout_s)
    return {
        name: GroupFacts(
            state=described[name].state,
            protocol_type=described[name].protocol_type,
            members=tuple(member.member_id for member in described[name].members),
            offsets={key: offset for key, (offset, _) in committed.get(name, {}).items()},
        )
        for name in names
    }
