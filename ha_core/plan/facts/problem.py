"""Problems and notices of an installation: their codes, subjects, ages, and the commands that mend them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple, get_args

from ha_core.plan.facts.grouping import grouped

ProblemCode = Literal[
    # the state and clusters
    "zookeeper-away", "zookeeper-member-away", "no-cluster", "no-default-cluster", "cluster-away", "masked-writer",
    # gateways
    "no-gateway", "gateway-died", "gateways-missing", "gateway-stopped", "gateway-behind", "worker-away",
    "no-facts-recorder",
    # operations
    "operation-abandoned", "crossing-overdue", "fence-left",
    # clusters that were away at a cut
    "origin-unchecked", "origin-has-more", "origin-lacks-records", "not-reconciled", "tail-differs",
    "tails-unreadable",
    # deletions
    "topics-gone", "deletion-incomplete", "deletion-waits",
    # mirrors and patterns
    "mirror-not-copied", "mirror-stopped", "mirror-unreadable", "mirror-without-source", "copy-begins-later",
    "mirror-not-in-sync", "pattern-unattended", "pattern-failed", "pattern-unreadable", "topic-without-mirror",
    # drills
    "drill-away", "drill-overdue",
    # pairs of clusters
    "parity-drift", "parity-overdue",
    # users, rights, quotas
    "platform-unfollowed", "platform-behind", "platform-unreadable", "usage-full",
    # notices
    "operation-without-executor", "approval-waits", "super-user-elsewhere", "direct-group-used", "client-id-shared",
    "client-id-anew", "mirror-left-over",
]  # fmt: skip
"""Identifies the problem for programs; the text is for people only."""
Age = Literal["", "stored", "seen"]
"""Source of a problem's time: the state has it, or a check has seen the problem first at that time; empty: unknown."""


@dataclass(frozen=True, slots=True)
class Problem:
    """`about` is the subject, `text` the problem, `remedy` the way out, `command` a whole command of it."""

    code: ProblemCode
    about: str
    text: str
    remedy: str
    command: str
    """It can be pasted as it is, and loses no record. Where no such command mends the problem, it shows more of it."""
    since: str = ""
    """UTC, ISO 8601; empty: unknown."""
    age: Age = ""
    age_s: float | None = None
    causes: tuple[str, ...] = ()
    """Subjects of problems that this one follows from, if one of them is there."""
    follows: tuple[Problem, ...] = ()
    """Problems that end with this one."""
    number: int | None = None
    patience_s: float = 0.0
    """It is a notice until it is as old as this: it may end by itself."""
    form: Mapping[str, str] = field(default_factory=dict)
    """Fields of the form that mends it, besides its subject, with their values."""

    @property
    def key(self) -> str:
        return f"{self.code} {self.about}"

    def to_json(self) -> dict[str, Any]:
        return {
            "code": self.code,
            "about": self.about,
            "text": self.text,
            "remedy": self.remedy,
            "command": self.command,
            "since": self.since or None,
            "age": self.age or None,
            "age_s": None if self.age_s is None else round(self.age_s, 1),
            "number": self.number,
            "follows": [one.to_json() for one in self.follows],
        }


CAUSES: frozenset[ProblemCode] = frozenset({"cluster-away", "no-gateway", "masked-writer"})
"""Problems from which others follow."""


def folded(problems: Iterable[Problem]) -> list[Problem]:
    """One problem for each cause, with those that follow from it."""
    found = list(problems)
    heads = {problem.about for problem in found if problem.code in CAUSES}

    def cause(problem: Problem) -> str:
        return "" if problem.code in CAUSES else next((about for about in problem.causes if about in heads), "")

    below = grouped((cause(problem), problem) for problem in found)
    return [
        replace(problem, follows=tuple(below.get(problem.about, ()))) if problem.code in CAUSES else problem
        for problem in found
        if not cause(problem)
    ]


def flat(problems: Iterable[Problem]) -> list[Problem]:
    """Each problem, and those that follow from it."""
    return [one for problem in problems for one in (problem, *flat(problem.follows))]


class CodeMeaning(NamedTuple):
    """
    :ivar level: an `alarm` makes the exit code of `status --check` 6; a `notice` does not.
    :ivar age: where its time comes from.
    """

    level: Literal["alarm", "notice"]
    meaning: str
    subject: str
    age: str = "first check that saw it"


_CLUSTER, _GATEWAY, _MIRROR = "`cluster NAME`", "`gateway NAME`", "`mirror of TOPIC in CLUSTER`"
_STATE = "the state"
MEANINGS: Mapping[ProblemCode, CodeMeaning] = {
    "zookeeper-away": CodeMeaning(
        "alarm", "ZooKeeper does not answer the check. The exit code is 4, and nothing else is known.", "`zookeeper`"
    ),
    "zookeeper-member-away": CodeMeaning(
        "alarm", "A member of ZooKeeper does not serve: the ensemble bears fewer further losses.", "`zookeeper MEMBER`"
    ),
    "no-cluster": CodeMeaning("alarm", "No cluster is registered.", "`clusters`"),
    "no-default-cluster": CodeMeaning("alarm", "Clients without a binding are refused.", "`clusters`"),
    "cluster-away": CodeMeaning("alarm", "A cluster that is not masked does not answer, or not as it must.", _CLUSTER),
    "masked-writer": CodeMeaning("alarm", "A masked cluster is the only writer of topics.", _CLUSTER, _STATE),
    "no-gateway": CodeMeaning("alarm", "No gateway is alive: no client is served.", "`gateways`"),
    "gateway-died": CodeMeaning("alarm", "A gateway vanished without a SIGTERM.", _GATEWAY),
    "gateways-missing": CodeMeaning(
        "alarm", "Fewer gateways are alive than `gateways expect NUMBER` declares.", "`gateways`"
    ),
    "gateway-stopped": CodeMeaning(
        "alarm", "A gateway that is declared by name was stopped, and is not back after 10 minutes.", _GATEWAY, _STATE
    ),
    "gateway-behind": CodeMeaning("alarm", "A gateway does not follow the newest revision; moves wait.", _GATEWAY),
    "worker-away": CodeMeaning("alarm", "Workers of a gateway are dead or hang.", _GATEWAY),
    "no-facts-recorder": CodeMeaning("alarm", "No gateway records facts about clusters.", "`gateways`"),
    "operation-abandoned": CodeMeaning(
        "alarm",
        "An operation has lost its executor, and no process continues it: at once if clients wait for it, else after "
        "a minute (a run of Airflow: 15 minutes).",
        "`operation ID`",
        "last step",
    ),
    "crossing-overdue": CodeMeaning("alarm", "A migration should have crossed over by now.", "`operation ID`"),
    "fence-left": CodeMeaning("alarm", "A fence of an operation that has ended stands.", "`topic NAME`"),
    "origin-unchecked": CodeMeaning(
        "alarm", "Readers wait for a cluster that was dead at a cut and answers again.", _CLUSTER
    ),
    "origin-has-more": CodeMeaning("alarm", "A cluster returned with records above the cut.", _CLUSTER),
    "origin-lacks-records": CodeMeaning("alarm", "A cluster returned with less than it held.", _CLUSTER),
    "not-reconciled": CodeMeaning(
        "alarm", "Records that a lost cluster acknowledged and no copy had are not counted.", _CLUSTER, "the switch"
    ),
    "tail-differs": CodeMeaning(
        "alarm", "A returned cluster has other records than the copy.", "`topic NAME`", "the switch"
    ),
    "tails-unreadable": CodeMeaning("alarm", "This version cannot read a LostTail.", "`/lost_tails`"),
    "topics-gone": CodeMeaning("alarm", "No cluster has topics whose maps are left.", "`topics NAMES`"),
    "deletion-incomplete": CodeMeaning("alarm", "A topic was not deleted in each cluster.", "`topic NAME`", _STATE),
    "deletion-waits": CodeMeaning("alarm", "No gateway takes up a client's deletion.", "`topics NAMES`", _STATE),
    "mirror-not-copied": CodeMeaning("alarm", "No job copies mirrors that are older than a minute.", "`mirrors`"),
    "mirror-stopped": CodeMeaning("alarm", "A copier has stopped and waits for an operator.", _MIRROR),
    "mirror-unreadable": CodeMeaning("alarm", "This version cannot read a Mirror.", _MIRROR),
    "mirror-without-source": CodeMeaning("alarm", "A mirror's source gets no more records.", _MIRROR),
    "copy-begins-later": CodeMeaning("alarm", "A copy lacks records that its source has.", _MIRROR),
    "mirror-not-in-sync": CodeMeaning(
        "alarm", "Settings, rights or offsets of mirrors differ and wait for an operator.", "`mirrors of A in B`"
    ),
    "pattern-unattended": CodeMeaning("alarm", "No job links the topics of a pattern.", "`pattern P of A in B`"),
    "pattern-failed": CodeMeaning("alarm", "The job cannot link the topics of a pattern.", "`pattern P of A in B`"),
    "pattern-unreadable": CodeMeaning("alarm", "This version cannot read a MirrorPattern.", "`pattern KEY`"),
    "topic-without-mirror": CodeMeaning("alarm", "A pattern chooses a topic that gets no mirror.", "`topic NAME`"),
    "drill-away": CodeMeaning(
        "alarm",
        "A drill has not ended for half an hour, and its scope is or may be in the other cluster: its process has "
        "died, or its way home is not free.",
        "`drill ID`",
        _STATE,
    ),
    "drill-overdue": CodeMeaning("alarm", "A scheduled drill was not run in time.", "`drill schedule NAME`", _STATE),
    "parity-drift": CodeMeaning(
        "alarm", "Two clusters that stand in for each other differ.", "`parity of A with B`", _STATE
    ),
    "parity-overdue": CodeMeaning(
        "alarm", "They were not compared for a quarter of an hour.", "`parity of A with B`", _STATE
    ),
    "platform-unfollowed": CodeMeaning(
        "alarm", "Users, rights or quotas were changed in a platform that no gateway follows.", "`KIND`", "the change"
    ),
    "platform-behind": CodeMeaning("alarm", "An older state of the platform is in force at gateways.", "`KIND`"),
    "platform-unreadable": CodeMeaning("alarm", "Gateways cannot read the platform.", "`KIND`"),
    "usage-full": CodeMeaning("alarm", "Usage of no more users is recorded.", "`usage`"),
    "operation-without-executor": CodeMeaning(
        "notice",
        "No process has worked on an operation for 3 s (a run of Airflow: a minute); it holds locks.",
        "`operation ID`",
        "last step",
    ),
    "approval-waits": CodeMeaning("notice", "A run of Airflow waits for an approval.", "`approval of RUN`", _STATE),
    "super-user-elsewhere": CodeMeaning("notice", "A super user is led away from its cluster.", "`user NAME`"),
    "direct-group-used": CodeMeaning("notice", "A direct group is known to gateways, too.", "`group NAME`"),
    "client-id-shared": CodeMeaning("notice", "A client id with a binding is used in several places.", "`user NAME`"),
    "client-id-anew": CodeMeaning("notice", "Client ids change at each start: no binding matches.", "`user NAME`"),
    "mirror-left-over": CodeMeaning("notice", "Mirrors of a pattern stand that it would not make now.", "`pattern …`"),
}


def codes_table() -> Sequence[str]:
    """Lines of the table of codes in `docs/problems.md`."""
    rows = [(code, MEANINGS[code]) for code in get_args(ProblemCode)]
    return [
        "| code | level | subject | meaning | age since |",
        "|---|---|---|---|---|",
        *(f"| `{code}` | {one.level} | {one.subject} | {one.meaning} | {one.age} |" for code, one in rows),
    ]
