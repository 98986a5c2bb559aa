import logging
import time

import pytest

from ha_core.store.errors import AlreadyRegisteredError, StoreUnavailableError
from ha_core.store.gateways import RETRY_S
from tests.kit.waiting import until

from .documents import binding, gateway, put
from .sessions import Session


def test_a_registered_gateway_is_seen_until_it_closes(session: Session, other: Session) -> None:
    registration = session.store.register_gateway(gateway())
    assert other.store.gateways() == [gateway()]
    assert registration.stored == gateway()

    registration.close()

    assert other.store.gateways() == []


def test_the_newest_of_many_gateway_records_is_stored(session: Session, other: Session) -> None:
    registration = session.store.register_gateway(gateway(0))
    for revision in range(1, 50):
        registration.update(gateway(revision))

    until(lambda: registration.stored == gateway(49), "stored")
    assert other.store.gateways() == [gateway(49)]


def test_after_a_session_loss_the_newest_gateway_record_is_registered_again(session: Session, other: Session) -> None:
    registration = session.store.register_gateway(gateway(0))
    registration.update(gateway(1))
    until(lambda: registration.stored == gateway(1), "stored")
    before = session.store._tree.session

    session.expire()

    until(lambda: other.store.gateways() == [gateway(1)] and session.store._tree.session != before, "registered again")
    registration.update(gateway(2))
    until(lambda: other.store.gateways() == [gateway(2)], "updated in the new session")


def test_a_gateway_record_updated_during_an_interruption_is_stored_after_it(session: Session, other: Session) -> None:
    registration = session.store.register_gateway(gateway(0))
    session.suspend()
    registration.update(gateway(1))

    session.resume()

    until(lambda: other.store.gateways() == [gateway(1)], "stored")


def test_an_interruption_alone_leaves_the_gateway_registered(session: Session, other: Session) -> None:
    registration = session.store.register_gateway(gateway(0))
    owner = session.store._tree.session

    session.suspend()
    assert other.store.gateways() == [gateway(0)]
    session.resume()
    registration.update(gateway(1))

    until(lambda: other.store.gateways() == [gateway(1)], "stored")
    assert session.store._tree.session == owner


@pytest.mark.parametrize("made", [True, False])
def test_registering_a_gateway_survives_a_lost_reply(session: Session, other: Session, made: bool) -> None:
    session.lose_next_reply(made)

    session.store.register_gateway(gateway())

    assert session.losses_left() == 0
    assert other.store.gateways() == [gateway()]


@pytest.mark.parametrize("made", [True, False])
def test_updating_a_gateway_record_survives_a_lost_reply(session: Session, other: Session, made: bool) -> None:
    registration = session.store.register_gateway(gateway(0))
    session.lose_next_reply(made)

    registration.update(gateway(1))

    until(lambda: registration.stored == gateway(1), "stored")
    assert session.losses_left() == 0
    assert other.store.gateways() == [gateway(1)]


def test_two_live_gateways_cannot_have_the_same_id(
    session: Session, other: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    session.store.register_gateway(gateway())
    monkeypatch.setattr(other.store._tree, "session_timeout_s", 0.3)

    with pytest.raises(AlreadyRegisteredError, match="gateway gw-1 is registered by ZooKeeper session 0x"):
        other.store.register_gateway(gateway(7))

    assert session.store.gateways() == [gateway()]


def test_a_gateway_with_an_unreadable_record_counts_as_one_at_revision_zero(session: Session) -> None:
    session.plant("/gateways/gw-9", b"{")

    assert [(each.id, each.revision) for each in session.store.gateways()] == [("gw-9", 0)]


def test_a_gateway_deleted_by_hand_is_registered_again_by_its_next_update(session: Session, other: Session) -> None:
    registration = session.store.register_gateway(gateway(0))
    other.remove("/gateways/gw-1")

    registration.update(gateway(1))

    until(lambda: other.store.gateways() == [gateway(1)], "registered again")


def test_a_registered_gateway_cannot_change_its_id(session: Session) -> None:
    registration = session.store.register_gateway(gateway(name="gw-1"))

    with pytest.raises(ValueError, match="gw-1 cannot become gw-2"):
        registration.update(gateway(name="gw-2"))


def test_closing_the_store_unregisters_its_gateway(session: Session, other: Session) -> None:
    session.store.register_gateway(gateway())

    session.store.close()

    assert other.store.gateways() == []


def test_a_session_is_confirmed_only_while_it_is_connected(session: Session) -> None:
    # Given a connected session
    states: list[str] = []
    session.store.watch(lambda view, changed: None, states.append)
    session.store.confirm()
    # When it is suspended
    # Then it cannot be confirmed until it is connected again
    session.suspend()
    until(lambda: states[-1:] == ["suspended"], "suspended")
    with pytest.raises(StoreUnavailableError):
        session.store.confirm()
    session.resume()
    until(lambda: states[-1:] == ["connected"], "connected")
    session.store.confirm()


def test_confirming_a_session_returns_the_newest_revision_of_any_session(session: Session, other: Session) -> None:
    before = session.store.confirm()
    made = other.store.commit(put(binding()))

    assert before < made
    assert session.store.confirm() == made


def test_a_gateway_whose_id_was_taken_logs_that_once_and_is_back_when_the_other_ends(
    session: Session, other: Session, caplog: pytest.LogCaptureFixture
) -> None:
    # Given a gateway whose node has gone, as after a long stop, and another process that has made it again
    registration = session.store.register_gateway(gateway(0))
    until(lambda: not registration._wake.is_set(), "has looked")  # by then it would make the node anew
    time.sleep(RETRY_S)
    other.remove("/gateways/gw-1")
    twin = other.store.register_gateway(gateway(7))
    # and a client of another test whose connection ends: under load, kazoo's threads write such lines at any time
    logging.getLogger("kazoo.client").error("Connection dropped: socket connection broken")

    def said() -> list[str]:
        """Lines of the first gateway about the twin's session."""
        taken_by = f"gateway gw-1: ZooKeeper session 0x{other.store.tree.session:x} "
        own = (record for record in caplog.records if record.name == "ha_core.store.gateways")
        return [text for one in own if (text := one.getMessage()).startswith(taken_by)]

    # When the first one goes on, for several looks
    registration.update(gateway(1))
    until(lambda: bool(said()), "complained")
    time.sleep(RETRY_S * 5)
    # Then it has said so once, and has changed nothing
    assert len(said()) == 1
    assert session.store.gateways() == [gateway(7)]
    # and it is there again when the other one has ended
    twin.close()
    until(lambda: other.store.gateways() == [gateway(1)], "registered again")
