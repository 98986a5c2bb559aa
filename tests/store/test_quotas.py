"""Quotas in the tree, in Kafka's form."""

import json
import threading
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ha_core.model import UnreadableDocumentError
from ha_core.model.quota import DEFAULT, Limits, QuotaEntity, QuotaKind
from ha_core.store import quota_nodes, quotas
from ha_core.store.errors import QuotaNameTakenError
from ha_core.store.quotas import QuotasFound
from ha_core.store.tree import Create, Put, Remove
from tests.kit.waiting import until

from .sessions import Session

ALICE_ORDERS = QuotaEntity("alice", None, "orders")
BYTES: Limits = {QuotaKind.PRODUCE: 1024.0, QuotaKind.FETCH: 2048.0}


def node(session: Session, path: str) -> Any:
    found = session.store.tree.get(path)
    return None if found is None else json.loads(found.data)


def in_force(found: QuotasFound) -> dict[QuotaEntity | str, Limits]:
    return {quota.name if quota.entity is None else quota.entity: quota.limits for quota in found.readable.values()}


class Heard:
    """Quotas that a watcher has delivered."""

    def __init__(self, session: Session) -> None:
        self.times = 0
        self._lock = threading.Lock()
        self.now: dict[QuotaEntity | str, Limits] = {}
        self.unreadable: dict[str, str] = {}
        self.watcher = session.store.watch_quotas(self._told)

    def more_than(self, times: int) -> bool:
        return self.times > times

    def _told(self, found: QuotasFound) -> None:
        with self._lock:
            self.times += 1
            self.now, self.unreadable = in_force(found), dict(found.unreadable)


def test_a_quota_of_a_user_in_a_topic_has_kafkas_path_and_form(session: Session) -> None:
    # When
    session.store.change_quota(ALICE_ORDERS, BYTES)
    # Then
    said = node(session, "/config/clients/alice.orders")
    assert said["version"] == 1
    assert said["config"] == {"producer_byte_rate": "1024", "consumer_byte_rate": "2048"}
    (note,) = session.store.tree.children("/config/changes")
    assert note == "config_change_0000000000"
    assert node(session, f"/config/changes/{note}") == {"version": 2, "entity_path": "clients/alice.orders"}


@pytest.mark.parametrize(
    ("entity", "path"),
    [
        (QuotaEntity("a b*~/ü"), "/config/users/a%20b%2A%7E%2F%C3%BC"),
        (QuotaEntity(DEFAULT), "/config/users/<default>"),
        (QuotaEntity("alice", "app\n"), "/config/users/alice/clients/app%0A"),
        (QuotaEntity("alice", DEFAULT), "/config/users/alice/clients/<default>"),
        (QuotaEntity(DEFAULT, "app"), "/config/users/<default>/clients/app"),
        (QuotaEntity(None, "app"), "/config/clients/app"),
        (QuotaEntity(None, DEFAULT), "/config/clients/<default>"),
        (QuotaEntity("."), "/config/users/%2E"),
        (QuotaEntity("cn.shop", None, "orders.eu"), "/config/clients/cn.shop.orders.eu"),
    ],
)
def test_quotas_of_all_entities_are_read_back(session: Session, entity: QuotaEntity, path: str) -> None:
    session.store.change_quota(entity, BYTES)
    assert node(session, path) is not None
    assert in_force(session.store.quotas()) == {entity: BYTES}
    # and is gone when nothing of it is left
    assert session.store.change_quota(entity, dict.fromkeys(QuotaKind)) == {}
    assert in_force(session.store.quotas()) == {}


def test_a_limit_that_is_not_named_stays(session: Session) -> None:
    session.store.change_quota(ALICE_ORDERS, BYTES)
    after = session.store.change_quota(ALICE_ORDERS, {QuotaKind.FETCH: None})
    assert after == {QuotaKind.PRODUCE: 1024.0}


def test_a_user_whose_instances_are_limited_too_can_be_freed(session: Session) -> None:
    session.store.change_quota(QuotaEntity("alice", "app"), BYTES)
    session.store.change_quota(QuotaEntity("alice"), BYTES)
    session.store.change_quota(QuotaEntity("alice"), dict.fromkeys(QuotaKind))
    assert in_force(session.store.quotas()) == {QuotaEntity("alice", "app"): BYTES}


@pytest.mark.parametrize("value", [0.0, -1.0, 1.5, float("inf")])
def test_an_invalid_limit_changes_nothing(session: Session, value: float) -> None:
    with pytest.raises(ValueError, match="producer_byte_rate"):
        session.store.change_quota(ALICE_ORDERS, {QuotaKind.PRODUCE: value})
    assert session.store.tree.children("/config/clients") == []
    assert session.store.tree.children("/config/changes") == []


def test_two_quotas_with_one_path_are_not_mixed_up(session: Session) -> None:
    # Given the quota of the user a in the topic b.c
    session.store.change_quota(QuotaEntity("a", None, "b.c"), BYTES)
    # When the user a.b is to be limited in the topic c
    with pytest.raises(QuotaNameTakenError, match="because of dots"):
        session.store.change_quota(QuotaEntity("a.b", None, "c"), BYTES)
    # Then nothing has changed, and the first one can be changed still
    assert in_force(session.store.quotas()) == {QuotaEntity("a", None, "b.c"): BYTES}
    session.store.change_quota(QuotaEntity("a", None, "b.c"), {QuotaKind.FETCH: 5.0})


def test_quotas_written_by_kafkas_tools_are_read_and_their_names_left_open(session: Session) -> None:
    # Given nodes as Kafka's own tools write them, with a note of the older form
    tree = session.store.tree
    data = b'{"version":1,"config":{"producer_byte_rate":"1024","consumer_byte_rate":"2048","other":"x"}}'
    note = b'{"version":1,"entity_type":"clients","entity_name":"appId_1_cn.kmo_logi"}'
    tree.write([Create("/config/clients/appId_1_cn.kmo_logi", data)])
    heard = Heard(session)
    until(lambda: heard.now == {"appId_1_cn.kmo_logi": BYTES}, "it is heard")
    # When it is changed
    tree.write([Put("/config/clients/appId_1_cn.kmo_logi", data.replace(b"1024", b"9"), 0)])
    tree.write([Create("/config/changes/config_change_0000000082", note)])
    # Then
    until(lambda: heard.now["appId_1_cn.kmo_logi"][QuotaKind.PRODUCE] == 9.0, "the change is heard")


def test_a_change_is_followed_by_its_note_alone(session: Session, other: Session) -> None:
    # Given a follower
    other.store.change_quota(QuotaEntity("bob"), BYTES)
    heard = Heard(session)
    until(lambda: heard.now == {QuotaEntity("bob"): BYTES}, "what there is is heard")
    # When others change quotas
    other.store.change_quota(ALICE_ORDERS, BYTES)
    until(lambda: ALICE_ORDERS in heard.now, "a new one is heard")
    other.store.change_quota(ALICE_ORDERS, dict.fromkeys(QuotaKind))
    until(lambda: ALICE_ORDERS not in heard.now, "and that it is gone")
    # Then only the noted quotas were read
    assert heard.now == {QuotaEntity("bob"): BYTES}


def test_an_unreadable_quota_leaves_the_earlier_one_in_force(session: Session, other: Session) -> None:
    other.store.change_quota(QuotaEntity("bob"), BYTES)
    heard = Heard(session)
    until(lambda: heard.times > 0, "it is heard")
    for number, data in enumerate(
        (
            b"no json",
            b"[]",
            b'{"version":7,"config":{}}',
            b'{"version":1,"config":{"producer_byte_rate":"0"}}',
            b'{"version":1,"config":{"producer_byte_rate":"-3"}}',
            b'{"version":1,"config":{"producer_byte_rate":"many"}}',
            b'{"version":1,"config":[]}',
            b" " * 20_000,
        )
    ):
        found = other.store.tree.get("/config/users/bob")
        assert found is not None
        path, note = quota_nodes.note_path(100 + number), quota_nodes.note_to_bytes("/config/users/bob")
        other.store.tree.write(
            [
                Put("/config/users/bob", data, found.version),
                Create(path, note),
            ]
        )
        times = heard.times
        until(partial(heard.more_than, times), "it is read")
        assert heard.now == {QuotaEntity("bob"): BYTES}
        assert "/config/users/bob" in heard.unreadable
    with pytest.raises(UnreadableDocumentError):
        other.store.change_quota(QuotaEntity("bob"), BYTES)


def test_a_quota_for_an_impossible_name_is_unreadable(session: Session, other: Session) -> None:
    heard = Heard(session)
    until(lambda: heard.times > 0, "it is heard")
    path = "/config/clients/app"
    data = b'{"version":1,"config":{"producer_byte_rate":"7"},"entity":{"client-id":"\\ud800"}}'
    other.store.tree.write([Create(path, data), Create(quota_nodes.note_path(7), quota_nodes.note_to_bytes(path))])
    until(lambda: path in heard.unreadable, "it is named")
    other.store.change_quota(QuotaEntity("bob"), BYTES)
    until(lambda: heard.now == {QuotaEntity("bob"): BYTES}, "the next one is heard")


@pytest.mark.parametrize("note", ["config_change_" + "9" * 5000, "config_change_9999999999", "config_change_x"])
def test_a_note_with_an_arbitrary_number_hides_no_other(session: Session, other: Session, note: str) -> None:
    # Given a follower, and a note that no tool writes
    heard = Heard(session)
    until(lambda: heard.times > 0, "it is heard")
    other.store.tree.write([Create(f"/config/changes/{note}", b"no json")])
    # When quotas are changed after it, then the follower sees each change
    for rate in (1000.0, 2000.0, 3000.0):
        other.store.change_quota(QuotaEntity("bob"), {QuotaKind.PRODUCE: rate})
        until(partial(lambda wanted: heard.now == {QuotaEntity("bob"): {QuotaKind.PRODUCE: wanted}}, rate), "a change")


def test_a_follower_survives_unexpected_errors(session: Session, other: Session, monkeypatch: Any) -> None:
    heard = Heard(session)
    until(lambda: heard.times > 0, "it is heard")
    with monkeypatch.context() as patched:
        failed = threading.Event()

        def fails(*_: Any) -> None:
            failed.set()
            raise ZeroDivisionError

        patched.setattr(quota_nodes, "from_bytes", fails)
        other.store.tree.write(
            [
                Create("/config/users/bob", quota_nodes.to_bytes(QuotaEntity("bob"), BYTES)),
                Create(quota_nodes.note_path(0), quota_nodes.note_to_bytes("/config/users/bob")),
            ]
        )
        assert failed.wait(20)
    other.store.change_quota(QuotaEntity("carol"), BYTES)
    until(lambda: heard.now == {QuotaEntity("bob"): BYTES, QuotaEntity("carol"): BYTES}, "what came later is heard")


def test_notes_are_purged_when_they_are_old_but_never_the_newest(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(quotas, "MAX_NOTES", 3)
    for number in range(10):
        session.store.change_quota(QuotaEntity("bob"), {QuotaKind.PRODUCE: 1000.0 + number})
    kept = sorted(session.store.tree.children("/config/changes"))
    assert kept[-1] == "config_change_0000000009"
    assert len(kept) <= 4


def test_a_follower_that_has_missed_notes_rereads_all_quotas(session: Session, other: Session) -> None:
    # Given a follower that has read to a note
    followed = quotas.FollowedQuotas(session.store.tree)
    other.store.change_quota(QuotaEntity("bob"), BYTES)
    assert followed.read(lambda: None, anew=False)
    assert not followed.read(lambda: None, anew=False)
    # When notes are gone before it has read them
    tree = other.store.tree
    tree.write([Create("/config/users/carol", quota_nodes.to_bytes(QuotaEntity("carol"), BYTES))])
    tree.write([Create("/config/changes/config_change_0000000009", quota_nodes.note_to_bytes("/config/users/dora"))])
    first = tree.get("/config/changes/config_change_0000000000")
    assert first is not None
    tree.write([Remove("/config/changes/config_change_0000000000", first.version)])
    # Then their changes are seen all the same
    assert followed.read(lambda: None, anew=False)
    assert in_force(followed.found) == {QuotaEntity("bob"): BYTES, QuotaEntity("carol"): BYTES}


def test_an_unchanged_quota_writes_nothing(session: Session) -> None:
    session.store.change_quota(ALICE_ORDERS, BYTES)
    session.store.change_quota(ALICE_ORDERS, BYTES)
    assert len(session.store.tree.children("/config/changes")) == 1


_NAMES = st.text(min_size=1, max_size=40)
_JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=20), inner, max_size=4),
    max_leaves=10,
)
_SAID = st.fixed_dictionaries({}, optional={"version": _JSON, "config": _JSON, "entity": _JSON})


@given(
    st.sampled_from(["/config/clients/a.b", "/config/users/a", "/config/users/a/clients/b", "/config", "/x"]),
    st.binary(max_size=60) | _SAID.map(lambda said: json.dumps(said).encode()) | st.just(b"[" * 9_999),
)
def test_any_node_is_a_quota_or_unreadable(path: str, data: bytes) -> None:
    try:
        quota = quota_nodes.from_bytes(path, data)
    except UnreadableDocumentError:
        return
    if quota is not None:
        assert quota.limits
        assert all(value > 0 for value in quota.limits.values())


@given(
    st.binary(max_size=60)
    | _JSON.map(lambda said: json.dumps(said).encode())
    | st.fixed_dictionaries({"entity_path": _JSON}).map(lambda said: json.dumps(said).encode())
    | st.just(b"[" * 9_999)
)
def test_any_note_names_a_path_or_nothing(data: bytes) -> None:
    path = quota_nodes.note_from_bytes(data)
    assert path is None or (path.startswith("/config/") and path.isascii() and "//" not in path)


@given(_NAMES, _NAMES)
def test_every_name_becomes_a_valid_node_name_and_is_read_back(user: str, instance: str) -> None:
    entity = QuotaEntity(user, instance)
    path = quota_nodes.path_of(entity)
    assert path.isascii()
    assert path.isprintable()
    assert not {"", ".", ".."}.intersection(path.split("/")[1:])
    assert quota_nodes.entity_at(path) == (entity, instance)
