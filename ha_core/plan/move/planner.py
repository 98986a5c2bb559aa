"""The move: its steps in order, its revisions, and how to resume after an interruption.

The invariant, at every point of every move, after any number of interruptions:

1. At most one cluster accepts produce for a partition. A gateway that applies the fence refuses; a gateway that does
   not apply it yet writes to the origin, as before. The cut is published only after every live gateway has reported
   that it applies the fence and has no request in flight any more (a gateway whose node is gone has stopped by its
   lease). So between the last append to the origin and the first to the target, no gateway writes.
2. A fence is lifted only in the revision of the cut or of the undo. Both also write the operation's state, so an
   executor that resumes the operation reads which of the two has happened; it never infers that from memory. This also
   holds for a transaction fence before it.
3. Records acknowledged below the cut stay readable: the cut is at or above the origin's log end, read under the fence,
   and the origin's extent stays in the map. After the cut there is no undo, only another move.
4. A group's offsets are in the target before its coordinator is there, and the topics that they name exist there.
5. A topic is created in the target only when every gateway applies a map that routes all clients to the origin, and
   loses that map only when the copy is gone again (`identity_maps`). So at the cut the copy is empty, or missing.
6. A topic with a mirror goes to its copy (`held_copies`), which is complete under the fence if the origin is alive. No
   other mirror from the origin outlives the cut; after it each goes on from the target, from where it is, or is kept
   out.

Before the fence clients notice only that new transactions wait until open ones have ended; from fence to cut they wait;
after the cut they need nothing.
"""

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
from ha_core.model.evidence import AdoptedGroup, Cut
from ha_core.model.extent import Extents, log_start, open_extent, skipping
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
from ha_core.plan.mirror.held_copies import (
    copied_producers,
    held,
    left_to_origin,
    let_go,
    lost_tail,
    to_copy,
)
from ha_core.plan.mirror.standby import MAX_COPIED_EXTENTS, regained
from ha_core.plan.move.carry_over import carry_sequences, come_back, compose_aliases, leave_by_force
from ha_core.plan.move.identity_maps import require_unused
from ha_core.plan.move.partitions import cuts_of, extents_of, holes_of, left_in, moving, places, writer_after

ToHold = Literal["compare", "pin", "prepare", "adopt", "hold", "level"]
ToCut = Literal[ToHold, "warm", "quiesce", "fence", "drain", "ends", "mirrored", "offsets", "cut"]
Back = Literal["lift", "leave", "discard", "unpin", "undone"]
Step = Literal[ToCut, "verify", "repoint", "reverse", "groups", "record", Back, "release"]

# compare: compare copies with their sources, before anything is changed and while no client waits
# pin: give topics without a map one that routes clients to the origin, in revisions that every gateway serves
# prepare: create the topics that are missing in the target, and note their names
# adopt: join the groups in the target on their live members' behalf
# hold: take the copies of mirrored topics from the mirror job, in one revision
# level: take them over, and copy until little is missing; copying continues until `mirrored`
# warm: request once everything that is requested again while clients wait
# quiesce: block new transactions in the moving topics, in one revision; wait until the open ones have ended
# fence: refuse produce and group requests for everything that moves, in one revision
# drain: every live gateway applies the fence and has no request in flight
# ends: no transaction open; log ends of both sides, read until they agree; last sequences
# mirrored: the copies have all records of the origin
# offsets: copy committed offsets as they are, and read them back
# cut: maps, sequences, aliases and bindings, and the end of the fence, in one revision
# verify: every gateway serves the cut, and the origin's log ends have not moved
# repoint: further mirrors of the moved topics go on from the target
# reverse: mirrors of the opposite direction, from the target to the former origin
# groups: move the groups that read the topics, in an operation of their own, if requested
# record: write the result, release the locks
# lift: end fences and holds, in one revision that marks the operation as being undone
# leave: remove the adopted members from the target's groups
# discard: delete topics that the move created in the target and that are still empty
# unpin: remove the maps that `pin` gave to topics that exist only in the origin
# undone: write the result, release the locks
# release: release the locks of an operation that has ended
TASKS: Mapping[str, tuple[Step, ...]] = {
    "compare": ("compare",),
    "prepare": ("pin", "prepare"),
    "adopt": ("adopt",),
    "cut_over": ("hold", "level", "warm", "quiesce", "fence", "drain", "ends", "mirrored", "offsets", "cut"),
    "verify": ("verify", "repoint", "reverse"),
    "record": ("groups", "record"),
}
"""The steps of a move in safe order, by tasks of an Airflow run. From fence to cut is one task, because clients wait
and no job copies the held mirrors. Each step may be repeated: it detects what it did before."""
_LIVING: tuple[Step, ...] = ("compare", "adopt", "level", "quiesce", "mirrored", "reverse")
UNDO: tuple[Step, ...] = get_args(Back)
"""Steps of the undo, before the cut: fences first, because clients wait for them; maps last, and only of topics without
a copy. Each may be repeated."""


def steps(request: MoveRequest) -> tuple[Step, ...]:
    """All steps of a move. A dead origin has no members or transactions to wait for, and no records to copy."""
    left_out = set[Step]() if request.mode == "planned" else {*_LIVING}
    if request.verify == "none":
        left_out.add("compare")
    return tuple(step for some in TASKS.values() for step in some if step not in left_out)


def remaining_steps(
    operation: MoveOperation, topics: Mapping[str, Topic], groups: Mapping[str, Group]
) -> tuple[Step, ...]:
    """The remaining steps of an operation whose executor is gone, from the state.

    A planned move that has joined groups is undone: these members have expired, and the consumers may have rebalanced.
    So is one that holds mirrors, which no job copies meanwhile. A forced one continues, because its origin is dead
    either way.
    """
    forward = steps(operation.request)
    stands = bool(fenced(operation, topics, groups))
    if operation.state == "cut" or _maps_show_cut(operation, topics):
        if stands:
            raise MoveDamagedError(
                f"operation {operation.id} has cut, but its fence still stands: it was written by hand"
            )
        return forward[forward.index("verify") :]
    if operation.state in FINAL and not stands:
        return ("release",)
    if operation.state in FINAL | {"undoing"}:
        return UNDO
    # A move of bindings alone has no fence: only its state shows its progress.
    behind_fence = stands or operation.state == "fenced"
    if operation.request.mode == "forced":
        return ("warm", *forward[forward.index("drain") :]) if behind_fence else forward
    return UNDO if behind_fence or operation.evidence.adopted or operation.evidence.mirrored else forward


def quiesce_change(operation: MoveOperation, view: View, topics: Collection[str]) -> Documents:
    """Transaction fences on moving topics of `topics`, and the operation as `fenced`.

    :raises MoveDamagedError: another operation has fenced a topic, or the origin is not its writer.
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
    """Fences on all that moves, in place of transaction fences, and the operation as `fenced`.

    :raises MoveDamagedError: another operation has fenced a topic or group, or the origin is not a topic's writer.
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
    max_extents: int = MAX_COPIED_EXTENTS,
    stay: Mapping[str, str] | None = None,
    tails: Collection[LostTail] = (),
) -> Documents:
    """The revision of the cut: everything moves at once, and fences and mirrors end with it.

    :param ends: of every partition of every moving topic, read under the fence.
    :param producers: missing if the origin did not answer; read at `read_ms`.
    :param adopted: groups that were joined in the target; members of other groups join once more.
    :param copies: of mirrored topics, which the operation holds. A copy that was never begun is missing.
    :param max_extents: maximum number of each copy's extents in its map.
    :param tails: lost tails of forced moves. A topic that returns to a cluster with its tail is read there again.
    :param stay: topics that do not move because the records of their copies are not known → why.
    :raises MoveDamagedError: a fence or a hold is missing, partitions are missing, a new copy is not empty, or a map
        would be wrong.
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
                end = ends[name, p]
                before[p] = regained(before[p], tail, p, end.target, end.deleted_below)
        copied = {p: copy_facts for p in moved if (copy_facts := (copies or {}).get((name, p))) is not None}
        after = before | {
            p: _cut_partition(operation, name, p, before[p], ends, copied.get(p), max_extents) for p in moved
        }
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
        last_sequences, writers, complete = view.sequences.get(name), producers, True
        if name in operation.evidence.mirrored:
            mirror = held(operation, view, name)
            deletes.append((Mirror, mirror.key))
            others = operation.evidence.also_mirrored.get(name, ())
            deletes += [(Mirror, one.key) for one in others if one.key in view.mirrors]
            if request.mode == "planned":
                ended[name] = mirror.changed(held=None)
            elif copied:
                puts.append(lost_tail(operation, mirror, before, copied))
                # Producers whose records were appended in the origin and never copied are not known here.
                writers, complete = copied_producers(name, copied), False
        sequences = carry_sequences(name, last_sequences, cuts[name], writers, read_ms, complete) or last_sequences
        if request.mode == "forced":
            read = {p: copied[p].producers if p in copied else {} for p in moved if p in copied or skips(request)}
            sequences = leave_by_force(name, sequences, request.origin, cuts[name], read)
        sequences = come_back(sequences, request.target, cuts[name])
        puts += [] if sequences is None or sequences is last_sequences else [sequences]
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
    """The revision of the undo: fences and holds end, and the operation is marked as being undone. May be repeated.

    :raises MoveDamagedError: the cut is published; only another move can go back.
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
    """The topic's document, which may be new, after checks."""
    request, topic = operation.request, view.topics.get(name) or Topic(name=name)
    require_free(operation, f"topic {name}", topic)
    if topic.mapped and request.origin not in places(request, topic):
        there = ", ".join(sorted(places(request, topic)))
        raise MoveDamagedError(f"topic {name} is written in {there}, not in {request.origin} any more")
    return topic


def _maps_show_cut(operation: MoveOperation, topics: Mapping[str, Topic]) -> bool:
    """Whether the maps contain the cuts of the operation's evidence: writer epochs grow only by cuts."""
    cuts = operation.evidence.cuts
    return bool(cuts) and all(
        (topic := topics.get(name)) is not None
        and topic.mapped
        and all(open_extent(topic.extents(cut.partition)).writer_epoch >= cut.writer_epoch for cut in some)
        for name, some in cuts.items()
    )


def _cut_partition(
    operation: MoveOperation,
    topic: str,
    partition: int,
    before: Extents,
    ends: Ends,
    copy: CopyFacts | None,
    max_extents: int,
) -> Extents:
    request, found = operation.request, ends[topic, partition]
    where, current = f"topic {topic} partition {partition}", open_extent(before)
    known_end: int | None = None
    goes_to_copy = topic in operation.evidence.mirrored if request.mode == "planned" else copy is not None
    if request.mode == "forced":
        mirrored = None if copy is None else copy.mirrored
        at, known_end = forced_cut(current, found, mirrored, request.max_rate_records_s)
    elif found.origin is None:
        raise MoveDamagedError(f"{where}: a planned cut needs the log end of {request.origin}")
    else:
        try:
            at = current.to_client(found.origin)
        except ValueError as error:
            raise MoveDamagedError(f"{where}: {error}") from error
    if goes_to_copy:
        after = to_copy(operation, where, before, at, found, copy, max_extents)
    else:
        after = cut_at(request, where, before, at, found.target, known_end)
    return require_sound(where, skipping(after, request.origin)) if skips(request) else after


def skips(request: MoveRequest) -> bool:
    """Whether readers skip the origin's records."""
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
