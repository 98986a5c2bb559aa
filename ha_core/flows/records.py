"""Records of MirrorMaker 2's internal topics, byte for byte as Kafka writes them (KIP-382).

Keys have no version; values of heartbeats and checkpoints begin with one, values of offset syncs have none. Strings are
Kafka's: a length of two bytes, then UTF-8.
"""

import json
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from struct import Struct
from typing import Any, ClassVar, Self, TypeVar

from ha_core.flows.errors import FlowError

T = TypeVar("T")
_SHORT, _INT, _LONG = Struct(">h"), Struct(">i"), Struct(">q")
_VERSION = 0
_MAX_STRING = 32_767


class _Reader:
    """Reads fields of a record, each with its bound."""

    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0

    def number(self, form: Struct) -> int:
        (value,) = form.unpack_from(self._data, self._at)
        self._at += form.size
        return int(value)

    def text(self) -> str:
        size = self.number(_SHORT)
        end = self._at + size
        if size < 0 or end > len(self._data):
            raise ValueError(f"a text of {size} bytes at byte {self._at}, where {len(self._data) - self._at} are left")
        value, self._at = self._data[self._at : end].decode(), end
        return value

    def version(self) -> None:
        version = self.number(_SHORT)
        if version != _VERSION:
            raise ValueError(f"version {version}, and {_VERSION} is known")


def _text(value: str) -> bytes:
    data = value.encode()
    if len(data) > _MAX_STRING:
        raise FlowError(f"{value[:40]!r}… has {len(data)} bytes; Kafka's texts have at most {_MAX_STRING}")
    return _SHORT.pack(len(data)) + data


class _Record:
    """Decoding with one kind of error."""

    record_name: ClassVar[str]

    @classmethod
    def decode(cls, key: bytes | None, value: bytes | None) -> Self:
        """:raises FlowError: it is no record of this kind."""
        try:
            return cls._decoded(_Reader(key or b""), _Reader(value or b""))
        except (ValueError, struct.error) as error:
            raise FlowError(f"the key {key!r:.80} with value {value!r:.80} is no {cls.record_name}: {error}") from None

    @classmethod
    def _decoded(cls, key: _Reader, value: _Reader) -> Self:
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class Heartbeat(_Record):
    """A sign of life of the flow `source_alias` → `target_alias`.

    :ivar timestamp_ms: time of its creation, since the epoch.
    """

    source_alias: str
    target_alias: str
    timestamp_ms: int
    record_name: ClassVar[str] = "heartbeat"

    @property
    def key(self) -> bytes:
        return _text(self.source_alias) + _text(self.target_alias)

    @property
    def value(self) -> bytes:
        return _SHORT.pack(_VERSION) + _LONG.pack(self.timestamp_ms)

    @classmethod
    def _decoded(cls, key: _Reader, value: _Reader) -> Self:
        value.version()
        return cls(key.text(), key.text(), value.number(_LONG))

    def __str__(self) -> str:
        """As Kafka's `HeartbeatFormatter` prints it."""
        return (
            f"Heartbeat{{sourceClusterAlias={self.source_alias}, targetClusterAlias={self.target_alias}, "
            f"timestamp={self.timestamp_ms}}}"
        )


@dataclass(frozen=True, slots=True)
class Checkpoint(_Record):
    """An offset that a group has committed in the source, and where the group goes on in the target.

    :ivar topic: name in the target.
    """

    group: str
    topic: str
    partition: int
    upstream_offset: int
    downstream_offset: int
    metadata: str = ""
    record_name: ClassVar[str] = "checkpoint"

    @property
    def key(self) -> bytes:
        return _text(self.group) + _text(self.topic) + _INT.pack(self.partition)

    @property
    def value(self) -> bytes:
        return (
            _SHORT.pack(_VERSION)
            + _LONG.pack(self.upstream_offset)
            + _LONG.pack(self.downstream_offset)
            + _text(self.metadata)
        )

    @classmethod
    def _decoded(cls, key: _Reader, value: _Reader) -> Self:
        value.version()
        return cls(key.text(), key.text(), key.number(_INT), value.number(_LONG), value.number(_LONG), value.text())

    def __str__(self) -> str:
        """As Kafka's `CheckpointFormatter` prints it."""
        return (
            f"Checkpoint{{consumerGroupId={self.group}, topicPartition={self.topic}-{self.partition}, "
            f"upstreamOffset={self.upstream_offset}, downstreamOffset={self.downstream_offset}, "
            f"metadata={self.metadata}}}"
        )


@dataclass(frozen=True, slots=True)
class OffsetSync(_Record):
    """A record at `upstream_offset` of the source lies at `downstream_offset` of the target.

    :ivar topic: name in the source.
    """

    topic: str
    partition: int
    upstream_offset: int
    downstream_offset: int
    record_name: ClassVar[str] = "offset sync"

    @property
    def key(self) -> bytes:
        return _text(self.topic) + _INT.pack(self.partition)

    @property
    def value(self) -> bytes:
        return _LONG.pack(self.upstream_offset) + _LONG.pack(self.downstream_offset)

    @classmethod
    def _decoded(cls, key: _Reader, value: _Reader) -> Self:
        return cls(key.text(), key.number(_INT), value.number(_LONG), value.number(_LONG))

    def __str__(self) -> str:
        """As Kafka's `OffsetSyncFormatter` prints it."""
        return (
            f"OffsetSync{{topicPartition={self.topic}-{self.partition}, "
            f"upstreamOffset={self.upstream_offset}, downstreamOffset={self.downstream_offset}}}"
        )


@dataclass(frozen=True, slots=True)
class SourceOffset(_Record):
    """How far a real MirrorMaker 2 has copied a partition, in Connect's topic of source offsets (`mm2-offsets.…`).

    Keys are JSON, `["MirrorSourceConnector", {"cluster": …, "partition": …, "topic": …}]`, and values `{"offset": …}`.

    :ivar offset: of the last copied record; a copier goes on after it.
    """

    cluster: str
    topic: str
    partition: int
    offset: int
    connector: str = "MirrorSourceConnector"
    record_name: ClassVar[str] = "source offset of MirrorMaker 2"

    @property
    def key(self) -> bytes:
        place = {"cluster": self.cluster, "partition": self.partition, "topic": self.topic}
        return json.dumps([self.connector, place], separators=(",", ":")).encode()

    @property
    def value(self) -> bytes:
        return json.dumps({"offset": self.offset}, separators=(",", ":")).encode()

    @classmethod
    def decode(cls, key: bytes | None, value: bytes | None) -> Self:
        """:raises FlowError: it is no record of this kind."""
        try:
            connector, place = json.loads(key or b"")
            found: Mapping[str, Any] = json.loads(value or b"")
            return cls(
                _checked(str, place["cluster"]),
                _checked(str, place["topic"]),
                _checked(int, place["partition"]),
                _checked(int, found["offset"]),
                _checked(str, connector),
            )
        except (ValueError, TypeError, KeyError) as error:
            raise FlowError(f"the key {key!r:.80} with value {value!r:.80} is no {cls.record_name}: {error}") from None


def _checked(kind: type[T], value: Any) -> T:
    """:raises TypeError: it is of another type."""
    if type(value) is not kind:
        raise TypeError(f"{value!r:.40} is no {kind.__name__}")
    return value
