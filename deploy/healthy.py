"""`python healthy.py URL [PART]`: exits with 0 if URL answers 200 and, given PART, if its report calls PART healthy.

The health check of every container with HTTP: the images have no curl.
"""

import json
import sys
from urllib.request import ProxyHandler, build_opener

TIMEOUT_S = 4.0


def main(url: str, part: str = "") -> str:
    """The reason if it is unhealthy, or ""."""
    try:
        with build_opener(ProxyHandler({})).open(url, timeout=TIMEOUT_S) as answer:
            text = answer.read()
        status = json.loads(text)[part]["status"] if part else "healthy"
    except (OSError, ValueError, KeyError, TypeError) as error:
        return f"{url}: {type(error).__name__} {error}"
    return "" if status == "healthy" else f"{url}: {part} is {status}"


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]) or 0)
