"""Makes connections to clusters from Java clients' properties. One error lists all faults, before anything connects."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from ha_core.client_properties.key_stores import KeyStoreError, authorities, own
from ha_core.client_properties.librdkafka import LibrdkafkaSettings, librdkafka_settings
from ha_core.client_properties.reading import ClientReader
from ha_core.client_properties.settings import ClientSettings, TlsSettings
from ha_core.flows.configuration import ConfigurationError
from ha_core.flows.remarks import Remark
from ha_core.kafka.errors import SecurityProfileError
from ha_core.kafka.security import token_of
from ha_core.wire.sasl import SecurityProfile
from ha_core.wire.tls_files import TlsPem


@dataclass(frozen=True, slots=True)
class ClusterConnection:
    """
    :ivar bootstrap: `host:port[,host:port…]`
    :ivar profile: account and certificates for raw requests; the certificates are in memory.
    :ivar client_id: None: not set.
    :ivar request_timeout_ms: None: not set.
    """

    bootstrap: str
    profile: SecurityProfile
    client_id: str | None
    request_timeout_ms: int | None

    def librdkafka(self) -> LibrdkafkaSettings:
        """Settings of librdkafka; each call makes a new dict."""
        return librdkafka_settings(self.bootstrap, self.profile, self.client_id, self.request_timeout_ms)


def connections(
    clusters: Mapping[str, Mapping[str, str]], name: str
) -> tuple[dict[str, ClusterConnection], tuple[Remark, ...]]:
    """Read all clusters' properties, key stores and tokens. Nothing connects.

    :param clusters: cluster → properties of a Java client; the name "" stands for the only cluster.
    :param name: the file's name, for errors.
    :returns: cluster → connection, and remarks.
    :raises ConfigurationError: lists all errors.
    """
    found: dict[str, ClusterConnection] = {}
    remarks: list[Remark] = []
    for cluster, properties in clusters.items():
        reader = ClientReader(properties, cluster, name)
        settings = reader.read()
        if settings is not None and (connection := _connection(settings, reader)) is not None:
            found[cluster] = connection
        remarks += reader.remarks
    if errors := tuple(dict.fromkeys(remark for remark in remarks if remark.error)):
        raise ConfigurationError(name, errors)
    return found, tuple(dict.fromkeys(remarks))


def _connection(settings: ClientSettings, reader: ClientReader) -> ClusterConnection | None:
    account = settings.account
    if account.token_file:
        try:
            token_of(account)
        except SecurityProfileError as error:
            reader.add(f"sasl.oauthbearer.token.endpoint.url: {error}", error=True)
    if settings.tls is not None:
        account = replace(account, tls=_tls(settings.tls, reader))
    if any(remark.error for remark in reader.remarks):
        return None
    return ClusterConnection(settings.bootstrap, account, settings.client_id, settings.request_timeout_ms)


def _tls(settings: TlsSettings, reader: ClientReader) -> TlsPem:
    pem = TlsPem(check_names=settings.check_names)
    if settings.trusted is not None:
        try:
            trusted, remarks = authorities(settings.trusted)
            pem = replace(pem, authorities=trusted)
            for remark in remarks:
                reader.add(remark)
        except KeyStoreError as error:
            reader.add(str(error), error=True)
    if settings.own is not None:
        try:
            certificates, key = own(settings.own)
            pem = replace(pem, certificates=certificates, key=key)
        except KeyStoreError as error:
            reader.add(str(error), error=True)
    return pem
