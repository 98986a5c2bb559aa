"""From fence to cut: the only time in which clients wait, hence as little as possible is done in it.

What can be known before is asked before: documents with their versions, partitions, leaders, coordinators. Behind the
fence there are two writes to ZooKeeper (fence and cut) and one round of questions to each cluster, side by side; the
history is written afterwards. Any failure before the cut lifts the fence at once (see `engine`).

Behind a fence an open transaction could not end: its records are refused, and the cut waits for it. So where leaders
remember transactional producers, a transaction fence comes first. Producers without transactions do not notice it.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from ha_core.kafka.admin import Admin
from ha_core.kafka.facts import Adopted
from ha_core.model import Operation, Usage, View
from ha_core.operations.environment import Environment
from ha_core.operations.errors import NotDrainedError, StepFailedError
from ha_core.operations.gateways import drained, name_them, not_in_time, serves, wait_for_all
from ha_core.operations.journal import Journal, Lap, Stopwatch
from ha_core.operations.last_seen import LastKnown
from ha_core.operations.revisions import Touched, by_topic
from ha_core.operations.sides import admin_of, asked, in_target, origin_of
from ha_core.operations.switch.targets import renew_adoption, still_adopted
from ha_core.operations.switch.window import Window
from ha_core.plan.closure import closure, users_of
from ha_core.plan.move import MoveDamagedError, cut_change, fence_change, quiesce_change
from ha_core.plan.moving import of_all

OURS_FOR_S = 1.0
"""Nobody can take over what was held so long ago: far less than the session of an executor. Asking costs a write."""


def cut_over(journal: Journal) -> None:
    """Quiesce, fence, drain, ends, offsets, cut. Afterwards the operation's state is `cut`.

    :raises StepFailedError: the fence may still stand, and has to be undone.
    """
    environment = journal.environment
    watch = Stopwatch(environment)
    begun = environment.monotonic()
    journal.append("cut_over", "started")
    try:
        window = _open(journal)
        touched = Touched.read(journal)
        refuse_latecomers(journal, touched.view)
        quiesce(journal, touched, window, watch)
        fence_revision = _fence(journal, touched, watch)
        fenced_at = environment.monotonic()
        _drain(environment, journal.operation, fence_revision, watch)
        refuse_latecomers(journal, touched.view)
        revision = _cut(journal, touched, window, watch)
        fenced_ms = (environment.monotonic() - fenced_at) * 1000
    except MoveDamagedError as error:
        raise StepFailedError(f"{error}.") from error
    finally:
        if journal.operation.state != "cut":
            _note_failure(journal, watch, begun)
    journal.update(revision=revision)
    watch.write(journal)
    detail = {"revision": revision, "fenced_ms": round(fenced_ms, 1), "left_out": list(window.left_out)}
    journal.append("cut_over", "done", (environment.monotonic() - begun) * 1000, detail)
    environment.say(f"clients waited {fenced_ms:.1f} ms behind the fence (fenced_ms)")


def _open(journal: Journal) -> Window:
    environment = journal.environment
    request, moves = asked(journal.operation)
    target, origin = admin_of(environment, request.target), origin_of(environment, request)
    holder = origin or target
    found = holder.topics(moves.topics, offsets=False)
    missing = sorted(set(moves.topics) - found.keys())
    if missing:
        raise StepFailedError(
            f"Topic {missing[0]} does not exist in cluster {holder.cluster.name} any more. Plan the move again."
        )
    if origin is not None and request.mode == "planned":
        renew_adoption(journal, origin, target)
    window = Window(
        environment,
        origin,
        target,
        tuple((name, partition) for name in moves.topics for partition in range(found[name].partitions)),
        moves.groups,
        request.drain_timeout_s,
        forced=request.mode == "forced",
        known=LastKnown.read(environment, request.origin, moves) if request.mode == "forced" else LastKnown(),
        still_ours=partial(journal.still_ours, OURS_FOR_S),
    )
    window.warm()
    return window


def _fence(journal: Journal, touched: Touched, watch: Stopwatch) -> int:
    request, _ = asked(journal.operation)
    if request.mode == "forced" and journal.operation.state == "fenced":
        # A forced move that was interrupted: its fence stands, and the newest revision contains it.
        return journal.environment.store.load().revision
    with watch.lap("fence") as seen:
        revision = touched.commit(journal, fence_change(journal.operation, touched.view), "fence")
        seen["revision"] = revision
    return revision


def _drain(environment: Environment, operation: Operation, revision: int, watch: Stopwatch) -> None:
    request, moves = asked(operation)
    # A move of bindings alone fences nothing, and no gateway reports a fence that it does not see.
    fences = bool(moves.topics or moves.groups)
    reached = drained(revision, operation.id) if fences else serves(revision)
    with watch.lap("drain") as seen:
        behind = wait_for_all(environment, reached, request.drain_timeout_s)
        seen["behind"] = len(behind)
    if behind:
        raise NotDrainedError(not_in_time(revision, behind, request.drain_timeout_s))


def _cut(journal: Journal, touched: Touched, window: Window, watch: Stopwatch) -> int:
    environment, operation = journal.environment, journal.operation
    request, _ = asked(operation)
    adopted = operation.move.adopted
    with watch.lap("ends") as seen:
        checked = None
        if adopted and window.origin is not None:
            checked = environment.pool.submit(still_adopted, window.origin, window.target, adopted)
        found = window.read()
        alive = adopted if checked is None else checked.result()
        seen.update(partitions=len(found.ends), producers=sum(len(known) for known in found.producers.values()))
    with watch.lap("offsets") as seen:
        _give_up(window.target, {name: in_target(name, one) for name, one in adopted.items() if name not in alive})
        counts = window.copy_offsets({name: in_target(name, one) for name, one in alive.items()})
        seen.update(groups=len(counts), offsets=sum(counts.values()), adopted=len(alive))
    with watch.lap("cut") as seen:
        # The others of a topic grow on in the origin.
        leaving = {key: found.origin[key] for key in of_all(request, touched.view.topics, found.origin)}
        known = operation.noting(origin_ends=by_topic({key: one.log_end for key, one in leaving.items()}))
        documents = cut_change(known, touched.view, found.ends, found.producers, alive, read_ms=environment.now_ms())
        revision = touched.commit(journal, documents, "cut")
        seen["revision"] = revision
    return revision


def _give_up(target: Admin, groups: Mapping[str, Adopted]) -> None:
    """Groups that have changed since: their members join once more, and find no strangers there."""
    for adopted in groups.values():
        target.leave(adopted)


def _note_failure(journal: Journal, watch: Stopwatch, begun: float) -> None:
    """Kept for the history, which is written when the fence is gone: clients wait for nothing else."""
    environment = journal.environment
    ms = (environment.monotonic() - begun) * 1000
    journal.pending = [*watch.laps, Lap("cut_over", "failed", ms, {}, environment.now())]


NAMED = 5


def latecomers(journal: Journal, view: View) -> tuple[str, ...]:
    """`topic:NAME` and `group:NAME` that were not judged when the move was planned.

    :param view: has the bindings of the users in the scope.
    """
    environment = journal.environment
    request, moves = asked(journal.operation)
    found = environment.pool.map(lambda user: environment.store.read(Usage, user), users_of(request.scope))
    usage = {one[0].user: one[0] for one in found if one is not None}
    judged = moves.reasons.keys() | set(moves.left_out)
    return tuple(sorted(closure(view, usage, request).moves.reasons.keys() - judged))


def refuse_latecomers(journal: Journal, view: View) -> None:
    """:raises StepFailedError: names them. A forced move goes on: nothing waits for what is dead."""
    found = latecomers(journal, view)
    if not found:
        return
    request, _ = asked(journal.operation)
    named = ", ".join(found[:NAMED]) + (f" and {len(found) - NAMED} more" if len(found) > NAMED else "")
    if request.mode == "forced":
        journal.environment.say(f"used for the first time since the move was planned, and left behind: {named}")
        return
    raise StepFailedError(
        f"Clients of the scope began to use {named} after the move was planned: it would be left behind. "
        "Start the move again, and it is taken along."
    )


PAUSE_S = 0.02
KEEP_ALIVE_S = 3.0
"""How often adopted members are kept alive meanwhile: as often as clients do it by default."""
NAMED = 5


def quiesce(journal: Journal, touched: Touched, window: Window, watch: Stopwatch) -> None:
    """Fence transactions, and wait until no transaction is open in what moves. Without any, nothing is done.

    :raises StepFailedError: a transaction stays open for the drain timeout; the transaction fence has to be lifted.
    """
    topics = {topic for topic, _ in window.transactional()}
    if not topics:
        return
    with watch.lap("quiesce") as seen:
        documents = quiesce_change(journal.operation, touched.view, topics)
        revision = touched.commit(journal, documents, "quiesce")
        seen.update(revision=revision, topics=len(topics))
        _wait(journal, window, revision)


def _wait(journal: Journal, window: Window, revision: int) -> None:
    """Gateways tell of transactions that have not written yet; the origin of those that no gateway has seen begin."""
    environment, operation = journal.environment, journal.operation
    request, _ = asked(operation)
    reached = drained(revision, operation.id)
    begun = alive_at = environment.monotonic()
    while True:
        behind = tuple(gateway for gateway in environment.store.gateways() if not reached(gateway))
        found = {} if behind else window.open_transactions()
        if not behind and not found:
            return
        now = environment.monotonic()
        if now - begun >= request.drain_timeout_s:
            named = [f"{t}-{p} (producer {one.producer_id})" for (t, p), open_in in found.items() for one in open_in]
            where = ", ".join(named[:NAMED]) or f"as these gateways see it: {name_them(behind)}"
            raise StepFailedError(
                f"Transactions stay open in cluster {request.origin} for more than {request.drain_timeout_s:g} s: "
                f"{where}. Let them end, or give the move a --drain-timeout that is longer than they take. One whose "
                "producer is gone is aborted by its coordinator after the producer's transaction.timeout.ms."
            )
        if now - alive_at > KEEP_ALIVE_S and window.origin is not None:
            still_adopted(window.origin, window.target, operation.move.adopted)
            alive_at = now
        environment.sleep(PAUSE_S)
