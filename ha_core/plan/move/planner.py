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
6. A topic with a mirror goes to its copy (`copies`), which of a living origin has all of it behind the fence. No other
   mirror from the origin outlives the cut.

Before the fence clients notice nothing, but that transactions wait to begin while open ones end; from fence to cut
they wait; after the cut nothing has to be done for them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Literal, get_args

from ha_core.model import (
    Document,
    Fence,
    Group,
    LostTail,
    Mirror,
    MoveOperation,
    MoveRequest,
    Topic,
    UserBindings,
    View,
)
from ha_core.model.extent import Extents, live, log_start, skipping
from ha_core.model.operation import AdoptedGroup, Cut
from ha_core.plan.engine.revision import (
    FINAL,
    Documents,
    MoveDamagedError,
    all_partitions,
    cut_at,
    entering,
    fenced,
    require_fenced,
    require_free,
    require_sound,
    require_state,
)
from ha_core.plan.facts.clusters import CopyFacts, Ends, Partition, Producers
from ha_core.plan.migration.cuts import forced_cut
from ha_core.plan.mirror.copies import (
    copied_producers,
    forced_to_copy,
    held,
    left_to_origin,
    let_go,
    lost_tail,
    planned_to_copy,
)
from ha_core.plan.mirror.standby import MAX_COPIED_EXTENTS, regained
from ha_core.plan.move.carry_over import carry_sequences, come_back, compose_aliases, leave_by_force
from ha_core.plan.move.identity_maps import require_unused
from ha_core.plan.move.partitions import cuts_of, extents_of, holes_of, left_in, moving, places, writer_after

ToHold = Literal["compare", "pin", "prepare", "adopt", "hold", "level"]
ToCut = Literal[ToHold, "warm", "quiesce", "fence", "drain", "ends", "mirrored", "offsets", "cut"]
Back = Literal["lift", "leave", "discard", "unpin", "undone"]
Step = Literal[ToCut, "verify", "reverse", "groups", "record", Back, "release"]

# compare: copies of what is mirrored with their sources, while nothing is changed and nobody waits
# pin: lead everybody to the origin where nothing did so far, in revisions that every gateway serves
# prepare: create the topics that are missing in the target, and remember which
# adopt: join the groups in the target on their live members' behalf
# hold: take the copies of what is mirrored, in one revision, from the job that copies them
# level: take them over, and copy until little is missing; that goes on until `mirrored`
# warm: ask once for all that is asked again while clients wait
# quiesce: let no transaction begin in what moves, in one revision; wait until the open ones have ended
# fence: refuse produce and group calls of what moves, in one revision
# drain: every live gateway follows the fence and has nothing in flight
# ends: no transaction open; log ends of both sides, read until they agree; last sequences
# mirrored: the copies have all that the origin has
# offsets: copy committed offsets as they are, and read them back
# cut: maps, sequences, aliases and bindings, and the end of the fence, in one revision
# verify: every gateway serves the cut, and the origin's log ends have not moved
# reverse: mirrors the other way, from the target to what was the origin
# groups: move those that depend on the topics, in an operation of their own, where that was asked for
# record: write the result, give the locks back
TASKS: Mapping[str, tuple[Step, ...]] = {
    "compare": ("compare",),
    "prepare": ("pin", "prepare"),
    "adopt": ("adopt",),
    "cut_over": ("hold", "level", "warm", "quiesce", "fence", "drain", "ends", "mirrored", "offsets", "cut"),
    "verify": ("verify", "reverse"),
    "record": ("groups", "record"),
}
"""The steps of a move in safe order, by the tasks that a run of Airflow makes of them. From fence to cut is one task,
because clients wait, and nobody else copies what is held. Each step may be repeated: it finds what it did before."""
_LIVING: tuple[Step, ...] = ("compare", "adopt", "level", "quiesce", "mirrored", "reverse")
UNDO: tuple[Step, ...] = get_args(Back)
"""The way back from before the cut: the fences first, because clients wait for them; the maps last, and only where no
copy is left. Each may be repeated."""


def steps(request: MoveRequest) -> tuple[Step, ...]:
    """All steps of a move. A dead origin has neither members nor transactions to wait for, and nothing comes of it."""
    left_out = set[Step]() if request.mode == "planned" else {*_LIVING}
    if request.verify == "none":
        left_out.add("compare")
    return tuple(step for some in TASKS.values() for step in some if step not in left_out)


def resume(operation: MoveOperation, topics: Mapping[str, Topic], groups: Mapping[str, Group]) -> tuple[Step, ...]:
    """The steps that are left of an operation whose executor is gone, by what stands in the state.

    A planned move that got as far as joining groups is undone: the members that it joined have expired meanwhile, and
    the consumers may have rebalanced. So is one that has taken mirrors, which nobody copies meanwhile. A forced one
    goes on, because its origin is dead either way.
    """
    forward = steps(operation.request)
    stands = bool(fenced(operation, topics, groups))
    if operation.state == "cut" or _maps_show_cut(operation, topics):
        if stands:
            raise MoveDamagedError(
                f"operation {operation.id} has cut, and a fence of it stands: someone wrote it by hand"
            )
        return forward[forward.index("verify") :]
    if operation.state in FINAL and not stands:
        return ("release",)
    if operation.state in FINAL | {"undoing"}:
        return UNDO
    # A move of bindings alone fences nothing: only its state says how far it got.
    behind_fence = stands or operation.state == "fenced"
    if operation.request.mode == "forced":
        return ("warm", *forward[forward.index("drain") :]) if behind_fence else forward
    return UNDO if behind_fence or operation.evidence.adopted or operation.evidence.mirrored else forward


def quiesce_change(operation: MoveOperation, view: View, topics: Collection[str]) -> Documents:
    """Transaction fences on those of `topics` that move, and the operation as `fenced`.

    :raises MoveDamagedError: something is fenced by another operation, or not written in the origin.
    """
    require_state(operation, "planned", "running", "fenced")
    fence = Fence(operation=operation.id)
    puts: list[Document] = [
        _unfenced(operation, view, name).changed(transaction_fence=fence)
        for name in operation.moves.topics
        if name in topics
    ]
    return Documents((*puts, entering(operation, "fenced")))


def fence_change(operation: MoveOperation, view: View) -> Documents:
    """Fences on all that moves, in place of its transaction fences, and the operation as `fenced`.

    :raises MoveDamagedError: something is fenced by another operation, or not written in the origin.
    """
    require_state(operation, "planned", "running", "fenced")
    fence = Fence(operation=operation.id, taken_for_dead=_taken_for_dead(operation.request))
    puts: list[Document] = [
        _unfenced(operation, view, name).changed(fence=fence, transaction_fence=None) for name in operation.moves.topics
    ]
    for name in operation.moves.groups:
        group = view.groups.get(name) or Group(name=name)
        require_free(operation, f"group {name}", group)
        puts.append(group.changed(fence=fence))
    return Documents((*puts, entering(operation, "fenced")))


def cut_change(
    operation: MoveOperation,
    view: View,
    ends: Ends,
    producers: Producers,
    adopted: Mapping[str, AdoptedGroup],
    read_ms: int | None = None,
    copies: Mapping[Partition, CopyFacts] | None = None,
    most: int = MAX_COPIED_EXTENTS,
    stay: Mapping[str, str] | None = None,
    tails: Collection[LostTail] = (),
) -> Documents:
    """The revision of the cut: everything moves at once, and fences and mirrors end with it.

    :param ends: of every partition of every moving topic, read behind the fence.
    :param producers: missing where the origin could not be asked; asked at `read_ms`.
    :param adopted: groups that were joined in the target; members of the others join once more.
    :param copies: of mirrored topics, which the operation holds. A copy that nobody had begun is missing.
    :param most: extents of each copy that go into its map.
    :param tails: what forced moves have left behind. A topic that goes on where it has one is read there again.
    :param stay: topics that do not move, and why: nobody knows what their copies have. Those stay as they are.
    :raises MoveDamagedError: a fence or a hold does not stand, partitions are missing, a new copy is not empty, or a
        map would be wrong.
    """
    request, moves, stay = operation.request, operation.moves, stay or {}
    require_state(operation, "fenced")
    puts: list[Document] = []
    deletes: list[tuple[type[Document], str]] = []
    cuts: dict[str, tuple[Cut, ...]] = {}
    unknown: dict[str, tuple[int, ...]] = {}
    holes: dict[str, dict[int, int]] = {}
    ended: dict[str, Mirror] = {}
    left = dict[str, int]()
    gone = dict[str, int]()
    for name in moves.topics:
        topic = require_fenced(operation, f"topic {name}", view.topics.get(name))
        if name in stay:
            puts += [topic.unfenced, held(operation, view, name).changed(held=None)]
            continue
        everything = all_partitions(topic, ends)
        require_unused(operation, name, ends)
        before = {partition: extents_of(request, topic, partition) for partition in everything}
        moved = moving(request, topic, everything)
        if (tail := left_in(request, name, tails)) is not None:
            for p in moved:
                told = ends[name, p]
                before[p] = regained(before[p], tail, p, told.target, told.deleted_below)
        copied = {p: found for p in moved if (found := (copies or {}).get((name, p))) is not None}
        after = before | {p: _cut_partition(operation, name, p, before[p], ends, copied.get(p), most) for p in moved}
        cuts[name] = cuts_of(after, moved)
        if request.mode == "forced":
            holes[name] = holes_of(after, moved)
        for p, copy in copied.items():
            at = ends[name, p]
            start = max(at.origin_start, log_start(before[p], request.origin, at.deleted_below))
            older = left_to_origin(after[p], request.origin, copy.runs, start, at.target_start)
            for counts, records in ((left, older.no_room), (gone, older.gone)):
                if records:
                    counts[name] = counts.get(name, 0) + records
        if silent := tuple(p for p in moved if ends[name, p].origin is None and p not in copied):
            unknown[name] = silent
        puts.append(topic.changed(writer=writer_after(request, topic, after), partitions=after, fence=None))
        known, asked, complete = view.sequences.get(name), producers, True
        if name in operation.evidence.mirrored:
            mirror = held(operation, view, name)
            deletes.append((Mirror, mirror.key))
            others = operation.evidence.also_mirrored.get(name, ())
            deletes += [(Mirror, one.key) for one in others if one.key in view.mirrors]
            if request.mode == "planned":
                ended[name] = mirror.changed(held=None)
            elif copied:
                puts.append(lost_tail(operation, mirror, before, copied))
                # What the origin took and nobody copied goes on in the target, so others may have written as well.
                asked, complete = copied_producers(name, copied), False
        sequences = carry_sequences(name, known, cuts[name], asked, read_ms, complete) or known
        if request.mode == "forced":
            read = {p: copied[p].producers if p in copied else {} for p in moved if p in copied or skips(request)}
            sequences = leave_by_force(name, sequences, request.origin, cuts[name], read)
        sequences = come_back(sequences, request.target, cuts[name])
        puts += [] if sequences is None or sequences is known else [sequences]
    for name in moves.groups:
        group = require_fenced(operation, f"group {name}", view.groups.get(name))
        aliases = compose_aliases(group, adopted[name]) if name in adopted else {}
        puts.append(group.changed(cluster=request.target, aliases=aliases, fence=None))
    puts += _bindings(request, view)
    operation = operation.noting(
        cuts=cuts,
        holes=holes,
        unknown_ends=unknown,
        ended=ended,
        left_to_origin=left,
        gone_from_copies=gone,
        stayed=dict(stay),
    )
    puts.append(entering(operation, "cut"))
    return Documents(tuple(puts), tuple(deletes))


def undo_change(operation: MoveOperation, view: View) -> Documents:
    """The revision of the undo: its fences and holds end, and it is marked as being undone. May be repeated.

    :raises MoveDamagedError: the cut is published; the way back is another move.
    """
    if operation.state == "cut" or _maps_show_cut(operation, view.topics):
        raise MoveDamagedError(
            f"operation {operation.id} has cut: it cannot be undone. Let it end, then move back with a new one."
        )
    puts: list[Document] = []
    deletes: list[tuple[type[Document], str]] = []
    for document in fenced(operation, view.topics, view.groups):
        if document.mapped:
            puts.append(document.unfenced)
        else:
            deletes.append((type(document), document.name))
    puts += let_go(operation, view)
    state = operation.state if operation.state in FINAL else "undoing"
    return Documents((*puts, entering(operation, state)), tuple(deletes))


def _taken_for_dead(request: MoveRequest) -> str | None:
    return request.origin if request.mode == "forced" else None


def _unfenced(operation: MoveOperation, view: View, name: str) -> Topic:
    """The topic's document, which may be new."""
    request, topic = operation.request, view.topics.get(name) or Topic(name=name)
    require_free(operation, f"topic {name}", topic)
    if topic.mapped and request.origin not in places(request, topic):
        there = ", ".join(sorted(places(request, topic)))
        raise MoveDamagedError(f"topic {name} is written in {there}, not in {request.origin} any more")
    return topic


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
    operation: MoveOperation,
    topic: str,
    partition: int,
    before: Extents,
    ends: Ends,
    copy: CopyFacts | None,
    most: int,
) -> Extents:
    request, found = operation.request, ends[topic, partition]
    where, current = f"topic {topic} partition {partition}", live(before)
    known_end: int | None = None
    if request.mode == "forced" and copy is not None:
        after = forced_to_copy(operation, where, before, found, copy, most)
        return skipping(after, request.origin) if request.unread == "skip" else after
    if request.mode == "forced":
        at, known_end = forced_cut(current, found, fastest_per_s=request.max_rate_records_s)
    elif found.origin is None:
        raise MoveDamagedError(f"{where}: a planned cut needs the log end of {request.origin}")
    else:
        try:
            at = current.to_client(found.origin)
        except ValueError as error:
            raise MoveDamagedError(f"{where}: {error}") from error
    if request.mode == "planned" and topic in operation.evidence.mirrored:
        return planned_to_copy(operation, where, before, at, found, copy, most)
    after = cut_at(request, where, before, at, found.target, known_end)
    return require_sound(where, skipping(after, request.origin)) if skips(request) else after


def skips(request: MoveRequest) -> bool:
    """Whether readers skip what the origin holds."""
    return request.mode == "forced" and request.unread == "skip"


def _bindings(request: MoveRequest, view: View) -> list[UserBindings]:
    scope, target = request.scope, request.target
    changed: list[UserBindings] = []
    for user in scope.named_users:
        old = view.bindings.get(user) or UserBindings(user=user)
        new = old.changed(
            cluster=target if user in scope.users else old.cluster,
            instances={**old.instances, **{name: target for who, name in scope.instances if who == user}},
            topics={**old.topics, **{name: target for who, name in scope.user_topics if who == user}},
            groups={**old.groups, **{name: target for who, name in scope.user_groups if who == user}},
        )
        if new != old:
            changed.append(new)
    return changed
