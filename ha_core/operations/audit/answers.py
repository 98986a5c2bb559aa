"""An operation's own answers to the questions of an audit, from its document and its history alone.

None means "not known": the operation is of an earlier version, or a part of the answer was not to be had then.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, NamedTuple

from pydantic import ValidationError

from ha_core.model import HistoryEntry, MoveOperation, Operation
from ha_core.model.evidence import ComparedCopies
from ha_core.model.judgement import Judgement
from ha_core.model.provenance import Provenance
from ha_core.operations.engine.creating import JUDGED
from ha_core.operations.engine.report import PartitionCut, StepTime, partition_cuts, step_times
from ha_core.operations.move.client_costs import CLIENTS
from ha_core.plan.engine.revision import FINAL

_COMMAND = re.compile(r"`(switchyard [^`]+)`")
_WITHOUT_QUESTION = frozenset({"--yes", "-y"})
_OF_A_SHELL = frozenset("();<>|&$")
_OF_A_RUN = re.compile(r"(?:(?P<asked>.+?)(?:, approved by (?P<approved>.+))? )?\((?P<run>airflow:.+)\)")
"""The author of an operation before each of them had its field."""
_ELSEWHERE = frozenset({"reason", "revision", JUDGED})
"""Parts of a step's detail that other answers have."""
CLOCK = "the clock"
"""In place of the user who asked, in operations of that time."""
GO_ON = ("switchyard resume {id}", "switchyard undo {id}")
NEXT: Mapping[str, tuple[str, ...]] = {
    "planned": GO_ON,
    "running": GO_ON,
    "fenced": GO_ON,
    "undoing": ("switchyard undo {id}",),
    "crossing": ("switchyard migrations", "switchyard resume {id} --finish-with-barrier"),
    "cut": ("switchyard resume {id}",),
}
"""Commands that continue an operation in this state."""


class UserCost(NamedTuple):
    """Cost of a fence for one user, over all gateways that have reported it."""

    user: str
    refused: int
    """Requests that were refused, to be sent again."""
    longest_ms: float
    """From the user's first refused request at a gateway to the fence's end there, the longest of them."""


@dataclass(frozen=True, slots=True)
class Cost:
    """Cost of an operation for clients."""

    fenced_ms: float | None
    """None: it had no fence, or that is not known (`fences`)."""
    fences: bool
    users: tuple[UserCost, ...] | None
    """None: no gateway has reported it. Empty: no request was refused."""
    users_left_out: int = 0
    """Further users, whose refused requests are in `refused`."""
    refused: int | None = None
    """All refused requests."""
    not_known_of: tuple[str, ...] = ()
    """Gateways that have not reported it."""


@dataclass(frozen=True, slots=True)
class Answers:
    """One field for each question."""

    asked_by: str | None
    asked_at: str
    approval: bool | None
    """Whether an approval was given; None: not known."""
    approved_by: str | None
    approved_at: str | None
    run_url: str | None
    bundle_version: str | None
    why: str
    scope: tuple[str, ...]
    route: tuple[str, str] | None
    mode: str | None
    topics: tuple[str, ...]
    groups: tuple[str, ...]
    checked: tuple[Judgement, ...]
    """Empty: not known."""
    compared: ComparedCopies | None
    cuts: tuple[PartitionCut, ...]
    moved_groups: tuple[str, ...]
    changed: Mapping[str, Any]
    """Changes of an operation of one revision, as its step noted them; empty for moves."""
    revision: int | None
    steps: tuple[StepTime, ...]
    executors: tuple[str, ...]
    """Those that wrote its history, in the order in which they came."""
    cost: Cost
    state: str
    begun_at: str
    """When it took its locks: later than `asked_at` by the time of planning and approval."""
    ended_at: str | None
    result: str
    verified: tuple[str, ...]
    """Findings of a move's verification, each as a sentence; empty: not known, or there was none."""
    next: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        return {
            **{name: getattr(self, name) for name in _PLAIN},
            "checked": [one.model_dump(mode="json") for one in self.checked] or None,
            "compared": None if self.compared is None else self.compared.model_dump(mode="json"),
            "cuts": [cut._asdict() for cut in self.cuts],
            "steps": [step._asdict() for step in self.steps],
            "cost": {**asdict(self.cost), "users": self._users()},
        }

    def _users(self) -> list[dict[str, Any]] | None:
        return None if self.cost.users is None else [user._asdict() for user in self.cost.users]


_PLAIN = (
    *("asked_by", "asked_at", "approval", "approved_by", "approved_at", "run_url", "bundle_version", "why"),
    *("scope", "route", "mode", "topics", "groups", "moved_groups", "changed", "revision", "executors"),
    *("state", "begun_at", "ended_at", "result", "verified", "next"),
)


def answers(operation: Operation, history: Sequence[HistoryEntry]) -> Answers:
    people = provenance(operation)
    move = operation if isinstance(operation, MoveOperation) else None
    gone = operation.state == "undone"
    return Answers(
        asked_by=people.asked_by,
        asked_at=people.asked_at or operation.started,
        approval=_approval(operation, people),
        approved_by=people.approved_by,
        approved_at=people.approved_at,
        run_url=people.run_url,
        bundle_version=people.bundle_version,
        why=operation.reason,
        scope=operation.about,
        route=operation.route,
        mode=move.request.mode if move else None,
        topics=move.moves.topics if move else (),
        groups=move.moves.groups if move else (),
        checked=tuple(judgements(history)),
        compared=operation.move_evidence.compared,
        cuts=() if gone else partition_cuts(operation, {}),
        moved_groups=move.moves.groups if move and operation.moving else (),
        changed={} if gone or move else changed(operation, history),
        revision=operation.revision or None,
        steps=step_times(history),
        executors=tuple(dict.fromkeys([operation.by, *(entry.by for entry in history if entry.by)])),
        cost=cost(operation, history),
        state=operation.state,
        begun_at=operation.started,
        ended_at=operation.ended,
        result=operation.result,
        verified=tuple(verified(operation, history)) if move else (),
        next=next_commands(operation),
    )


def provenance(operation: Operation) -> Provenance:
    """The people behind it, also where an earlier version has written all of them into `by`."""
    fields = {name: getattr(operation, name) for name in Provenance.model_fields}
    known = Provenance(**fields)
    if known.asked_by is not None:
        return known
    if (found := _OF_A_RUN.fullmatch(operation.by)) is None:
        return known if operation.by.startswith("airflow:") else known.changed(asked_by=operation.by)
    asked = found["asked"]
    return known.changed(asked_by=None if asked == CLOCK else asked, approved_by=found["approved"])


def _approval(operation: Operation, people: Provenance) -> bool | None:
    if people.approved_by is not None:
        return True
    # An earlier version has written the approver into `by`, so that a run without one had no approval there either.
    return False if people.asked_by is not None or operation.by.startswith("airflow:") else None


def judgements(history: Iterable[HistoryEntry]) -> Iterator[Judgement]:
    """The judgements that the history's first entry keeps; those of a version to come are left out."""
    for entry in history:
        for row in entry.detail.get(JUDGED) or ():
            try:
                yield Judgement.model_validate(row)
            except ValidationError:
                continue


def changed(operation: Operation, history: Iterable[HistoryEntry]) -> dict[str, Any]:
    """The detail of the step in which the revision of a single operation was made."""
    found = (entry.detail for entry in history if entry.step == operation.kind and entry.outcome == "done")
    return {key: value for key, value in next(found, {}).items() if key not in _ELSEWHERE}


def verified(operation: Operation, history: Iterable[HistoryEntry]) -> Iterator[str]:
    """Findings of the step `verify` of a move, which its result sums up as "verified"."""
    detail = next((one.detail for one in history if one.step == "verify" and one.outcome == "done"), None)
    if detail is None:
        return
    yield f"every live gateway served revision {operation.revision} or a later one"
    origin, found = (operation.route or ("the origin", ""))[0], str(detail.get("origin", ""))
    if found == "unchanged":
        yield f"the log ends of {origin} were read after the cut and lay where the cut had found them"
    elif operation.forced:
        yield f"{origin} was taken for dead, so its logs were not read"
    elif found:
        why = found.removeprefix("not asked").removeprefix(": ")
        yield f"the logs of {origin} were not read after the cut" + (f": {why}" if why else "")


def cost(operation: Operation, history: Iterable[HistoryEntry]) -> Cost:
    details = [entry.detail for entry in history]
    fenced = next((detail["fenced_ms"] for detail in details if detail.get("fenced_ms") is not None), None)
    found = Cost(fenced, operation.FENCES or fenced is not None, None)
    clients = next((detail[CLIENTS] for detail in reversed(details) if isinstance(detail.get(CLIENTS), Mapping)), None)
    if clients is None:
        return found
    users = tuple(UserCost(user, int(row[0]), float(row[1])) for user, row in clients.get("users", {}).items())
    return replace(
        found,
        fences=True,
        users=users if clients.get("reported") else None,
        users_left_out=clients.get("users_left_out", 0),
        refused=clients.get("refused") if clients.get("reported") else None,
        not_known_of=tuple(clients.get("not_known_of", ())),
    )


def commands_in(text: str) -> Iterator[str]:
    """Commands between backticks. Names in a text come from clients, and one may look like a command: whatever acts
    without a question, or has a shell do more than run `switchyard`, is none of ours."""
    for found in _COMMAND.findall(text):
        lexer = shlex.shlex(found, posix=True, punctuation_chars=True)
        lexer.commenters = ""
        try:
            words = [*lexer]
        except ValueError:  # a quotation without end
            continue
        if not any(word in _WITHOUT_QUESTION or word[:1] in _OF_A_SHELL for word in words):
            yield found


def next_commands(operation: Operation) -> tuple[str, ...]:
    """Commands that continue, repeat or take back the operation: those that its result names, then those of its
    state."""
    named = [*commands_in(operation.result)]
    groups = operation.move_evidence.groups
    if groups is not None and groups.next:
        named.append(groups.next)
    by_state = [text.format(id=operation.id) for text in NEXT.get(operation.state, ())]
    if back := way_back(operation):
        by_state.append(back)
    if operation.state not in FINAL | NEXT.keys():
        by_state.append(f"switchyard history {operation.id}")
    return tuple(dict.fromkeys([*named, *by_state]))


def way_back(operation: Operation) -> str:
    """The command that takes the change back, or moves the same things home; empty: there is none."""
    if operation.refuses_until:
        return operation.refuses_until
    if operation.state != "succeeded" or not operation.FENCES or operation.route is None:
        return ""
    origin, target = operation.route
    return f"switchyard switch {shlex.join(operation.about)} --from {target} --to {origin} --reason …"
