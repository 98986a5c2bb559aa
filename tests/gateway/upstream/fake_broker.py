"""A broker that speaks just enough Kafka for the gateway's own connections: real sockets, scripted answers."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from typing import Any

from ha_core.wire import codec
from ha_core.wire.codes import ApiKey
from ha_core.wire.header import encode_response, read_request_header

Answer = Callable[[dict[str, Any]], dict[str, Any] | bytes | None]


class FakeBroker:
    """Answers from `answers`; None as an answer means silence, bytes are an encoded body.

    `asked` lists (api key, version, message).
    """

    def __init__(self, broker_id: int = 1) -> None:
        self.broker_id = broker_id
        self.asked: list[tuple[int, int, dict[str, Any]]] = []
        self.connections = 0
        self.password: str | None = None
        self.login_ms = 0
        """Validity of a login; 0: unlimited."""
        self.offered = {int(key): span for key in ApiKey if (span := codec.supported(key)) is not None}
        self.brokers: list[FakeBroker] = [self]
        self.topics: dict[str, dict[int, int]] = {}
        self.answers: dict[int, Answer] = {ApiKey.METADATA: self._metadata}
        self.port = 0
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()

    async def start(self) -> FakeBroker:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def stop(self) -> None:
        assert self._server is not None
        self._server.close()
        for writer in list(self._writers):
            writer.transport.abort()
        await asyncio.sleep(0)

    def count(self, api_key: int) -> int:
        return sum(key == api_key for key, _, _ in self.asked)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self._writers.add(writer)
        open_to_all = self.password is None
        ends_at = math.inf
        try:
            while True:
                frame = await reader.readexactly(int.from_bytes(await reader.readexactly(4), "big"))
                head = read_request_header(frame, 0, len(frame))
                assert head is not None
                key, version = head.api_key, head.api_version
                message = codec.decode(key, version, "request", frame, head.body_at)
                self.asked.append((key, version, message))
                if key == ApiKey.SASL_HANDSHAKE:
                    answer: dict[str, Any] | bytes | None = {"mechanisms": ["PLAIN"]}
                elif key == ApiKey.SASL_AUTHENTICATE:
                    open_to_all = message["auth_bytes"].split(b"\0")[2] == (self.password or "").encode()
                    answer = {"error_code": 0 if open_to_all else 58, "error_message": None if open_to_all else "no"}
                    answer["session_lifetime_ms"] = self.login_ms
                    if self.login_ms:
                        ends_at = asyncio.get_running_loop().time() + self.login_ms / 1000
                elif not open_to_all or asyncio.get_running_loop().time() > ends_at:
                    break
                elif key == ApiKey.API_VERSIONS:
                    keys = [{"api_key": k, "min_version": a, "max_version": b} for k, (a, b) in self.offered.items()]
                    answer = {"api_keys": keys}
                else:
                    answer = self.answers[key](message)
                if answer is not None:
                    body = answer if isinstance(answer, bytes) else codec.encode(key, version, "response", answer)
                    writer.write(encode_response(key, version, head.correlation_id, body))
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            self._writers.discard(writer)
            writer.close()

    def _metadata(self, request: dict[str, Any]) -> dict[str, Any]:
        names = self.topics if request["topics"] is None else [t["name"] for t in request["topics"]]
        return {
            "brokers": [{"node_id": b.broker_id, "host": "127.0.0.1", "port": b.port} for b in self.brokers],
            "controller_id": self.brokers[0].broker_id,
            "topics": [self._topic(name) for name in names],
        }

    def _topic(self, name: str) -> dict[str, Any]:
        if name not in self.topics:
            return {"error_code": 3, "name": name}
        partitions = [{"partition_index": p, "leader_id": leader} for p, leader in self.topics[name].items()]
        return {"name": name, "partitions": partitions}
