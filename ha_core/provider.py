"""Connection types and their forms, for Airflow."""

from typing import Any


def get_provider_info() -> dict[str, Any]:
    """The entry point `apache_airflow_provider`. Every Airflow process calls it at start, so it imports nothing."""
    return {
        "package-name": "switchyard",
        "name": "Switchyard",
        "description": "Moves live Kafka clients and topics between clusters, without the clients noticing.",
        "config": {
            "switchyard": {
                "description": "Switchyard, on schedulers, workers and DAG processors.",
                "options": {
                    "four_eyes": {
                        "description": "Runs that have a task approve change nothing until a user other than the one "
                        "who asked has approved them, whatever their form says.",
                        "version_added": "0.1.0",
                        "type": "boolean",
                        "example": "True",
                        "default": "False",
                    },
                    "fence_deadline_s": {
                        "description": "Seconds after which a fence that stands is an alarm.",
                        "version_added": "0.1.0",
                        "type": "float",
                        "example": "0.5",
                        "default": "1",
                    },
                    "rto_s": {
                        "description": "Seconds after which a move away from a dead cluster is an alarm.",
                        "version_added": "0.1.0",
                        "type": "float",
                        "example": "15",
                        "default": "60",
                    },
                },
            },
        },
        "connection-types": [
            {
                "connection-type": "switchyard_zookeeper",
                "hook-class-name": "ha_core.hooks.zookeeper.SwitchyardHook",
                "hook-name": "Switchyard state (ZooKeeper)",
                "ui-field-behaviour": {
                    "hidden-fields": ["schema", "login", "password"],
                    "relabeling": {"host": "ZooKeeper hosts", "port": "Port, if not in the hosts"},
                    "placeholders": {"host": "zk-1:2181,zk-2:2181,zk-3:2181", "port": "2181"},
                },
                "conn-fields": {
                    "root": {
                        "label": "Root node",
                        "schema": {"type": ["string", "null"], "default": "/switchyard"},
                        "description": "ZooKeeper node of the state.",
                    },
                    "security_file": {
                        "label": "Security file",
                        "schema": {"type": ["string", "null"]},
                        "description": "YAML of security profiles on the workers. Without it, the profile NAME of a "
                        "cluster is the connection switchyard_kafka_NAME.",
                    },
                },
            },
            {
                "connection-type": "switchyard_kafka",
                "hook-class-name": "ha_core.hooks.kafka.ServiceAccountHook",
                "hook-name": "Switchyard service account (Kafka)",
                "ui-field-behaviour": {
                    "hidden-fields": ["schema", "port"],
                    "relabeling": {"host": "Bootstrap, for the connection test only"},
                    "placeholders": {"host": "broker-1:9092,broker-2:9092", "login": "switchyard"},
                },
                "conn-fields": {
                    "mechanism": {
                        "label": "SASL mechanism",
                        "schema": {
                            "type": "string",
                            "enum": ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"],
                            "default": "PLAIN",
                        },
                    },
                    "token_file": {
                        "label": "Token file",
                        "schema": {"type": ["string", "null"]},
                        "description": "OAUTHBEARER: path of the token on workers, in place of login and password.",
                    },
                    "principal": {
                        "label": "Principal",
                        "schema": {"type": ["string", "null"]},
                        "description": "Brokers' name of the account, User:NAME. An ordinary account that copies "
                        "mirrors needs it: guards of copies spare it.",
                    },
                },
            },
            {
                "connection-type": "switchyard_platform",
                "hook-class-name": "ha_core.hooks.platform.PlatformHook",
                "hook-name": "Switchyard platform (users, rights, quotas)",
                "ui-field-behaviour": {
                    "relabeling": {"host": "PostgreSQL server", "schema": "Database"},
                    "placeholders": {"host": "db.example.org", "port": "5432", "schema": "switchyard"},
                },
                "conn-fields": {
                    "sqlite_file": {
                        "label": "SQLite file",
                        "schema": {"type": ["string", "null"]},
                        "description": "In place of a server: path on all workers and API servers.",
                    },
                },
            },
        ],
    }
