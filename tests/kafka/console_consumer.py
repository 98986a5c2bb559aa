"""Kafka's own console consumer, unmodified."""

import os
import subprocess
from pathlib import Path

from ha_core.model.isolation import Isolation
from ha_core.wire.sasl import SecurityProfile
from stack.clients.java_tools import CLIENT_VERSION
from stack.jars import class_path, kafka_jars
from stack.java import SHORT_LIVED, find_java

_LEVELS = {Isolation.COMMITTED: "read_committed", Isolation.UNCOMMITTED: "read_uncommitted"}
_IDLE_MS = 15_000
"""It ends after so long without a record."""
_TIMEOUT_S = 120.0


def console_consumer(
    bootstrap: str, account: SecurityProfile, topic: str, partition: int, isolation: Isolation, folder: Path
) -> dict[int, str]:
    """Offset → timestamp, headers, key and value of each record of the partition, as the consumer prints them."""
    config = folder / "console-consumer.properties"
    config.touch(mode=0o600)
    config.write_text(
        f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism={account.mechanism}\n"
        "sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required "
        f'username="{account.username}" password="{account.password}";\n'
    )
    java = find_java()
    jars = kafka_jars(CLIENT_VERSION, java, lambda _: None)
    shown = [f"print.{what}=true" for what in ("offset", "timestamp", "headers", "key")]
    done = subprocess.run(
        [
            *(java.binary, *SHORT_LIVED, "-cp", os.pathsep.join([class_path(jars)])),
            *("org.apache.kafka.tools.consumer.ConsoleConsumer", "--bootstrap-server", bootstrap),
            *("--command-config", str(config), "--topic", topic, "--partition", str(partition)),
            *("--offset", "earliest", "--isolation-level", _LEVELS[isolation], "--timeout-ms", str(_IDLE_MS)),
            *(argument for one in shown for argument in ("--formatter-property", one)),
        ],
        capture_output=True,
        text=True,
        timeout=_TIMEOUT_S,
        check=False,
    )
    found: dict[int, str] = {}
    for line in done.stdout.splitlines():
        fields = line.split("\t")
        offset = next((field for field in fields if field.startswith("Offset:")), "")
        if not offset:  # the tool logs the end of its patience
            continue
        found[int(offset.removeprefix("Offset:"))] = "\t".join(field for field in fields if field != offset)
    assert f"Processed a total of {len(found)} messages" in done.stderr, done.stderr[-2000:]
    return found
