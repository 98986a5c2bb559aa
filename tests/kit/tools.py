"""Kafka's command-line tools."""

import subprocess
from typing import NamedTuple

from stack.jars import class_path, kafka_jars
from stack.java import SHORT_LIVED, find_java

GROUPS = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
LOG_DIRS = "org.apache.kafka.tools.LogDirsCommand"
TRANSACTIONS = "org.apache.kafka.tools.TransactionsCommand"
ACLS = "org.apache.kafka.tools.AclCommand"
"""Of 4.x."""
CONFIGS = "kafka.admin.ConfigCommand"
TOPICS = "org.apache.kafka.tools.TopicCommand"
CLUSTER = "org.apache.kafka.tools.ClusterTool"
CONSOLE_CONSUMER = "org.apache.kafka.tools.consumer.ConsoleConsumer"


class ToolOutput(NamedTuple):
    exit_code: int
    out: str
    err: str

    def rows(self) -> list[list[str]]:
        """The columns of each line of a table, without its title."""
        return [line.split() for line in self.out.splitlines() if line.strip()][1:]


def tool(version: str, name: str, bootstrap: str, *arguments: str, timeout_s: float = 120.0) -> ToolOutput:
    """Runs a tool of this version of Kafka to its end."""
    java = find_java()
    jars = kafka_jars(version, java, lambda _text: None)
    path = class_path(jars)
    small = ["-Xmx256m", *SHORT_LIVED]
    command = [java.binary, *small, "-cp", path, name, *arguments, "--bootstrap-server", bootstrap]
    if name == TRANSACTIONS:  # its options precede its command
        command = [java.binary, *small, "-cp", path, name, "--bootstrap-server", bootstrap, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=timeout_s, check=False)
    return ToolOutput(done.returncode, done.stdout, done.stderr)
