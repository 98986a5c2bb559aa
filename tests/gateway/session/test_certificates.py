"""From the certificate that a client shows to its user: subjects, rules, and what a session makes of it."""

from __future__ import annotations

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
    """As ssl tells it: one attribute after the other, the widest first."""
    return {"subject": tuple(((kind, text),) for kind, text in attributes), "notAfter": "Jan  1 00:00:00 2100 GMT"}


ORDERS = certificate(("countryName", "CH"), ("organizationName", "Example"), ("commonName", "orders"))


def user(*rules: str, shown: dict[str, Any] | None = ORDERS) -> str | None:
    return user_of([parse_rule(rule) for rule in rules], shown)


def test_a_subject_is_written_as_brokers_write_it() -> None:
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
def test_a_rule_that_matches_a_part_of_a_subject_maps_nobody(pattern: str) -> None:
    assert user(f"RULE:{pattern}/admin/") is None


def test_what_stands_in_a_value_is_not_taken_for_an_attribute() -> None:
    # Given a certificate whose common name pretends to belong to another organisation
    forged = certificate(("organizationName", "Guests"), ("commonName", "eve,O=Example"))
    # Then a rule for that organisation does not speak of it
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
def test_no_two_subjects_are_written_alike(attributes: list[tuple[str, str]]) -> None:
    # Given a subject
    text = distinguished_name([[one] for one in attributes])
    # When what was written is read back, as RFC 2253 reads it
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


def test_a_rule_that_leaves_no_name_maps_nobody() -> None:
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
    ],
)
def test_a_rule_that_cannot_be_read_says_why(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        parse_rule(text)


def test_a_client_with_a_certificate_is_in_without_a_login() -> None:
    # Given a gateway that wants a login
    talk = Talk(users={"orders": "secret"})
    # When a client comes whose certificate says who it is
    talk.session.recognise("orders")
    # Then it is served
    talk.ask(METADATA, 8, {"topics": []})
    assert talk.closed is None
    assert talk.session.entry == TlsAuthenticated("orders")


@pytest.mark.parametrize(("name", "let_in"), [("orders", True), ("billing", False)])
def test_a_client_with_a_certificate_may_log_in_as_itself_only(name: str, let_in: bool) -> None:
    # Given a client whose certificate has said that it is "orders"
    talk = Talk(users={"orders": "secret", "billing": "secret"})
    talk.session.recognise("orders")
    # When it logs in, too
    talk.ask(HANDSHAKE, 1, {"mechanism": "PLAIN"})
    talk.ask(AUTHENTICATE, 2, {"auth_bytes": f"\0{name}\0secret".encode()})
    # Then the two have to be one
    assert (talk.closed is None) is let_in
    if talk.closed is not None:
        assert talk.closed.cause is Cause.AUTHENTICATION_FAILED


def test_a_client_with_a_certificate_may_do_what_its_user_may() -> None:
    # Given a rule for the user whose certificate a client has shown
    rule = {"principal": "User:orders", "resource_type": "topic", "name": "other", "operation": "write"}
    talk = Talk(replace(state(), rights=Rights((), (access_rule(rule | {"effect": "allow"}),))), users={})
    talk.session.recognise("orders")
    # When it writes to what it may, and to what it may not
    talk.ask(PRODUCE, 9, produce(("orders", 0, batch()), ("other", 0, batch())))
    # Then the one goes on, without a login
    (asked,) = talk.asked(EAST)
    assert asked.topics == ["other"]


def test_a_login_takes_the_place_of_the_certificate() -> None:
    # Given a client whose certificate has said who it is, and that has logged in as well
    talk = Talk(users={"orders": "secret"})
    talk.session.recognise("orders")
    talk.ask(HANDSHAKE, 1, {"mechanism": "PLAIN"})
    talk.ask(AUTHENTICATE, 2, {"auth_bytes": b"\0orders\0secret"})
    # Then it is known by that login from there on, as everybody else (KIP-368)
    assert talk.closed is None
    assert talk.session.entry == Authenticated("orders", "PLAIN", math.inf)
