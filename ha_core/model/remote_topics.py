"""Remote topics: topics of a cluster that flows of a MirrorMaker 2 configuration write, and no client (KIP-382)."""

from __future__ import annotations

from typing import NamedTuple, Self

from pydantic import Field

from ha_core.model.document import FEW_BYTES, Document

MAX_IN_PORTION = 500
"""Topics of one document: with names of Kafka's longest, 249 characters, 250 kB of JSON."""
MAX_REMOTE_TOPICS = 100_000
"""Remote topics of one flow. Each gateway has all of them in memory."""


class FlowId(NamedTuple):
    """A flow, whatever file names it: two files may give one pair of aliases to different clusters.

    :ivar name: `SOURCE->TARGET`, by the aliases of the configuration. They are no names of registered clusters.
    :ivar source_id: cluster id of the source, as its brokers tell it; "": they tell none.
    :ivar target_id: cluster id of the target.
    """

    name: str
    source_id: str
    target_id: str

    def __str__(self) -> str:
        return f"{self.name}@{self.source_id}>{self.target_id}"


def source_alias(flow: str) -> str:
    """Alias of the source, of a flow's name."""
    return flow.partition("->")[0]


class RemoteTopicPortion(Document):
    """`/remote_topics/{flow}@{source id}>{target id}:{portion}`: a portion of the topics that a flow writes.

    A flow's worker writes it before it creates or writes a topic. The topic stays a remote topic until the worker, or
    an operator, ends the flow's claim: a copy that the flow has stopped to copy must not be written either.
    """

    FOLDER = "/remote_topics"
    KEY = "key"
    REPLICATED = True
    PLAIN_BYTES = FEW_BYTES

    key: str
    flow: str
    """Its name, of `FlowId`."""
    source_id: str = ""
    target_id: str = Field(min_length=1)
    """The target need not be a registered cluster."""
    portion: int = Field(ge=0)
    readers_of_source: bool = True
    """Whether users that may read the source topic may read its copy (`sync.topic.acls.enabled`)."""
    topics: dict[str, str] = {}
    """Remote topic → its name in the source; "": a topic of the flow's own, as its checkpoints."""

    @classmethod
    def of(cls, flow: FlowId, portion: int, topics: dict[str, str], readers_of_source: bool = True) -> Self:
        return cls(
            key=f"{flow}:{portion}",
            flow=flow.name,
            source_id=flow.source_id,
            target_id=flow.target_id,
            portion=portion,
            readers_of_source=readers_of_source,
            topics=topics,
        )

    @property
    def source(self) -> str:
        """Alias of the source in the flow's configuration."""
        return source_alias(self.flow)

    @classmethod
    def is_of(cls, flow: FlowId, key: str) -> bool:
        """Whether the document of this key is a portion of the flow. Needs no readable document."""
        return key.rpartition(":")[0] == str(flow)
