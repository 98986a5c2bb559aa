"""Explains how one client's requests for one topic or group are handled: by binding, map, fence, rules."""

from collections.abc import Callable, Collection
from dataclasses import dataclass
from itertools import islice
from typing import Literal

from ha_core.model import Identity, Topic, View
from ha_core.model.access import AccessRule, AclOperation, Permission, ResourceType
from ha_core.plan.access.rights import Rights
from ha_core.plan.mirror.mirrored_topics import read_from
from ha_core.plan.routing.resolve import Level, cluster_for_topic, lead_group

Kind = Literal["topic", "group"]
RESOURCES: dict[Kind, ResourceType] = {"topic": ResourceType.TOPIC, "group": ResourceType.GROUP}
MAX_RULES = 100


@dataclass(frozen=True, slots=True)
class Leading:
    """The cluster that serves the requests.

    :ivar cluster: None: no rule decides, so requests are not served.
    :ivar by: the deciding rule: the topic's map, a level of the bindings, the existing topic, or the default.
    :ivar differs: the topic exists only in other clusters than the binding's, and is served from there.
    :ivar masked: why operators took the cluster out of service.
    :ivar exists_in: clusters that have the topic, as far as the gateway knows.
    :ivar no_commits_in: cluster of the client's groups, if the topic is known to be elsewhere only: it refuses each
        commit. A group with its own binding commits in that cluster.
    """

    cluster: str | None
    by: Level
    differs: bool = False
    masked: str | None = None
    exists_in: tuple[str, ...] = ()
    no_commits_in: str | None = None


@dataclass(frozen=True, slots=True)
class MoveState:
    """Effects of a past or current move.

    :ivar operation: the operation of the fence or crossing.
    :ivar state: `fenced`, `transactions fenced`, `crossing`, `mapped`, or `as it is`.
    :ivar extents: over all partitions; with more than one each, gateways translate offsets.
    :ivar read_from: the cluster of the copy that is read instead of the source.
    """

    state: str
    operation: str | None = None
    extents: int = 0
    read_from: str | None = None


@dataclass(frozen=True, slots=True)
class Allowed:
    """The client's rights. `rules`: those that apply to this client and name, at most `MAX_RULES`.

    :ivar by: `off` (no authorization), `super user`, or `rules`.
    """

    by: Literal["off", "super user", "rules"]
    operations: tuple[str, ...]
    rules: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Explanation:
    revision: int
    user: str
    instance: str
    kind: Kind
    name: str
    leading: Leading
    moved: MoveState
    allowed: Allowed
    remote_topic: str | None = None
    """The remote topic that the client sees under this name; all else is explained for it."""


def explain(
    view: View,
    identity: Identity,
    kind: Kind,
    name: str,
    rights: Rights | None,
    address: str,
    existing: Callable[[str], Collection[str]],
    zone: str = "",
) -> Explanation:
    """:param address: of the client; "": only rules for all addresses apply.
    :param existing: names of the clusters in which a topic exists.
    """
    if kind == "topic":
        leading, moved = _topic(view, identity, name, existing, zone)
    else:
        leading, moved = _group(view, identity, name)
    allowed = _allowed(rights, identity.user, address, RESOURCES[kind], name)
    return Explanation(view.revision, identity.user, identity.instance, kind, name, leading, moved, allowed)


def _topic(
    view: View, identity: Identity, name: str, existing: Callable[[str], Collection[str]], zone: str
) -> tuple[Leading, MoveState]:
    resolved = cluster_for_topic(view, identity, name, existing)
    exists_in = tuple(sorted(existing(name)))
    groups_in, _ = lead_group(view, identity, "")
    leading = Leading(
        resolved.cluster,
        resolved.level,
        resolved.differs,
        _masked(view, resolved.cluster),
        exists_in,
        groups_in if exists_in and groups_in not in exists_in else None,
    )
    topic = view.topics.get(name)
    if topic is None:
        return leading, MoveState("as it is")
    mirror = read_from(view, identity.user, name, zone) if topic.mapped else None
    state, operation = _stage(topic)
    extents = sum(map(len, topic.partitions.values()))
    return leading, MoveState(state, operation, extents, None if mirror is None else mirror.target)


def _stage(topic: Topic) -> tuple[str, str | None]:
    if topic.fence is not None:
        return "fenced", topic.fence.operation
    if topic.transaction_fence is not None:
        return "transactions fenced", topic.transaction_fence.operation
    if topic.crossing is not None:
        return "crossing", topic.crossing.operation
    return ("mapped" if topic.mapped else "as it is"), None


def _group(view: View, identity: Identity, name: str) -> tuple[Leading, MoveState]:
    cluster, by = lead_group(view, identity, name)
    group = view.groups.get(name)
    moved = MoveState("as it is")
    if group is not None:
        moved = MoveState("mapped") if group.fence is None else MoveState("fenced", group.fence.operation)
    return Leading(cluster, by, masked=_masked(view, cluster)), moved


def _masked(view: View, cluster: str | None) -> str | None:
    return None if cluster is None else view.masked.get(cluster)


def _allowed(rights: Rights | None, user: str, address: str, resource: ResourceType, name: str) -> Allowed:
    everything = tuple(_words(operation) for operation in _OF_A_RESOURCE)
    if rights is None:
        return Allowed("off", everything)
    if rights.super_user(user):
        return Allowed("super user", everything)
    verdicts = rights.of(user, address)
    operations = tuple(_words(one) for one in _OF_A_RESOURCE if verdicts.allows(one, resource, name))
    rules = tuple(map(_rule, islice(rights.about(user, address, resource, name), MAX_RULES)))
    return Allowed("rules", operations, rules)


_OF_A_RESOURCE = (
    AclOperation.READ,
    AclOperation.WRITE,
    AclOperation.CREATE,
    AclOperation.DELETE,
    AclOperation.ALTER,
    AclOperation.DESCRIBE,
    AclOperation.DESCRIBE_CONFIGS,
    AclOperation.ALTER_CONFIGS,
)
"""Operations on topics and groups."""


def _words(number: AclOperation | Permission) -> str:
    return number.name.lower()


def _rule(rule: AccessRule) -> str:
    """`User:ann: allow read on topic orders* (prefixed) from *`."""
    where = f"{rule.resource_type.name.lower()} {rule.name} ({rule.pattern.name.lower()})"
    return f"{rule.principal}: {_words(rule.effect)} {_words(rule.operation)} on {where} from {rule.host}"
