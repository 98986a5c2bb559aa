"""The listener for discovery refuses all other requests, by an error where the API has one."""

import random

import pytest

from gateway.session.commands import Cause, NotServed
from gateway.session.requests import SERVED_FOR_DISCOVERY
from gateway.session.snapshot import Port
from ha_core.wire import APIS, ApiKey
from ha_core.wire.apis import Destination
from ha_core.wire.schemas import SCHEMAS
from tests.gateway.session.batch import batch
from tests.gateway.session.coordination import FIND, INIT, PRODUCE, heartbeat
from tests.gateway.session.talk import EAST, Talk
from tests.wire.samples import message

DIRECT = Port(direct=True)
METADATA, HEARTBEAT, CREATE_PARTITIONS, VERSIONS = 3, 12, 37, 18
UNSUPPORTED_VERSION, NOT_LEADER, NOT_COORDINATOR = 35, 6, 16
OTHERS = [
    key for key, api in APIS.items() if api.destination is not Destination.HIDDEN and key not in SERVED_FOR_DISCOVERY
]


def test_discovery_is_served() -> None:
    talk = Talk(port=DIRECT)
    talk.ask(VERSIONS, 0, {})
    talk.ask(INIT, 1, {"transactional_id": None, "transaction_timeout_ms": 1000})
    assert [answer["error_code"] for answer in talk.answers()] == [0, 0]
    talk.ask(METADATA, 4, {"topics": [], "allow_auto_topic_creation": False})
    talk.ask(FIND, 2, {"key": "g", "key_type": 0})
    assert [command.api_key for command in talk.questions] == [METADATA, FIND]


def test_a_producer_a_member_and_an_administrator_get_an_error_at_the_discovery_listener() -> None:
    talk = Talk(port=DIRECT)
    data = [{"name": "orders", "partition_data": [{"index": 0, "records": batch()}]}]
    talk.ask(PRODUCE, 7, {"acks": 1, "timeout_ms": 1000, "topic_data": data})
    talk.ask(HEARTBEAT, 3, heartbeat())
    talk.ask(CREATE_PARTITIONS, 1, {"topics": [], "timeout_ms": 1000, "validate_only": True})
    written, beat = talk.answers()
    assert written["responses"][0]["partition_responses"][0]["error_code"] == NOT_LEADER
    assert beat["error_code"] == NOT_COORDINATOR
    # And where an API has no error for a whole request, the connection ends, with a log line that has the reason
    assert talk.cause is Cause.UNSUPPORTED
    assert "discovery only" in talk.why
    assert talk.asked(EAST) == []
    told = [command.api_key for command in talk.others if isinstance(command, NotServed)]
    assert told == [PRODUCE, HEARTBEAT, CREATE_PARTITIONS]
    assert talk.session.context.shared.counts.refusals["discovery_only"] == 2


@pytest.mark.parametrize("key", OTHERS, ids=lambda key: ApiKey(key).name)
def test_no_other_request_is_forwarded(key: int) -> None:
    version = APIS[key].max_version
    for seed in range(5):
        talk = Talk(port=DIRECT)
        body = message(SCHEMAS[key].fields("request"), version, random.Random(seed))
        talk.ask(key, version, body)
        assert not talk.questions
        assert talk.upstream == {}
        right = {Cause.UNSUPPORTED, Cause.MALFORMED, Cause.REFUSED_WITHOUT_ANSWER}
        assert talk.cause is None or talk.cause in right
        assert any(isinstance(command, NotServed) for command in talk.others)
