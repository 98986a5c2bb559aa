"""The sides of the mirror's benchmark: each copies a topic from `east` to `west` while its block runs."""

from __future__ import annotations

import itertools
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from bench.copiers import CopyTask, Program, copy_loop
from bench.ground import BenchError, Say, Scale, create_topic, direct
from bench.mirror_maker import DEFAULTS, mirror_maker, tuned
from ha_core.kafka.admin import Admin
from ha_core.kafka.errors import KafkaAdminError
from stack.harness import Stack
from stack.processes import run

PARTITIONS = 4
_COMMAND_S = 120.0


class CopierSide(NamedTuple):
    key: str
    name: str
    copies: Callable[[Ground, str, str], AbstractContextManager[tuple[Program, str]]]
    """(ground, topic, codec) → the copier, and the topic in the target."""


@dataclass(frozen=True)
class Ground:
    """
    :ivar job: runs all the time, with nothing to copy while another side is measured.
    :ivar until_s: no measurement starts after it (monotonic).
    """

    stack: Stack
    folder: Path
    target: Admin
    job: Program
    scale: Scale
    say: Say
    until_s: float
    troubles: list[str] = field(default_factory=list)
    _numbers: Iterator[int] = field(default_factory=itertools.count)

    @property
    def east(self) -> str:
        return direct(self.stack, "east")

    @property
    def west(self) -> str:
        return direct(self.stack, "west")

    def next(self) -> int:
        return next(self._numbers)

    def attempt(self, what: str, measure: Callable[[], None]) -> None:
        """Report a measurement that fails, or has no time left, and go on with the next one."""
        if time.monotonic() > self.until_s:
            self.troubles.append(f"{what} is not measured: there was no time left")
            return
        try:
            measure()
        except (BenchError, KafkaAdminError) as error:
            self.say(f"{what}: {error}")
            self.troubles.append(f"{what} is not measured: {str(error).partition(chr(10))[0]}")

    def delete(self, cluster: str, topic: str) -> None:
        from confluent_kafka.admin import AdminClient

        admin = AdminClient({"bootstrap.servers": direct(self.stack, cluster), "log_level": 3})
        admin.delete_topics([topic])[topic].result(30)


def command(stack: Stack, *words: str) -> None:
    """Runs `switchyard`. :raises BenchError: it did not succeed."""
    name = str(Path(sys.executable).with_name("switchyard"))
    done = run([name, *words, "--reason", "benchmark", "--yes", "--zookeeper", stack.zookeeper], _COMMAND_S)
    if done.returncode != 0:
        raise BenchError(f"switchyard {' '.join(words)} failed:\n{done.stdout[-1000:]}{done.stderr[-1000:]}")


@contextmanager
def _default_maker(ground: Ground, topic: str, codec: str) -> Iterator[tuple[Program, str]]:
    alias = f"d{ground.next()}"
    with mirror_maker(DEFAULTS, alias, ground.east, ground.west, topic, ground.folder) as manager:
        yield manager, f"{alias}.{topic}"


@contextmanager
def _tuned_maker(ground: Ground, topic: str, codec: str) -> Iterator[tuple[Program, str]]:
    alias = f"t{ground.next()}"
    with mirror_maker(tuned(PARTITIONS, codec), alias, ground.east, ground.west, topic, ground.folder) as manager:
        yield manager, f"{alias}.{topic}"


@contextmanager
def _loop(ground: Ground, topic: str, codec: str) -> Iterator[tuple[Program, str]]:
    create_topic(ground.west, topic, PARTITIONS)
    task = CopyTask(ground.east, ground.west, topic, PARTITIONS, f"link-{ground.next()}")
    with copy_loop(task, ground.folder) as manager:
        yield manager, topic


@contextmanager
def _job(ground: Ground, topic: str, codec: str) -> Iterator[tuple[Program, str]]:
    command(ground.stack, "mirror", "link", topic, "--from", "east", "--to", "west")
    try:
        yield ground.job, topic
    finally:
        command(ground.stack, "mirror", "unlink", topic, "--to", "west")


TUNED, LOOP, JOB = "tuned", "loop", "job"
SIDES = (
    CopierSide("defaults", "MirrorMaker 2, defaults", _default_maker),
    CopierSide(TUNED, "MirrorMaker 2, tuned", _tuned_maker),
    CopierSide(LOOP, "ours, copy loop alone", _loop),
    CopierSide(JOB, "ours, Spark job", _job),
)
