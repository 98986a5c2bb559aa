"""Settings of confluent-kafka (librdkafka)."""

import json
import time
from base64 import urlsafe_b64decode
from pathlib import Path
from typing import Any

from ha_core.wire.sasl import SecurityProfile
from ha_core.wire.tls_files import TlsPem
from stack.clients.options import Options
from stack.clients.recorder import EventRecorder
from stack.history.events import LibraryRemark


def client_settings(profile: SecurityProfile) -> dict[str, Any]:
    """A security profile as librdkafka's settings."""
    tls = profile.tls
    assert not isinstance(tls, TlsPem)
    named = (
        {}
        if tls is None
        else {
            "ssl.ca.location": tls.ca_file,
            "ssl.certificate.location": tls.certificate_file,
            "ssl.key.location": tls.key_file,
        }
    )
    files = {key: value for key, value in named.items() if value is not None}
    if profile.mechanism is None:
        return {} if tls is None else {"security.protocol": "SSL", **files}
    protocol = "SASL_PLAINTEXT" if tls is None else "SASL_SSL"
    if profile.token_file:
        return {
            "security.protocol": protocol,
            "sasl.mechanism": profile.mechanism,
            "oauth_cb": lambda _: token_in(Path(profile.token_file)),
            **files,
        }
    return {
        "security.protocol": protocol,
        "sasl.mechanism": profile.mechanism,
        "sasl.username": profile.username,
        "sasl.password": profile.password,
        **files,
    }


def token_in(file: Path) -> tuple[str, float]:
    """The current token of the file, and its expiry (seconds since the epoch), for the library's callback."""
    token = file.read_text("ascii").strip()
    claims = json.loads(urlsafe_b64decode(token.split(".")[1] + "=="))
    return token, float(claims["exp"])


def common(options: Options, recorder: EventRecorder) -> dict[str, Any]:
    """Settings of producers and consumers; remarks of the library go into the history."""

    def remark(error: Any) -> None:
        recorder.write(LibraryRemark(options.client, time.time(), str(error), fatal=bool(error.fatal())))

    settings: dict[str, Any] = {
        "bootstrap.servers": options.bootstrap,
        "client.id": options.identifier,
        "error_cb": remark,
        "log_level": 3,
    }
    if options.ca_file:
        settings |= {"security.protocol": options.protocol, "ssl.ca.location": options.ca_file}
    if options.certificate_file:
        settings |= {"ssl.certificate.location": options.certificate_file, "ssl.key.location": options.key_file}
    if options.user:
        settings |= {
            "security.protocol": options.protocol,
            "sasl.mechanism": options.mechanism,
            "sasl.username": options.user,
            "sasl.password": options.password,
        }
    return settings


def producer(options: Options, recorder: EventRecorder) -> dict[str, Any]:
    settings = common(options, recorder)
    if options.compression:
        settings["compression.type"] = options.compression
    if options.acks:
        settings["acks"] = options.acks
    if options.idempotence:
        settings["enable.idempotence"] = options.idempotence == "on"
    if options.linger_ms >= 0:
        settings["linger.ms"] = options.linger_ms
    return settings | options.own_settings


def consumer(options: Options, recorder: EventRecorder) -> dict[str, Any]:
    settings = common(options, recorder)
    settings["group.id"] = options.group or f"{options.client}-alone"  # required by the library even for assign()
    settings["auto.offset.reset"] = options.reset
    if options.commit == "batch" or not options.group:
        settings["enable.auto.commit"] = False
    if options.instance_id:
        settings["group.instance.id"] = options.instance_id
    if options.isolation:
        settings["isolation.level"] = options.isolation
    return settings | options.own_settings
