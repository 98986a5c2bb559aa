"""Kafka's MirrorClient and RemoteClusterUtils, unmodified: runs `JavaMirrorClient` of this folder."""

import os
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path

from stack.clients.java_programs import COMPILER, compiler_jars
from stack.errors import StackError
from stack.jars import class_path, kafka_jars
from stack.java import SHORT_LIVED, find_java

_PROGRAM = Path(__file__).with_name("JavaMirrorClient.java")
_TIMEOUT_S = 120.0


def ask(
    version: str, properties: Mapping[str, str], alias: str, group: str, folder: Path, more: Iterable[str] = ()
) -> dict[str, str]:
    """Answers to all questions about an upstream cluster and a group of it, as Java prints them.

    :param version: of Kafka.
    :param properties: of MirrorClient.
    :param more: further aliases, whose hops are asked (`hops-ALIAS`).
    :raises StackError: the program failed.
    """
    file = folder / "mirror-client.properties"
    file.write_text("".join(f"{key}={value}\n" for key, value in properties.items()), "utf-8")
    java = find_java()
    jars = [class_path(kafka_jars(version, java, lambda _: None)), *map(str, compiler_jars())]
    command = [java.binary, *SHORT_LIVED, "-cp", os.pathsep.join(jars), COMPILER, str(_PROGRAM), _PROGRAM.stem]
    done = subprocess.run(
        [*command, str(file), alias, group, *more],
        capture_output=True,
        text=True,
        timeout=_TIMEOUT_S,
        check=False,
    )
    if done.returncode != 0:
        raise StackError(f"Kafka's MirrorClient {version} failed:\n{done.stderr[-2000:]}")
    return dict(line.split("\t", 1) for line in done.stdout.splitlines() if "\t" in line)
