"""What a job is told: the clusters and how to log in, the topic maps, and where groups are at home.

All of it comes from ZooKeeper, or from a JSON file with the documents as they are stored:
`{"clusters": [Cluster…], "topics": [Topic…], "homes": {group: [cluster…]}, "operations": [Operation…]}`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from pydantic import ValidationError

from ha_core.kafka.security import load_profiles
from ha_core.model import Cluster, Operation, Topic
from ha_core.plan.aging import crossed, group_homes
from ha_core.wire.sasl import SecurityProfile

NEWEST_OPERATIONS = 10_000


class InputError(ValueError):
    """The input cannot be used; nothing was asked or written. The text names the thing and the way out."""


class Inputs(NamedTuple):
    """Mappings are by name."""

    clusters: Mapping[str, Cluster]
    profiles: Mapping[str, SecurityProfile]
    topics: Mapping[str, Topic]
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
        view, usage, operations = store.load(), store.usage(), store.operations(NEWEST_OPERATIONS)
    finally:
        store.close()
    if not view.clusters:
        raise InputError(f"{hosts}{root}: no cluster is registered. Add one with `switchyard clusters add`.")
    homes = group_homes(view, usage.values())
    return Inputs(view.clusters, load_profiles(), view.topics, homes, crossed(operations))


def from_file(path: Path) -> Inputs:
    """The same from a JSON file."""
    try:
        found = json.loads(path.read_text("utf-8"))
        clusters = [Cluster.model_validate(one) for one in found["clusters"]]
        topics = [Topic.model_validate(one) for one in found.get("topics", ())]
        operations = [Operation.model_validate(one) for one in found.get("operations", ())]
        homes = {str(group): frozenset(map(str, names)) for group, names in found.get("homes", {}).items()}
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}. Give the path of a readable file.") from None
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        what = error.errors()[0]["msg"] if isinstance(error, ValidationError) else str(error)
        raise InputError(f'{path}: {what}. Write {{"clusters": [{{"name": …, "bootstrap": …}}]}}.') from None
    topics_by_name = {one.name: one for one in topics}
    return Inputs({one.name: one for one in clusters}, load_profiles(), topics_by_name, homes, crossed(operations))
