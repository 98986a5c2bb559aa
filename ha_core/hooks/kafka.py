"""The service account of one security profile, as an Airflow connection."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseHook

if TYPE_CHECKING:
    from ha_core.wire.sasl import SecurityProfile

CONNECTION_PREFIX = "switchyard_kafka_"
"""A cluster's security profile NAME is the connection `switchyard_kafka_NAME`."""


class ServiceAccountHook(BaseHook):  # type: ignore[misc]  # airflow is not typed here
    """Connection type `switchyard_kafka`: login and password are the account, extra `mechanism` is its mechanism.
    For OAUTHBEARER, extra `token_file` names a token on the workers. Extra `tls` names the TLS files:
    `{"ca_file": …}`; extra `principal` is the account's name at brokers.

    The bootstrap address is only needed for the connection test: clusters have their own addresses.
    """

    conn_name_attr = "kafka_conn_id"
    default_conn_name = "switchyard_kafka_sasl"
    conn_type = "switchyard_kafka"
    hook_name = "Switchyard service account (Kafka)"

    def __init__(self, kafka_conn_id: str = default_conn_name) -> None:
        super().__init__()
        self.kafka_conn_id = kafka_conn_id

    def get_conn(self) -> SecurityProfile:
        """The security profile of the connection.

        :raises SecurityProfileError: names connection, key and remedy.
        """
        return _profile(self.get_connection(self.kafka_conn_id))

    def test_connection(self) -> tuple[bool, str]:
        from ha_core.kafka.admin import Admin
        from ha_core.kafka.errors import KafkaAdminError, SecurityProfileError
        from ha_core.model import Cluster

        connection = self.get_connection(self.kafka_conn_id)
        parts = filter(None, (connection.host or "").split(","))
        bootstrap = ",".join(part if ":" in part else f"{part}:{connection.port or 9092}" for part in parts)
        try:
            profile = _profile(connection)
            if not bootstrap:
                account = profile.username or profile.token_file or "(none)"
                return True, f"The account {account} is complete; without a bootstrap address it is not tested."
            with Admin(Cluster(name="connection-test", bootstrap=bootstrap), profile) as admin:
                probe = admin.probe(timeout_s=5.0)
        except (SecurityProfileError, KafkaAdminError, ValueError) as error:
            return False, str(error)
        if not probe.reachable:
            return False, f"{bootstrap} does not serve this account: {probe.error}"
        return True, f"{bootstrap} answers; number of brokers: {len(probe.brokers)}."


def _profile(connection: Any) -> SecurityProfile:
    from ha_core.kafka.security import profiles

    name = connection.conn_id
    extra = connection.extra_dejson
    mechanism = extra.get("mechanism") or ("PLAIN" if connection.login else None)
    account = {"mechanism": mechanism, "username": connection.login, "password": connection.password}
    if extra.get("token_file"):
        account = {"mechanism": mechanism, "token_file": extra["token_file"]}
    beside = {key: extra[key] for key in ("tls", "principal") if extra.get(key) not in (None, "")}
    found = {name: ({} if mechanism is None else account) | beside}
    return profiles(found, f"connection {name}", secrets=("password",))[name]
