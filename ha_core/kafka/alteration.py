"""Alters topics: their settings, and more partitions."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

from ha_core.kafka.brokers import Answers, Brokers
from ha_core.kafka.connection import BlockingConnection
from ha_core.kafka.errors import refusal
from ha_core.kafka.topics import MAX_CONFIGS_PER_REQUEST, OF_THE_TOPIC, TOPIC_RESOURCE, defaults_of
from ha_core.plan.facts.clusters import TopicSetting
from ha_core.wire.codes import RETRIABLE, ApiKey, ErrorCode, name_of

_SET, _DELETE = 0, 1
Refusals = dict[str, str]
"""topic → error of the cluster; topics without an error are missing."""


class TopicAlteration(Brokers):
    def settings(self, names: Collection[str], timeout_s: float | None = None) -> dict[str, dict[str, TopicSetting]]:
        """topic → every setting that the cluster knows, with its value there; topics that do not exist are missing."""
        asking = self.asking(timeout_s)
        resources = [
            {"resource_type": TOPIC_RESOURCE, "resource_name": name, "configuration_keys": None}
            for name in sorted(names)
        ]
        found: dict[str, dict[str, TopicSetting]] = {}
        defaults = defaults_of(asking) if resources else {}
        for _, answer in asking.calls(
            None, ApiKey.DESCRIBE_CONFIGS, resources, MAX_CONFIGS_PER_REQUEST, lambda some: {"resources": some}
        ):
            for described in answer["results"]:
                name, code = described["resource_name"], described["error_code"]
                if code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                    continue
                if code:
                    raise refusal(
                        asking.cluster, f"read the settings of topic {name}", code, described["error_message"]
                    )
                found[name] = {
                    entry["name"]: TopicSetting(
                        entry["value"], entry["config_source"] == OF_THE_TOPIC, defaults.get(entry["name"])
                    )
                    for entry in described["configs"]
                }
        return found

    def alter_settings(
        self,
        wanted: Mapping[str, Mapping[str, str | None]],
        still_ours: Callable[[], None],
        timeout_s: float | None = None,
    ) -> Refusals:
        """Sets these settings of topics, or removes those with None; leaves all others alone.

        :param still_ours: raises if the settings must not be changed any more; called before each request.
        """
        asking = self.asking(timeout_s)
        refused: Refusals = {}
        resources = [
            {
                "resource_type": TOPIC_RESOURCE,
                "resource_name": name,
                "configs": [
                    {"name": key, "config_operation": _DELETE if value is None else _SET, "value": value}
                    for key, value in sorted(changes.items())
                ],
            }
            for name, changes in sorted(wanted.items())
            if changes
        ]

        def message(some: Collection[Any]) -> dict[str, Any]:
            still_ours()
            return {"resources": some, "validate_only": False}

        for _, answer in asking.calls(
            None, ApiKey.INCREMENTAL_ALTER_CONFIGS, resources, MAX_CONFIGS_PER_REQUEST, message
        ):
            refused |= {
                result["resource_name"]: result["error_message"] or name_of(result["error_code"])
                for result in answer["responses"]
                if result["error_code"]
            }
        return refused

    def grow_topics(
        self, counts: Mapping[str, int], still_ours: Callable[[], None], timeout_s: float | None = None
    ) -> Refusals:
        """Gives each topic this number of partitions. The brokers place them.

        An error about a topic that has that many partitions by now is not reported.

        :param still_ours: as for `alter_settings`.
        """
        asking = self.asking(timeout_s)

        def ask(node: int, names: list[str]) -> Answers[str, str]:
            def talk(connection: BlockingConnection) -> dict[str, Any]:
                still_ours()
                topics = [{"name": name, "count": counts[name], "assignments": None} for name in names]
                message = {"topics": topics, "timeout_ms": asking.deadline.left_ms, "validate_only": False}
                return connection.call(ApiKey.CREATE_PARTITIONS, message)

            for result in asking.converse(node, talk)["results"]:
                code = result["error_code"]
                if code in RETRIABLE and code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                    again = asking.again(f"grow topic {result['name']}", code, result["error_message"])
                    assert again is not None
                    yield result["name"], again
                else:
                    yield result["name"], (result["error_message"] or name_of(code)) if code else ""

        errors = asking.rounds("grow the topics", [*counts], asking.controller, ask)
        refused = {name: why for name, why in errors.items() if why}
        topics = asking.metadata(refused)["topics"] if refused else ()
        for name in [topic["name"] for topic in topics if len(topic["partitions"]) >= counts[topic["name"]]]:
            del refused[name]
        return refused
