"""A Java client's properties file, as Kafka's tools take it by `--command-config`, for `MirrorClient`."""

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
    :ivar settings: the first argument of `MirrorClient`.
    :ivar remarks: keys without effect.
    """

    settings: LibrdkafkaSettings
    remarks: tuple[Remark, ...]


def java_properties(
    file: Path, bootstrap: str | None = None, environment: Mapping[str, str] = os.environ
) -> JavaProperties:
    """Reads the file, its references to other ones, and its key stores.

    :param bootstrap: in place of `bootstrap.servers`; None: the file has it.
    :raises FlowError: the file cannot be read, or has keys that cannot be used; all of these are named.
    """
    found = {key: one.value for key, one in resolve(read(file), str(file), environment).items()}
    if bootstrap is not None:
        found["bootstrap.servers"] = bootstrap
    clients, remarks = connections({"": found}, str(file))
    return JavaProperties(clients[""].librdkafka(), remarks)
