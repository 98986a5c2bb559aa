"""The TLS files of a stack: certificates of one authority, in the stack's folder."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

from ha_core.wire.tls_files import TlsFiles
from stack.certificates import Authority, Certificate
from stack.parts import LOOPBACK

CLIENTS = "Switchyard clients"
"""Organisation of the certificates of gateways' users."""
CLIENT_RULE = rf"RULE:CN=([^,\\]+),O={CLIENTS}/$1/"
_HOSTS = (LOOPBACK, "localhost")


@dataclass(frozen=True)
class StackTls:
    """
    :ivar authority: the authority's certificate.
    :ivar service: certificate of gateways, commands and jobs, for brokers and ZooKeeper.
    :ivar clients: user → certificate for the gateways.
    """

    authority: Path
    broker: Certificate
    zookeeper: Certificate
    gateway: Certificate
    service: Certificate
    clients: Mapping[str, Certificate]

    @classmethod
    def make(cls, folder: Path, service_user: str, users: Collection[str]) -> StackTls:
        authority = Authority(folder)
        return cls(
            authority=authority.file,
            broker=authority.issue("broker", _HOSTS),
            zookeeper=authority.issue("zookeeper", _HOSTS),
            gateway=authority.issue("gateway", _HOSTS),
            service=authority.issue(service_user),
            clients={user: authority.issue(user, organisation=CLIENTS, file=f"client-{user}") for user in users},
        )

    @property
    def as_client(self) -> dict[str, str]:
        """`tls` of a security profile, and of ZooKeeper's security."""
        return {
            "ca_file": str(self.authority),
            "certificate_file": str(self.service.certificate),
            "key_file": str(self.service.key),
        }

    @property
    def files(self) -> TlsFiles:
        return TlsFiles(**self.as_client)

    def java(self, own: Certificate, prefix: str = "ssl.", words: str = "keystore truststore") -> dict[str, str]:
        """Settings of Kafka (or, with other words, of ZooKeeper) for a server that requires client certificates."""
        key_store, trust_store = words.split()
        return {
            f"{prefix}{key_store}.type": "PEM",
            f"{prefix}{key_store}.location": str(own.together),
            f"{prefix}{trust_store}.type": "PEM",
            f"{prefix}{trust_store}.location": str(self.authority),
        }

    def document(self) -> dict[str, object]:
        """The TLS part in the output of `up`."""
        return {
            "ca_file": str(self.authority),
            "clients": {
                user: {"certificate_file": str(certificate.certificate), "key_file": str(certificate.key)}
                for user, certificate in self.clients.items()
            },
        }
