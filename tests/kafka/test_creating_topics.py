"""Topics created by a controller that moves, takes too long, or hangs up before it answers."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from ha_core.kafka.admin import Admin
from ha_core.kafka.errors import ClusterUnreachableError, NotReadyError, StandsInTheWayError
from ha_core.kafka.facts import TopicSpec
from ha_core.kafka.security import NO_SECURITY
from ha_core.model import Cluster
from ha_core.store.errors import FencedOffError
from ha_core.wire.codes import ApiKey, ErrorCode
from tests.kafka.scripted_broker import answered, broker, header_of, listening

SPEC = TopicSpec("t", 2, 1)
HANGS_UP, IS_SILENT = -1, -2


class Controller:
    """Answers each CREATE_TOPICS with the next of `codes`; the topic has `partitions` from the first one on."""

    def __init__(self, *codes: int, partitions: int = 2) -> None:
        self.asked = 0
        self.port = 0
        self._codes = codes
        self._partitions = partitions

    def __call__(self, frame: bytes) -> bytes | None:
        body: dict[str, Any] | None = {"results": []}
        match header_of(frame).api_key:
            case ApiKey.METADATA:
                body = self._metadata()
            case ApiKey.CREATE_TOPICS:
                code = self._codes[min(self.asked, len(self._codes) - 1)]
                self.asked += 1
                if code == IS_SILENT:
                    return b""
                body = None if code == HANGS_UP else {"topics": [{"name": "t", "error_code": code}]}
        return None if body is None else answered(frame, body)

    def _metadata(self) -> dict[str, Any]:
        led = [{"partition_index": index, "leader_id": 1} for index in range(self._partitions)]
        there = {"error_code": 0, "partitions": led} if self.asked else {"error_code": 3, "partitions": []}
        return {
            "brokers": [{"node_id": 1, "host": "127.0.0.1", "port": self.port}],
            "controller_id": 1,
            "topics": [{"name": "t"} | there],
        }

    @contextmanager
    def cluster(self, timeout_s: float = 10) -> Iterator[Admin]:
        versions = {ApiKey.METADATA: (0, 12), ApiKey.CREATE_TOPICS: (2, 7), ApiKey.DESCRIBE_CONFIGS: (1, 4)}
        serve = broker(versions, self)
        with (
            listening(serve) as self.port,
            listening(serve) as bootstrap,
            Admin(Cluster(name="east", bootstrap=f"127.0.0.1:{bootstrap}"), NO_SECURITY, timeout_s) as admin,
        ):
            yield admin


@pytest.mark.parametrize(
    "first",
    [
        pytest.param(ErrorCode.NOT_CONTROLLER, id="another-controller"),
        pytest.param(ErrorCode.REQUEST_TIMED_OUT, id="not-in-time"),
        pytest.param(HANGS_UP, id="hangs-up"),
    ],
)
@pytest.mark.parametrize("then", [ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS])
def test_creation_with_a_retriable_error_is_retried(first: int, then: int) -> None:
    controller = Controller(first, then)

    with controller.cluster() as admin:
        made = admin.create_topics([SPEC])

    assert made.created == ("t",)
    assert controller.asked == 2


def test_topic_created_meanwhile_in_another_shape_is_a_mismatch() -> None:
    with (
        Controller(ErrorCode.TOPIC_ALREADY_EXISTS, partitions=3).cluster() as admin,
        pytest.raises(StandsInTheWayError, match="t has the partition count 3, and 2 is needed"),
    ):
        admin.create_topics([SPEC])


def test_a_controller_that_never_answers_is_unreachable_at_the_deadline() -> None:
    with (
        Controller(IS_SILENT).cluster(1) as admin,
        pytest.raises(ClusterUnreachableError, match="CREATE_TOPICS within 1 s"),
    ):
        admin.create_topics([SPEC])


def test_controller_that_hangs_up_leaves_the_creation_undecided() -> None:
    with Controller(HANGS_UP).cluster() as admin, pytest.raises(NotReadyError, match="whether t were created"):
        admin.create_topics([SPEC])


def test_fenced_executor_sends_no_second_request() -> None:
    # Given an executor that another one takes over after its first request
    controller = Controller(ErrorCode.NOT_CONTROLLER)

    def still_ours() -> None:
        if controller.asked:
            raise FencedOffError("op", 1, 2)

    # When the controller is to be asked again
    with controller.cluster() as admin, pytest.raises(FencedOffError):
        admin.create_topics([SPEC], still_ours=still_ours)
    # Then it is not
    assert controller.asked == 1
