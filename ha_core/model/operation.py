"""Operations: what was asked for, how far it got, and its append-only history."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from ha_core.model.document import Document, Part

Mode = Literal["planned", "forced"]
Unread = Literal["wait", "skip"]
CutMode = Literal["barrier", "predicted"]
GroupsChoice = Literal["leave", "move"]
Driver = Literal["command", "run"]
"""`command`: one process from the beginning to the end, which is gone where nobody holds the operation. `run`: tasks of
a run of Airflow; between two of them nobody holds it, and it may wait for a slot or for somebody's approval."""
OperationState = Literal["planned", "running", "crossing", "fenced", "cut", "succeeded", "undone", "failed"]
"""`crossing`: cuts that lie ahead are published. `fenced`: a fence may stand. `cut`: the map was published, from here
on only forward. The last three are final."""


class Scope(Part):
    """What is to move. Each entry is written as operators write it."""

    users: tuple[str, ...] = ()
    instances: tuple[tuple[str, str], ...] = ()
    """(user, client id)."""
    user_topics: tuple[tuple[str, str], ...] = ()
    user_groups: tuple[tuple[str, str], ...] = ()
    topics: tuple[str, ...] = ()
    partitions: dict[str, tuple[int, ...]] = Field(default_factory=dict)
    """Of those of `topics` of which only these partitions move. The others move whole."""


class MoveRequest(Part):
    """Parameters of a switch, as given by the operator."""

    scope: Scope
    origin: str
    target: str
    mode: Mode = "planned"
    reason: str = Field(min_length=1)
    drain_timeout_s: float = Field(default=10.0, gt=0, le=600)
    include_followers: bool = False
    """Topics that identities outside the scope use too: False refuses the move, True says that they follow."""
    unread: Unread | None = None
    """Forced only: what readers below the cut do while the origin is away. Somebody has to say it."""
    force: bool = False
    """Forced only: give the origin up although it answers."""
    cut: CutMode = "barrier"
    preparation_s: float = Field(default=300.0, ge=0, le=7 * 86_400)
    """Predicted only: a cut lies as far ahead as the log grows in so many seconds."""
    finish_after_s: float | None = Field(default=None, gt=0)
    """Predicted only: so many seconds after it was opened, a crossing that has not ended is ended behind a fence."""
    groups: GroupsChoice = "leave"
    """Migrations only: whether the groups that read the topics come along. Where the scope names groups, these do; else
    they are looked for, and moved, when the topics have been."""


class MoveSet(Part):
    """What a move takes along, as the closure over usage found it."""

    topics: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    reasons: dict[str, str] = Field(default_factory=dict)
    """`topic:NAME` or `group:NAME` → why it moves."""
    left_out: tuple[str, ...] = ()
    """`topic:NAME` or `group:NAME` that was found with it, and stays: it is in the target, or nowhere."""


class Operation(Document):
    """`/operations/{id}`. Its history, one node per entry below it, is never deleted."""

    id: str = Field(pattern=r"^[a-z0-9][a-z0-9._-]{0,99}$")
    kind: Literal[
        "switch", "migrate", "mask", "unmask", "bindings", "return", "age", "give-up", "add-cluster", "remove-cluster"
    ]
    state: OperationState = "planned"
    by: str
    """Who runs it: `cli:USER@HOST` or `airflow:DAG/RUN`."""
    driver: Driver = "command"
    """Who is to go on with it."""
    reason: str
    started: str
    ended: str | None = None
    request: MoveRequest | None = None
    moves: MoveSet | None = None
    revision: int = 0
    """Revision of its last change to the state."""
    evidence: dict[str, Any] = Field(default_factory=dict)
    """What later steps need of earlier ones: created topics, ends, adopted groups …"""
    result: str = ""


class HistoryEntry(Document):
    """One line of an operation's history."""

    at: str
    epoch: int
    step: str
    outcome: Literal["started", "done", "failed", "undone", "note"]
    ms: float | None = None
    detail: dict[str, Any] = Field(default_factory=dict)


class Lock(Document):
    """`/locks/{scope key}`: who runs an operation on it.

    Keys: `topic:NAME`, `group:NAME`, `user:NAME`, `cluster:NAME`.
    """

    key: str
    operation: str
    by: str
    since: str
