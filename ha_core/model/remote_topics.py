"""Remote topics: topics of a cluster that flows of a MirrorMaker 2 configuration write, and no client (KIP-382)."""

from __future__ import annotations

from typing import Self

from pydantic import Field

from ha_core.model.document import FEW_BYTES, Document

MAX_IN_PORTION = 500
"""Topics of one document: with names of Kafka's longest, 249 characters, 250 kB of JSON."""
MAX_REMOTE_TOPICS = 100_000
"""Remote topics of one flow. Each gateway has all of them in memory."""


class RemoteTopics(Document):
    """`/remote_topics/{target cluster id}:{flow}:{portion}`: a portion of the topics that a flow writes.

    A flow's worker writes it before it creates or writes a topic. The topic stays a remote topic until the worker, or
    an operator, ends the flow's claim: a copy that the flow has stopped to copy must not be written either.
    """

    FOLDER = "/remote_topics"
    KEY = "key"
    REPLICATED = True
    PLAIN_BYTES = FEW_BYTES

    key: str
    flow: str
    """`SOURCE->TARGET`, by the aliases of the configuration. They are no names of registered clusters."""
    target_id: str = Field(min_length=1)
    """Cluster id of the target, as its brokers tell it. The target need not be registered."""
    source_id: str | None = None
    """Cluster id of the source; None: its brokers have not told it yet."""
    portion: int = Field(ge=0)
    readers_of_source: bool = True
    """Whether users that may read the source topic may read its copy (`sync.topic.acls.enabled`)."""
    topics: dict[str, str] = {}
    """Remote topic → its name in the source; "": a topic of the flow's own, as its checkpoints."""

    @classmethod
    def key_of(cls, target_id: str, flow: str, portion: int) -> str:
        return f"{target_id}:{flow}:{portion}"

    @classmethod
    def written_by(cls, target_id: str, flow: str, key: str) -> bool:
        """Whether the document of this key is a portion of the flow. Needs no readable document."""
        return key.rpartition(":")[0] == f"{target_id}:{flow}"

    @classmethod
    def of(
        cls,
        target_id: str,
        flow: str,
        portion: int,
        topics: dict[str, str],
        source_id: str | None = None,
        readers_of_source: bool = True,
    ) -> Self:
        return cls(
            key=cls.key_of(target_id, flow, portion),
            flow=flow,
            target_id=target_id,
            source_id=source_id,
            portion=portion,
            readers_of_source=readers_of_source,
            topics=topics,
        )
