"""An issuer of tokens: its published keys, and tokens that it signs."""

import json
import time
from functools import cache
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

ISSUER, AUDIENCE = "https://issuer.example.org", "kafka"


@cache
def rsa_key(_name: str) -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(public_exponent=65537, key_size=2048)


@cache
def ec_key() -> ec.EllipticCurvePrivateKey:
    return ec.generate_private_key(ec.SECP256R1())


def public_pem(name: str) -> bytes:
    return rsa_key(name).public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)


def jwk(name: str, **more: Any) -> dict[str, Any]:
    public: dict[str, Any] = jwt.algorithms.RSAAlgorithm.to_jwk(rsa_key(name).public_key(), as_dict=True)
    return {**public, "kid": name, **more}


def ec_jwk() -> dict[str, Any]:
    public: dict[str, Any] = jwt.algorithms.ECAlgorithm.to_jwk(ec_key().public_key(), as_dict=True)
    return {**public, "kid": "curve"}


def key_set(*keys: dict[str, Any]) -> bytes:
    return json.dumps({"keys": keys or [jwk("first"), ec_jwk()]}).encode()


def claims(**other: Any) -> dict[str, Any]:
    """Claims of a valid token, less those that are None."""
    now = int(time.time())
    said = {"iss": ISSUER, "aud": AUDIENCE, "sub": "alice", "iat": now, "exp": now + 3600, **other}
    return {name: value for name, value in said.items() if value is not None}


def token(
    key: Any = None, algorithm: str = "RS256", kid: str | None = "first", headers: Any = None, **other: Any
) -> str:
    said = {} if kid is None else {"kid": kid}
    return jwt.encode(claims(**other), key or rsa_key("first"), algorithm, headers={**said, **(headers or {})})
