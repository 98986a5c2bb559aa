"""kafkajs's producer and consumer: programs of Node.js that replace this process by exec.

So ending or killing this process ends or kills the client itself. The program writes its history by itself, each
event at once.
"""

from __future__ import annotations

import json
import os
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any, NoReturn

from stack.clients.options import Options
from stack.clients.recorder import EventRecorder
from stack.clients.start_point import started_consumer
from stack.history.events import ClientStarted, Event
from stack.npm import node, node_modules

PROJECT = Path(__file__).with_name("kafkajs")


def produce(options: Options) -> int:
    started = ClientStarted(
        options.client,
        time.time(),
        "producer",
        "kafkajs",
        options.topics,
        idempotent=options.idempotence == "on",
        ordered=True,  # the program waits for each answer before it sends again
        value_prefix=f"{options.client}-",
    )
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
    told = {
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
    environment["SWITCHYARD_CLIENT"] = json.dumps({"do": do, **told})
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
