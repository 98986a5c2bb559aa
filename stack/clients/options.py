"""Options of a client program, and their arguments."""

import argparse
from collections.abc import Sequence
from dataclasses import MISSING, dataclass, field, fields
from pathlib import Path
from typing import get_type_hints


@dataclass(frozen=True, kw_only=True)
class Options:
    """A client's options; None and "" mean the library's default."""

    client: str = field(metadata={"help": "name in the history, and client.id; values are CLIENT-NUMBER"})
    bootstrap: str = field(metadata={"help": "host:port[,host:port…]"})
    topic: str = field(metadata={"help": "topic, or several separated by commas (consumers)"})
    out: Path = field(metadata={"help": "file for the history"})
    client_id: str = field(default="", metadata={"help": "client.id instead of the name"})
    user: str = field(default="", metadata={"help": "SASL user"})
    password: str = field(default="", metadata={"help": "SASL password"})
    mechanism: str = field(
        default="PLAIN",
        metadata={"help": "PLAIN, SCRAM-SHA-256, SCRAM-SHA-512; kafkajs: OAUTHBEARER too, the password is the token"},
    )
    ca_file: str = field(default="", metadata={"help": "PEM of the authority of the gateway's certificate: TLS"})
    certificate_file: str = field(default="", metadata={"help": "the client's certificate, PEM (with TLS)"})
    key_file: str = field(default="", metadata={"help": "its key, PEM"})
    count: int = field(default=0, metadata={"help": "end after this number of records sent or delivered; 0: no limit"})
    duration_s: float = field(default=0.0, metadata={"help": "end after this number of seconds; 0: no limit"})
    until_file: str = field(default="", metadata={"help": "end when this file exists"})
    settings: tuple[str, ...] = field(default=(), metadata={"help": "KEY=VALUE, a setting of the library; repeatable"})

    rate: float = field(default=200.0, metadata={"help": "records per second; 0: unlimited"})
    size_bytes: int = field(default=0, metadata={"help": "minimum length of a value"})
    keys: int = field(default=0, metadata={"help": "number of different keys, used in turn; 0: no key"})
    compression: str = field(default="", metadata={"help": "none | gzip | snappy | lz4 | zstd"})
    acks: str = field(default="", metadata={"help": "0 | 1 | all, and mixed (halting-sender)"})
    idempotence: str = field(default="", metadata={"help": "on | off"})
    linger_ms: int = field(default=-1, metadata={"help": "-1: the library's default"})
    transaction_records: int = field(default=20, metadata={"help": "records per transaction (transactional producer)"})
    transaction_open: bool = field(
        default=False,
        metadata={"help": "write records as they come due, so that a transaction is nearly always open"},
    )
    halt_s: float = field(
        default=0.0, metadata={"help": "maximum pause in the middle of a request (halting-sender); 0: none"}
    )
    canary: str = field(
        default="",
        metadata={"help": "topic that a server creates if it parses the second half of a request as a request"},
    )
    seed: int = field(default=0, metadata={"help": "seed of random choices (halting-sender)"})
    abort_every: int = field(default=3, metadata={"help": "abort every Nth transaction; 0: none"})

    group: str = field(default="", metadata={"help": "group.id; none with --seek"})
    pattern: str = field(
        default="",
        metadata={"help": "^REGEX: subscribe by it; `topic` lists the topics that it matches (not kafkajs)"},
    )
    instance_id: str = field(default="", metadata={"help": "group.instance.id (static membership)"})
    reset: str = field(default="earliest", metadata={"help": "auto.offset.reset: earliest | latest"})
    pace: float = field(default=0.0, metadata={"help": "maximum records per second (confluent-consumer); 0: unlimited"})
    commit: str = field(default="auto", metadata={"help": "auto | batch (after every delivered batch)"})
    isolation: str = field(default="", metadata={"help": "read_uncommitted | read_committed"})
    seek: str = field(
        default="",
        metadata={"help": "assign all partitions and seek: beginning | end | offset:N | timestamp:MILLISECONDS"},
    )
    to_end: bool = field(default=False, metadata={"help": "with --seek: end at the log ends of the start"})

    @property
    def topics(self) -> tuple[str, ...]:
        return tuple(self.topic.split(","))

    @property
    def protocol(self) -> str:
        """security.protocol."""
        if self.user:
            return "SASL_SSL" if self.ca_file else "SASL_PLAINTEXT"
        return "SSL" if self.ca_file else "PLAINTEXT"

    @property
    def identifier(self) -> str:
        """client.id."""
        return self.client_id or self.client

    @property
    def own_settings(self) -> dict[str, str]:
        return dict(setting.split("=", 1) for setting in self.settings)

    @property
    def own_numbers_and_settings(self) -> dict[str, str | int]:
        """For libraries that require numbers as numbers."""
        return {key: int(value) if value.isdigit() else value for key, value in self.own_settings.items()}

    def arguments(self) -> list[str]:
        """The arguments, readable by `parse`."""
        found: list[str] = []
        for one in fields(self):
            value, option = getattr(self, one.name), "--" + one.name.replace("_", "-")
            if one.default is not MISSING and value == one.default:
                continue
            if isinstance(value, bool):
                found.append(option)
            elif isinstance(value, tuple):
                found += [f"{option}={each}" for each in value]
            else:
                found.append(f"{option}={value}")
        return found


def add_options(parser: argparse.ArgumentParser) -> None:
    """Every field of Options as an option."""
    hints = get_type_hints(Options)
    for one in fields(Options):
        name, text = "--" + one.name.replace("_", "-"), one.metadata["help"]
        required = one.default is MISSING
        kind = hints[one.name]
        if kind is bool:
            parser.add_argument(name, action="store_true", help=text)
        elif kind == tuple[str, ...]:
            parser.add_argument(name, action="append", default=[], help=text)
        else:
            default = None if required else one.default
            parser.add_argument(name, type=kind, required=required, default=default, help=text)


def parse(arguments: Sequence[str], kinds: Sequence[str]) -> tuple[str, Options]:
    """Returns (kind, options); ends the program with a usage text if they are invalid."""
    parser = argparse.ArgumentParser(prog="python -m stack.clients", description="A Kafka client with a history.")
    parser.add_argument("kind", choices=kinds)
    add_options(parser)
    found = vars(parser.parse_args(arguments))
    kind = found.pop("kind")
    found["settings"] = tuple(found["settings"])
    return kind, Options(**found)
