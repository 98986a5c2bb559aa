"""Groups, transactions, producer ids, and the first requests of a connection."""

from dataclasses import replace
from typing import Any

import pytest

from gateway.model.topology import Topology
from gateway.session.commands import BrokerLane, Cause, Compose, Refresh, Saw
from gateway.session.snapshot import Port, Snapshot
from ha_core.model import DirectGroups, Fence, Group, Mask, Member, UserBindings, View
from ha_core.model.producer import is_gateway_id
from ha_core.wire import ErrorCode, WireLimits, advertised
from ha_core.wire.sasl_plain import plain_token
from tests.gateway.session.coordination import (
    ADD_OFFSETS,
    COMMIT,
    HEARTBEAT,
    JOIN,
    LEAVE,
    OFFSETS,
    SYNC,
    TXN_COMMIT,
    WESTS,
    commit,
    heartbeat,
)
from tests.gateway.session.talk import CLUSTERS, EAST, WEST, Talk, snapshot, topology

DESCRIBE_LOG_DIRS, CONSUMER_GROUP_HEARTBEAT = 35, 68
HANDSHAKE, VERSIONS, INIT, ADD_PARTITIONS, AUTHENTICATE, METADATA = 17, 18, 22, 24, 36, 3
COORDINATOR_NOT_AVAILABLE, LOADING, NOT_COORDINATOR, REBALANCING = 15, 14, 16, 27

WEST_PORT = Port("west", 1)


def grouped(group: Group | None, bound: str = "west", found: Topology | None = None) -> Snapshot:
    bindings = {"anonymous": UserBindings(user="anonymous", cluster=bound)}
    return snapshot(View(1, CLUSTERS, bindings, groups={group.name: group} if group else {}), found)


def offsets_led_by(broker: int) -> Topology:
    """This broker coordinates every group in both clusters."""
    leaders = {"__consumer_offsets": dict.fromkeys(range(50), broker)}
    return topology(east=leaders, west=leaders)


REQUESTS: dict[int, dict[str, Any]] = {
    COMMIT: commit(),
    OFFSETS: {"group_id": "billing", "topics": [{"name": "orders", "partition_indexes": [0]}]},
    JOIN: {"group_id": "billing", "member_id": "m-1", "protocol_type": "consumer", "protocols": []},
    HEARTBEAT: heartbeat(),
    LEAVE: {"group_id": "billing", "member_id": "m-1", "members": [{"member_id": "m-1"}]},
    SYNC: {"group_id": "billing", "generation_id": 4, "member_id": "m-1", "assignments": []},
}


def error_of(answer: dict[str, Any]) -> int:
    if answer.get("error_code"):
        return int(answer["error_code"])
    topics = answer.get("topics") or [{"partitions": [{"error_code": 0}]}]
    return int(topics[0]["partitions"][0]["error_code"])


@pytest.mark.parametrize("version", [0, 3, 5, 7])
@pytest.mark.parametrize("api_key", REQUESTS)
def test_a_group_request_whose_coordinator_is_unknown_makes_the_client_look_for_it(api_key: int, version: int) -> None:
    version = min(
        max(version, {COMMIT: 2, OFFSETS: 1}.get(api_key, 0)), {HEARTBEAT: 4, LEAVE: 5, SYNC: 5}.get(api_key, 7)
    )
    talk = Talk(grouped(None))
    talk.ask(api_key, version, REQUESTS[api_key])
    assert error_of(talk.answers()[0]) == NOT_COORDINATOR
    assert not talk.asked(EAST)
    assert any(isinstance(command, Refresh) for command in talk.others), "the next one may find it"


@pytest.mark.parametrize("port", [Port("east", 1), Port()])
@pytest.mark.parametrize("api_key", REQUESTS)
def test_a_group_request_on_another_nodes_port_reaches_the_coordinator_under_the_members_new_name(
    api_key: int, port: Port
) -> None:
    # Given a member whose group has moved, and that has not noticed
    carried = Group(name="billing", cluster="west", aliases={"4:m-1": Member(member_id="w-9", generation=1)})
    talk = Talk(grouped(carried, found=offsets_led_by(3)), port)
    # When it continues at its former node
    talk.ask(api_key, 3, REQUESTS[api_key])
    # Then the coordinator gets the request, under the member id that it knows
    ((asked, _, _, body),) = talk.asked(BrokerLane("west", 3))
    assert asked == api_key
    if api_key != OFFSETS:
        assert "w-9" in (body["member_id"], *(one["member_id"] for one in body.get("members", ())))
    assert not talk.asked(EAST)


def test_a_stopping_member_whose_group_has_moved_commits_and_leaves_in_the_target() -> None:
    # Given a member that stops while its group is fenced: its last commit is held
    talk = Talk(grouped(Group(name="billing", fence=Fence(operation="move")), bound="east", found=offsets_led_by(1)))
    talk.ask(COMMIT, 2, commit())
    # When the group has moved, and the member repeats the commit at the same node
    carried = Group(name="billing", cluster="west", aliases={"4:m-1": Member(member_id="w-9", generation=1)})
    talk.follow(grouped(carried, found=offsets_led_by(1)))
    assert error_of(talk.answers()[0]) == LOADING
    talk.ask(COMMIT, 2, commit())
    # Then the target accepts it, and the LEAVE_GROUP after it
    (request,) = talk.asked(WEST)
    assert talk.session.holds_back(frozenset(), frozenset({b"billing"}), 99), "the way back has to wait for it"
    talk.answer(WEST, request, {"topics": [{"name": "orders", "partitions": [{"partition_index": 0}]}]})
    farewell = talk.forwarded(LEAVE, 0, {"group_id": "billing", "member_id": "m-1"}, to=WEST)
    assert farewell.body["member_id"] == "w-9"
    talk.answer(WEST, farewell, {})
    assert [error_of(answer) for answer in talk.answers()] == [0, 0]


def test_no_group_request_is_forwarded_to_a_masked_cluster() -> None:
    masked = CLUSTERS | {"west": CLUSTERS["west"].model_copy(update={"masked": Mask(since="t", by="me", reason="x")})}
    state = grouped(None, found=offsets_led_by(1))
    talk = Talk(replace(state, view=replace(state.view, clusters=masked)))
    talk.ask(COMMIT, 7, commit())
    assert error_of(talk.answers()[0]) == NOT_COORDINATOR
    assert not talk.upstream


@pytest.mark.parametrize("api_key", REQUESTS)
def test_a_direct_group_is_refused_since_its_commits_are_no_client_offsets(api_key: int) -> None:
    # Given groups that read past the gateways, by name and by pattern
    state = grouped(None, found=offsets_led_by(1))
    direct = {name: DirectGroups(pattern=name, since="t", by="me") for name in ("other", "bill*")}
    talk = Talk(replace(state, view=replace(state.view, direct_groups=direct)), WEST_PORT)
    # When a client uses one through a gateway
    talk.ask(api_key, 3, REQUESTS[api_key])
    # Then no coordinator gets the request, and the client fails
    assert error_of(talk.answers()[0]) == ErrorCode.GROUP_AUTHORIZATION_FAILED
    assert not talk.asked(WEST)
    # And other groups are served
    talk.ask(api_key, 3, {**REQUESTS[api_key], "group_id": "orders-1"})
    assert [asked.api_key for asked in talk.asked(WEST)] == [api_key]


@pytest.mark.parametrize("api_key", [ADD_OFFSETS, TXN_COMMIT])
def test_a_transaction_commits_no_offsets_of_a_direct_group(api_key: int) -> None:
    state = grouped(None, found=offsets_led_by(1))
    direct = {"billing": DirectGroups(pattern="billing", since="t", by="me")}
    talk = Talk(replace(state, view=replace(state.view, direct_groups=direct)), WEST_PORT)
    body = {"transactional_id": "tx", "producer_id": WESTS, "producer_epoch": 0, "group_id": "billing"}
    offsets = [{"name": "orders", "partitions": [{"partition_index": 0, "committed_offset": 7}]}]
    talk.ask(api_key, 2, body if api_key == ADD_OFFSETS else {**body, "topics": offsets})
    assert error_of(talk.answers()[0]) == ErrorCode.GROUP_AUTHORIZATION_FAILED
    assert not talk.asked(WEST)


def test_a_fenced_group_keeps_its_members_and_makes_commits_wait_for_the_cut() -> None:
    # Given a group that is being moved out of the east
    fenced = Group(name="billing", fence=Fence(operation="op-1"))
    talk = Talk(grouped(fenced, bound="east"))
    # When a member sends a heartbeat, and commits
    talk.ask(HEARTBEAT, 3, heartbeat())
    talk.ask(COMMIT, 7, commit())
    # Then its heartbeat is answered, and its commit is held: a lost one would mean duplicates
    assert error_of(talk.answers()[0]) == 0
    talk.follow(grouped(Group(name="billing", cluster="west")))
    assert error_of(talk.answers()[0]) == LOADING
    assert not talk.upstream


@pytest.mark.parametrize("api_key", [COMMIT, HEARTBEAT, SYNC, JOIN, LEAVE])
def test_an_adopted_member_is_known_in_the_target_by_its_alias(api_key: int) -> None:
    # Given a member m-1 of generation 4 that became w-9 of generation 1
    carried = Group(name="billing", cluster="west", aliases={"4:m-1": Member(member_id="w-9", generation=1)})
    talk = Talk(grouped(carried), WEST_PORT)
    # When it continues unchanged
    talk.ask(api_key, 3, REQUESTS[api_key])
    # Then the target knows it
    ((_, _, _, body),) = talk.asked(WEST)
    said = body["members"][0] if api_key == LEAVE else body
    assert said["member_id"] == "w-9"
    generation = body.get("generation_id", body.get("generation_id_or_member_epoch"))
    assert generation in (None, 1)


def test_a_member_of_a_later_generation_is_left_unchanged() -> None:
    carried = Group(name="billing", cluster="west", aliases={"4:m-1": Member(member_id="w-9", generation=1)})
    talk = Talk(grouped(carried), WEST_PORT)
    talk.ask(HEARTBEAT, 3, heartbeat("w-9", 2))
    ((_, _, _, body),) = talk.asked(WEST)
    assert (body["member_id"], body["generation_id"]) == ("w-9", 2)


def test_a_commit_in_flight_holds_the_groups_fence_back() -> None:
    talk = Talk(grouped(None), WEST_PORT)
    talk.ask(COMMIT, 7, commit())
    assert talk.session.holds_back(frozenset(), frozenset({b"billing"}), 99)
    (request,) = talk.asked(WEST)
    talk.answer(WEST, request, {"topics": []})
    assert not talk.session.holds_back(frozenset(), frozenset({b"billing"}), 99)


@pytest.mark.parametrize(("api_key", "error"), [(JOIN, LOADING), (SYNC, REBALANCING)])
def test_a_member_that_waits_in_a_rebalance_is_answered_at_the_fence_and_does_not_hold_it_back(
    api_key: int, error: int
) -> None:
    # Given a rebalance that the coordinator has not completed
    talk = Talk(grouped(None), WEST_PORT)
    request = talk.forwarded(api_key, 3, REQUESTS[api_key], to=WEST)
    assert talk.session.holds_back(frozenset(), frozenset({b"billing"}), 99)
    # When the group is fenced, which keeps the others from joining
    talk.follow(grouped(Group(name="billing", fence=Fence(operation="move"))))
    # Then the member gets a retriable error, and the coordinator's late answer is dropped
    (answer,) = talk.answers()
    assert error_of(answer) == error
    assert not talk.session.holds_back(frozenset(), frozenset({b"billing"}), 99)
    talk.answer(WEST, request, {"member_id": "m-1"} if api_key == JOIN else {})
    assert talk.answers() == []


@pytest.mark.parametrize(("api_key", "error"), [(LEAVE, COORDINATOR_NOT_AVAILABLE), (HEARTBEAT, 0)])
def test_a_request_after_a_members_join_does_not_hold_a_fence_back_either(api_key: int, error: int) -> None:
    # Given a member that leaves while the coordinator waits for others, and handles no later request before
    talk = Talk(grouped(None), WEST_PORT)
    talk.ask(JOIN, 3, REQUESTS[JOIN])
    talk.ask(api_key, 3, REQUESTS[api_key])
    join, second = talk.asked(WEST)
    # When the group is fenced
    talk.follow(grouped(Group(name="billing", fence=Fence(operation="move"))))
    # Then both requests are answered, and the coordinator's late answers are dropped
    assert [error_of(answer) for answer in talk.answers()] == [LOADING, error]
    assert not talk.session.holds_back(frozenset(), frozenset({b"billing"}), 99)
    talk.answer(WEST, join, {"member_id": "m-1"})
    talk.answer(WEST, second, {})
    assert talk.answers() == []


def test_a_member_of_another_group_continues_to_wait() -> None:
    talk = Talk(grouped(None), WEST_PORT)
    talk.ask(JOIN, 3, REQUESTS[JOIN])
    talk.follow(grouped(Group(name="invoices", fence=Fence(operation="move"))))
    assert talk.answers() == []


def test_without_a_lease_no_group_request_is_forwarded() -> None:
    talk = Talk(grouped(None), WEST_PORT, lease=False)
    talk.ask(COMMIT, 7, commit())
    assert error_of(talk.answers()[0]) == COORDINATOR_NOT_AVAILABLE


def test_producer_ids_come_from_the_gateways_own_range_and_stay_when_the_epoch_rises() -> None:
    talk = Talk()
    ask = {"transactional_id": None, "transaction_timeout_ms": 1}
    talk.ask(INIT, 4, ask)
    talk.ask(INIT, 4, ask)
    first, second = talk.answers()
    assert is_gateway_id(first["producer_id"])
    assert first["producer_id"] != second["producer_id"]
    talk.ask(INIT, 4, {**ask, "producer_id": first["producer_id"], "producer_epoch": 0})
    raised = talk.answers()[0]
    assert (raised["producer_id"], raised["producer_epoch"]) == (first["producer_id"], 1)


def test_a_transactional_producer_is_initialised_only_by_its_own_cluster() -> None:
    body = {"transactional_id": "tx", "transaction_timeout_ms": 1}
    away = Talk(grouped(None))
    away.ask(INIT, 4, body)
    assert error_of(away.answers()[0]) == NOT_COORDINATOR
    here = Talk(grouped(None), WEST_PORT)
    here.ask(INIT, 4, body)
    assert len(here.asked(WEST)) == 1


def test_a_clients_use_of_topics_is_reported_once() -> None:
    talk = Talk(grouped(None), WEST_PORT)
    talk.ask(COMMIT, 7, commit(), client_id="app-1")
    talk.ask(COMMIT, 7, commit(), client_id="app-1")
    seen = [c for c in talk.others if isinstance(c, Saw)]
    assert [(c.identity.user, c.identity.instance, c.what, c.name, c.how) for c in seen] == [
        ("anonymous", "app-1", "group", "billing", "commit")
    ]


@pytest.mark.parametrize(
    ("name", "version", "served", "software"),
    [
        ("apache-kafka-java", "2.6.1", True, "apache-kafka-java/2.6.1"),
        ("librdkafka", "2.12.1-RC1", True, "librdkafka/2.12.1-RC1"),
        ("x" * 64, "1", True, f"{'x' * 64}/1"),
        ("x" * 65, "1", True, None),
        ("java", "1 2\n", False, None),
        ("java", "", False, None),
        ("", "1", False, None),
        ("-java", "1", False, None),
        ("a/b", "1", False, None),
    ],
)
def test_a_clients_software_is_reported_with_its_use_unless_it_is_long_or_brokers_refuse_its_name(
    name: str, version: str, served: bool, software: str | None
) -> None:
    talk = Talk(grouped(None), WEST_PORT)
    talk.ask(VERSIONS, 3, {"client_software_name": name, "client_software_version": version})
    # Then a client with a name that brokers refuse gets no versions
    (answer,) = talk.answers()
    assert answer["error_code"] == (ErrorCode.NONE if served else ErrorCode.INVALID_REQUEST)
    assert bool(answer["api_keys"]) is served
    # And its use is reported all the same
    talk.ask(COMMIT, 7, commit(), client_id="app-1")
    assert [c.software for c in talk.others if isinstance(c, Saw)] == [software]
    assert talk.closed is None


def test_only_versions_are_answered_before_a_login() -> None:
    talk = Talk(users={"app": "secret"})
    talk.ask(VERSIONS, 3, {"client_software_name": "x", "client_software_version": "1"})
    assert talk.answers()[0]["api_keys"]
    talk.ask(METADATA, 8, {"topics": []})
    assert talk.cause is Cause.NOT_AUTHENTICATED


def test_a_client_newer_than_the_gateway_gets_the_versions_in_version_0() -> None:
    talk = Talk()
    talk.correlation += 1
    talk.versions.append((1, VERSIONS, 4))
    talk.send(bytes.fromhex("0000000f00120009000000010003") + b"app" + b"\0\0")
    answer = talk.answers()[0]
    assert answer["error_code"] == 35
    assert answer["api_keys"]


def test_a_user_logs_in_with_plain_and_is_known_by_that_name() -> None:
    talk = Talk(users={"app": "secret"})
    talk.ask(HANDSHAKE, 1, {"mechanism": "PLAIN"})
    talk.ask(AUTHENTICATE, 2, {"auth_bytes": plain_token("app", "secret")})
    assert [a["error_code"] for a in talk.answers()] == [0, 0]
    talk.ask(METADATA, 8, {"topics": []}, client_id="HA#other#orders")
    (question,) = [c for c in talk.others if isinstance(c, Compose)]
    assert question.identity.user == "app", "a client id never lends another user's bindings"


@pytest.mark.parametrize(
    ("data", "spoken", "said"),
    [
        (bytes.fromhex("16030100c8010000c40303"), "tls", "TLS"),
        (b"GET / HTTP/1.1\r\n\r\n", "http", "HTTP"),
        (b"PROXY TCP4 192.0.2.1 192.0.2.2 5 6\r\n", "proxy", "PROXY header"),
        (b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c", "proxy", "PROXY header"),
    ],
)
@pytest.mark.parametrize("most", [104_857_600, 2_147_483_647])
def test_another_protocol_is_named_and_counted_whatever_size_a_request_may_have(
    data: bytes, spoken: str, said: str, most: int
) -> None:
    talk = Talk(limits=WireLimits(max_request_bytes=most))
    talk.send(data)
    assert talk.cause is Cause.FOREIGN_PROTOCOL
    assert said in talk.why
    assert talk.session.context.shared.counts.foreign == {("plain", spoken): 1}


def test_a_request_above_the_limit_is_refused_before_it_is_read() -> None:
    talk = Talk(limits=WireLimits(max_request_bytes=1000))
    talk.send((1001).to_bytes(4, "big") + bytes(20))
    assert "1000" in talk.why


def test_only_retriable_errors_are_returned_before_the_state_is_loaded() -> None:
    talk = Talk(Snapshot(View(), Topology(), tuple(advertised([])), fresh=False))
    talk.ask(HEARTBEAT, 3, heartbeat())
    talk.ask(INIT, 4, {"transactional_id": "tx", "transaction_timeout_ms": 1})
    talk.wait(0.2)
    assert [error_of(a) for a in talk.answers()] == [NOT_COORDINATOR, NOT_COORDINATOR]
    assert not talk.upstream


def test_a_gateways_own_node_has_one_empty_log_directory() -> None:
    # Given an admin client that asks every node, a gateway's too
    talk = Talk(port=Port())
    # When it asks for log directories
    for version in (1, 4):
        talk.ask(DESCRIBE_LOG_DIRS, version, {"topics": None})
    # Then it gets one: Java takes an empty list for a missing right
    for answer in talk.answers():
        assert answer["error_code"] == 0
        assert [(result["error_code"], result["log_dir"], result["topics"]) for result in answer["results"]] == [
            (0, "gateway", [])
        ]
    assert talk.closed is None


def test_a_member_of_a_kip_848_group_gets_the_reason_why_it_is_not_served() -> None:
    # Given clusters, none of which need support KIP-848
    talk = Talk(grouped(None))
    talk.ask(VERSIONS, 0, {})
    offered = {line["api_key"]: line["max_version"] for line in talk.answers()[0]["api_keys"]}
    # When a client tries it, because it is offered
    for version in range(offered[CONSUMER_GROUP_HEARTBEAT] + 1):
        talk.ask(CONSUMER_GROUP_HEARTBEAT, version, {"group_id": "billing", "member_id": "m"})
        # Then it gets the error of a broker with that protocol disabled: clients fall back or fail, and do not wait
        (answer,) = talk.answers()
        assert (answer["error_code"], answer["assignment"]) == (ErrorCode.UNSUPPORTED_VERSION, None)
        assert "group.protocol=classic" in answer["error_message"]
