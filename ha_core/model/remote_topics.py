"""Remote topics: topics that only flows of a MirrorMaker 2 configuration write, and no client (KIP-382)."""

from __future__ import annotations

from typing import NamedTuple, Self

from pydantic import Field

from ha_core.model.document import FEW_BYTES, Document

MAX_IN_PORTION = 500
"""Maximum number of topics in one document. With names of 249 characters, Kafka's longest, it has 250 kB of JSON."""
MAX_REMOTE_TOPICS = 100_000
"""Maximum number of remote topics of one flow. Each gateway keeps all of them in memory."""


class FlowId(NamedTuple):
    """Identifies a flow by its clusters, because two files may give the same aliases to different clusters.

    :ivar name: `SOURCE->TARGET`, by the aliases of the configuration, which are not names of registered clusters.
    :ivar source_id: cluster id of the source, as its brokers report it; "": they report none.
    :ivar target_id: cluster id of the target, likewise.
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

    A flow's worker writes this document before it creates a topic or writes to it. The topic stays a remote topic until
    an operator ends the flow's claim: clients must not write to a copy even after the flow has stopped copying.
    """

    FOLDER = "/remote_topics"
    KEY = "key"
    REPLICATED = True
    PLAIN_BYTES = FEW_BYTES

    key: str
    flow: str
    """The flow's name, as in `FlowId`."""
    source_id: str = ""
    target_id: str = Field(min_length=1)
    """The target need not be a registered cluster."""
    portion: int = Field(ge=0)
    readers_of_source: bool = True
    """Whether users that may read the source topic may read its copy (`sync.topic.acls.enabled`)."""
    topics: dict[str, str] = {}
    """Remote topic → topic of the source; "": an internal topic of the flow, such as its checkpoints."""

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
        """Whether the document with this key is a portion of the flow. It need not be readable."""
        return key.rpartition(":")[0] == str(flow)
