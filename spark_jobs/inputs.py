"""Inputs of a job: clusters and credentials, topic maps and their locks, and the home clusters of groups.

They come from ZooKeeper, or from a JSON file with the documents as they are stored: `{"clusters": [Cluster…],
"topics": [Topic…], "locks": [Lock…], "operations": [Operation…], "mirrors": [Mirror…], "homes": {group: [cluster…]},
"direct_groups": [pattern…]}`.
"""

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Annotated, NamedTuple

from pydantic import BaseModel, Field, ValidationError

from ha_core.kafka.security import load_profiles
from ha_core.model import Cluster, Lock, Mirror, Topic
from ha_core.model.operation import AnyKind
from ha_core.plan.migration.aging import candidates, crossed, locked_topics
from ha_core.plan.mirror.mirrored_topics import NoSuchMirrorError, named
from ha_core.plan.routing.resolve import group_homes
from ha_core.wire.sasl import SecurityProfile

NEWEST_OPERATIONS = 10_000


class InputError(ValueError):
    """The input cannot be used; nothing was asked or written. The text names the thing and the way out."""


class Inputs(NamedTuple):
    """Mappings are by name."""

    clusters: Mapping[str, Cluster]
    profiles: Mapping[str, SecurityProfile]
    topics: Mapping[str, Topic]
    """Topics with a map, without those in `put_off`."""
    put_off: Mapping[str, str]
    """topic → operation that has to end before its map can be judged."""
    homes: Mapping[str, frozenset[str]]
    """group → clusters to which it has moved; a missing group may be anywhere."""
    crossed: Mapping[tuple[str, str], int]
    """(cluster, topic) → end of its last crossing out of the cluster, in milliseconds since 1970."""
    mirrors: tuple[Mirror, ...] = ()
    direct_groups: frozenset[str] = frozenset()
    """Patterns of groups whose commits are physical offsets."""


def from_zookeeper(hosts: str, root: str) -> Inputs:
    """The current state; security profiles as for the `switchyard` command.

    :raises StoreUnavailableError: ZooKeeper is out of reach.
    """
    from ha_core.store.zookeeper import connect

    store = connect(hosts, root=root)
    try:
        view, locks, usage = store.load(), store.locks(), store.usage()
        operations = store.operations(NEWEST_OPERATIONS)
    finally:
        store.close()
    if not view.clusters:
        raise InputError(f"{hosts}{root}: no cluster is registered. Add one with `switchyard clusters add`.")
    judged = candidates(view.topics.values(), locked_topics(locks))
    homes, mirrors = group_homes(view, usage.values()), tuple(view.mirrors.values())
    direct = frozenset(view.direct_groups)
    return Inputs(view.clusters, load_profiles(), *judged, homes, crossed(operations), mirrors, direct)


class _InputsDocument(BaseModel):
    clusters: list[Cluster]
    topics: list[Topic] = []
    locks: list[Lock] = []
    operations: list[Annotated[AnyKind, Field(discriminator="kind")]] = []
    mirrors: tuple[Mirror, ...] = ()
    homes: dict[str, frozenset[str]] = {}
    direct_groups: frozenset[str] = frozenset()


def from_file(path: Path) -> Inputs:
    try:
        found = _InputsDocument.model_validate_json(path.read_bytes())
        judged = candidates(found.topics, locked_topics(found.locks))
        ended_ms = crossed(found.operations)
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}. Give the path of a readable file.") from None
    except ValueError as error:
        what = str(error)
        if isinstance(error, ValidationError):
            first = error.errors()[0]
            what = f"{'.'.join(map(str, first['loc']))} {first['msg']}".lstrip()
        raise InputError(f'{path}: {what}. Write {{"clusters": [{{"name": …, "bootstrap": …}}]}}.') from None
    clusters = {cluster.name: cluster for cluster in found.clusters}
    direct = found.direct_groups
    return Inputs(clusters, load_profiles(), *judged, found.homes, ended_ms, found.mirrors, direct)


def mirrors_of(given: Inputs, topics: Collection[str], target: str) -> list[Mirror]:
    """The requested mirrors, see `ha_core.plan.mirror.mirrored_topics`.

    :raises InputError: a topic has none, or several and `target` is empty.
    """
    try:
        return named(given.mirrors, topics, target)
    except NoSuchMirrorError as error:
        raise InputError(str(error)) from None
