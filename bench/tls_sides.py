"""TLS terminators in front of one broker: the broker itself, a gateway, haproxy and nginx.

The broker has a plaintext listener for each proxy, which advertises the proxy's address. The proxies have one thread
each, like a gateway, and otherwise their defaults.
"""

import os
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import yaml

from bench.copiers import Program, program
from bench.ground import Say, direct
from stack.certificates import Authority, Certificate
from stack.harness import Stack
from stack.layout import Layout
from stack.parts import LOOPBACK, PartNotReadyError, listens
from stack.ports import claim

CLUSTER = "east"
BROKER = f"cluster/{CLUSTER}/1"
GATEWAY = "gateway/1"
PLAIN, BROKER_TLS, OURS = "no TLS", "broker", "gateway"
_READY_S = 20.0
_STREAM_MODULE = Path("/usr/lib/nginx/modules/ngx_stream_module.so")


@dataclass(frozen=True)
class TlsSide:
    """A path to the broker.

    :ivar ca_file: authority of its certificate; None: no TLS.
    :ivar pid: the TLS terminator in front of the broker; None: there is none.
    """

    name: str
    bootstrap: str
    ca_file: Path | None
    pid: int | None


@dataclass(frozen=True)
class _Ports:
    """:ivar listener: port of the broker's listener for this proxy."""

    listener: int
    front: int


@contextmanager
def sides(stack: Stack, folder: Path, say: Say, proxied: bool = True) -> Iterator[list[TlsSide]]:
    """All available sides; programs that are not installed are reported and left out.

    :param proxied: include proxies.
    :param stack: with one cluster of one broker and one gateway; both are restarted.
    """
    authority = Authority(folder)
    certificate = authority.issue("broker", (LOOPBACK, "localhost"))
    block = claim()
    with ExitStack() as ends:
        ends.callback(block.close)
        own = block.next_port()
        proxies = {name: _Ports(block.next_port(), block.next_port()) for name in (installed(say) if proxied else ())}
        _give_listeners(stack, own, proxies, certificate)
        speak_tls(stack, certificate)
        yield [
            TlsSide(PLAIN, direct(stack, CLUSTER), None, None),
            TlsSide(BROKER_TLS, f"{LOOPBACK}:{own}", authority.file, None),
            TlsSide(OURS, stack.bootstrap, authority.file, int(stack.gateways[0]["pid"])),
            *(
                TlsSide(
                    name, f"{LOOPBACK}:{ports.front}", authority.file, _started(name, ports, certificate, folder, ends)
                )
                for name, ports in proxies.items()
            ),
        ]


def broker_pid(stack: Stack) -> int:
    return next(int(part["pid"]) for part in stack.status() if part["part"] == BROKER)


def installed(say: Say) -> list[str]:
    """The proxies installed on this machine."""
    found = [name for name in PROXIES if shutil.which(name)]
    if "nginx" in found and not _STREAM_MODULE.exists():
        found.remove("nginx")  # without the stream module it proxies HTTP only
    for name in PROXIES:
        if name in found:
            continue
        say(f"{name} is left out: it is not installed (Debian: apt-get install haproxy nginx libnginx-mod-stream)")
    return found


def _give_listeners(stack: Stack, own: int, proxies: Mapping[str, _Ports], certificate: Certificate) -> None:
    """Give the broker one listener with TLS, and one for each proxy."""
    file = Layout(stack.dir).home(BROKER) / "server.properties"
    settings = dict(line.split("=", 1) for line in file.read_text("utf-8").splitlines())
    for key in ("listeners", "advertised.listeners"):
        settings[key] += f",SSL://{LOOPBACK}:{own}"
    settings["listener.security.protocol.map"] += ",SSL:SSL"
    for name, ports in proxies.items():
        settings["listeners"] += f",{name.upper()}://{LOOPBACK}:{ports.listener}"
        settings["advertised.listeners"] += f",{name.upper()}://{LOOPBACK}:{ports.front}"
        settings["listener.security.protocol.map"] += f",{name.upper()}:PLAINTEXT"
    settings |= {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(certificate.together)}
    file.write_text("".join(f"{key}={value}\n" for key, value in settings.items()), "utf-8")
    stack.restart(BROKER)


def speak_tls(stack: Stack, certificate: Certificate) -> None:
    """Make the gateway require TLS from clients; its connections to brokers stay as they are."""
    file = Layout(stack.dir).home(GATEWAY) / "gateway.yaml"
    document = yaml.safe_load(file.read_text("utf-8"))
    document["tls"] = {"certificate_file": str(certificate.certificate), "key_file": str(certificate.key)}
    file.write_text(yaml.safe_dump(document, sort_keys=False), "utf-8")
    stack.restart(GATEWAY)


def _started(name: str, ports: _Ports, certificate: Certificate, folder: Path, ends: ExitStack) -> int:
    """Start a proxy, and return its process."""
    home = folder / name
    home.mkdir()
    command = PROXIES[name](home, ports, certificate)
    running = ends.enter_context(program(name, command, {}, home / "log"))
    _until_it_listens(running, ports.front)
    return running.process.pid


def _until_it_listens(running: Program, port: int) -> None:
    deadline = time.monotonic() + _READY_S
    while True:
        running.check()
        try:
            listens(port)
        except PartNotReadyError as error:
            if time.monotonic() > deadline:
                raise running.failed(str(error)) from error
            time.sleep(0.05)
        else:
            return


def _haproxy(home: Path, ports: _Ports, certificate: Certificate) -> tuple[str, ...]:
    file = home / "haproxy.cfg"
    file.write_text(
        f"""global
    nbthread 1
    maxconn 4000
    ssl-default-bind-options ssl-min-ver TLSv1.2
defaults
    mode tcp
    timeout connect 10s
    timeout client 10m
    timeout server 10m
frontend clients
    bind {LOOPBACK}:{ports.front} ssl crt {certificate.together}
    default_backend broker
backend broker
    server broker {LOOPBACK}:{ports.listener}
""",
        "utf-8",
    )
    return ("haproxy", "-db", "-f", str(file))


def _nginx(home: Path, ports: _Ports, certificate: Certificate) -> tuple[str, ...]:
    file = home / "nginx.conf"
    user = "user root;" if os.getuid() == 0 else ""  # another user could not read the key
    file.write_text(
        f"""load_module {_STREAM_MODULE};
{user}
daemon off;
worker_processes 1;
pid {home}/pid;
error_log stderr error;
events {{ worker_connections 8000; }}
stream {{
    server {{
        listen {LOOPBACK}:{ports.front} ssl;
        ssl_certificate {certificate.certificate};
        ssl_certificate_key {certificate.key};
        ssl_protocols TLSv1.2 TLSv1.3;
        ssl_session_cache shared:clients:10m;
        proxy_pass {LOOPBACK}:{ports.listener};
        proxy_timeout 10m;
    }}
}}
""",
        "utf-8",
    )
    return ("nginx", "-p", str(home), "-c", str(file), "-e", "stderr")


PROXIES: Mapping[str, Callable[[Path, _Ports, Certificate], tuple[str, ...]]] = {
    "haproxy": _haproxy,
    "nginx": _nginx,
}
