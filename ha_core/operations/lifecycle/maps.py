"""Writing maps without some of their extents: many topics in one revision, each as it was judged or not at all."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from ha_core.model import Document, Topic
from ha_core.operations.batches import in_batches
from ha_core.operations.context import Environment
from ha_core.operations.report import Report
from ha_core.operations.single import run_single
from ha_core.plan.verdict import listed
from ha_core.store.errors import ConflictError, LockedError


def write_dropped(
    environment: Environment,
    kind: Literal["age", "give-up"],
    reason: str,
    heading: str,
    before: Mapping[str, Topic],
    after: Mapping[str, Topic],
    evidence: Mapping[str, Any],
    put_off: list[str],
    **detail: str,
) -> list[Report]:
    """Write the maps `after`, in batches of one operation and one revision each. Safe to break off and repeat.

    :param before: the maps that were judged. One that has changed since is put off.
    :param evidence: topic → what the history keeps of it, JSON-able; below `heading`.
    :param put_off: gets, in words, what was not written.
    :param detail: what the history keeps with every batch.
    """
    reports: list[Report] = []
    for batch in in_batches((after[name] for name in sorted(after)), evidence):
        versions: dict[tuple[type[Document], str], int | None] = {}
        for name in (topic.name for topic in batch):
            stored = environment.store.read(Topic, name)
            if stored is None or stored[0] != before[name]:
                put_off.append(f"{name}: its map has changed since it was judged")
            else:
                versions[Topic, name] = stored[1]
        unchanged = tuple(topic for topic in batch if (Topic, topic.name) in versions)
        if not unchanged:
            continue
        names = [topic.name for topic in unchanged]
        locks = [f"topic:{name}" for name in names]
        said = {**detail, heading: {name: evidence.get(name, []) for name in names}}
        try:
            reports.append(run_single(environment, kind, reason, locks, unchanged, (), versions, said))
        except (LockedError, ConflictError) as error:
            put_off.append(f"{listed(names)}: {error}")
    return reports
