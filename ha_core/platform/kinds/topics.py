"""Topics: owner and importance."""

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
    """1: the most important."""
    cluster: ClusterName | None = None
    """The cluster for which it was requested. Its map has the current one."""
    description: Words = ""

    def mentions(self) -> Iterator[Reference]:
        yield Reference("user", self.owner, needed=True)
        if self.cluster is not None:
            yield Reference("cluster", self.cluster, needed=True)
