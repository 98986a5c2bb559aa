"""Reading properties files and resolving their references."""

import os
from pathlib import Path

import pytest

from ha_core.flows.errors import FlowError
from ha_core.flows.properties import MAX_BYTES, parse, read, resolve

PROVIDERS = """
config.providers = env, file, directory
config.providers.env.class = org.apache.kafka.common.config.provider.EnvVarConfigProvider
config.providers.file.class = org.apache.kafka.common.config.provider.FileConfigProvider
config.providers.directory.class = org.apache.kafka.common.config.provider.DirectoryConfigProvider
"""


def resolved(text: str, **environment: str) -> dict[str, str]:
    properties = resolve(parse(text, "mm2.properties"), "mm2.properties", environment)
    return {key: one.value for key, one in properties.items() if not key.startswith("config.providers")}


def test_a_file_is_read_as_java_reads_it(tmp_path: Path) -> None:
    file = tmp_path / "mm2.properties"
    file.write_bytes(
        b"# a comment\n! another\nclusters = A, \\\n    B\nA.bootstrap.servers: a:9092\nA->B.enabled true\n"
        b"topics.exclude=.*[\\\\-\\\\.]internal\nname=caf\xe9\nother=caf\\u00e9  \n"
    )
    assert {key: found.value for key, found in read(file).items()} == {
        "clusters": "A, B",
        "A.bootstrap.servers": "a:9092",
        "A->B.enabled": "true",
        "topics.exclude": r".*[\-\.]internal",
        "name": "café",
        "other": "café",
    }


def test_each_property_has_its_line_number() -> None:
    properties = parse("# one\n\na = 1\nb = 2 \\\n  3\nc = 4\n", "x")
    assert {key: one.line for key, one in properties.items()} == {"a": 3, "b": 4, "c": 6}


def test_a_duplicate_key_is_an_error_that_names_both_lines() -> None:
    with pytest.raises(FlowError, match=r"mm2.properties, line 3: topics is already set in line 1"):
        parse("topics = a\nclusters = A\ntopics = b\n", "mm2.properties")


def test_references_are_resolved_by_their_provider(tmp_path: Path) -> None:
    secrets = tmp_path / "secrets.properties"
    secrets.write_text("password = p=1\n")
    (tmp_path / "keys").mkdir()
    (tmp_path / "keys" / "token").write_text("t0k")
    lines = ["a = ${env:HOST}:9092", f"b = x${{file:{secrets}:password}}y", f"c = ${{directory:{tmp_path}/keys:token}}"]
    assert resolved("\n".join((PROVIDERS, *lines)), HOST="kafka") == {"a": "kafka:9092", "b": "xp=1y", "c": "t0k"}


def test_a_resolved_value_is_not_resolved_again() -> None:
    assert resolved(f"{PROVIDERS}\na = ${{env:X}}\n", X="${env:X}") == {"a": "${env:X}"}


def test_text_that_names_no_provider_is_not_resolved() -> None:
    assert resolved("a = ${nothing:here}\n") == {"a": "${nothing:here}"}


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("config.providers = vault\n", "config.providers.vault.class is not set"),
        ("config.providers = v\nconfig.providers.v.class = com.example.Vault\n", "com.example.Vault is not known here"),
        (f"{PROVIDERS}\na = ${{env:MISSING}}\n", r"line 7: a refers to \$\{env:MISSING\}, which has no value here"),
        (f"{PROVIDERS}\na = ${{file:/nowhere:key}}\n", "/nowhere cannot be read"),
        (
            f"{PROVIDERS}\nconfig.providers.file.param.allowed.paths=/opt\na = ${{file:/etc/x:key}}\n",
            "is not in the provider's allowed.paths",
        ),
    ],
)
def test_a_reference_that_cannot_be_resolved_is_an_error(text: str, error: str) -> None:
    with pytest.raises(FlowError, match=error):
        resolved(text)


def test_the_directory_provider_reads_no_file_outside_its_folder(tmp_path: Path) -> None:
    (tmp_path / "keys").mkdir()
    (tmp_path / "secret").write_text("s")
    with pytest.raises(FlowError, match="has no value here"):
        resolved(f"{PROVIDERS}\na = ${{directory:{tmp_path}/keys:../secret}}\n")


def test_the_environment_provider_resolves_only_allowed_variables() -> None:
    text = f"{PROVIDERS}\nconfig.providers.env.param.allowlist.pattern = KAFKA_.*\na = ${{env:HOME}}\n"
    with pytest.raises(FlowError, match="has no value here"):
        resolved(text, HOME="/root")


def test_a_file_that_is_too_long_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "long"
    file.write_bytes(b"#" * (MAX_BYTES + 1))
    with pytest.raises(FlowError, match=f"has more than {MAX_BYTES} bytes"):
        read(file)


def test_a_character_by_a_wrong_number_is_an_error() -> None:
    with pytest.raises(FlowError, match=r"mm2.properties: \\uZZZZ is no character"):
        parse("topics = \\uZZZZ\n", "mm2.properties")


def test_a_pattern_of_variables_that_is_none_is_an_error() -> None:
    with pytest.raises(FlowError, match=r"allowlist.pattern=\[ of a provider is no regular expression here"):
        resolved(f"{PROVIDERS}config.providers.env.param.allowlist.pattern = [\na = ${{env:A}}\n")


@pytest.mark.parametrize("reference", ["${file:/tmp/a\\u0000b:x}", "${directory:/tmp:%s}" % ("a" * 5_000)])
def test_a_path_that_is_none_is_an_error_with_a_bounded_text(reference: str) -> None:
    with pytest.raises(FlowError, match="is no path of a file") as error:
        resolved(f"{PROVIDERS}a = {reference}\n")
    assert len(str(error.value)) < 300


def test_a_reference_to_a_pipe_does_not_wait(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(FlowError, match="is no regular file; a reference reads one"):
        resolved(f"{PROVIDERS}a = ${{file:{tmp_path / 'pipe'}:x}}\n")
