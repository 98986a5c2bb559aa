"""Keys of passwords, as RFC 5802 and RFC 7677 derive them."""

import hashlib
import hmac
from base64 import b64decode, b64encode

import pytest

from gateway.authentication.accounts import Phantoms
from ha_core.platform.errors import InvalidError
from ha_core.platform.scram import MIN_ITERATIONS, derive, derive_all

FIRST = "n=user,r=rOprNGfwEbeRWgbNEkqO,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,"
AUTH_MESSAGE = f"{FIRST}s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096,c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"


def test_the_example_of_rfc_7677_is_reproduced() -> None:
    # When keys are derived from its password, salt and iterations
    keys = derive("pencil", "SCRAM-SHA-256", b64decode("W22ZaJ0SNY7soEsUEjb6gQ=="), 4096)
    # Then they yield its signature and accept its proof
    signature = hmac.digest(b64decode(keys.server_key), AUTH_MESSAGE.encode(), "sha256")
    assert b64encode(signature) == b"6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="
    stored_key = b64decode(keys.stored_key)
    proof = b64decode("dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=")
    client_signature = hmac.digest(stored_key, AUTH_MESSAGE.encode(), "sha256")
    client_key = bytes(one ^ other for one, other in zip(proof, client_signature, strict=True))
    assert hashlib.sha256(client_key).digest() == stored_key


def test_both_mechanisms_get_keys_with_their_own_salts() -> None:
    first, second = derive_all("correct horse", MIN_ITERATIONS), derive_all("correct horse", MIN_ITERATIONS)

    assert set(first) == {"SCRAM-SHA-256", "SCRAM-SHA-512"}
    salts = {keys.salt for made in (first, second) for keys in made.values()}
    assert len(salts) == 4


def test_a_salt_has_the_form_of_those_of_unknown_users() -> None:
    # Given both
    phantom = Phantoms(b"a secret of all gateways", MIN_ITERATIONS).key("SCRAM-SHA-256", "nobody").salt
    # When one is made
    salt = b64decode(derive_all("correct horse", MIN_ITERATIONS)["SCRAM-SHA-256"].salt)
    # Then both are numbers of at most 130 bits in base 36
    assert all(int(one, 36) < 1 << 130 and one == one.lower() for one in (phantom, salt))


@pytest.mark.parametrize(
    ("password", "mechanism", "iterations"),
    [
        ("", "SCRAM-SHA-256", 4096),
        ("line\n", "SCRAM-SHA-256", 4096),
        ("x" * 1025, "SCRAM-SHA-256", 4096),
        ("\ud800", "SCRAM-SHA-256", 4096),
        ("good", "SCRAM-SHA-1", 4096),
        ("good", "SCRAM-SHA-256", 4095),
        ("good", "SCRAM-SHA-256", 16_385),
    ],
)
def test_values_that_kafka_does_not_accept_are_refused(password: str, mechanism: str, iterations: int) -> None:
    with pytest.raises(InvalidError) as refused:
        derive(password, mechanism, b"salt", iterations)

    assert not password or password not in str(refused.value)
