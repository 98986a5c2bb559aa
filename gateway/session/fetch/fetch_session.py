"""A client's fetch session with its broker (KIP-227), as far as its requests have named what is in it."""

from __future__ import annotations

from collections.abc import Iterable

from gateway.session.request import text
from ha_core.model import View

MAX_NAME_BYTES = 249
"""Of a topic that can exist."""
MAX_TOPICS = 40_000
"""A client that names more is asked to begin anew."""


class FetchSession:
    """:ivar ends: the next fetch must be a full one: it names too many topics, or some that are translated now."""

    __slots__ = ("ends", "topics")

    def __init__(self) -> None:
        self.topics: set[bytes] = set()
        self.ends = False

    def add(self, topics: Iterable[bytes]) -> None:
        self.topics.update(topic for topic in topics if len(topic) <= MAX_NAME_BYTES)
        self.ends = len(self.topics) > MAX_TOPICS

    def follow(self, view: View) -> None:
        self.ends = self.ends or any(text(topic) in view.topics for topic in self.topics)
