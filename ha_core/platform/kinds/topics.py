"""Topics: who answers for them, and how much depends on them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

from pydantic import Field

from ha_core.platform.entry import Entry, Reference
from ha_core.platform.words import ClusterName, TopicName, UserName, Words


class RegisteredTopic(Entry):
    KIND = "topics"
    ROLE = "registered_topic"

    name: TopicName
    owner: UserName
    """A user."""
    level: Annotated[int, Field(ge=1, le=5)] = 3
    """1: the most depends on it."""
    cluster: ClusterName | None = None
    """Where it was asked for; where it lies now, its map says."""
    description: Words = ""

    @property
    def key(self) -> str:
        return self.name

    def mentions(self) -> Iterator[Reference]:
        yield Reference("user", self.owner, needed=True)
        if self.cluster is not None:
            yield Reference("cluster", self.cluster, needed=True)
