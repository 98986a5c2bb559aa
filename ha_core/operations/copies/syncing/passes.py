"""One pass over the mirrors of a cluster in another, and what came of it, kept for everybody to see."""

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
    """Brings to the target what mirrors lack there of one part. Harmless at any time, and beside others that do it.

    :param clusters: source and target.
    :param at: UTC, ISO 8601: now.
    :param topics: of the mirrors; None: of all from the one cluster to the other.
    :param dry_run: only find out.
    :param copies: the accounts of `clusters` are those by which the job copies.
    :raises StoreError: nothing was, or is, changed without the store.
    """
    pair = MirrorPair(store, *clusters, at, None if topics is None else frozenset(topics), dry_run, copies)
    return sync_topics(pair) if part == "topics" else sync_groups(pair, memory)


def keep(store: Store, found: Synced) -> MirrorSync:
    """Write down how a whole pair stands."""
    document = as_document(found)
    store.keep_mirror_sync(document)
    return document


def as_document(found: Synced) -> MirrorSync:
    return MirrorSync.of(found.source, found.target, found.part, found.at, found.looked_at, found.findings)
