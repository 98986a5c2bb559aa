"""From a client's certificate to its user: subjects, rules, and sessions."""

import math
import string
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.session.auth_state import Authenticated, TlsAuthenticated
from gateway.session.certificate import MAX_SUBJECT, distinguished_name, parse_rule, user_of
from gateway.session.commands import Cause
from ha_core.model.access import access_rule
from ha_core.plan.access.rights import Rights
from tests.gateway.session.batch import batch
from tests.gateway.session.messages import PRODUCE, produce, state
from tests.gateway.session.talk import EAST, Talk

HANDSHAKE, AUTHENTICATE, METADATA = 17, 36, 3


def certificate(*attributes: tuple[str, str]) -> dict[str, Any]:
    """As returned by ssl: one attribute after the other, the widest first."""
    return {"subject": tuple(((kind, text),) for kind, text in attributes), "notAfter": "Jan  1 00:00:00 2100 GMT"}


ORDERS = certificate(("countryName", "CH"), ("organizationName", "Example"), ("commonName", "orders"))


def user(*rules: str, shown: dict[str, Any] | None = ORDERS) -> str | None:
    return user_of([parse_rule(rule) for rule in rules], shown)


def test_a_subject_is_written_as_by_brokers() -> None:
    assert distinguished_name(ORDERS["subject"]) == "CN=orders,O=Example,C=CH"
    assert distinguished_name(((("commonName", "a"), ("userId", "7")),)) == "CN=a+UID=7"


@pytest.mark.parametrize(
    ("rules", "expected"),
    [
        (["DEFAULT"], "CN=orders,O=Example,C=CH"),
        (["RULE:CN=(.*?),O=Example,C=CH/$1/"], "orders"),
        (["RULE:^CN=(.*?),.*$/$1/"], "orders"),
        (["RULE:CN=(.*?),O=(.*?),.*/$1@$2/U"], "ORDERS@EXAMPLE"),
        (["RULE:CN=(.*?),O=(.*?),.*/$1@$2/L"], "orders@example"),
        (["RULE:CN=(.*?),O=Other.*/$1/", "DEFAULT"], "CN=orders,O=Example,C=CH"),
        (["RULE:CN=(.*?),.*/first/", "RULE:CN=(.*?),.*/second/"], "first"),
        (["RULE:CN=(.*?),.*/no\\/body/"], "no/body"),
        ([], None),
    ],
)
def test_the_first_rule_that_matches_decides(rules: list[str], expected: str | None) -> None:
    assert user(*rules) == expected


@pytest.mark.parametrize("pattern", ["CN=orders", "O=Example", "orders", "CN=orders,O=Example", "(CN=orders|x)"])
def test_a_rule_that_matches_a_part_of_a_subject_maps_no_user(pattern: str) -> None:
    assert user(f"RULE:{pattern}/admin/") is None


def test_text_in_a_value_is_not_taken_for_an_attribute() -> None:
    # Given a certificate whose common name pretends to belong to another organisation
    forged = certificate(("organizationName", "Guests"), ("commonName", "eve,O=Example"))
    # Then a rule for that organisation does not match it
    assert distinguished_name(forged["subject"]) == "CN=eve\\,O=Example,O=Guests"
    assert user(r"RULE:CN=([^,\\]*),O=Example/$1/", shown=forged) is None


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("a+b", "a\\+b"),
        ('"', '\\"'),
        ("\\", "\\\\"),
        ("#x", "\\#x"),
        (" x ", "\\ x\\ "),
        ("a\0b", "a\\00b"),
        (" ", "\\ "),
    ],
)
def test_special_characters_of_a_value_are_escaped(text: str, written: str) -> None:
    assert distinguished_name(((("commonName", text),),)) == f"CN={written}"


@given(st.lists(st.tuples(st.sampled_from(["CN", "O"]), st.text(string.printable + "\0ü", max_size=9)), max_size=4))
def test_different_subjects_are_written_differently(attributes: list[tuple[str, str]]) -> None:
    # Given a subject
    text = distinguished_name([[one] for one in attributes])
    # When its text is parsed again, by RFC 2253
    read, at = [], 0
    while at < len(text):
        kind, _, _ = text[at:].partition("=")
        at += len(kind) + 1
        value = ""
        while at < len(text) and text[at] != ",":
            if text[at] == "\\":
                value, at = (value + "\0", at + 3) if text[at + 1 : at + 3] == "00" else (value + text[at + 1], at + 2)
            else:
                value, at = value + text[at], at + 1
        at += 1
        read.append((kind, value))
    # Then it is the same subject
    assert read[::-1] == attributes


@pytest.mark.parametrize(
    "shown",
    [None, {}, {"subject": ()}, certificate(("commonName", "x" * MAX_SUBJECT))],
    ids=["none", "empty", "no subject", "too long"],
)
def test_without_a_usable_subject_there_is_no_user(shown: dict[str, Any] | None) -> None:
    assert user("DEFAULT", shown=shown) is None


def test_a_rule_that_leaves_no_name_maps_no_user() -> None:
    assert user("RULE:CN=(x?).*/$1/") is None
    assert user("RULE:.*/a\0b/") is None


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("RULE:CN=(.*)/$1", "is no rule"),
        ("RULE:CN=(.*)/$1/X", "is no rule"),
        ("default", "is no rule"),
        ("RULE:CN=(.*/$1/", "cannot be read"),
        ("RULE:CN=(.*)/$2/", r"\$2 names a group, and the pattern has 1"),
        ("RULE:CN=(?!eve)(.*)/$1/", "cannot be matched in linear time"),
    ],
)
def test_an_invalid_rule_has_a_reason(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        parse_rule(text)


def test_a_subject_that_a_backtracking_engine_would_never_judge_is_judged() -> None:
    assert parse_rule("RULE:CN=(a+)+,O=x/$1/").user("CN=" + "a" * (MAX_SUBJECT - 3)) is None


def test_a_client_with_a_certificate_is_authenticated_without_a_login() -> None:
    # Given a gateway that demands a login
    talk = Talk(users={"orders": "secret"})
    # When a client comes whose certificate names a user
    talk.session.client.recognise("orders")
    # Then it is served
    talk.ask(METADATA, 8, {"topics": []})
    assert talk.closed is None
    assert talk.session.client.auth_state == TlsAuthenticated("orders")


@pytest.mark.parametrize(("name", "let_in"), [("orders", True), ("billing", False)])
def test_a_client_with_a_certificate_may_log_in_only_as_its_user(name: str, let_in: bool) -> None:
    # Given a client whose certificate names "orders"
    talk = Talk(users={"orders": "secret", "billing": "secret"})
    talk.session.client.recognise("orders")
    # When it logs in, too
    talk.ask(HANDSHAKE, 1, {"mechanism": "PLAIN"})
    talk.ask(AUTHENTICATE, 2, {"auth_bytes": f"\0{name}\0secret".encode()})
    # Then both users have to be equal
    assert (talk.closed is None) is let_in
    if talk.closed is not None:
        assert talk.closed.cause is Cause.AUTHENTICATION_FAILED


def test_a_client_with_a_certificate_has_its_users_rights() -> None:
    # Given a rule for the user of a client's certificate
    rule = {"principal": "User:orders", "resource_type": "topic", "name": "other", "operation": "write"}
    talk = Talk(replace(state(), rights=Rights((), (access_rule(rule | {"effect": "allow"}),))), users={})
    talk.session.client.recognise("orders")
    # When it writes to an allowed topic, and to a denied one
    talk.ask(PRODUCE, 9, produce(("orders", 0, batch()), ("other", 0, batch())))
    # Then the former write is forwarded, without a login
    (asked,) = talk.asked(EAST)
    assert asked.topics == ["other"]


def test_a_login_replaces_the_certificate() -> None:
    # Given a client whose certificate names its user, and that has logged in as well
    talk = Talk(users={"orders": "secret"})
    talk.session.client.recognise("orders")
    talk.ask(HANDSHAKE, 1, {"mechanism": "PLAIN"})
    talk.ask(AUTHENTICATE, 2, {"auth_bytes": b"\0orders\0secret"})
    # Then that login counts from then on, as for every other client (KIP-368)
    assert talk.closed is None
    assert talk.session.client.auth_state == Authenticated("orders", "PLAIN", math.inf)
