"""Shared by kafka-python and aiokafka: names of settings and errors, and rebalance listeners."""

import ssl
import time
from typing import Any

from stack.clients.options import Options
from stack.clients.recorder import EventRecorder
from stack.history.events import Assigned, Committed, Failed, LibraryRemark, Revoked

POLL_MS = 100
FLUSH_S = 60.0
_NOT_APPENDED = frozenset({"MessageSizeTooLargeError", "InvalidTopicError", "TopicAuthorizationFailedError"})
"""Errors after which the record cannot be in any log."""


def producer_settings(options: Options) -> dict[str, Any]:
    settings = _common(options)
    if options.compression and options.compression != "none":
        settings["compression_type"] = options.compression
    if options.acks:
        settings["acks"] = "all" if options.acks == "all" else int(options.acks)
    if options.idempotence:
        settings["enable_idempotence"] = options.idempotence == "on"
    if options.linger_ms >= 0:
        settings["linger_ms"] = options.linger_ms
    return settings | options.own_numbers_and_settings


def consumer_settings(options: Options, reset: str) -> dict[str, Any]:
    settings = _common(options) | {"auto_offset_reset": reset}
    if options.group:
        settings["group_id"] = options.group
    if options.commit == "batch" or not options.group:
        settings["enable_auto_commit"] = False
    if options.instance_id:
        settings["group_instance_id"] = options.instance_id
    if options.isolation:
        settings["isolation_level"] = options.isolation
    return settings | options.own_numbers_and_settings


def _common(options: Options) -> dict[str, Any]:
    settings: dict[str, Any] = {"bootstrap_servers": options.bootstrap, "client_id": options.identifier}
    if options.ca_file:
        context = ssl.create_default_context(cafile=options.ca_file)
        if options.certificate_file:
            context.load_cert_chain(options.certificate_file, options.key_file)
        settings |= {"security_protocol": options.protocol, "ssl_context": context}
    if options.user:
        settings |= {
            "security_protocol": options.protocol,
            "sasl_mechanism": options.mechanism,
            "sasl_plain_username": options.user,
            "sasl_plain_password": options.password,
        }
    return settings


def failure(options: Options, name: str, error: BaseException) -> Failed:
    """The failure of the record with this value id."""
    definite = type(error).__name__ in _NOT_APPENDED
    return Failed(options.client, time.time(), options.topic, name, definite, repr(error))


def committed(recorder: EventRecorder, options: Options, offsets: dict[Any, int]) -> None:
    """:param offsets: partition → next offset to read."""
    now = time.time()
    for part, offset in offsets.items():
        recorder.write(Committed(options.client, now, options.group, part.topic, part.partition, offset))


def not_committed(recorder: EventRecorder, options: Options, error: Exception) -> None:
    recorder.write(LibraryRemark(options.client, time.time(), f"commit: {error!r}"))


class Rebalances:
    """Methods of a rebalance listener: a mixin, since each library requires subclasses of its own class."""

    def __init__(self, recorder: EventRecorder, options: Options) -> None:
        self._recorder = recorder
        self._options = options

    def on_partitions_assigned(self, assigned: Any) -> None:
        self._recorder.write(Assigned(self._options.client, time.time(), _spots(assigned), self._options.group))

    def on_partitions_revoked(self, revoked: Any) -> None:
        self._recorder.write(Revoked(self._options.client, time.time(), _spots(revoked), self._options.group))


def _spots(parts: Any) -> tuple[tuple[str, int], ...]:
    return tuple(sorted((part.topic, part.partition) for part in parts))
