"""An existing fleet that comes to the gateways, and goes back: clients past them, access of brokers, what still binds.
Changes nothing."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any, TypeVar

from ha_core.kafka.errors import KafkaAdminError
from ha_core.kafka.topics import TopicDescription
from ha_core.model import Cluster, View
from ha_core.operations.clusters.inventory import CurrentGroups, look_at_groups
from ha_core.operations.engine.environment import Environment
from ha_core.operations.engine.errors import RefusedError, unchanged
from ha_core.operations.proposal.usage import known_usage
from ha_core.plan.access.direct_groups import gateway_groups, other_numbers
from ha_core.plan.access.onboarding import BrokerAccess
from ha_core.plan.facts.verdict import amount, listed

T = TypeVar("T")
_OF_GROUPS = "__consumer_offsets"


@dataclass(frozen=True, slots=True)
class ClientsPast:
    """
    :ivar committers: groups that the cluster has and gateways do not know → state in words.
    :ivar writers: topics whose logs grew while it was looked at, without a producer that gateways know → records.
    :ivar unclear: topics that grew and have such a producer: others may write too.
    :ivar not_read: parts that could not be read, or are hidden from the account, with the reason.
    """

    cluster: str
    watched_s: float
    committers: dict[str, str]
    writers: dict[str, int]
    unclear: dict[str, int]
    not_read: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Bond:
    """A fact because of which clients must not go back to the brokers yet, and the way out."""

    kind: str
    about: str
    text: str
    remedy: str


@dataclass(frozen=True, slots=True)
class LeavingCheck:
    cluster: str
    bonds: tuple[Bond, ...]
    not_read: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def clients_past(environment: Environment, name: str, watch_s: float) -> ClientsPast:
    """:raises RefusedError: the cluster is not registered, or does not answer."""
    view, cluster = _registered(environment, name)
    usage = known_usage(environment).counts
    look = look_at_groups(environment, view)
    known = gateway_groups(view, usage.values())
    committers = {
        group: facts.words
        for group, facts in sorted(look.groups.get(name, {}).items())
        if group not in known and view.direct(group) is None
    }
    copies = {mirror.topic for mirror in view.mirrors.values() if mirror.target == name}
    produced = {
        topic for one in usage.values() for topic, uses in one.topics.items() if any(u.how == "produce" for u in uses)
    }
    first = _topics(environment, cluster)
    environment.sleep(watch_s)
    second = _topics(environment, cluster)
    grown = {topic: count for topic, count in _grown(first, second) if topic not in copies | view.copy_logs}
    return ClientsPast(
        cluster=name,
        watched_s=watch_s,
        committers=committers,
        writers={topic: count for topic, count in grown.items() if topic not in produced},
        unclear={topic: count for topic, count in grown.items() if topic in produced},
        not_read=(
            *_hidden(environment, cluster, look),
            *_unread(first, second),
        ),
    )


def broker_access(environment: Environment, name: str) -> BrokerAccess:
    """:raises RefusedError: the cluster is not registered, or a part cannot be read: nothing is brought by halves."""
    _, cluster = _registered(environment, name)
    admin = environment.admin(cluster)

    def read(what: str, ask: Callable[[], T]) -> T:
        try:
            return ask()
        except KafkaAdminError as error:
            raise unchanged(f"The {what} of {name} cannot be read: {error}") from error

    return BrokerAccess(
        read("ACLs", admin.all_rules), read("SCRAM users", admin.scram_users), read("quotas", admin.client_quotas)
    )


def leaving(environment: Environment, name: str) -> LeavingCheck:
    """Facts because of which clients must not go to this cluster's brokers yet.

    :raises RefusedError: the cluster is not registered.
    """
    view, cluster = _registered(environment, name)
    bonds: list[Bond] = []
    for user, binding in sorted(view.bindings.items()):
        led = {binding.cluster, *binding.instances.values(), *binding.topics.values(), *binding.groups.values()}
        for other in sorted(led - {None, name}, key=str):
            way = f"switch or bind what is led to {other} to {name} first"
            bonds.append(Bond("binding", f"user {user}", f"It is led to {other}.", way))
    for topic_name, topic in sorted(view.topics.items()):
        if elsewhere := sorted(topic.clusters - {name}):
            text = f"Records, or its writer, are in {', '.join(elsewhere)}."
            bonds.append(Bond("topic", f"topic {topic_name}", text, f"migrate it to {name}, and wait until it is aged"))
    look = look_at_groups(environment, view)
    for group, facts in sorted(look.groups.get(name, {}).items()):
        if view.direct(group) is None and (moved := other_numbers(view, name, facts.offsets)):
            (topic_name, partition), (physical, client) = min(moved.items())
            text = f"Its offset {physical} of {topic_name}-{partition} is a client offset; the brokers number otherwise"
            bonds.append(
                Bond("position", f"group {group}", f"{text} ({client} by the map).", "set its offsets once it stopped")
            )
    for group, homed in sorted(view.groups.items()):
        if homed.cluster and homed.cluster != name:
            bonds.append(Bond("group", f"group {group}", f"It is in {homed.cluster}.", f"move it to {name}"))
    return LeavingCheck(name, tuple(bonds), tuple(_hidden(environment, cluster, look)))


def _registered(environment: Environment, name: str) -> tuple[View, Cluster]:
    view = environment.store.load()
    if name not in view.clusters:
        raise unchanged(f"Cluster {name} is not registered. `switchyard clusters list` shows those that are.")
    return view, view.clusters[name]


def _topics(environment: Environment, cluster: Cluster) -> Mapping[str, TopicDescription]:
    try:
        return environment.admin(cluster).topics()
    except KafkaAdminError as error:
        raise RefusedError(f"The topics of {cluster.name} cannot be read: {error}") from error


def _grown(first: Mapping[str, TopicDescription], second: Mapping[str, TopicDescription]) -> Iterator[tuple[str, int]]:
    """Topics with the records that came between two looks, by name; partitions without both ends are left out."""
    for name, topic in sorted(second.items()):
        before = first.get(name)
        known = range(0 if before is None else before.partitions)
        begins = {} if before is None else {partition: ends.log_end for partition, ends in before.ends.items()}
        # All records of a partition that is new came meanwhile.
        begins |= {partition: ends.start for partition, ends in topic.ends.items() if partition not in known}
        count = sum(max(0, ends.log_end - begins.get(p, ends.log_end)) for p, ends in topic.ends.items())
        if count and not topic.internal:
            yield name, count


def _unread(first: Mapping[str, TopicDescription], second: Mapping[str, TopicDescription]) -> Iterator[str]:
    """Logs whose growth is unknown, because their leader was away at one of two looks."""
    away = {
        (name, partition)
        for look in (first, second)
        for name, topic in look.items()
        for partition in range(topic.partitions)
        if partition not in topic.ends
    }
    groups = sum(name == _OF_GROUPS for name, _ in away)
    if groups:
        partitions = amount(groups, "partition")
        yield f"groups: {partitions} of {_OF_GROUPS} had no leader that answers, and no broker lists their groups"
    internal = {name for look in (first, second) for name, topic in look.items() if topic.internal}
    clients = [f"{name}-{partition}" for name, partition in sorted(away) if name not in internal]
    if clients:
        yield f"logs: {amount(len(clients), 'partition')} had no leader that answers: {listed(clients)}"


def _hidden(environment: Environment, cluster: Cluster, look: CurrentGroups) -> Iterator[str]:
    """Why some or all groups of the cluster are not among those of `look`."""
    if why := look.why.get(cluster.name):
        yield f"groups: {why}"
        return
    try:
        if environment.admin(cluster).hides_groups():
            yield (
                "groups: the service account lacks Describe on the cluster, so brokers list only groups that it may "
                "describe by name. Give it the right."
            )
    except KafkaAdminError as error:
        yield f"rights of the service account: {error}"
