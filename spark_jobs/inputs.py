"""What a job is told: the clusters and how to log in, the topic maps and who works on them, where groups are at home.

All of it comes from ZooKeeper, or from a JSON file with the documents as they are stored: `{"clusters": [Cluster…],
"topics": [Topic…], "locks": [Lock…], "operations": [Operation…], "homes": {group: [cluster…]}}`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from pydantic import ValidationError

from ha_core.kafka.security import load_profiles
from ha_core.model import Cluster, Document, Lock, Operation, Topic
from ha_core.plan.aging import candidates, crossed, locked_topics
from ha_core.plan.resolve import group_homes
from ha_core.wire.sasl import SecurityProfile

NEWEST_OPERATIONS = 10_000
D = TypeVar("D", bound=Document)


class InputError(ValueError):
    """The input cannot be used; nothing was asked or written. The text names the thing and the way out."""


class Inputs(NamedTuple):
    """Mappings are by name."""

    clusters: Mapping[str, Cluster]
    profiles: Mapping[str, SecurityProfile]
    topics: Mapping[str, Topic]
    """Those with a map, without the following."""
    put_off: Mapping[str, str]
    """topic → what has to end before its map can be judged."""
    homes: Mapping[str, frozenset[str]]
    """group → where it has moved; a group that is missing may be anywhere."""
    crossed: Mapping[tuple[str, str], int]
    """(cluster, topic) → when its last crossing out of there ended, in milliseconds since 1970."""


def from_zookeeper(hosts: str, root: str) -> Inputs:
    """The state as it is now; security profiles as for the `switchyard` command.

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
    return Inputs(view.clusters, load_profiles(), *judged, group_homes(view, usage.values()), crossed(operations))


def from_file(path: Path) -> Inputs:
    try:
        found = json.loads(path.read_text("utf-8"))
        clusters = {one.name: one for one in _documents(Cluster, found["clusters"])}
        locks = locked_topics(_documents(Lock, found.get("locks", ())))
        judged = candidates(_documents(Topic, found.get("topics", ())), locks)
        operations = crossed(_documents(Operation, found.get("operations", ())))
        homes = {str(group): frozenset(map(str, names)) for group, names in found.get("homes", {}).items()}
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}. Give the path of a readable file.") from None
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        what = error.errors()[0]["msg"] if isinstance(error, ValidationError) else str(error)
        raise InputError(f'{path}: {what}. Write {{"clusters": [{{"name": …, "bootstrap": …}}]}}.') from None
    return Inputs(clusters, load_profiles(), *judged, homes, operations)


def _documents(kind: type[D], found: Any) -> list[D]:
    return [kind.model_validate(one) for one in found]
