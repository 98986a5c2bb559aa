"""`docs/commands.md`: commands, options and exit codes, written from their declarations.

`python -m ha_core.cli.reference` renews the page.
"""

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, TypeAlias

import typer

from ha_core.cli.app import build
from ha_core.cli.command import COMMON_OPTIONS
from ha_core.cli.exits import MEANINGS
from ha_core.present import problems

PAGE = Path("docs/commands.md")
RENEWAL = "python -m ha_core.cli.reference"
_BEGINNING = f"""# Commands

`{RENEWAL}` writes this page from the declarations of the commands: do not edit it.
`switchyard COMMAND --help` prints the part on one command.

A usage line shows arguments and required options; an argument in brackets may be left out. The command's own options
follow. These options belong to all commands but those of `stack` and `demo`:

"""
_EXIT_CODES = """
## Exit codes

| code | in short | meaning |
|---|---|---|
"""
# typer has no public types for commands and their parameters.
_Command: TypeAlias = Any
_Parameter: TypeAlias = Any


def page() -> str:
    """The page on all commands that are installed."""
    root = typer.main.get_command(build())
    context = typer.Context(root)
    commands: Mapping[str, _Command] = root.commands  # type: ignore[attr-defined]
    groups = {name: command for name, command in commands.items() if hasattr(command, "commands")}
    alone = {f"switchyard {name}": command for name, command in commands.items() if name not in groups}
    common = [parameter for parameter in commands["status"].params if parameter.name in COMMON_OPTIONS]
    codes = [f"| {code} | {short} | {meaning} |\n" for code, (short, meaning) in MEANINGS.items()]
    parts = [_BEGINNING, _items(common, context), _EXIT_CODES, *codes, _section("Moves and state", "", alone, context)]
    for name, group in groups.items():
        words = f"switchyard {name}"
        below = {words: group} if group.invoke_without_command else {}
        below |= {f"{words} {last}": command for last, command in group.commands.items()}
        parts.append(_section(words, group.help or "", below, context))
    return "".join(parts)


def _section(title: str, help_: str, commands: Mapping[str, _Command], context: typer.Context) -> str:
    return f"\n## {title}\n" + (help_ and f"\n{_shown(help_)}\n") + "".join(_all(commands, context))


def _all(commands: Mapping[str, _Command], context: typer.Context) -> Iterable[str]:
    for words, command in commands.items():
        names = {parameter.name for parameter in command.params}
        left_out = {"help", *(COMMON_OPTIONS if names >= COMMON_OPTIONS.keys() else ())}
        own = [parameter for parameter in command.params if parameter.name not in left_out]
        usage = " ".join([words, *(_used(parameter, context) for parameter in own if _is_used(parameter))])
        items = _items(own, context)
        yield f"\n### {words}\n\n{_shown(command.help or '')}\n\n```\n{usage}\n```\n" + (items and f"\n{items}")


def _is_used(parameter: _Parameter) -> bool:
    return bool(parameter.required or parameter.param_type_name == "argument")


def _used(parameter: _Parameter, context: typer.Context) -> str:
    """A parameter as the usage line shows it."""
    if parameter.param_type_name == "option":
        return str(parameter.get_help_record(context)[0])
    name = parameter.metavar or parameter.name.upper()
    return name if parameter.required or name.startswith("[") else f"[{name}]"


def _items(parameters: Iterable[_Parameter], context: typer.Context) -> str:
    """A line for each parameter. The usage line says which are required, and all about an argument without a help."""
    items = []
    for parameter in parameters:
        if record := parameter.get_help_record(context):
            name, text = record[0], record[1].replace("[required]", "").rstrip()
            if text or parameter.param_type_name == "option":
                items.append(f"- `{name}`" + (text and f": {_shown(text)}") + "\n")
    return "".join(items)


def _shown(text: str) -> str:
    """Plain text as Markdown that shows it as it is; text between backticks is code."""
    return "`".join(part if at % 2 else re.sub(r"([<*\\])", r"\\\1", part) for at, part in enumerate(text.split("`")))


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")
    problems.PAGE.write_text(problems.codes_page(), "utf-8")
