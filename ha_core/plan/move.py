"""The move: what happens in which order, what every revision writes, and how to go on after an interruption.

The invariant, at every point of every move, however often it is interrupted:

1. At most one cluster accepts produce for a partition. A gateway that follows the fence refuses; a gateway that does
   not follow it yet writes to the origin, as before. The cut is published only after every live gateway has said that
   it follows the fence and that nothing is in flight any more (one whose node is gone has stopped by its lease). So
   between the last append to the origin and the first one to the target lies a time in which nobody writes.
2. A fence is lifted only in the revision of the cut or of the undo. Both write the operation's state as well, so
   whoever finds an interrupted operation sees which of the two has happened: it is never inferred from memory. The
   same holds for the transaction fence that may stand before it.
3. What was acknowledged below the cut is readable for ever: the cut lies at or above the origin's log end, read behind
   the fence, and the origin's extent stays in the map. After the cut there is no undo, only another move.
4. A group's offsets are in the target before its coordinator is there, and the topics that they name exist there.
5. A topic is made in the target only when every gateway follows a map that leads everybody to the origin, and loses
   that map only when the copy is gone again (`pinning`). So the copy is empty at the cut, or there is none.

Before the fence clients notice nothing, but that transactions wait to begin while open ones end; from fence to cut
they wait; after the cut nothing has to be done for them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Literal

from ha_core.model import (
    Document,
    Extent,
    Fence,
    Group,
    LastSequences,
    MoveOperation,
    MoveRequest,
    Topic,
    UserBindings,
    View,
)
from ha_core.model.extent import live, skipping
from ha_core.model.operation import AdoptedGroup, Cut
from ha_core.plan.carry import Ended, carry_sequences, compose_aliases
from ha_core.plan.cuts import forced_cut
from ha_core.plan.facts import Partition, PartitionEnds, ProducerFacts
from ha_core.plan.moving import listed, moving, places, writer_after
from ha_core.plan.pinning import require_unused
from ha_core.plan.revision import (
    FINAL,
    Documents,
    MoveDamagedError,
    all_partitions,
    cut_at,
    entering,
    require_sound,
    require_state,
)

ToCut = Literal["pin", "prepare", "adopt", "warm", "quiesce", "fence", "drain", "ends", "offsets", "cut"]
Back = Literal["lift", "leave", "discard", "unpin", "undone"]
Step = Literal[ToCut, "verify", "groups", "record", Back, "release"]

# pin: lead everybody to the origin where nothing did so far, in revisions that every gateway serves
# prepare: create the topics that are missing in the target, and remember which
# adopt: join the groups in the target on their live members' behalf
# warm: ask once for all that is asked again while clients wait
# quiesce: let no transaction begin in what moves, in one revision; wait until the open ones have ended
# fence: refuse produce and group calls of what moves, in one revision
# drain: every live gateway follows the fence and has nothing in flight
# ends: no transaction open; log ends of both sides, read until they agree; last sequences
# offsets: copy committed offsets as they are, and read them back
# cut: maps, sequences, aliases and bindings, and the end of the fence, in one revision
# verify: every gateway serves the cut, and the origin's log ends have not moved
# groups: move those that depend on the topics, in an operation of their own, where that was asked for
# record: write the result, give the locks back
TASKS: Mapping[str, tuple[Step, ...]] = {
    "prepare": ("pin", "prepare"),
    "adopt": ("adopt",),
    "cut_over": ("warm", "quiesce", "fence", "drain", "ends", "offsets", "cut"),
    "verify": ("verify",),
    "record": ("groups", "record"),
}
"""The steps of a move in safe order, by the tasks that a run of Airflow makes of them. From fence to cut is one task,
because clients wait. Each step may be repeated: it finds what it did before."""
UNDO: tuple[Step, ...] = ("lift", "leave", "discard", "unpin", "undone")
"""The way back from before the cut: the fences first, because clients wait for them; the maps last, and only where no
copy is left. Each may be repeated."""


def steps(request: MoveRequest) -> tuple[Step, ...]:
    """All steps of a move. A dead origin has neither members nor transactions to wait for."""
    left_out = set() if request.mode == "planned" else {"adopt", "quiesce"}
    return tuple(step for some in TASKS.values() for step in some if step not in left_out)


def resume(operation: MoveOperation, topics: Mapping[str, Topic], groups: Mapping[str, Group]) -> tuple[Step, ...]:
    """The steps that are left of an operation whose executor is gone, by what stands in the state.

    A planned move that got as far as joining groups is undone: the members that it joined have expired meanwhile, and
    the consumers may have rebalanced. A forced one goes on, because its origin is dead either way.
    """
    moves, forward = operation.moves, steps(operation.request)
    fenced = any(_is_fenced(operation, topics.get(name)) for name in moves.topics) or any(
        _is_fenced(operation, groups.get(name)) for name in moves.groups
    )
    if operation.state == "cut" or _maps_show_cut(operation, topics):
        if fenced:
            raise MoveDamagedError(
                f"operation {operation.id} has cut, and a fence of it stands: someone wrote it by hand"
            )
        return forward[forward.index("verify") :]
    if operation.state in FINAL and not fenced:
        return ("release",)
    if operation.state in FINAL | {"undoing"}:
        return UNDO
    if operation.request.mode == "forced":
        # A move of bindings alone fences nothing: only its state says how far it got.
        behind_fence = fenced or operation.state == "fenced"
        return ("warm", *forward[forward.index("drain") :]) if behind_fence else forward
    return UNDO if fenced or operation.state == "fenced" or operation.evidence.adopted else forward


def quiesce_change(operation: MoveOperation, view: View, topics: Collection[str]) -> Documents:
    """Transaction fences on those of `topics` that move, and the operation as `fenced`.

    :raises MoveDamagedError: something is fenced by another operation, or not written in the origin.
    """
    require_state(operation, "planned", "running", "fenced")
    fence = Fence(operation=operation.id)
    puts: list[Document] = [
        _unfenced(operation, view, name).model_copy(update={"transaction_fence": fence})
        for name in operation.moves.topics
        if name in topics
    ]
    return Documents((*puts, entering(operation, "fenced")))


def fence_change(operation: MoveOperation, view: View) -> Documents:
    """Fences on all that moves, in place of its transaction fences, and the operation as `fenced`.

    :raises MoveDamagedError: something is fenced by another operation, or not written in the origin.
    """
    require_state(operation, "planned", "running", "fenced")
    fence = Fence(operation=operation.id)
    puts: list[Document] = [
        _unfenced(operation, view, name).model_copy(update={"fence": fence, "transaction_fence": None})
        for name in operation.moves.topics
    ]
    for name in operation.moves.groups:
        group = view.groups.get(name) or Group(name=name)
        _require_free(operation, f"group {name}", group.fence)
        puts.append(group.model_copy(update={"fence": fence}))
    return Documents((*puts, entering(operation, "fenced")))


def cut_change(
    operation: MoveOperation,
    view: View,
    ends: Mapping[Partition, PartitionEnds],
    producers: Mapping[Partition, Sequence[ProducerFacts]],
    adopted: Mapping[str, AdoptedGroup],
    read_ms: int | None = None,
) -> Documents:
    """The revision of the cut: everything moves at once, and the fences end with it.

    :param ends: of every partition of every moving topic, read behind the fence.
    :param producers: missing where the origin could not be asked; asked at `read_ms`.
    :param adopted: groups that were joined in the target; members of the others join once more.
    :raises MoveDamagedError: a fence does not stand, partitions are missing, a new copy is not empty, or a map would be
        wrong.
    """
    request, moves = operation.request, operation.moves
    require_state(operation, "fenced")
    puts: list[Document] = []
    cuts: dict[str, list[Cut]] = {}
    unknown: dict[str, list[int]] = {}
    for name in moves.topics:
        topic = view.topics.get(name)
        if topic is None or topic.fence is None or topic.fence.operation != operation.id:
            raise MoveDamagedError(f"the fence of operation {operation.id} on topic {name} does not stand any more")
        everything = all_partitions(topic, ends)
        require_unused(operation, name, ends)
        partitions = {partition: listed(request, topic, partition) for partition in everything}
        for partition in moving(request, topic, everything):
            found = ends[name, partition]
            partitions[partition] = _cut_partition(request, name, partition, partitions[partition], found)
            after = live(partitions[partition])
            cuts.setdefault(name, []).append(Cut(partition, after.start, after.base, after.term))
            if found.origin is None:
                unknown.setdefault(name, []).append(partition)
        writer = writer_after(request, topic, partitions)
        puts.append(topic.model_copy(update={"writer": writer, "partitions": partitions, "fence": None}))
        if sequences := _sequences(request, topic, view.sequences.get(name), producers, read_ms):
            puts.append(sequences)
    for name in moves.groups:
        group = view.groups.get(name)
        if group is None or not _is_fenced(operation, group):
            raise MoveDamagedError(f"the fence of operation {operation.id} on group {name} does not stand any more")
        aliases = compose_aliases(group, adopted[name]) if name in adopted else {}
        puts.append(group.model_copy(update={"cluster": request.target, "aliases": aliases, "fence": None}))
    puts += _bindings(request, view)
    noted = operation.noting(
        cuts={name: tuple(some) for name, some in cuts.items()},
        unknown_ends={name: tuple(some) for name, some in unknown.items()},
    )
    return Documents((*puts, entering(noted, "cut")))


def undo_change(operation: MoveOperation, view: View) -> Documents:
    """The revision of the undo: the operation's fences end, and it is marked as being undone. May be repeated.

    :raises MoveDamagedError: the cut is published; the way back is another move.
    """
    if operation.state == "cut" or _maps_show_cut(operation, view.topics):
        raise MoveDamagedError(
            f"operation {operation.id} has cut: it cannot be undone. Let it end, then move back with a new one."
        )
    puts: list[Document] = []
    deletes: list[tuple[type[Document], str]] = []
    for name in operation.moves.topics:
        if (topic := view.topics.get(name)) and _is_fenced(operation, topic):
            if topic.mapped:
                puts.append(topic.model_copy(update={"fence": None, "transaction_fence": None}))
            else:
                deletes.append((Topic, name))
    for name in operation.moves.groups:
        if (group := view.groups.get(name)) and _is_fenced(operation, group):
            if group.cluster is not None:
                puts.append(group.model_copy(update={"fence": None}))
            else:
                deletes.append((Group, name))
    state = operation.state if operation.state in FINAL else "undoing"
    return Documents((*puts, entering(operation, state)), tuple(deletes))


def _require_free(operation: MoveOperation, what: str, fence: Fence | None) -> None:
    if fence is not None and fence.operation != operation.id:
        raise MoveDamagedError(f"{what} is fenced by operation {fence.operation}: resume or undo that one first")


def _unfenced(operation: MoveOperation, view: View, name: str) -> Topic:
    """The topic's document, which may be new."""
    request, topic = operation.request, view.topics.get(name) or Topic(name=name)
    _require_free(operation, f"topic {name}", topic.fence or topic.transaction_fence)
    if topic.mapped and request.origin not in places(request, topic):
        there = ", ".join(sorted(places(request, topic)))
        raise MoveDamagedError(f"topic {name} is written in {there}, not in {request.origin} any more")
    return topic


def _is_fenced(operation: MoveOperation, document: Topic | Group | None) -> bool:
    """Whether a fence of either kind stands on it."""
    if document is None:
        return False
    fences = (document.fence, document.transaction_fence if isinstance(document, Topic) else None)
    return any(fence is not None and fence.operation == operation.id for fence in fences)


def _maps_show_cut(operation: MoveOperation, topics: Mapping[str, Topic]) -> bool:
    """Whether the maps contain the cut that the operation's evidence names: terms only ever grow by cuts."""
    cuts = operation.evidence.cuts
    return bool(cuts) and all(
        (topic := topics.get(name)) is not None
        and topic.mapped
        and all(live(topic.extents(cut.partition)).term >= cut.term for cut in some)
        for name, some in cuts.items()
    )


def _cut_partition(
    request: MoveRequest, topic: str, partition: int, before: tuple[Extent, ...], found: PartitionEnds
) -> tuple[Extent, ...]:
    where, current = f"topic {topic} partition {partition}", live(before)
    known_end: int | None = None
    if request.mode == "forced":
        at, known_end = forced_cut(current, found)
    elif found.origin is None:
        raise MoveDamagedError(f"{where}: a planned cut needs the log end of {request.origin}")
    else:
        try:
            at = current.to_client(found.origin)
        except ValueError as error:
            raise MoveDamagedError(f"{where}: {error}") from error
    after = cut_at(request, where, before, at, found.target, known_end)
    skips = request.mode == "forced" and request.unread == "skip"
    return require_sound(where, skipping(after, request.origin)) if skips else after


def _sequences(
    request: MoveRequest,
    topic: Topic,
    old: LastSequences | None,
    producers: Mapping[Partition, Sequence[ProducerFacts]],
    read_ms: int | None,
) -> LastSequences | None:
    known = {partition: found for (name, partition), found in producers.items() if name == topic.name}
    ended: dict[int, Ended] = {}
    for partition in moving(request, topic, known):
        if partition in known:
            ending = live(listed(request, topic, partition)).term
            ended[partition] = Ended(ending, ending + 1, known[partition])
    return carry_sequences(topic.name, old, ended, read_ms)


def _bindings(request: MoveRequest, view: View) -> list[UserBindings]:
    scope, target = request.scope, request.target
    changed: list[UserBindings] = []
    for user in scope.named_users:
        old = view.bindings.get(user) or UserBindings(user=user)
        new = old.model_copy(
            update={
                "cluster": target if user in scope.users else old.cluster,
                "instances": {**old.instances, **{name: target for who, name in scope.instances if who == user}},
                "topics": {**old.topics, **{name: target for who, name in scope.user_topics if who == user}},
                "groups": {**old.groups, **{name: target for who, name in scope.user_groups if who == user}},
            }
        )
        if new != old:
            changed.append(new)
    return changed
