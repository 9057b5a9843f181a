"""The floors of the package and the owners of dangerous things, read from the sources."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[1] / "dtfzmq"
FLOORS = {
    "base": 0,
    "graph": 1, "wire": 1,
    "ops": 2, "plan": 2, "runtime": 2,
    "cluster": 3, "variables": 3,
    "client": 4, "summary": 4,
    "train": 5, "layers": 5, "data": 5,
    "cli": 6, "compat": 6, "contrib": 6, "": 6,
}  # fmt: skip
FILES = sorted(PACKAGE.rglob("*.py"))
MAX_LINES = 460
# Modules that may be imported in some folders or files only.
OWNERS = {
    "zmq": ("wire/",),
    "time": ("base/clock.py",),
    "pickle": (), "marshal": (), "shelve": (), "dill": (), "cloudpickle": (), "asyncio": (),
}  # fmt: skip
ENVIRONMENT = ("cli/", "cluster/resolvers", "wire/keys.py")


def name_of(path: Path) -> str:
    return path.relative_to(PACKAGE).as_posix()


def folder_of(name: str) -> str:
    return name.split("/")[0] if "/" in name else ""


def imports(tree: ast.AST) -> Iterator[tuple[str, int]]:
    """(absolute module, line) of every import, at any depth; ``from a import b`` gives a and a.b."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name, node.lineno
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"line {node.lineno}: a relative import"
            yield node.module or "", node.lineno
            for alias in node.names:
                yield f"{node.module}.{alias.name}", node.lineno


def problems(name: str, source: str) -> list[str]:
    """What the file `name` (relative to the package) does that it may not."""
    tree = ast.parse(source)
    found: list[str] = []
    folder = folder_of(name)
    for module, line in imports(tree):
        top, _, rest = module.partition(".")
        if top in OWNERS and not name.startswith(OWNERS[top]):
            found.append(f"{name}:{line}: imports {top}")
        if top != "dtfzmq":
            continue
        other = rest.split(".")[0]
        if other not in FLOORS:
            found += [f"{name}:{line}: imports the package's root"] if not other or folder else []
        elif other != folder and FLOORS[other] >= FLOORS[folder] and folder:
            found.append(f"{name}:{line}: imports {other}, which is not below {folder}")
    found += nested_imports(name, tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            found += calls(name, node)
        elif (
            isinstance(node, ast.Attribute)
            and ast.unparse(node) in ("os.environ", "os.getenv")
            and not name.startswith(ENVIRONMENT)
        ):
            found.append(f"{name}:{node.lineno}: reads the environment")
    lines = source.count("\n")
    if lines > MAX_LINES and name != "__init__.py":  # which is a list of public names
        found.append(f"{name}: {lines} lines are more than {MAX_LINES}: two ideas in one file")
    return found


def nested_imports(name: str, tree: ast.AST) -> list[str]:
    """Imports of our own modules inside functions: they hide cycles."""
    found = []
    for function in ast.walk(tree):
        if isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef)):
            for module, line in imports(function):
                if module.split(".")[0] == "dtfzmq":
                    found.append(f"{name}:{line}: imports {module} inside a function")
    return found


def calls(name: str, node: ast.Call) -> list[str]:
    """Calls that are nobody's, or somebody else's."""
    called = ast.unparse(node.func)
    if called in ("eval", "exec", "compile", "__import__") or called.endswith(("recv_pyobj", "send_pyobj")):
        return [f"{name}:{node.lineno}: calls {called}"]
    threads = ("threading.Thread", "threading.Timer", "Thread", "Timer", "ThreadPoolExecutor")
    if called in threads and name != "base/threads.py" and name != "base/loop.py":
        return [f"{name}:{node.lineno}: starts a thread; use base.threads.start"]
    allow = [k.value for k in node.keywords if k.arg == "allow_pickle"]
    if any(not (isinstance(value, ast.Constant) and value.value is False) for value in allow):
        return [f"{name}:{node.lineno}: allows pickle"]
    return []


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_file(path: Path) -> None:
    assert problems(name_of(path), path.read_text(encoding="utf-8")) == []


def test_every_folder_has_a_floor() -> None:
    folders = {folder_of(name_of(path)) for path in FILES}
    assert folders <= set(FLOORS), "give the new folder a floor in FLOORS and in docs/architecture.md"
    assert {"base", "graph", "wire", "cluster", "cli"} <= folders


@pytest.mark.parametrize(
    ("name", "source"),
    [
        ("wire/a.py", "from dtfzmq.graph import node"),
        ("wire/a.py", "def f():\n    import dtfzmq.cluster.master"),
        ("base/a.py", "from dtfzmq import wire"),
        ("base/a.py", "import dtfzmq"),
        ("train/a.py", "def f():\n    from dtfzmq.base import errors"),
        ("cluster/a.py", "import zmq"),
        ("runtime/a.py", "import time"),
        ("runtime/a.py", "from time import sleep"),
        ("wire/a.py", "import pickle"),
        ("wire/a.py", "import threading\nthreading.Thread(target=f).start()"),
        ("cluster/a.py", "import os\nos.environ['A']"),
        ("wire/a.py", "eval('1')"),
        ("wire/a.py", "numpy.load(f, allow_pickle=True)"),
        ("wire/a.py", "\n" * 461),
    ],
)
def test_a_violation_is_seen(name: str, source: str) -> None:
    assert len(problems(name, source)) >= 1


def test_what_is_right_is_let_through() -> None:
    source = "from dtfzmq.base import errors\nfrom dtfzmq.wire import codec\nimport zmq\nimport numpy as np\n"
    assert problems("wire/zmqnet.py", source) == []
    assert problems("cli/run.py", "import os\nfrom dtfzmq.train import server\nos.environ\n") == []
    assert problems("__init__.py", "from dtfzmq.train import optimizer\n") == []
