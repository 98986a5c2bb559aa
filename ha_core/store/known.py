"""What was last seen of clusters: replaced a cluster at a time, outside of the revisions that gateways follow."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import TypeVar

from ha_core.model import KnownGroup, KnownTopic
from ha_core.model.known import known_key
from ha_core.store import documents, paths
from ha_core.store.errors import StoreUnavailableError
from ha_core.store.once import once
from ha_core.store.reading import readable
from ha_core.store.tree import Create, Op, Put, RefusedError, Remove, Tree

MAX_ATTEMPTS = 20
BATCH_BYTES = 500_000
BATCH_NODES = 500

K = TypeVar("K", KnownTopic, KnownGroup)


def keep(tree: Tree, kind: type[K], cluster: str, seen: Collection[K]) -> None:
    """See `Store.keep_known`."""
    wanted = {paths.path_of(kind, one.key): documents.to_bytes(one) for one in seen}
    folder, prefix = paths.FOLDERS[kind], paths.encode(f"{cluster}:")
    gone = [
        path for name in tree.children(folder) if name.startswith(prefix) and (path := f"{folder}/{name}") not in wanted
    ]
    for batch in _batches({**wanted, **dict.fromkeys(gone)}):
        # Whoever looks at the same time has seen the same cluster: the last one may win.
        once(tree, f"what is known of {cluster}", partial(_write, tree, cluster, batch), lambda: None)


def read(tree: Tree, kind: type[K], cluster: str, names: Collection[str] | None) -> dict[str, K]:
    """See `Store.known`."""
    if names is None:
        folder, prefix = paths.FOLDERS[kind], paths.encode(f"{cluster}:")
        wanted = [f"{folder}/{name}" for name in sorted(tree.children(folder)) if name.startswith(prefix)]
    else:
        wanted = [paths.path_of(kind, known_key(cluster, name)) for name in sorted(names)]
    return {document.name: document for document in readable(tree, kind, wanted)}


def ages_s(tree: Tree, kind: type[K], cluster: str, names: Collection[str]) -> dict[str, float]:
    """See `Store.known_ages_s`."""
    now_ms = _now_ms(tree)
    order = sorted(names)
    nodes = tree.get_many([paths.path_of(kind, known_key(cluster, name)) for name in order])
    return {
        name: (now_ms - node.written_ms) / 1000 for name, node in zip(order, nodes, strict=True) if node is not None
    }


def _now_ms(tree: Tree) -> int:
    """What time it is for the tree: when a node was written that is written now, by us or by somebody else."""
    before = tree.get(paths.CLOCK)
    version = -1 if before is None else before.version

    def write() -> int:
        with suppress(RefusedError):
            tree.write([Create(paths.CLOCK) if before is None else Put(paths.CLOCK, b"", before.version)])
        written = look()
        if written is None:
            raise StoreUnavailableError(f"{paths.CLOCK} is deleted all the time; repeat it")
        return written

    def look() -> int | None:
        node = tree.get(paths.CLOCK)
        return None if node is None or node.version == version else node.written_ms

    return once(tree, "asking what time it is", write, look)


def _batches(wanted: Mapping[str, bytes | None]) -> Iterator[dict[str, bytes | None]]:
    batch: dict[str, bytes | None] = {}
    size = 0
    for path, data in wanted.items():
        length = len(path) + len(data or b"")
        if batch and (size + length > BATCH_BYTES or len(batch) >= BATCH_NODES):
            yield batch
            batch, size = {}, 0
        batch[path] = data
        size += length
    if batch:
        yield batch


def _write(tree: Tree, cluster: str, batch: Mapping[str, bytes | None]) -> None:
    """:param batch: path → bytes, None to remove."""
    order: Sequence[str] = sorted(batch)
    for _ in range(MAX_ATTEMPTS):
        ops: list[Op] = []
        for path, node in zip(order, tree.get_many(order), strict=True):
            data = batch[path]
            if data is None:
                if node is not None:
                    ops.append(Remove(path, node.version))
            elif node is None:
                ops.append(Create(path, data))
            elif node.data != data:
                ops.append(Put(path, data, node.version))
        try:
            if ops:
                tree.write(ops)
        except RefusedError:
            continue
        return
    raise StoreUnavailableError(f"what is known of {cluster} is written by others all the time; repeat it")
