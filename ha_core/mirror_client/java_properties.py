"""Reads a Java client's properties file for `MirrorClient`, like the `--command-config` of Kafka's tools."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from ha_core.client_properties.connecting import connections
from ha_core.client_properties.librdkafka import LibrdkafkaSettings
from ha_core.flows.properties import read, resolve
from ha_core.flows.remarks import Remark


class JavaProperties(NamedTuple):
    """
    :ivar settings: first argument for `MirrorClient`.
    :ivar remarks: remarks about keys without effect.
    """

    settings: LibrdkafkaSettings
    remarks: tuple[Remark, ...]


def java_properties(
    file: Path, bootstrap: str | None = None, environment: Mapping[str, str] = os.environ
) -> JavaProperties:
    """Read the file, the files that it refers to, and its key stores.

    :param bootstrap: replaces `bootstrap.servers`; None: the file's value applies.
    :raises FlowError: the file cannot be read, or has keys that cannot be used; the text names all of these keys.
    """
    found = {key: one.value for key, one in resolve(read(file), str(file), environment).items()}
    if bootstrap is not None:
        found["bootstrap.servers"] = bootstrap
    clients, remarks = connections({"": found}, str(file))
    return JavaProperties(clients[""].librdkafka(), remarks)
