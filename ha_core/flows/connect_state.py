"""Where a real MirrorMaker 2 keeps how far it has copied: Connect's topics and group in the target of a flow."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Self

from ha_core.flows.records import SourceOffset
from ha_core.plan.facts.clusters import Partition


@dataclass(frozen=True)
class ConnectState:
    """
    :ivar source_alias: alias of the flow's source.
    :ivar offsets_topic: topic of the target with `SourceOffset`s (`offset.storage.topic`).
    :ivar group: group of the target that the workers join (`group.id`).
    :ivar connector: name of the connector in the keys of that topic.
    """

    source_alias: str
    offsets_topic: str
    group: str
    connector: str = "MirrorSourceConnector"

    @classmethod
    def dedicated(cls, source_alias: str) -> Self:
        """Names of a MirrorMaker 2 in dedicated mode. They have dots, whatever the flows' separator is."""
        return cls(source_alias, f"mm2-offsets.{source_alias}.internal", f"{source_alias}-mm2")

    def source_offset(self, partition: Partition, next_offset: int) -> SourceOffset | None:
        """The record by which a real MirrorMaker 2 goes on at `next_offset`; None: it begins at the source's start.

        :param next_offset: source offset below which the target has acknowledged everything that is to be copied.
        """
        raise NotImplementedError

    def newest(self, records: Iterable[tuple[bytes | None, bytes | None]]) -> Mapping[Partition, int]:
        """Partition of the source → offset of its last copied record, by the last record of each key.

        :param records: (key, value) of the offsets topic; those of one key in their order.
        """
        raise NotImplementedError
