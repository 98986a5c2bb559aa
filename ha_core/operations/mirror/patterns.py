"""Patterns of mirrors: an operator puts or removes them, each time in one revision.

The job `mirror` links the topics that they choose, today's and later ones
(`ha_core.operations.running.pattern_linking`).
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any

from pydantic import Field

from ha_core.kafka.errors import KafkaAdminError
from ha_core.model import Document, MirrorPattern, View
from ha_core.model.mirror_pattern import MAX_EXCLUDED
from ha_core.operations.engine.environment import Environment
from ha_core.operations.engine.errors import RefusedError, unchanged
from ha_core.operations.engine.report import BaseProposal, Report
from ha_core.operations.engine.single import Expected, run_single
from ha_core.operations.mirror.pattern_topics import flows_into, judge_links, of_users
from ha_core.operations.proposal.requests import is_pattern
from ha_core.plan.facts.verdict import Verdict, listed
from ha_core.plan.mirror.patterns import shared_out, standing
from ha_core.store.commits import Key

ALL_TOPICS = "*"
MAX_JUDGED = 1_000
"""Topics whose link is judged for a proposal; the job judges each before it links it."""
MAX_PATTERNS = 100
"""In an installation: each route is looked at every few seconds."""
_LEGAL = re.compile(r"[A-Za-z0-9._*?\[\]!-]{1,249}")


@dataclass(frozen=True)
class PatternRequest:
    """Patterns of one route, as an operator asks for them.

    :ivar policy: fields of `MirrorPolicy`, for each topic.
    """

    patterns: tuple[str, ...]
    source: str
    target: str
    reason: str
    exclude: tuple[str, ...] = ()
    policy: dict[str, Any] = field(default_factory=dict)


def are_patterns(topics: Collection[str]) -> bool:
    """Whether an operator asks for patterns, and not for topics by their names.

    :raises RefusedError: for both.
    """
    wild = [name for name in topics if is_pattern(name)]
    if wild and (names := [name for name in topics if not is_pattern(name)]):
        raise unchanged(f"{listed(wild)} is kept for later topics too, {listed(names)} is not. Give two commands.")
    return bool(wild)


def pattern_request(
    patterns: Collection[str], source: str, target: str, exclude: Collection[str], reason: str, **policy: Any
) -> PatternRequest:
    """:raises RefusedError: names the value and the allowed ones."""
    for text in (*patterns, *exclude):
        if not _LEGAL.fullmatch(text) or text.count("[") != text.count("]"):
            raise unchanged(
                f"{text!r} matches no topic: write letters, digits, '.', '_', '-', '*', '?' and '[…]', 249 at most."
            )
    if source == target:
        raise unchanged(f"Source and target are the same cluster, {source}. Name two with --from and --to.")
    if not reason.strip():
        raise unchanged("A pattern needs a reason. Give --reason.")
    chosen, left_out = (tuple(dict.fromkeys(texts)) for texts in (patterns, exclude))
    return PatternRequest(chosen, source, target, reason, left_out, policy)


class PatternProposal(BaseProposal):
    """Patterns to be put, and what the job would link by them now. `verdicts` refuse all of it; topics that are refused
    by themselves are `refused_topics`."""

    patterns: tuple[MirrorPattern, ...]
    linked: int = 0
    """Topics that have their mirror already."""
    links: tuple[str, ...] = ()
    """Topics that get one now."""
    refused_topics: tuple[Verdict, ...] = ()
    left: dict[str, str] = Field(default_factory=dict)
    """Topics of other clusters, or with an operation → why they are left alone."""
    internal: tuple[str, ...] = ()
    """Topics that no pattern chooses."""
    not_judged: int = 0
    """Topics above `MAX_JUDGED`."""

    @property
    def route(self) -> tuple[str, str]:
        return self.patterns[0].route


def plan_patterns(environment: Environment, request: PatternRequest) -> PatternProposal:
    """The effect of the patterns on the topics that the source has now. Changes nothing.

    :raises RefusedError: too many patterns, or excluded topics.
    :raises UnreadableDocumentError: this version cannot read a document on which a link rests.
    """
    stored = {one.key: one for one in environment.store.mirror_patterns()}
    patterns = tuple(_wanted(environment, request, stored.get(_key(request, text)), text) for text in request.patterns)
    if len(stored.keys() | {pattern.key for pattern in patterns}) > MAX_PATTERNS:
        raise unchanged(
            f"There are {len(stored)} patterns, and no more than {MAX_PATTERNS} are kept. Use fewer, wider ones."
        )
    names, view = _listed(environment, (request.source, request.target)), environment.store.load()
    topics = of_users(names, view)
    there = [environment.admin(view.clusters[name]) for name in (request.source, request.target) if names]
    flows = flows_into(there, view, {})
    others = [one for one in stored.values() if one.route == (request.source, request.target)]
    every = {one.key: one for one in (*others, *patterns)}
    shares = shared_out(every.values(), topics.users)
    locks = {lock.key: lock for lock in environment.store.locks()}
    stands = {
        pattern.key: [standing(view, locks, pattern.route, name, flows) for name in shares[pattern.key]]
        for pattern in patterns
    }
    due = [(one, how.topic) for one in patterns for how in stands[one.key] if how.state == "due"]
    judged = [
        judge_links(environment, pattern, [name for one, name in due[:MAX_JUDGED] if one is pattern])
        for pattern in patterns
    ]
    others_left = [how for some in stands.values() for how in some if how.state not in {"linked", "due"}]
    return PatternProposal(
        revision=view.revision,
        verdicts=tuple(dict.fromkeys(verdict for one in judged for verdict in one.of_all)),
        patterns=patterns,
        linked=sum(how.state == "linked" for some in stands.values() for how in some),
        links=tuple(sorted(name for one in judged for name in one.sound)),
        refused_topics=tuple(verdict for one in judged for _, verdict in sorted(one.refused.items())),
        left={how.topic: how.reason for how in sorted(others_left)},
        internal=tuple(topics.internal),
        not_judged=len(due[MAX_JUDGED:]),
    )


def _key(request: PatternRequest, text: str) -> str:
    return MirrorPattern.key_of(text, request.source, request.target)


def _wanted(
    environment: Environment, request: PatternRequest, before: MirrorPattern | None, text: str
) -> MirrorPattern:
    """Topics that the stored pattern leaves out stay left out: an operator may have ended their mirrors."""
    exclude = _united(() if before is None else before.exclude, request.exclude)
    if len(exclude) > MAX_EXCLUDED:
        raise unchanged(
            f"The pattern {text} would leave out {len(exclude)} names, and keeps {MAX_EXCLUDED} at most. Use patterns "
            "for them."
        )
    return MirrorPattern(
        key=_key(request, text),
        pattern=text,
        source=request.source,
        target=request.target,
        exclude=exclude,
        since=environment.now() if before is None else before.since,
        by=environment.by,
        reason=request.reason,
        **request.policy,
    )


def _united(*texts: Collection[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(text for some in texts for text in some))


def _listed(environment: Environment, route: tuple[str, str]) -> Collection[str]:
    """Topics of the source; none if one of both clusters cannot be asked, which the pre-flight says."""
    clusters = environment.store.clusters()
    try:
        source, _ = (environment.admin(clusters[name]) for name in route)
        return source.list_topics()
    except (KeyError, KafkaAdminError, RefusedError):
        return ()


def put_patterns(environment: Environment, proposal: PatternProposal) -> Report | None:
    """Put the patterns; None: all of them stand like this already.

    :raises RefusedError: a verdict is an error.
    :raises LockedError, ConflictError: another operation changes one of them.
    """
    proposal.require_sound()
    puts, expected = list[Document](), dict[Key, int | None]()
    for proposed in proposal.patterns:
        stored = environment.store.read(MirrorPattern, proposed.key)
        # A mirror may have been ended since the proposal was made: its topic stays left out.
        pattern = proposed if stored is None else proposed.changed(exclude=_united(stored[0].exclude, proposed.exclude))
        if stored is None or pattern.changed(by=stored[0].by, reason=stored[0].reason) != stored[0]:
            puts.append(pattern)
            expected[MirrorPattern, pattern.key] = None if stored is None else stored[1]
    if not puts:
        return None
    reason, detail = proposal.patterns[0].reason, {"patterns": [key for _, key in expected]}
    return run_single(environment, "link-pattern", reason, puts, expected, {**detail, "reason": reason})


@dataclass(frozen=True)
class PatternsToRemove:
    """
    :ivar mirrors: keys of the mirrors that they have made, and that stand on.
    """

    patterns: tuple[MirrorPattern, ...]
    expected: Expected
    mirrors: tuple[str, ...]


def to_remove(environment: Environment, patterns: Collection[str], target: str, source: str = "") -> PatternsToRemove:
    """Changes nothing.

    :param source: where a pattern has several.
    :raises RefusedError: there is no such pattern, or it has several sources and none is given.
    """
    stored = environment.store.mirror_patterns()
    found: list[MirrorPattern] = []
    for text in dict.fromkeys(patterns):
        there = [one for one in stored if one.pattern == text and one.target == target]
        some = [one for one in there if source in ("", one.source)]
        if not some:
            others = f" (there is one from {listed(one.source for one in there)})" if there else ""
            raise unchanged(
                f"There is no pattern {text} with copies in {target}{others}. `switchyard mirrors` lists them."
            )
        if len(some) > 1:
            raise unchanged(
                f"The pattern {text} has the sources {listed(one.source for one in some)}. Name one: --from."
            )
        found += some
    expected: dict[Key, int | None] = {}
    for pattern in found:
        read = environment.store.read(MirrorPattern, pattern.key)
        if read is None:
            raise unchanged(f"The pattern {pattern.pattern} was removed meanwhile. Run it again.")
        expected[MirrorPattern, pattern.key] = read[1]
    return PatternsToRemove(tuple(found), expected, _made_by(environment.store.load(), found))


def _made_by(view: View, patterns: Collection[MirrorPattern]) -> tuple[str, ...]:
    actors = {pattern.actor for pattern in patterns}
    return tuple(sorted(mirror.key for mirror in view.mirrors.values() if mirror.by in actors))


def remove_patterns(
    environment: Environment, patterns: Collection[str], target: str, reason: str, source: str = ""
) -> Report:
    """Remove patterns: later topics get no mirror by them. The mirrors that they have made stand.

    :raises RefusedError: as `to_remove`, or there is no reason.
    :raises LockedError, ConflictError: another operation changes one of them.
    """
    if not reason.strip():
        raise unchanged("Removing a pattern needs a reason. Give --reason.")
    gone = to_remove(environment, patterns, target, source)
    detail = {"patterns": [pattern.key for pattern in gone.patterns], "reason": reason}
    report = run_single(environment, "unlink-pattern", reason, (), gone.expected, detail)
    for pattern in gone.patterns:
        environment.store.drop_pattern_look(pattern.key)
    return report
