"""Pages about patterns of mirrors."""

from collections.abc import Callable, Iterator
from itertools import groupby

from ha_core.operations.mirror.pattern_states import PatternNow, PatternsNow
from ha_core.operations.mirror.patterns import PatternProposal, PatternsToRemove
from ha_core.plan.facts.verdict import amount, duration, listed
from ha_core.present.moves import verdicts_page
from ha_core.present.page import MAX_ROWS, Mark, Marked, Page, Table, number

_MARKS: dict[str, Mark] = {
    "failed": "bad",
    "refused": "bad",
    "gone": "warning",
    "unmatched": "warning",
    "waits": "dim",
    "elsewhere": "dim",
}


def pattern_proposal_page(proposal: PatternProposal) -> Page:
    """The patterns to be put, and what the job would link by them now."""
    first = proposal.patterns[0]
    source, target = proposal.route
    texts = listed(one.pattern for one in proposal.patterns)
    title = f"{texts} of {source}, today's and later topics, mirrored to {target}, on revision {proposal.revision}"
    yield Marked(title, "strong")
    yield f"reason: {first.reason}"
    if excluded := listed(dict.fromkeys(text for one in proposal.patterns for text in one.exclude)):
        yield f"left out: {excluded}"
    yield from _policy(proposal)
    if proposal.linked:
        yield f"mirrored already: {amount(proposal.linked, 'topic')}"
    if proposal.links:
        rows = [(name,) for name in proposal.links]
        yield Table(("mirrored within seconds",), rows, line="{}".format, max_rows=MAX_ROWS)
    elif not proposal.refused:
        yield "no topic is to be mirrored now; later ones will be"
    if proposal.not_judged:
        yield f"{amount(proposal.not_judged, 'more topic')}: each is judged before it is mirrored"
    if proposal.refused_topics:
        refused = [(v.about, Marked(v.code, "warning"), v.text, v.remedy) for v in proposal.refused_topics]
        columns = ("refused for now", "code", "", "remedy")
        yield Table(columns, refused, line="{0} is refused for now: {2} {3} ({1})".format, max_rows=MAX_ROWS)
    if proposal.left:
        left = sorted(proposal.left.items())
        yield Table(("left alone", "because"), left, line="{} is left alone: {}".format, max_rows=MAX_ROWS)
    if proposal.internal:
        yield f"internal, never mirrored by a pattern: {listed(proposal.internal)}"
    yield from verdicts_page(proposal.verdicts)


def _policy(proposal: PatternProposal) -> Iterator[str]:
    policy = proposal.patterns[0]
    if policy.max_bytes_s is not None:
        yield f"at most {policy.max_bytes_s:,} bytes a second for each topic"
    if policy.settings_left_alone:
        yield f"settings left alone: {listed(policy.settings_left_alone)}"


def would_put(proposal: PatternProposal) -> str:
    """The first line of a dry run's result."""
    source, target = proposal.route
    texts = listed(one.pattern for one in proposal.patterns)
    refused = f", {len(proposal.refused_topics)} refused for now" if proposal.refused_topics else ""
    now = amount(len(proposal.links) + proposal.not_judged, "topic")
    return f"would mirror {texts} from {source} to {target}, later topics too: {now} now{refused}"


def removed_words(gone: PatternsToRemove) -> str:
    texts = listed(one.pattern for one in gone.patterns)
    stay = f"; {amount(len(gone.mirrors), 'mirror')} of it stay: {listed(gone.mirrors)}" if gone.mirrors else ""
    return f"{texts}: later topics get no mirror by it{stay}"


def patterns_page(found: PatternsNow, age_s: Callable[[str], float]) -> Page:
    """Patterns, and their topics that have no mirror."""
    if not found.patterns and not found.unreadable:
        return
    rows: list[tuple[object, ...]] = [_row(one, age_s) for one in found.patterns]
    rows += [(key, "?", "?", "?", "?", "?", "?", Marked(why, "bad")) for key, why in sorted(found.unreadable.items())]
    columns = ("pattern", "from", "to", "topics", "mirrored", "due", "looked at", "")
    yield Table(columns, rows, title="patterns")
    topics = [row for one in found.patterns for row in _topics(one)]
    if topics:
        heads, line = ("pattern", "topics", "state", "reason"), "{}: {} {}: {}".format
        yield Table(heads, topics, title="topics of patterns", line=line, max_rows=MAX_ROWS)


def _row(one: PatternNow, age_s: Callable[[str], float]) -> tuple[object, ...]:
    named, look = (one.pattern.pattern, *one.pattern.route), one.look
    if look is None:
        return (*named, "?", "?", "?", "never", Marked("no job has looked at it yet", "bad"))
    counts = (number(look.matching), number(look.linked), number(look.due))
    return (*named, *counts, f"{duration(age_s(look.at))} ago", Marked(look.trouble, "bad") if look.trouble else "")


def _topics(one: PatternNow) -> Iterator[tuple[object, ...]]:
    """Topics with one reason share a row."""
    if one.look is None:
        return
    by_reason = sorted(one.look.topics, key=lambda topic: (topic.state, topic.reason, topic.topic))
    for (state, reason), some in groupby(by_reason, key=lambda topic: (topic.state, topic.reason)):
        yield one.pattern.pattern, listed(topic.topic for topic in some), Marked(state, _MARKS[state]), reason
    if one.look.left_out:
        yield one.pattern.pattern, f"{one.look.left_out:,} more", "?", "there is no room for them"
