"""Logins of several rounds, checked off the event loop, failing, or expiring (KIP-368)."""

import math
from collections.abc import Callable

import pytest

from gateway.authentication.accounts import KnownAccounts
from gateway.authentication.users import accounts
from gateway.session.commands import Cause, VerifyLogin
from gateway.session.login_rate_limiter import MAX_KNOWN, LoginRateLimiter, network
from gateway.session.readiness import AwaitingIdentity as Waits
from gateway.session.shared import Authentication
from ha_core.operations.access.user_entries import entry
from ha_core.wire import ErrorCode, encode, encode_request
from ha_core.wire.sasl import MECHANISMS, PLAIN, SecurityProfile
from ha_core.wire.sasl_oauth import OAUTHBEARER, initial
from ha_core.wire.sasl_plain import plain_token
from ha_core.wire.sasl_scram import HASHES, SCRAM_SHA_256, SCRAM_SHA_512
from ha_core.wire.sasl_steps import Exchange, LoginVerdict
from tests.gateway.session.batch import batch
from tests.gateway.session.messages import LARGE, PRODUCE, produce, state
from tests.gateway.session.talk import EAST, PHANTOMS, Talk

HANDSHAKE, METADATA, AUTHENTICATE = 17, 3, 36
FAILED = ErrorCode.SASL_AUTHENTICATION_FAILED
USERS = accounts({**entry("alice", "wonder", 4096), **entry("bob", "builder", 4096)})
BYTEWISE: Callable[[bytes], list[bytes]] = lambda data: [data[at : at + 1] for at in range(len(data))]  # noqa: E731


def talking(
    session_s: float = math.inf,
    delay_s: float = 0.0,
    login_rate_limiter: LoginRateLimiter | None = None,
    chunks: Callable[[bytes], list[bytes]] = lambda data: [data],
    address: str = "10.0.0.1",
) -> Talk:
    known_accounts = KnownAccounts(USERS.get, PHANTOMS, claimed=lambda token: token.split(".")[1])
    offered = (PLAIN, *HASHES, OAUTHBEARER)
    authentication = Authentication(
        False, offered, known_accounts, login_rate_limiter or LoginRateLimiter(20), session_s, delay_s
    )
    return Talk(authentication=authentication, chunks=chunks, address=address)


def exchange(mechanism: str, user: str = "alice", password: str = "wonder") -> Exchange:
    return MECHANISMS[mechanism].client(SecurityProfile(mechanism, user, password), "a-nonce-of-the-client")


def scram(talk: Talk, mechanism: str = SCRAM_SHA_512, user: str = "alice", password: str = "wonder") -> list[int]:
    """The error codes of the answers; the server's final message is verified."""
    ours = exchange(mechanism, user, password)
    talk.ask(HANDSHAKE, 1, {"mechanism": mechanism})
    codes = [answer["error_code"] for answer in talk.answers()]
    token: bytes | None = next(ours)
    while token is not None:
        talk.ask(AUTHENTICATE, 2, {"auth_bytes": token})
        found = talk.answers()
        if not found:
            break
        codes.append(found[0]["error_code"])
        if codes[-1]:
            break
        try:
            token = ours.send(found[0]["auth_bytes"])
        except StopIteration:
            token = None
    return codes


@pytest.mark.parametrize("mechanism", HASHES)
@pytest.mark.parametrize("chunks", [lambda data: [data], BYTEWISE], ids=["whole", "byte by byte"])
def test_a_client_proves_its_password_in_two_rounds(mechanism: str, chunks: Callable[[bytes], list[bytes]]) -> None:
    talk = talking(chunks=chunks)
    assert scram(talk, mechanism) == [0, 0, 0]
    assert talk.session.client.auth_state.user == "alice"
    assert talk.closed is None


@pytest.mark.parametrize(("user", "password"), [("alice", "wrong"), ("nobody", "wonder")])
def test_a_wrong_password_and_an_unknown_user_get_the_same_answer_in_the_same_round(user: str, password: str) -> None:
    talk = talking()
    assert scram(talk, user=user, password=password) == [0, 0, FAILED]
    assert talk.cause is Cause.AUTHENTICATION_FAILED
    assert password not in talk.why


def test_bare_tokens_take_two_rounds_as_well() -> None:
    # Given a client of old brokers, that names SCRAM
    talk, ours = talking(), exchange(SCRAM_SHA_256)
    talk.ask(HANDSHAKE, 0, {"mechanism": SCRAM_SHA_256})
    talk.answers()

    def say(token: bytes) -> bytes:
        talk.send(len(token).to_bytes(4, "big") + token)
        frame = bytes(talk.to_client)
        talk.to_client.clear()
        assert int.from_bytes(frame[:4], "big") == len(frame) - 4
        return frame[4:]

    # When both tokens have come
    last = say(ours.send(say(next(ours))))
    # Then it is authenticated, and the server has proved itself
    with pytest.raises(StopIteration):
        ours.send(last)
    assert talk.session.client.auth_state.user == "alice"


def test_a_request_during_the_check_of_a_password_waits_for_the_result() -> None:
    # Given PLAIN for a user with a stored key, followed by a request
    talk = talking()
    talk.ask(HANDSHAKE, 1, {"mechanism": PLAIN})
    talk.answers()
    talk.ask(AUTHENTICATE, 2, {"auth_bytes": plain_token("alice", "wonder")})
    talk.ask(18, 0, {})
    # Then neither is answered, and no more is read
    assert talk.answers() == []
    assert talk.session.intake.waits_for is Waits.AWAITED
    assert talk.session.paused
    assert "wonder" not in repr(talk.others)
    # When the password was found right
    talk.verify_login()
    # Then both are answered, in their turn
    assert [answer["error_code"] for answer in talk.answers()] == [0, 0]
    assert talk.session.client.auth_state.user == "alice"


def plain(talk: Talk, user: str = "alice", password: str = "wonder") -> list[int]:
    talk.ask(HANDSHAKE, 1, {"mechanism": PLAIN})
    talk.ask(AUTHENTICATE, 2, {"auth_bytes": plain_token(user, password)})
    if any(isinstance(command, VerifyLogin) for command in talk.others):
        talk.verify_login()
    return [answer["error_code"] for answer in talk.answers()]


@pytest.mark.parametrize(("user", "password"), [("alice", "wrong"), ("nobody", "wonder")])
def test_a_password_that_was_checked_and_is_wrong_is_refused(user: str, password: str) -> None:
    talk = talking()
    assert plain(talk, user, password) == [0, FAILED]
    assert talk.session.client.auth_state.user is None


def test_a_client_that_leaves_before_the_result_gets_no_answer() -> None:
    talk = talking()
    talk.ask(HANDSHAKE, 1, {"mechanism": PLAIN})
    talk.ask(AUTHENTICATE, 2, {"auth_bytes": plain_token("alice", "wonder")})
    talk.take(talk.session.client_left(talk.now))
    assert talk.closed is not None
    assert talk.session.verified(LoginVerdict("alice"), talk.now) == []


def test_a_login_that_could_not_be_verified_ends_without_an_answer() -> None:
    talk = talking()
    talk.ask(HANDSHAKE, 1, {"mechanism": OAUTHBEARER})
    talk.answers()
    talk.ask(AUTHENTICATE, 2, {"auth_bytes": initial("x.y.z")})
    talk.take(talk.session.verified(LoginVerdict(None, "no keys yet", unsure=True), talk.now))
    assert talk.answers() == []
    assert talk.cause is Cause.UNVERIFIED


def test_a_bad_token_is_refused_in_a_round_of_its_own() -> None:
    talk = talking()
    talk.ask(HANDSHAKE, 1, {"mechanism": OAUTHBEARER})
    talk.ask(AUTHENTICATE, 2, {"auth_bytes": initial("x.y.z")})
    talk.verify_login()
    told = talk.answers()[-1]
    assert (told["error_code"], told["auth_bytes"]) == (0, b'{"status": "invalid_token"}')
    assert talk.closed is None
    talk.ask(AUTHENTICATE, 2, {"auth_bytes": b"\1"})
    assert talk.answers()[0]["error_code"] == FAILED
    assert talk.closed is not None


def test_a_failed_login_is_answered_and_closed_after_a_delay_and_nothing_is_read_meanwhile() -> None:
    # Given a login that has failed
    talk = talking(delay_s=0.1)
    assert scram(talk, password="wrong") == [0, 0]
    # Then there is no answer at first, and another try is not checked
    assert talk.closed is None
    assert not talk.session.context.life.receives
    assert talk.woken == [pytest.approx(talk.now + 0.1)]
    talk.wait(0.09)
    assert talk.answers() == []
    # When the delay is over
    talk.wait(0.02)
    # Then it is answered, and the connection ends
    assert [answer["error_code"] for answer in talk.answers()] == [FAILED]
    assert talk.closed is not None


def test_the_time_of_the_check_is_part_of_the_delay() -> None:
    talk = talking(delay_s=0.1)
    talk.ask(HANDSHAKE, 1, {"mechanism": PLAIN})
    talk.answers()
    talk.ask(AUTHENTICATE, 2, {"auth_bytes": plain_token("alice", "wrong")})
    talk.now += 0.06
    talk.verify_login()
    talk.wait(0.05)
    assert [answer["error_code"] for answer in talk.answers()] == [FAILED]


# -- sessions that expire ---------------------------------------------------------------------------------------------


def lifetime(talk: Talk, version: int = 2) -> int | None:
    ours = exchange(SCRAM_SHA_256)
    talk.ask(HANDSHAKE, 1, {"mechanism": SCRAM_SHA_256})
    talk.ask(AUTHENTICATE, version, {"auth_bytes": next(ours)})
    said = talk.answers()[-1]
    assert said.get("session_lifetime_ms", 0) == 0
    talk.ask(AUTHENTICATE, version, {"auth_bytes": ours.send(said["auth_bytes"])})
    found: int | None = talk.answers()[0].get("session_lifetime_ms")
    return found


@pytest.mark.parametrize(("session_s", "told_ms"), [(math.inf, 0), (60.0, 60_000)])
def test_a_client_gets_the_lifetime_of_its_login(session_s: float, told_ms: int) -> None:
    assert lifetime(talking(session_s)) == told_ms


@pytest.mark.parametrize(("token_s", "told_ms"), [(30.0, 30_000), (90.0, 60_000), (1e18, 60_000)])
def test_a_token_is_valid_for_its_own_time_and_no_longer_than_the_gateway_allows(token_s: float, told_ms: int) -> None:
    talk = talking(60.0)
    talk.ask(HANDSHAKE, 1, {"mechanism": OAUTHBEARER})
    talk.ask(AUTHENTICATE, 2, {"auth_bytes": initial("x.y.z")})
    talk.take(talk.session.verified(LoginVerdict("alice", good_for_s=token_s), talk.now))
    assert talk.answers()[-1]["session_lifetime_ms"] == told_ms


def test_a_token_with_an_uncountable_lifetime_is_valid_for_a_year() -> None:
    talk = talking()
    talk.ask(HANDSHAKE, 1, {"mechanism": OAUTHBEARER})
    talk.ask(AUTHENTICATE, 2, {"auth_bytes": initial("x.y.z")})
    talk.take(talk.session.verified(LoginVerdict("alice", good_for_s=1e30), talk.now))
    assert talk.answers()[-1]["session_lifetime_ms"] == 365 * 86_400 * 1000


@pytest.mark.parametrize("version", [0, 2])
def test_a_client_that_does_not_re_authenticate_in_time_is_closed_at_the_next_request(version: int) -> None:
    # Given a login that is valid for a minute
    talk = talking(60.0)
    lifetime(talk, version)
    # When a request comes in time, and one too late
    talk.wait(59.9)
    talk.ask(18, 0, {})
    assert len(talk.answers()) == 1
    talk.wait(0.2)
    assert talk.closed is None
    talk.ask(18, 0, {})
    # Then the second has no answer
    assert talk.answers() == []
    assert talk.cause is Cause.SESSION_EXPIRED


@pytest.mark.parametrize("streams", [False, True], ids=["held until it is whole", "sent on as it comes"])
def test_a_request_that_is_complete_only_after_the_login_expired_is_not_executed(streams: bool) -> None:
    # Given a login that is valid for a minute, and a request of which a part came in time
    talk = talking(60.0)
    talk.follow(state())
    lifetime(talk, 2)
    talk.answers()
    if streams:
        body = encode(PRODUCE, 9, "request", produce(("orders", 0, batch(payload=LARGE))))
        data = encode_request(PRODUCE, 9, 9, "app", body)
    else:
        data = encode_request(19, 5, 9, "app", encode(19, 5, "request", {"topics": [], "timeout_ms": 1000}))
    middle = len(data) // 2
    talk.send(data[:middle])
    sent = bytes(talk.upstream.get(EAST, b""))
    assert bool(sent) is streams
    # When the rest comes after its end
    talk.now += 61.0
    talk.send(data[middle:])
    # Then no broker gets it
    assert bytes(talk.upstream.get(EAST, b"")) == sent
    assert not talk.questions
    assert talk.cause is Cause.SESSION_EXPIRED


def test_re_authentication_is_never_too_late_and_starts_a_new_lifetime() -> None:
    talk = talking(60.0)
    scram(talk)
    talk.wait(100.0)
    assert scram(talk) == [0, 0, 0]
    talk.wait(59.0)
    talk.ask(18, 0, {})
    assert len(talk.answers()) == 1


def test_a_client_that_has_only_begun_to_re_authenticate_is_still_too_late() -> None:
    talk = talking(60.0)
    scram(talk)
    talk.wait(100.0)
    talk.ask(HANDSHAKE, 1, {"mechanism": SCRAM_SHA_512})
    talk.answers()
    talk.ask(18, 0, {})
    assert talk.cause is Cause.SESSION_EXPIRED


@pytest.mark.parametrize(
    ("mechanism", "user", "password"), [(SCRAM_SHA_512, "bob", "builder"), (SCRAM_SHA_256, "alice", "wonder")]
)
def test_neither_user_nor_mechanism_may_change(mechanism: str, user: str, password: str) -> None:
    talk = talking(60.0)
    scram(talk)
    assert scram(talk, mechanism, user, password) == [0, 0, FAILED]
    assert talk.session.client.auth_state.user == "alice"


# -- login rate limiter -----------------------------------------------------------------------------------------------


def test_after_many_failures_an_addresss_logins_are_not_checked_and_its_clients_get_no_answer() -> None:
    login_rate_limiter = LoginRateLimiter(3)
    for _ in range(3):
        assert scram(talking(login_rate_limiter=login_rate_limiter), password="wrong")[-1] == FAILED
    for attempt, told in ((scram, [0, 0]), (plain, [0])):  # whose proof, or password, is not checked
        talk = talking(login_rate_limiter=login_rate_limiter)
        assert attempt(talk) == told
        assert talk.cause is Cause.RATE_LIMITED
    assert login_rate_limiter.unchecked == 2


def test_one_failure_is_forgotten_per_second() -> None:
    login_rate_limiter = LoginRateLimiter(3)
    for _ in range(4):
        login_rate_limiter.failed("10.0.0.1", "alice", 0.0)
    assert not login_rate_limiter.allows("10.0.0.1", "alice", 1.9)
    assert login_rate_limiter.allows("10.0.0.1", "alice", 2.0)
    assert login_rate_limiter.allows("10.0.0.2", "alice", 0.0)


def test_guessed_passwords_do_not_lock_out_users_who_have_logged_in_from_the_same_address() -> None:
    login_rate_limiter = LoginRateLimiter(3)
    login_rate_limiter.succeeded("10.0.0.1", "alice")
    for _ in range(10):
        login_rate_limiter.failed("10.0.0.1", "bob", 0.0)
    assert not login_rate_limiter.allows("10.0.0.1", "bob", 0.0)
    assert login_rate_limiter.allows("10.0.0.1", "alice", 0.0)
    for _ in range(3):
        login_rate_limiter.failed("10.0.0.1", "alice", 0.0)
    assert not login_rate_limiter.allows("10.0.0.1", "alice", 0.0)


def test_all_addresses_of_one_line_count_together_and_the_table_is_bounded() -> None:
    assert network("2001:db8:1:2::1") == network("2001:db8:1:2:ffff::9") != network("2001:db8:1:3::1")
    login_rate_limiter = LoginRateLimiter(1)
    for number in range(MAX_KNOWN + 10):
        login_rate_limiter.failed(f"host-{number}", "x", 0.0)
        login_rate_limiter.succeeded(f"host-{number}", "x")
    assert len(login_rate_limiter._failures) == len(login_rate_limiter._known_users) == MAX_KNOWN
    assert login_rate_limiter.allows("host-0", "y", 0.0)


def behind_one_address(
    attempt: Callable[..., list[int]], wrong_of: str, delay_s: float = 0.0
) -> tuple[Talk, list[int]]:
    """A wrong login from an address that has failed too often, and from which alice had logged in before."""
    login_rate_limiter = LoginRateLimiter(3)
    assert scram(talking(login_rate_limiter=login_rate_limiter))[-1] == 0
    for _ in range(3):
        assert scram(talking(login_rate_limiter=login_rate_limiter), user="nobody")[-1] == FAILED
    talk = talking(login_rate_limiter=login_rate_limiter, delay_s=delay_s)
    return talk, attempt(talk, user=wrong_of, password="wrong")


def bearer(talk: Talk, user: str, password: str) -> list[int]:
    """A forged token that names the user."""
    talk.ask(HANDSHAKE, 1, {"mechanism": OAUTHBEARER})
    talk.ask(AUTHENTICATE, 2, {"auth_bytes": initial(f"x.{user}.{password}")})
    if any(isinstance(command, VerifyLogin) for command in talk.others):
        talk.verify_login()
    return [answer["error_code"] for answer in talk.answers()]


@pytest.mark.parametrize("attempt", [scram, plain, bearer])
def test_a_limited_address_cannot_distinguish_users_who_have_logged_in_there_from_others(
    attempt: Callable[..., list[int]],
) -> None:
    seen = []
    for user in ("alice", "bob", "nobody"):
        talk, codes = behind_one_address(attempt, user, delay_s=0.1)
        open_at_first = talk.closed is None
        talk.wait(0.11)
        seen.append((codes, talk.answers(), open_at_first, talk.closed is not None))
    assert seen[0] == seen[1] == seen[2]
    assert seen[0][1:] == ([], True, True)


@pytest.mark.parametrize("attempt", [scram, plain])
def test_a_user_who_has_logged_in_there_may_log_in_from_a_limited_address(attempt: Callable[..., list[int]]) -> None:
    login_rate_limiter = LoginRateLimiter(3)
    assert scram(talking(login_rate_limiter=login_rate_limiter))[-1] == 0
    for _ in range(30):
        scram(talking(login_rate_limiter=login_rate_limiter), user="nobody")
    assert attempt(talking(login_rate_limiter=login_rate_limiter))[-1] == 0


@pytest.mark.parametrize("guessed", ["alice", "nobody"])
def test_guesses_at_one_name_do_not_reveal_whether_that_user_has_logged_in_there(guessed: str) -> None:
    """A failure counts for its address, whichever user it names: another name gets the same answer afterwards."""
    login_rate_limiter = LoginRateLimiter(3)
    assert scram(talking(login_rate_limiter=login_rate_limiter))[-1] == 0
    told = [scram(talking(login_rate_limiter=login_rate_limiter), user=guessed, password="wrong") for _ in range(5)]
    assert told == [[0, 0, FAILED]] * 3 + [[0, 0]] * 2
    assert scram(talking(login_rate_limiter=login_rate_limiter), user="somebody", password="wrong") == [0, 0]


def test_forged_tokens_limit_their_address_but_no_login_of_a_user_who_has_logged_in_there() -> None:
    # Given alice, who has logged in from the address, and tokens with forged signatures
    login_rate_limiter = LoginRateLimiter(3)
    assert scram(talking(login_rate_limiter=login_rate_limiter))[-1] == 0
    for _ in range(3):
        assert bearer(talking(login_rate_limiter=login_rate_limiter), "", "forged") == [0, 0]
    # When more of them come
    talk = talking(login_rate_limiter=login_rate_limiter)
    assert bearer(talk, "", "forged") == [0]
    # Then they are not checked, and alice may log in by her password
    assert talk.cause is Cause.RATE_LIMITED
    assert not talk.others
    assert scram(talking(login_rate_limiter=login_rate_limiter))[-1] == 0
    # And no other address is limited
    elsewhere = talking(login_rate_limiter=login_rate_limiter, address="10.0.0.2")
    assert bearer(elsewhere, "", "forged") == [0, 0]


def test_a_refused_token_counts_although_its_client_does_not_wait_for_the_end() -> None:
    login_rate_limiter = LoginRateLimiter(3)
    for _ in range(3):
        talk = talking(login_rate_limiter=login_rate_limiter)
        bearer(talk, "", "forged")
        talk.take(talk.session.client_left(talk.now))
    assert login_rate_limiter.silent("10.0.0.1", 100.0)
    # And one whose client waits counts once
    other = talking(login_rate_limiter=LoginRateLimiter(2))
    bearer(other, "", "forged")
    other.ask(AUTHENTICATE, 2, {"auth_bytes": b"\1"})
    assert not other.session.context.shared.authentication.login_rate_limiter.silent("10.0.0.1", 100.0)
