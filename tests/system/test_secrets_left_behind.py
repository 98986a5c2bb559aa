"""After a run with valid and invalid logins, no secret is found where it does not belong.

Each secret is a canary: all remains of the run are searched for it, as it is and in usual encodings.
"""

import base64
import json
import ssl
from collections.abc import Iterator, Mapping
from pathlib import Path
from urllib.parse import quote, quote_plus

import httpx
import pytest

from ha_core.kafka.connection import BlockingConnection, Deadline
from ha_core.kafka.errors import AuthenticationRefusedError
from ha_core.kafka.security import SECURITY_FILE_VARIABLE
from ha_core.store.security import FILE_VARIABLE
from ha_core.tls.contexts import client_context
from ha_core.wire.sasl import SecurityProfile
from ha_core.wire.tls_files import TlsFiles
from stack.harness import Stack
from tests.kit.platform import RunningPlatform, soon
from tests.kit.running import switchyard

pytestmark = [
    pytest.mark.stack,
    pytest.mark.timeout(300),
    pytest.mark.long("gateway/authentication", "gateway/process", "ha_core/platform"),
]
GATEWAYS = (0, 1)
RIGHT, WRONG, BEARER = "canary+right/5xQ=", "canary+wrong/7yW=", "canary-bearer-9zR"
MECHANISMS = {"sasl": ("PLAIN",), "tls": ("SCRAM-SHA-256", "SCRAM-SHA-512")}
PRIVATE_KEY = b"PRIVATE KEY-----"


@pytest.fixture(scope="module", params=MECHANISMS)
def stack(request: pytest.FixtureRequest) -> Iterator[Stack]:
    up = Stack.up({"east": "4.3.1"}, gateways=len(GATEWAYS), security=request.param, platform=True)
    with up as running, pytest.MonkeyPatch.context() as environment:
        environment.setenv(SECURITY_FILE_VARIABLE, running.document["security_file"])
        if running.zookeeper_security_file is not None:
            environment.setenv(FILE_VARIABLE, running.zookeeper_security_file)
        yield running


def forms(secret: str) -> set[bytes]:
    """Plain, in URLs, in hexadecimal digits, and in base64 at all three alignments, also inside of longer text."""
    raw = secret.encode()
    found = {raw, quote(secret, safe="").encode(), quote_plus(secret).encode(), raw.hex().encode()}
    for ahead in range(3):
        encoded = base64.b64encode(b"\0" * ahead + raw)
        # Base64 characters that depend on neighbouring bytes are left out.
        inner = encoded[4 if ahead else 0 : len(encoded) // 4 * 4 - 4]
        found |= {inner, inner.replace(b"+", b"-").replace(b"/", b"_")}
    return found


def log_in(stack: Stack, number: int, mechanism: str, password: str) -> bool:
    host, port = stack.gateways[number]["bootstrap"].rsplit(":", 1)
    tls = None if stack.tls is None else TlsFiles(stack.tls["ca_file"])
    account = SecurityProfile(mechanism, "canary", password, tls=tls)
    refusal = None
    try:
        BlockingConnection(f"gateway {number}", host, int(port), account, Deadline.after(30)).close()
    except AuthenticationRefusedError as error:
        refusal = str(error)
    assert password not in (refusal or "")
    return refusal is None


def pages(stack: Stack) -> Iterator[tuple[str, bytes]]:
    """Pages of the gateways and the platform for any caller, also one with an invalid token."""
    assert stack.platform is not None
    places = [
        f"{gateway['http']}/{page}" for gateway in stack.gateways for page in ("metrics", "readyz", "connections")
    ]
    trusted = True if stack.tls is None else client_context(TlsFiles(stack.tls["ca_file"]), ssl.SSLSocket)
    with httpx.Client(verify=trusted, trust_env=False, timeout=30) as client:
        for place in (*places, f"{stack.platform['url']}/v1/users", f"{stack.platform['url']}/openapi.json"):
            answer = client.get(place, headers={"Authorization": f"Bearer {BEARER}"})
            yield place, answer.content + repr(answer.headers).encode()


def command_lines(stack: Stack) -> Iterator[tuple[str, bytes]]:
    """Command lines of the stack's processes, which every user of the machine can read."""
    for process in Path("/proc").iterdir():
        try:
            line = (process / "cmdline").read_bytes() if process.name.isdigit() else b""
        except OSError:
            continue
        if str(stack.dir).encode() in line:
            yield f"the command line of {process.name}", line


def files(folder: Path) -> Iterator[tuple[Path, bytes]]:
    for path in sorted(folder.rglob("*")):
        if path.is_file() and not path.is_symlink():
            yield path, path.read_bytes()


def named(content: bytes, secrets: Mapping[str, set[bytes]]) -> list[str]:
    return sorted(name for name, written in secrets.items() if any(one in content for one in written))


@pytest.mark.parametrize("around", [b"%s", b"x%s", b"xy%s", b"user\0%s\0", b'{"password": "%s"}'])
def test_a_secret_is_found_in_any_encoding(around: bytes) -> None:
    written = {"the secret": forms(RIGHT)}
    plain = around % RIGHT.encode()
    for content in (plain, base64.b64encode(plain), base64.urlsafe_b64encode(plain), plain.hex().encode()):
        assert named(b"a line: " + content + b"\n", written) == ["the secret"]
    assert named(quote(RIGHT).encode(), {"the secret": {quote(RIGHT).encode()}})
    assert named(base64.b64encode(around % WRONG.encode()), written) == []


def test_no_secret_of_a_run_is_readable_by_others(stack: Stack) -> None:
    # Given users who log in by every mechanism at every gateway, with the right password and a wrong one, a caller
    # with an invalid token, and an operator's commands
    assert stack.platform is not None
    assert stack.service is not None
    mechanisms = MECHANISMS[stack.security]
    platform = RunningPlatform(stack)
    platform.create_user("canary", RIGHT)
    soon(lambda: all(log_in(stack, number, mechanisms[-1], RIGHT) for number in GATEWAYS), "the user logs in")
    for number in GATEWAYS:
        for mechanism in mechanisms:
            assert log_in(stack, number, mechanism, RIGHT)
            assert not log_in(stack, number, mechanism, WRONG)
    platform.status_of("POST", "/v1/passwords", {"user": "nobody", "password": WRONG, "reason": "canary"})
    platform.status_of("POST", "/v1/passwords", {"user": "canary", "password": [WRONG], "reason": "canary"})
    platform.close()
    said = [("a command", json.dumps(switchyard(stack, *words)).encode()) for words in (("status",), ("history",))]
    shown = [*pages(stack), *command_lines(stack), *said]
    assert len(shown) > 10
    # When the run is over
    stack.restart("gateway/1")
    secrets = {
        "the user's password": RIGHT,
        "a wrong password": WRONG,
        "a wrong token": BEARER,
        "the operator's token": stack.platform["operator_token"],
        "the gateways' token": stack.platform["gateway_token"],
        "the service's password": stack.service["password"],
        **{f"the password of {user}": password for user, password in stack.users.items()},
    }
    written = {name: forms(secret) for name, secret in secrets.items()} | {"a private key": {PRIVATE_KEY}}
    # Then no page has shown a secret
    assert {place: found for place, content in shown if (found := named(content, written))} == {}
    # and files with secrets are those that are meant to have them, readable by their owner only
    holding = {
        path.relative_to(stack.dir): found for path, content in files(stack.dir) if (found := named(content, written))
    }
    assert holding
    logs = {path: found for path, found in holding.items() if path.suffix in (".log", ".out", ".db", ".sqlite")}
    assert logs == {}
    open_to_others = {path: found for path, found in holding.items() if (stack.dir / path).stat().st_mode & 0o077}
    assert open_to_others == {}
    logins = {"the user's password", "a wrong password", "a wrong token"}
    assert {path: found for path, found in holding.items() if logins & set(found)} == {}
