"""A simulated broker with fifty thousand topics, of which none exists, in a separate process.

`python -m bench.paper_broker TOPICS`: prints its port, and moves the first topic's leader for each line on stdin.
"""

import asyncio
import struct
import sys
from typing import Any

from ha_core.wire import ApiKey, codec, encode_response, read_request_header

_SIZE = struct.Struct(">i")
_ANSWERED = (ApiKey.API_VERSIONS, ApiKey.METADATA)


class PaperBroker:
    def __init__(self, topics: int) -> None:
        self.topics = topics
        self.moves = 0
        self.port = 0
        self._encoded: dict[tuple[int, int], bytes] = {}

    def move(self) -> None:
        """Prepares the answers in advance: the gateway's timeout is some seconds."""
        self.moves += 1
        for version in sorted({version for version, _ in self._encoded}):
            self.metadata(version)
        for old in [key for key in self._encoded if key[1] != self.moves]:
            del self._encoded[old]

    def metadata(self, version: int) -> bytes:
        known = self._encoded.get((version, self.moves))
        if known is None:
            topics = [self._topic(number) for number in range(self.topics)]
            brokers = [{"node_id": n, "host": "127.0.0.1", "port": self.port} for n in (1, 2)]
            answer = {"brokers": brokers, "cluster_id": "paper", "controller_id": 1, "topics": topics}
            known = self._encoded[version, self.moves] = codec.encode(ApiKey.METADATA, version, "response", answer)
        return known

    def _topic(self, number: int) -> dict[str, Any]:
        leader = 1 + self.moves % 2 if number == 0 else 1
        partition = {"partition_index": 0, "leader_id": leader, "replica_nodes": [1, 2], "isr_nodes": [1, 2]}
        return {"name": f"topic-{number}", "partitions": [partition]}

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                frame = await reader.readexactly(_SIZE.unpack(await reader.readexactly(4))[0])
                head = read_request_header(frame, 0, len(frame))
                if head is None or head.api_key not in _ANSWERED:
                    continue  # a fetch is never answered
                if head.api_key == ApiKey.METADATA:
                    body = self.metadata(head.api_version)
                else:
                    spans = {int(key): span for key in ApiKey if (span := codec.supported(key)) is not None}
                    keys = [{"api_key": key, "min_version": a, "max_version": b} for key, (a, b) in spans.items()]
                    body = codec.encode(ApiKey.API_VERSIONS, head.api_version, "response", {"api_keys": keys})
                writer.write(encode_response(head.api_key, head.api_version, head.correlation_id, body))
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()


async def _main(topics: int) -> None:
    broker = PaperBroker(topics)
    server = await asyncio.start_server(broker.serve, "127.0.0.1", 0, backlog=1024)
    broker.port = server.sockets[0].getsockname()[1]
    span = codec.supported(ApiKey.METADATA)
    broker.metadata(9 if span is None else span[1])
    print(broker.port, flush=True)
    while await asyncio.to_thread(sys.stdin.readline):
        broker.move()
        print("moved", flush=True)


if __name__ == "__main__":
    asyncio.run(_main(int(sys.argv[1])))
