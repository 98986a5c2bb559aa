"""Kafka's jars: locked, fetched once per machine, verified before use.

A lock file names every module of one version. Ivy (from pyspark's jars) fetches exactly these, without reading a POM;
each file is compared with the lock. A folder with its marker was verified when it was made and is used as it is.
"""

import fcntl
import os
import re
import shutil
import subprocess
import sys
import time
import xml.etree.ElementTree as ET
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path
from xml.sax.saxutils import quoteattr

from stack.errors import StackError
from stack.java import SHORT_LIVED, Java, find_java, trust_arguments
from stack.layout import cache_dir
from stack.processes import run

Say = Callable[[str], None]
_LOCKS = Path(__file__).resolve().parent
_MARKER = ".complete"
_FETCH_TIMEOUT_S = 900.0


@dataclass(frozen=True)
class Module:
    """One jar of a lock file."""

    organisation: str
    name: str
    revision: str
    sha256: str

    @property
    def jar(self) -> str:
        return f"{self.organisation}.{self.name}-{self.revision}.jar"


def locked_versions() -> list[str]:
    """The Kafka versions that have a lock file."""
    return sorted(path.name.removeprefix("kafka-").removesuffix(".lock") for path in _LOCKS.glob("kafka-*.lock"))


def read_lock(path: Path) -> list[Module]:
    modules = []
    for number, line in enumerate(path.read_text("utf-8").splitlines(), 1):
        if not line or line.startswith("#"):
            continue
        fields = line.split()
        if len(fields) != 4 or not re.fullmatch(r"[0-9a-f]{64}", fields[3]):
            raise StackError(f"{path.name}:{number}: not 'organisation name revision sha256': renew the lock file")
        modules.append(Module(*fields))
    return modules


def pyspark_jars() -> Path:
    """The folder of pyspark's jars, with Ivy and ZooKeeper."""
    package = find_spec("pyspark")
    if package is None or package.origin is None:
        raise StackError("pyspark is not installed, and it brings ZooKeeper and Ivy: pip install -r requirements.txt")
    return Path(package.origin).parent / "jars"


def class_path(folder: Path) -> str:
    """The class path of all jars in a folder."""
    return os.pathsep.join(map(str, sorted(folder.glob("*.jar"))))


def kafka_jars(version: str, java: Java, say: Say) -> Path:
    """The folder with the verified jars of one version, fetched if this machine has none yet.

    Raises StackError with the jar and the remedy if one does not arrive or differs from the lock.
    """
    return _locked_jars(f"kafka-{version}", "kafka", version, f"Kafka {version}", java, say)


def application_jars(version: str, java: Java, say: Say) -> Path:
    """Kafka Streams with its demo applications, and the file connectors of Connect; they need `kafka_jars` as well.

    They have their own lock: brokers and other tests do not need them, and RocksDB alone has 70 MB.
    """
    name = "Kafka Streams and connectors"
    return _locked_jars(f"applications-{version}", "applications", version, f"{name} {version}", java, say)


def _locked_jars(lock_name: str, folder_name: str, version: str, what: str, java: Java, say: Say) -> Path:
    lock = _LOCKS / f"{lock_name}.lock"
    folder = cache_dir() / folder_name / f"{version}-{sha256(lock.read_bytes()).hexdigest()[:12]}"
    if (folder / _MARKER).exists():
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    with open(folder.with_name(folder.name + ".lock"), "w", encoding="utf-8") as guard:
        fcntl.flock(guard, fcntl.LOCK_EX)
        if (folder / _MARKER).exists():  # another stack fetched them meanwhile
            return folder
        modules = read_lock(lock)
        say(f"{what}: fetching {len(modules)} jars, once on this machine")
        started = time.monotonic()
        unfinished = folder.with_name(folder.name + ".unfinished")
        shutil.rmtree(unfinished, ignore_errors=True)
        unfinished.mkdir()
        fetch(modules, unfinished, java)
        verify(modules, unfinished, lock.name)
        (unfinished / _MARKER).touch()
        shutil.rmtree(folder, ignore_errors=True)
        unfinished.rename(folder)
        say(f"{what}: {len(modules)} jars verified after {time.monotonic() - started:.0f} s")
    return folder


def fetch(modules: Iterable[Module], target: Path, java: Java) -> None:
    """Fetch the modules' jars into `target`; jars missing after the first round are requested once more."""
    missing = list(modules)
    output = ""
    for _round in range(2):
        dependencies = [
            f"<dependency org={quoteattr(module.organisation)} name={quoteattr(module.name)} "
            f"rev={quoteattr(module.revision)}"
            ' transitive="false" conf="jars-&gt;*"/>'
            for module in missing
        ]
        work = target / ".ivy"
        output = _ivy(dependencies, work, str(target / "[organisation].[artifact]-[revision].[ext]"), False, java)
        shutil.rmtree(work, ignore_errors=True)
        missing = [module for module in missing if not (target / module.jar).exists()]
        if not missing:
            return
    tail = "\n".join(output.splitlines()[-20:])
    raise StackError(
        f"{missing[0].jar} did not arrive ({len(missing)} jars are missing). Is the package registry reachable, and"
        f" does SSL_CERT_FILE name the authorities that this network needs? Then start again. Ivy said last:\n{tail}"
    )


def verify(modules: Iterable[Module], folder: Path, lock_name: str) -> None:
    """Compare every jar with the lock; raises StackError with the first jar that differs."""
    for module in modules:
        found = sha256((folder / module.jar).read_bytes()).hexdigest()
        if found != module.sha256:
            raise StackError(
                f"{module.jar} was refused: its SHA-256 is {found}, {lock_name} has {module.sha256}. Nothing was kept:"
                " start again; if it repeats, the registry serves another file than the locked one: do not use it"
            )


def _ivy(dependencies: list[str], work: Path, pattern: str, read_poms: bool, java: Java) -> str:
    work.mkdir(parents=True)
    poms = "" if read_poms else ' usepoms="false" useMavenMetadata="false"'
    (work / "settings.xml").write_text(
        '<ivysettings><settings defaultResolver="registry"/><resolvers>'
        f'<ibiblio name="registry" m2compatible="true"{poms}/></resolvers></ivysettings>',
        "utf-8",
    )
    (work / "ivy.xml").write_text(
        '<ivy-module version="2.0"><info organisation="switchyard" module="kafka"/>'
        '<configurations><conf name="jars"/></configurations>'
        f"<dependencies>{''.join(dependencies)}</dependencies></ivy-module>",
        "utf-8",
    )
    ivy = sorted(pyspark_jars().glob("ivy-*.jar"))
    if not ivy:
        raise StackError(
            f"no ivy-*.jar in {pyspark_jars()}: install the locked pyspark (pip install -r requirements.txt)"
        )
    arguments = [
        java.binary,
        *trust_arguments(cache_dir()),
        *SHORT_LIVED,
        "-jar",
        str(ivy[-1]),
    ]
    arguments += ["-cache", str(work / "cache"), "-ivy", str(work / "ivy.xml"), "-settings", str(work / "settings.xml")]
    arguments += ["-confs", "jars", "-retrieve", pattern]
    try:
        done = run(arguments, _FETCH_TIMEOUT_S)
    except subprocess.TimeoutExpired as error:
        raise StackError(
            f"the jars did not arrive within {_FETCH_TIMEOUT_S:.0f} s: start again on a better network"
        ) from error
    return done.stdout + done.stderr


def renew_lock(version: str) -> Path:
    """Resolve one version transitively and write its lock file; for maintainers, one to two minutes."""
    roots = [("org.apache.kafka", name, version) for name in ("kafka_2.13", "kafka-tools", "connect-mirror")]
    if int(version.split(".", maxsplit=1)[0]) >= 4:
        roots += [("org.apache.logging.log4j", name, "2.25.4") for name in ("log4j-core", "log4j-slf4j-impl")]
    dependencies = [f'<dependency org="{o}" name="{n}" rev="{r}" conf="jars-&gt;default"/>' for o, n, r in roots]
    work = cache_dir() / f"renew-{os.getpid()}"
    try:
        output = _ivy(
            dependencies, work, str(work / "lib" / "[organisation].[artifact]-[revision].[ext]"), True, find_java()
        )
        report = work / "cache" / "switchyard-kafka-jars.xml"
        if not report.exists():
            raise StackError(f"Ivy resolved nothing for Kafka {version}:\n{output}")
        rows = {
            (module.get("organisation"), module.get("name"), revision.get("name"), artifact.get("location"))
            for module in ET.parse(report).iter("module")
            for revision in module.iter("revision")
            for artifact in revision.iter("artifact")
        }
        lines = sorted(f"{o} {n} {r} {sha256(Path(str(file)).read_bytes()).hexdigest()}\n" for o, n, r, file in rows)
    finally:
        shutil.rmtree(work, ignore_errors=True)
    lock = _LOCKS / f"kafka-{version}.lock"
    head = (
        f"# Every module of an Apache Kafka {version} broker and its tools:"
        " organisation, name, revision, sha256 of the jar.\n"
        f"# Renewed by `python -m stack.jars {version}`.\n"
    )
    lock.write_text(head + "".join(lines), "utf-8")
    return lock


if __name__ == "__main__":
    for _version in sys.argv[1:]:
        print(renew_lock(_version))
