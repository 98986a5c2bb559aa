"""Modules that a gateway loads: each megabyte of them is there for every process of a fleet."""

import subprocess
import sys

OPTIONAL = ("httpx", "jwt", "cryptography", "sqlalchemy", "fastapi", "gateway.follow.platform.following")


def test_a_gateway_loads_the_platforms_client_and_ciphers_of_tokens_only_where_they_are_configured() -> None:
    program = f"import gateway.__main__, sys; print(*[name for name in {OPTIONAL} if name in sys.modules])"

    loaded = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)

    assert loaded.stdout.split() == []
