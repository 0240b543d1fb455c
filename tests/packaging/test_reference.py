"""The Python reference of the site: every name has its arguments, results and errors described."""

from __future__ import annotations

import ast
import inspect
import re
import tomllib
from collections.abc import Callable, Iterator
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from types import ModuleType, WrapperDescriptorType
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]


def _reference() -> list[str]:
    """The names on the page, read without importing mkdocs."""
    for node in ast.parse((ROOT / "site" / "hooks.py").read_text()).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "REFERENCE":
            return [name for names in ast.literal_eval(node.value).values() for name in names]
    raise AssertionError("site/hooks.py has no REFERENCE")


def _found(name: str) -> tuple[ModuleType, Any]:
    """The module that a name of the page is imported from, and what it names."""
    try:
        module = import_module(name)
        return module, module
    except ModuleNotFoundError:
        where, _, last = name.rpartition(".")
        module = import_module(where)
        return module, getattr(module, last)


def _attribute_docs(module: ModuleType) -> dict[str, str]:
    """Docstrings below the assignments of a module."""
    body = ast.parse(inspect.getsource(module)).body
    return {
        ast.unparse(node.targets[0]): inspect.cleandoc(after.value.value)
        for node, after in pairwise(body)
        if isinstance(node, ast.Assign)
        and isinstance(after, ast.Expr)
        and isinstance(after.value, ast.Constant)
    }


def _shown(name: str) -> Iterator[tuple[str, Any, str]]:
    """(name, object, docstring) of a name of the page and of what it shows of its members."""
    module, found = _found(name)
    if inspect.ismodule(found):
        for each, value in vars(found).items():
            if inspect.isclass(value) and value.__module__ == found.__name__:
                yield from _members(f"{name}.{each}", value)
    elif inspect.isclass(found):
        yield from _members(name, found)
    else:
        last = name.rpartition(".")[2]
        yield name, found, _attribute_docs(module).get(last) or inspect.getdoc(found) or ""


def _members(name: str, found: type) -> Iterator[tuple[str, Any, str]]:
    yield name, found, inspect.cleandoc(found.__doc__ or "")
    for each, value in vars(found).items():
        value = getattr(value, "__func__", value)
        public = not each.startswith("_") or each == "__call__"
        documented = getattr(value, "__doc__", None) and not inspect.isclass(value)
        if public and documented and (inspect.isfunction(value) or isinstance(value, property)):
            yield f"{name}.{each}", value, inspect.cleandoc(value.__doc__)


@pytest.fixture(scope="module")
def shown() -> list[tuple[str, Any, str]]:
    return [entry for name in _reference() for entry in _shown(name)]


@pytest.fixture(scope="module")
def called(shown) -> list[tuple[str, Any, str]]:
    """All but properties, which take no arguments."""
    return [entry for entry in shown if not isinstance(entry[1], property)]


@pytest.fixture(scope="module")
def functions(called) -> list[tuple[str, Any, str]]:
    return [entry for entry in called if not inspect.isclass(entry[1])]


def _section(doc: str, title: str) -> str | None:
    """The indented lines below ``title:``."""
    found = re.search(rf"(?:^|\n\n){title}:\n((?:(?: {{4}}.*|)(?:\n|$))+)", doc)
    return None if found is None else inspect.cleandoc(found[1])


def _entries(doc: str, title: str) -> set[str]:
    entry = re.compile(r"^(\*{0,2}\w+)(?: \(.*?\))?: \S", flags=re.M)
    return set(entry.findall(_section(doc, title) or ""))


def _parameters(found: Callable[..., Any]) -> set[str]:
    """Names of its parameters; none of a class whose constructor is Python's own (``list``)."""
    if inspect.isclass(found) and isinstance(found.__init__, WrapperDescriptorType):
        return set()
    stars = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}
    return {
        stars.get(each.kind, "") + each.name
        for each in inspect.signature(found).parameters.values()
        if each.name not in ("self", "cls")
    }


def test_every_parameter_is_described(called):
    wrong = {
        name: (listed, wanted)
        for name, found, doc in called
        if (listed := _entries(doc, "Args")) != (wanted := _parameters(found))
    }
    assert len(called) > 100
    assert not wrong


def test_results_are_described_where_there_are_any(functions):
    def returns(found: Any) -> bool:
        annotation = inspect.signature(found).return_annotation
        return annotation not in (None, "None", inspect.Signature.empty)

    wrong = [
        name for name, found, doc in functions if returns(found) != bool(_section(doc, "Returns"))
    ]
    assert not wrong


def test_errors_are_described_where_a_function_raises_them(functions):
    missing = [
        name
        for name, found, doc in functions
        if "raise ValueError" in inspect.getsource(found) and not _section(doc, "Raises")
    ]
    assert not missing


def test_a_summary_is_one_line_about_a_thing_or_an_action(shown):
    wrong = []
    for name, _, doc in shown:
        summary, *rest = doc.split("\n")
        begins = summary.split()[:1]
        if begins in ([], ["Of"], ["What"], ["That"], ["Those"], ["Which"]) or any(rest[:1]):
            wrong.append(f"{name}: {summary}")
        if "Raises ``" in doc:
            wrong.append(f"{name}: errors stand below Raises:")
    assert not wrong


def test_ruff_checks_the_docstrings_of_these_modules():
    lint = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["ruff"]["lint"]
    (pattern,) = [key for key, rules in lint["per-file-ignores"].items() if rules == ["D"]]
    assert pattern.startswith("!")
    assert lint["pydocstyle"]["convention"] == "google"
    folder, _, rest = pattern.removeprefix("!").partition("{")
    named = [f"{folder}{each}.py" for each in rest.removesuffix("}.py").split(",")]
    found = (_found(name) for name in _reference())
    sources = {
        inspect.getsourcefile(module if inspect.ismethod(it) else it) for module, it in found
    }
    paths = [Path(str(source)).relative_to(ROOT) for source in sources]
    missing = [path for path in paths if not any(path.match(glob) for glob in named)]
    assert not missing, "add them to per-file-ignores in pyproject.toml"
    assert all([*ROOT.glob(glob)] for glob in named)
