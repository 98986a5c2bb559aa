"""Applications of Apache Kafka in real use: Kafka Streams' word count, and a worker of Kafka Connect."""

import json
import os
import re
import subprocess
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from stack.jars import application_jars, class_path, kafka_jars
from stack.java import SHORT_LIVED, find_java
from stack.processes import die_with_parent

VERSION = "4.3.1"
WORD_COUNT = "org.apache.kafka.streams.examples.wordcount.WordCountDemo"
CONNECT_STANDALONE = "org.apache.kafka.connect.cli.ConnectStandalone"
_END_S = 60.0
_LOG4J = (
    "rootLogger.level = info\nrootLogger.appenderRef.out.ref = out\n"
    "appender.out.type = Console\nappender.out.name = out\n"
    "appender.out.layout.type = PatternLayout\nappender.out.layout.pattern = %d %p %c: %m%n\n"
)


class JavaApplication:
    """A running application, and its output."""

    def __init__(self, process: subprocess.Popen[bytes], log: Path) -> None:
        self._process, self._log = process, log

    @property
    def running(self) -> bool:
        return self._process.poll() is None

    def said(self) -> str:
        return self._log.read_text("utf-8", "replace")

    def lines(self, pattern: str) -> list[str]:
        """Matching lines of its log."""
        return [line for line in self.said().splitlines() if re.search(pattern, line)]

    def exceptions(self, name: str) -> list[str]:
        """Its output from each place that names this exception, up to the first stack frame."""
        return re.findall(rf"^\S*{name}: .*?(?=^\tat )", self.said(), re.DOTALL | re.MULTILINE)

    def stop(self) -> None:
        """End gracefully."""
        self._process.terminate()
        try:
            self._process.wait(_END_S)
        finally:
            self._process.kill()
            self._process.wait()


@contextmanager
def java_application(folder: Path, main: str, *settings: Mapping[str, str]) -> Iterator[JavaApplication]:
    """Runs a class with one file per group of settings, as its arguments."""
    folder.mkdir(parents=True)
    java = find_java()
    files = []
    for number, group in enumerate(settings):
        file = folder / f"{number}.properties"
        file.touch(mode=0o600)
        file.write_text("".join(f"{key}={value}\n" for key, value in group.items()), "utf-8")
        files.append(str(file))
    log4j, log = folder / "log4j2.properties", folder / "log"
    log4j.write_text(_LOG4J, "utf-8")
    folders = [fetched(VERSION, java, lambda _text: None) for fetched in (kafka_jars, application_jars)]
    path = os.pathsep.join(map(class_path, folders))
    flags = ["-Xmx256m", *SHORT_LIVED, "--enable-native-access=ALL-UNNAMED", f"-Dlog4j2.configurationFile={log4j}"]
    with log.open("wb") as out:
        process = subprocess.Popen(
            [java.binary, *flags, f"-Djava.io.tmpdir={folder}", "-cp", path, main, *files],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            cwd=folder,
            preexec_fn=die_with_parent(),  # noqa: PLW1509 - two system calls, no lock
        )
    application = JavaApplication(process, log)
    try:
        yield application
    finally:
        application.stop()


def ask_connect(port: int, path: str) -> Any:
    """An answer of the worker's REST API."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/{path}", timeout=10) as answer:
        return json.load(answer)
