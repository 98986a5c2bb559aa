"""Makes librdkafka's settings for a connection: certificates and keys in memory, tokens from their file."""

import binascii
import json
import time
from base64 import urlsafe_b64decode
from collections.abc import Callable, Mapping
from typing import Any

from ha_core.kafka.security import token_of
from ha_core.wire.sasl import SecurityProfile
from ha_core.wire.tls_files import TlsPem

_TIMEOUT_MS = (10, 300_000)
"""Lowest and highest valid `socket.timeout.ms`."""
_OPAQUE_TOKEN_S = 60.0
"""Seconds after which a token without an expiry time is read from its file again."""


class LibrdkafkaSettings(dict[str, Any]):
    """Settings for producers and consumers of confluent-kafka. The repr shows no value."""

    def __repr__(self) -> str:
        return f"LibrdkafkaSettings({', '.join(sorted(self))})"

    def __or__(self, other: Mapping[str, Any]) -> "LibrdkafkaSettings":  # type: ignore[override]
        return LibrdkafkaSettings({**self, **other})


def librdkafka_settings(
    bootstrap: str, profile: SecurityProfile, client_id: str | None = None, request_timeout_ms: int | None = None
) -> LibrdkafkaSettings:
    """:param profile: account and certificates; certificates, if any, are in memory."""
    settings = LibrdkafkaSettings({"bootstrap.servers": bootstrap, "security.protocol": _protocol(profile)})
    if client_id is not None:
        settings["client.id"] = client_id
    if request_timeout_ms is not None:
        least, most = _TIMEOUT_MS
        settings["socket.timeout.ms"] = min(max(request_timeout_ms, least), most)
    if isinstance(profile.tls, TlsPem):
        settings.update(_tls(profile.tls))
    if profile.mechanism is not None:
        settings.update(_login(profile))
    return settings


def _protocol(profile: SecurityProfile) -> str:
    transport = "PLAINTEXT" if profile.tls is None else "SSL"
    return transport if profile.mechanism is None else f"SASL_{transport}"


def _tls(pem: TlsPem) -> dict[str, Any]:
    settings = {"ssl.endpoint.identification.algorithm": "https" if pem.check_names else "none"}
    # librdkafka's own OpenSSL has no authorities; "probe" finds the system's.
    settings |= {"ssl.ca.location": "probe"} if pem.authorities is None else {"ssl.ca.pem": pem.authorities}
    if pem.certificates:
        settings |= {"ssl.certificate.pem": pem.certificates, "ssl.key.pem": pem.key}
    return settings


def _login(profile: SecurityProfile) -> dict[str, Any]:
    assert profile.mechanism is not None
    if profile.token_file:
        return {"sasl.mechanism": profile.mechanism, "oauth_cb": _token(profile)}
    return {
        "sasl.mechanism": profile.mechanism,
        "sasl.username": profile.username,
        "sasl.password": profile.password,
    }


def _token(profile: SecurityProfile) -> Callable[[str], tuple[str, float]]:
    def current(_config: str) -> tuple[str, float]:
        token = token_of(profile)
        return token, _end_of(token)

    return current


def _end_of(token: str) -> float:
    """Expiry time in seconds since the epoch: the token's own (JWT), or else one soon, so that it is read again."""
    claims = token.split(".")
    try:
        end = json.loads(urlsafe_b64decode(f"{claims[1]}==")).get("exp")
    except (IndexError, ValueError, AttributeError, binascii.Error):
        end = None
    return float(end) if isinstance(end, (int, float)) else time.time() + _OPAQUE_TOKEN_S
