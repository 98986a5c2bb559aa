"""Records of MirrorMaker 2's internal topics, byte for byte as Kafka writes them (KIP-382).

Values of heartbeats and checkpoints begin with a version; keys, and values of offset syncs, have none. A string is a
length of two bytes, then UTF-8, as in Kafka's protocol.
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
    """Reads the fields of a record, and checks each length against the bytes left."""

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
            left = len(self._data) - self._at
            raise ValueError(f"it has a string of {size} bytes at byte {self._at}, where only {left} bytes are left")
        value, self._at = self._data[self._at : end].decode(), end
        return value

    def version(self) -> None:
        version = self.number(_SHORT)
        if version != _VERSION:
            raise ValueError(f"it has version {version}, and only version {_VERSION} is known")


def _text(value: str) -> bytes:
    data = value.encode()
    if len(data) > _MAX_STRING:
        raise FlowError(f"{value[:40]!r}… has {len(data)} bytes; a string of Kafka has at most {_MAX_STRING}")
    return _SHORT.pack(len(data)) + data


class _Record:
    """Decodes keys and values, and turns all errors into `FlowError`."""

    record_name: ClassVar[str]

    @classmethod
    def decode(cls, key: bytes | None, value: bytes | None) -> Self:
        """:raises FlowError: these bytes are not a record of this kind."""
        try:
            return cls._decoded(_Reader(key or b""), _Reader(value or b""))
        except (ValueError, struct.error) as error:
            raise FlowError(
                f"key {key!r:.80} with value {value!r:.80} cannot be read as {cls.record_name}: {error}"
            ) from None

    @classmethod
    def _decoded(cls, key: _Reader, value: _Reader) -> Self:
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class Heartbeat(_Record):
    """A sign of life of the flow `source_alias` → `target_alias`.

    :ivar timestamp_ms: creation time, in milliseconds since the epoch.
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
    """An offset that a group has committed in the source, and the offset at which it resumes in the target.

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
    """The record at `upstream_offset` in the source is at `downstream_offset` in the target.

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

    :ivar offset: offset of the last copied record; a copier goes on at the next one.
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
        """:raises FlowError: these bytes are not a record of this kind."""
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
            raise FlowError(
                f"key {key!r:.80} with value {value!r:.80} cannot be read as {cls.record_name}: {error}"
            ) from None


def _checked(kind: type[T], value: Any) -> T:
    """:raises TypeError: the value has another type."""
    if type(value) is not kind:
        raise TypeError(f"{value!r:.40} is not of type {kind.__name__}")
    return value
