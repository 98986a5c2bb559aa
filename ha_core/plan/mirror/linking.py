"""Making mirrors: the steps, what their revisions write, and how to go on after an interruption.

A mirror is a document; who copies follows it. The invariant, at every point, however often it is interrupted:

1. A topic is made in the target only when every gateway follows a map that leads everybody to the source (`pinning`).
   So nobody writes to the copy but its copiers, and gateways lead nobody there.
2. A mirror is written only when its topic is in the target, in the source's shape. Until then nobody copies.
3. A topic that is mirrored has one source: the cluster that writes all of it. It is not moved while a mirror stands.

Before the last mirror is written everything can be taken back; after it there is `unlink`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, get_args

from ha_core.model import LinkOperation, Mirror, View
from ha_core.plan.engine.revision import FINAL, Documents, entering, require_state

Forward = Literal["pin", "prepare", "link", "record"]
Back = Literal["unlink", "discard", "unpin", "undone"]
Step = Literal[Forward, Back, "release"]
# pin: lead everybody to the source where nothing did so far, in revisions that every gateway serves
# prepare: create the topics that are missing in the target, and remember which
# link: write the mirrors; the last ones in the revision after which there is no undo
# record: write the result, give the locks back
# unlink: take the mirrors back that were written
STEPS: tuple[Step, ...] = get_args(Forward)
BACK: tuple[Step, ...] = get_args(Back)
"""The way back: copiers first; the maps last, and only where no copy is left."""


def resume(operation: LinkOperation) -> tuple[Step, ...]:
    """The steps that are left, by what stands in the state. Each may be repeated."""
    if operation.state in FINAL:
        return ("release",)
    if operation.state == "undoing":
        return BACK
    return ("record",) if operation.state == "cut" else STEPS


def mirrors(operation: LinkOperation) -> Iterable[Mirror]:
    """Those that the operation makes."""
    source, target = operation.route
    for name in operation.moves.topics:
        asked = operation.request
        yield Mirror.of(
            name,
            source,
            target,
            operation.id,
            operation.started,
            operation.by,
            settings_left_alone=asked.settings_left_alone,
            max_bytes_s=asked.max_bytes_s,
        )


def link_change(operation: LinkOperation, some: Iterable[Mirror], last: bool) -> Documents:
    """Some of its mirrors; with the `last` of them the operation is `cut`."""
    require_state(operation, "running")
    return Documents((*some, entering(operation, "cut" if last else "running")))


def unlink_change(operation: LinkOperation, view: View) -> Documents:
    """The end of the mirrors that the operation has made."""
    own = [(Mirror, key) for key, mirror in view.mirrors.items() if mirror.link == operation.id]
    return Documents((entering(operation, "undoing"),), tuple(own))
