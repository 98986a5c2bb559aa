"""One property test, fed by Atheris: bytes that reach new branches are kept, and varied further.

    python -m tests.fuzz tests.wire.test_codec:test_random_bytes_are_read_or_refused -max_total_time=60

The options are libFuzzer's. A failure is saved as the file `crash-…`; pass that file as an argument to repeat it.
"""

import importlib
import sys

import atheris


def main(name: str, options: list[str]) -> None:
    module, test = name.split(":")
    with atheris.instrument_imports(include=["gateway", "ha_core"]):
        found = getattr(importlib.import_module(module), test)
    atheris.Setup([sys.argv[0], *options], found.hypothesis.fuzz_one_input)
    atheris.Fuzz()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
