"""One pass over the mirrors of a cluster in another, and its result, stored for all readers."""

from __future__ import annotations

from collections.abc import Collection
from typing import Literal, get_args

from ha_core.kafka.admin import Admin
from ha_core.model import MirrorSync
from ha_core.operations.copies.syncing.groups import Memory, sync_groups
from ha_core.operations.copies.syncing.pair import MirrorPair, Synced
from ha_core.operations.copies.syncing.topics import sync_topics
from ha_core.store.store import Store

Part = Literal["topics", "groups"]
PARTS: tuple[Part, ...] = get_args(Part)


def sync(
    store: Store,
    clusters: tuple[Admin, Admin],
    part: Part,
    at: str,
    memory: Memory,
    topics: Collection[str] | None = None,
    dry_run: bool = False,
    copies: bool = False,
) -> Synced:
    """Sync one part of mirrors to the target. Harmless at any time, and concurrently with other passes.

    :param clusters: source and target.
    :param at: the current time: UTC, ISO 8601.
    :param topics: the mirrored topics; None: all from the one cluster to the other.
    :param dry_run: change nothing.
    :param copies: the accounts of `clusters` are those of the copy job.
    :raises StoreError: without the store nothing was, or is, changed.
    """
    pair = MirrorPair(store, *clusters, at, None if topics is None else frozenset(topics), dry_run, copies)
    return sync_topics(pair) if part == "topics" else sync_groups(pair, memory)


def keep(store: Store, found: Synced) -> MirrorSync:
    """Store the result for a whole pair."""
    document = as_document(found)
    store.keep_mirror_sync(document)
    return document


def as_document(found: Synced) -> MirrorSync:
    return MirrorSync.of(found.source, found.target, found.part, found.at, found.looked_at, found.findings)
