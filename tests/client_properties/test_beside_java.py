"""Comparison with Kafka's own Java code: the names of keys, and texts that it accepts as login modules."""

import os
import random
import subprocess
from pathlib import Path

import pytest

from ha_core.client_properties.jaas import JaasError, login_module
from ha_core.client_properties.keys import CONNECTION_PREFIXES, KEYS
from stack.clients.java_programs import COMPILER, compiler_jars
from stack.jars import class_path, kafka_jars
from stack.java import SHORT_LIVED, find_java

pytestmark = pytest.mark.stack
PROGRAM = Path(__file__).with_name("JavaReading.java")
PIECES = (
    *("a", "b.C", "required", "REQUIRED", "optional", "username", "=", "=", "=", ";", ";", " ", " ", "\n", "\r", "\t"),
    *(
        '"',
        "'",
        '"x y"',
        "'x'",
        '"a\\"b"',
        "\\",
        "\\n",
        "\\101",
        "\\400",
        "\\8",
        "/",
        "//",
        "/*",
        "*/",
        "-",
        "-a",
        "-1",
    ),
    *(".", ".5", "1", "1.2.3", "1a", "_", "$", "é", "€", "\x80", "\x9f", "\xa0", "\x00", "#", "{", ",", "😀"),
)
"""Parts of random texts: all kinds of signs that Java's tokenizer tells apart."""
SEED = 20_250
COUNT = 20_000


def texts() -> list[str]:
    """Texts near valid ones, and some that are."""
    chance = random.Random(SEED)

    def drawn(least: int, most: int) -> str:
        return "".join(chance.choices(PIECES, k=chance.randint(least, most)))

    made = []
    for _ in range(COUNT // 2):
        options = " ".join(f"{drawn(1, 2)}={drawn(1, 3)}" for _ in range(chance.randint(0, 2)))
        made.append(f"a.B required {options};")
        quoted = drawn(0, 6).replace('"', "")
        made.append(f'a.B{drawn(0, 1)} required u="{quoted}"{drawn(0, 2)};')
    return made


def in_hex(text: str) -> str:
    """Java's characters of the text, four digits each."""
    return text.encode("utf-16-be").hex()


def ours(text: str) -> str:
    try:
        module = login_module(text)
    except JaasError:
        return "refused"
    options = sorted(module.options.items(), key=lambda option: option[0].encode("utf-16-be"))
    return " ".join(["module", in_hex(module.name), *(f"{in_hex(name)}={in_hex(value)}" for name, value in options)])


@pytest.fixture(scope="module", params=["3.9.2", "4.3.1"])
def java(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Lines of the program."""
    file = tmp_path_factory.mktemp("texts") / "texts"
    file.write_text("".join(f"{in_hex(text)}\n" for text in texts()), "ascii")
    found = find_java()
    jars = [class_path(kafka_jars(request.param, found, lambda _: None)), *map(str, compiler_jars())]
    command = [
        found.binary,
        *SHORT_LIVED,
        "-cp",
        os.pathsep.join(jars),
        COMPILER,
        str(PROGRAM),
        PROGRAM.stem,
        str(file),
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout.splitlines()


def test_every_key_of_a_java_clients_connection_is_known(java: list[str]) -> None:
    names = [line.removeprefix("key ") for line in java if line.startswith("key ")]
    assert len(names) > 100
    assert [name for name in names if name.startswith(CONNECTION_PREFIXES) and name not in KEYS] == []


def test_a_text_is_a_login_module_with_the_same_options_as_in_java(java: list[str]) -> None:
    told = [line for line in java if not line.startswith("key ")]
    assert len(told) == COUNT
    different = [(text, line, found) for text, line in zip(texts(), told, strict=True) if (found := ours(text)) != line]
    # Java ends a quoted text at the end of its line, without an error; such a text is refused here.
    assert [one for one in different if not (one[2] == "refused" and ("\n" in one[0] or "\r" in one[0]))] == []
    assert sum(line != "refused" for line in told) > COUNT // 20
