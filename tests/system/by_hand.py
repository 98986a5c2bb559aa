"""A producer with hand-made batches, one of which can be sent twice."""

import time
from typing import Any

from ha_core.kafka.brokers import Brokers
from ha_core.kafka.errors import KafkaAdminError
from ha_core.mirror.split import Record, pack
from ha_core.model import Cluster
from ha_core.wire.codes import RETRIABLE, ApiKey
from ha_core.wire.copied_batch import claim
from stack.harness import Stack

_PRODUCE = 7


class ByHand:
    """An idempotent producer of one partition, through the gateways."""

    def __init__(self, stack: Stack, user: str, topic: str, partition: int = 0) -> None:
        self._client_id, self._topic, self._partition = f"HA#{user}#{topic}", topic, partition
        self._gateways = Brokers(Cluster(name="gateways", bootstrap=stack.bootstrap))
        connection = self._gateways.asking().open(None, self._client_id)
        given = connection.call(
            ApiKey.INIT_PRODUCER_ID, {"transactional_id": None, "transaction_timeout_ms": 60_000}, 1
        )
        connection.close()
        self.producer_id, self.epoch = given["producer_id"], given["producer_epoch"]

    def batch(self, sequence: int, value: str) -> bytes:
        made = pack([Record.of(0, int(time.time() * 1000), None, value.encode())], 0)
        claim(made, 0, self.producer_id, self.epoch, sequence)
        return bytes(made)

    def send(self, batch: bytes, timeout_s: float = 60.0) -> tuple[int, int]:
        """(error, base offset), as the gateway answers when it does not ask for another try."""
        until = time.monotonic() + timeout_s
        while True:
            try:
                answer = self._once(batch)
                if answer["error_code"] not in RETRIABLE:
                    return answer["error_code"], answer["base_offset"]
            except KafkaAdminError as error:
                answer = {"error": str(error)}
            assert time.monotonic() < until, answer
            time.sleep(0.1)

    def _once(self, batch: bytes) -> dict[str, Any]:
        asking = self._gateways.asking(5.0)
        first = asking.open(None, self._client_id)
        wanted = {"topics": [{"name": self._topic}], "allow_auto_topic_creation": False}
        found = first.call(ApiKey.METADATA, wanted, 8)
        first.close()
        nodes = {broker["node_id"]: (broker["host"], broker["port"]) for broker in found["brokers"]}
        parts = {partition["partition_index"]: partition for partition in found["topics"][0]["partitions"]}
        leader = parts[self._partition]["leader_id"]
        if leader not in nodes:
            raise KafkaAdminError("gateways", "it has no leader")
        self._gateways.learn(nodes)
        connection = asking.open(leader, self._client_id)
        try:
            entry = {"index": self._partition, "records": batch}
            message = {"acks": -1, "timeout_ms": 5000, "topic_data": [{"name": self._topic, "partition_data": [entry]}]}
            answer = connection.call(ApiKey.PRODUCE, {"transactional_id": None, **message}, _PRODUCE)
        finally:
            connection.close()
        part: dict[str, Any] = answer["responses"][0]["partition_responses"][0]
        return part

    def close(self) -> None:
        self._gateways.close()
