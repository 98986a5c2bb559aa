"""The state of patterns: what the job has found of the topics of each; and what of it waits for an operator."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from shlex import quote
from typing import Any

from ha_core.model import MirrorPattern, PatternLook, PatternTopic, View
from ha_core.operations.engine.environment import Environment
from ha_core.plan.facts.problem import Problem
from ha_core.plan.facts.verdict import amount, duration, listed

SILENT_S = 180.0
"""The job writes an unchanged look again each minute."""
MAX_NAMED = 20
_SEE = "switchyard mirrors"
_WAITS_FOR_OPERATOR = frozenset({"refused", "failed"})
_STANDS_ON = frozenset({"gone", "unmatched"})


@dataclass(frozen=True, slots=True)
class PatternNow:
    pattern: MirrorPattern
    look: PatternLook | None
    """None: no job has looked at its topics yet."""

    @property
    def about(self) -> str:
        return f"pattern {self.pattern.pattern} of {self.pattern.source} in {self.pattern.target}"

    def topics(self, states: frozenset[str]) -> list[PatternTopic]:
        return [] if self.look is None else [topic for topic in self.look.topics if topic.state in states]

    def to_json(self) -> dict[str, Any]:
        one, look = self.pattern, self.look
        asked = {
            "pattern": one.pattern,
            "from": one.source,
            "to": one.target,
            "exclude": one.exclude,
            **one.policy,
            "since": one.since,
            "by": one.by,
            "reason": one.reason,
        }
        found = PatternLook(key=one.key, at="") if look is None else look
        return asked | {
            "looked_at": found.at or None,
            "trouble": found.trouble,
            "matching": found.matching,
            "linked": found.linked,
            "due": found.due,
            "topics": [topic.model_dump() for topic in found.topics],
            "left_out": found.left_out,
        }


@dataclass(frozen=True, slots=True)
class PatternsNow:
    patterns: list[PatternNow]
    """By key."""
    unreadable: Mapping[str, str]
    """key → why this version cannot read it."""

    def to_json(self) -> list[dict[str, Any]]:
        unreadable = [{"key": key, "unreadable": why} for key, why in sorted(self.unreadable.items())]
        return [*(one.to_json() for one in self.patterns), *unreadable]


def patterns_now(environment: Environment) -> PatternsNow:
    found = environment.store.find_mirror_patterns()
    looks = environment.store.pattern_looks() if found.readable else {}
    return PatternsNow([PatternNow(one, looks.get(one.key)) for one in found.readable], found.unreadable)


def pattern_problems(environment: Environment, view: View) -> Iterator[Problem]:
    """Patterns whose topics no job links, and topics that could not be linked."""
    found = patterns_now(environment)
    for key, why in sorted(found.unreadable.items()):
        text = f"No topic is linked by it: its document cannot be read: {why}."
        remedy = "If a later version wrote it, bring the job and the tools to that version; else restore the document."
        yield Problem("pattern-unreadable", f"pattern {key}", text, remedy, _SEE)
    for one in found.patterns:
        if why := _unattended(environment, one):
            yield Problem(
                "pattern-unattended",
                one.about,
                f"New topics get no mirror by it: {why}.",
                "Start the job `mirror` (`python -m spark_jobs mirror`), or look at its log.",
                "python -m spark_jobs mirror",
                since=one.pattern.since if one.look is None else one.look.at,
            )
        elif one.look is not None and one.look.trouble and not view.masked.keys() & {*one.pattern.route}:
            text = f"New topics get no mirror by it: {one.look.trouble}"
            causes = tuple(f"cluster {name}" for name in one.pattern.route)
            yield Problem(
                "pattern-failed", one.about, text, "Repair that; the job goes on by itself.", _SEE, causes=causes
            )
    yield from _without_mirror(found)


def _unattended(environment: Environment, one: PatternNow) -> str:
    """Why no job seems to link its topics; empty: one does."""
    age_s = environment.age_s(one.pattern.since if one.look is None else one.look.at)
    if age_s < SILENT_S:
        return ""
    if one.look is None:
        return "no job has looked at its topics"
    return f"the job last looked at its topics {duration(age_s)} ago"


def _without_mirror(found: PatternsNow) -> Iterator[Problem]:
    waiting = [(one, topic) for one in found.patterns for topic in one.topics(_WAITS_FOR_OPERATOR)]
    for one, topic in waiting[:MAX_NAMED]:
        leave_out = (
            f"switchyard mirror link {quote(one.pattern.pattern)} --from {one.pattern.source} "
            f"--to {one.pattern.target} --exclude {topic.topic}"
        )
        yield Problem(
            "topic-without-mirror",
            f"topic {topic.topic}",
            f"The {one.about} chooses it, and it has no mirror there: {topic.reason}",
            f"The job tries again by itself. If it shall have none, end that: `{leave_out}`.",
            f"{leave_out} --reason topic-without-mirror",
            causes=tuple(f"cluster {name}" for name in one.pattern.route),
        )
    # Topics without room in a look come after all that wait for an operator, unless these fill it.
    full = [
        one.look.left_out
        for one in found.patterns
        if one.look is not None and one.look.topics and one.look.topics[-1].state in _WAITS_FOR_OPERATOR
    ]
    if left := len(waiting[MAX_NAMED:]) + sum(full):
        remedy = "`switchyard mirrors` lists them."
        text = f"{amount(left, 'more topic')} may have no mirror."
        yield Problem("topic-without-mirror", "patterns", text, remedy, _SEE)


def pattern_notices(environment: Environment) -> Iterator[Problem]:
    """Mirrors that patterns have made, and would not make now: they stand until an operator ends them."""
    for one in patterns_now(environment).patterns:
        for state, words in (("gone", "its source does not have"), ("unmatched", "no pattern chooses")):
            topics = [topic.topic for topic in one.topics(frozenset({state}))]
            if topics:
                named = " ".join(islice(topics, 3)) + (" …" if len(topics) > 3 else "")
                yield Problem(
                    "mirror-left-over",
                    one.about,
                    f"It has linked {amount(len(topics), 'topic')} that {words} any more: {listed(topics)}. The "
                    f"{'mirror stands' if len(topics) == 1 else 'mirrors stand'}.",
                    f"`switchyard mirror unlink {named} --to {one.pattern.target} --reason …` when no reader needs the "
                    "copies.",
                    f"switchyard mirror unlink {' '.join(topics[:MAX_NAMED])} --to {one.pattern.target} "
                    "--reason mirror-left-over",
                )
