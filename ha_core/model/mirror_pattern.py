"""Patterns: topics of one cluster that get a mirror in another as soon as they exist, and how far that has come."""

from typing import Literal, Self

from pydantic import Field

from ha_core.model.document import FEW_BYTES, Document, Part
from ha_core.model.mirror import MirrorPolicy

MAX_EXCLUDED = 1_000
"""Per pattern. The names of topics whose mirrors an operator has ended are among them."""
MAX_TOPICS_NAMED = 500
"""Per document of a look."""
_ACTOR = "pattern:"


class MirrorPattern(Document, MirrorPolicy):
    """`/mirror_patterns/{source}>{target}:{pattern}`: each topic of `source` whose name matches gets a mirror in
    `target`, with this policy. Removing it ends none of them."""

    FOLDER = "/mirror_patterns"
    KEY = "key"
    REVISED = True
    PLAIN_BYTES = FEW_BYTES

    key: str
    pattern: str = Field(min_length=1, max_length=249)
    """With `*`, `?` and `[…]`, as a shell has them."""
    source: str
    target: str
    exclude: tuple[str, ...] = Field(default=(), max_length=MAX_EXCLUDED)
    """Names and patterns of topics that it leaves out."""
    since: str
    by: str
    reason: str

    @classmethod
    def key_of(cls, pattern: str, source: str, target: str) -> str:
        return f"{source}>{target}:{pattern}"

    @property
    def route(self) -> tuple[str, str]:
        """(source, target)"""
        return self.source, self.target

    @property
    def actor(self) -> str:
        """Author of the operations that it asks for, and of the mirrors that they make."""
        return f"{_ACTOR}{self.key}"

    def excluding(self, names: tuple[str, ...]) -> Self:
        """A copy that leaves these out, too."""
        return self.changed(exclude=tuple(dict.fromkeys([*self.exclude, *names])))


def pattern_that_is(actor: str) -> str | None:
    """Key of the pattern that is this author of an operation; None: another author."""
    return actor.removeprefix(_ACTOR) if actor.startswith(_ACTOR) else None


PatternTopicState = Literal["refused", "failed", "waits", "elsewhere", "gone", "unmatched"]
"""`refused`: a check of the link refuses it. `failed`: an operation tried to link it, and was undone. `waits`: another
operation works on it. `elsewhere`: another cluster writes it, or is the source of its copy. `gone`: linked by the
pattern, and the source does not have it any more. `unmatched`: linked by the pattern, which does not match it now."""


class PatternTopic(Part):
    """A topic that is not as its pattern asks."""

    topic: str
    state: PatternTopicState
    code: str = ""
    """Code of the verdict that refuses it."""
    reason: str


class PatternLook(Document):
    """`/mirror_pattern_looks/{key of the pattern}`: the last look of the job `mirror` at the topics of a pattern. No
    revision: the next look overwrites it."""

    FOLDER = "/mirror_pattern_looks"
    KEY = "key"
    PLAIN_BYTES = FEW_BYTES

    key: str
    at: str
    """UTC, ISO 8601. An unchanged look is written again only after some seconds."""
    trouble: str = ""
    """Why nothing is linked now; empty: nothing is in the way."""
    matching: int | None = None
    """Topics of the source that it chooses; None: the source was not asked, or did not answer."""
    linked: int | None = None
    """Those of them that have their mirror."""
    due: int | None = None
    """Those that are linked next."""
    topics: tuple[PatternTopic, ...] = ()
    """Bounded: those that wait for an operator come first."""
    left_out: int = 0
    """Number of topics left out of `topics`."""
