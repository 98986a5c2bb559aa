"""The page of patterns to be put: what an approver has to know."""

import re

from ha_core.model import MirrorPattern
from ha_core.operations.mirror.patterns import PatternProposal, PatternsToRemove
from ha_core.plan.facts.verdict import error, warning
from ha_core.present.mirror_patterns import pattern_proposal_page, removed_words, would_put
from ha_core.present.page import log_lines

ORDERS = MirrorPattern(
    key="east>west:orders.*",
    pattern="orders.*",
    source="east",
    target="west",
    exclude=("orders.tmp-*",),
    since="2026-11-23T10:00:00Z",
    by="ops",
    reason="a standby",
    max_bytes_s=5_000_000,
    settings_left_alone=("segment.*",),
)
FOREIGN = error("foreign-data", "topic orders.b", "It has data of its own in west.", "Delete it there.")
NO_GATEWAY = warning("no-gateway", "gateways", "No gateway is alive.", "Start the gateways.")


def test_a_proposal_shows_what_is_mirrored_refused_and_left_alone_each_with_its_reason() -> None:
    proposal = PatternProposal(
        revision=7,
        patterns=(ORDERS,),
        linked=3,
        links=("orders.a",),
        refused_topics=(FOREIGN,),
        left={"orders.c": "it is written in west"},
        internal=("heartbeats",),
        not_judged=2,
        verdicts=(NO_GATEWAY,),
    )
    assert list(log_lines(pattern_proposal_page(proposal))) == [
        "orders.* of east, today's and later topics, mirrored to west, on revision 7",
        "reason: a standby",
        "left out: orders.tmp-*",
        "at most 5,000,000 bytes a second for each topic",
        "settings left alone: segment.*",
        "mirrored already: 3 topics",
        "  orders.a",
        "2 more topics: each is judged before it is mirrored",
        "  topic orders.b is refused for now: It has data of its own in west. Delete it there. (foreign-data)",
        "  orders.c is left alone: it is written in west",
        "internal, never mirrored by a pattern: heartbeats",
        "  warning: gateways: No gateway is alive. Start the gateways. (no-gateway)",
    ]
    assert would_put(proposal) == (
        "would mirror orders.* from east to west, later topics too: 3 topics now, 1 refused for now"
    )


def test_a_proposal_without_topics_says_that_later_ones_will_be_mirrored() -> None:
    lines = list(log_lines(pattern_proposal_page(PatternProposal(revision=7, patterns=(ORDERS,)))))
    assert "no topic is to be mirrored now; later ones will be" in lines
    assert lines[-1] == "objections: none"


def test_removing_a_pattern_names_the_mirrors_that_stay() -> None:
    assert removed_words(PatternsToRemove((ORDERS,), {}, ())) == "orders.*: later topics get no mirror by it"
    stay = removed_words(PatternsToRemove((ORDERS,), {}, ("orders.a@west", "orders.b@west")))
    assert re.search(r"; 2 mirrors of it stay: orders\.a@west, orders\.b@west$", stay)
