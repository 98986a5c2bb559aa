"""Change notes and the revision: what changed when, for followers and for changes whose reply was lost."""

from __future__ import annotations

import json
from dataclasses import dataclass

from ha_core.store import paths
from ha_core.store.errors import StoreError, StoreUnavailableError
from ha_core.store.tree import Node, RefusedError, Remove, ReplyLostError, Tree

KEPT = 1000
"""Notes kept. A follower that is further behind reloads everything."""
PRUNED_EVERY = 100
"""Revisions between prunings, so that most commits do not list the notes."""


@dataclass(frozen=True, slots=True)
class Note:
    """`/changes/change-{revision}`."""

    revision: int
    id: str
    operation: str | None
    step: str
    paths: tuple[str, ...]

    def to_bytes(self) -> bytes:
        return json.dumps(
            {
                "revision": self.revision,
                "id": self.id,
                "operation": self.operation,
                "step": self.step,
                "paths": self.paths,
            },
            separators=(",", ":"),
        ).encode()

    @classmethod
    def of(cls, node: Node | None) -> Note | None:
        """The note in a node; None where it is pruned or spoilt: either way nobody knows what changed."""
        if node is None:
            return None
        try:
            raw = json.loads(node.data)
            return cls(
                int(raw["revision"]), str(raw["id"]), raw["operation"], raw["step"], tuple(map(str, raw["paths"]))
            )
        except (ValueError, KeyError, TypeError):
            return None


def revision_to_bytes(revision: int) -> bytes:
    return b'{"revision":%d}' % revision


def revision_of(node: Node | None) -> int:
    """The revision that `/changes` holds."""
    if node is None:
        raise StoreUnavailableError(
            f"{paths.CHANGES} is missing: the root was deleted or is another one; "
            "restore it, or connect anew to create an empty state"
        )
    try:
        return int(json.loads(node.data)["revision"])
    except (ValueError, KeyError, TypeError) as error:
        raise StoreError(f"{paths.CHANGES} holds no revision ({error!r}): restore the state from a backup") from error


def find(tree: Tree, change_id: str, after: int = 0) -> int | None:
    """The revision of the change with this id, among the kept notes later than revision `after`."""
    newest = revision_of(tree.get(paths.CHANGES))
    revisions = range(newest, max(after, newest - KEPT - PRUNED_EVERY, 0), -1)
    for revision, node in zip(revisions, tree.get_many([paths.note(r) for r in revisions]), strict=True):
        note = Note.of(node)
        if note is not None and note.id == change_id:
            return revision
    return None


def prune(tree: Tree, newest: int) -> None:
    """Delete notes beyond the newest `KEPT`. Best effort: the change that it follows is made, whatever happens here."""
    try:
        oldest_kept = paths.note(newest - KEPT + 1)
        old = sorted(path for name in tree.children(paths.CHANGES) if (path := f"{paths.CHANGES}/{name}") < oldest_kept)
        for start in range(0, len(old), KEPT):
            tree.write([Remove(path, 0) for path in old[start : start + KEPT]])
    except (RefusedError, ReplyLostError, StoreUnavailableError):
        return
