"""What README and docs say is so: their commands and programs run, their files and make targets are there."""

from __future__ import annotations

import ast
import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.kit.cluster import ROOT, Cluster

README = (ROOT / "README.md").read_text(encoding="utf-8")
PAGES = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").glob("*.md"))]
PAGES += sorted(path for path in ROOT.glob("*/*.md") if path.parent.name in ("schemas", "examples"))


def blocks(kind: str) -> list[str]:
    """The fenced blocks of README of one kind."""
    return re.findall(rf"^```{kind}\n(.*?)^```$", README, re.M | re.S)


def command(text: str) -> list[str]:
    """A README command as it is run here: this checkout's `dtfzmq`, this Python."""
    words = shlex.split(text.replace("\\\n", " "))
    python = [sys.executable]
    return [*python, "-m", "dtfzmq", *(sys.executable if word == "python" else word for word in words[1:])]


def test_the_cluster_in_three_shells(processes: Callable[..., Cluster]) -> None:
    cluster = processes({"ps": 1, "worker": 2})
    theirs = ["localhost:2222", "localhost:2223", "localhost:2224"]
    ports = [address.rpartition(":")[2] for address in [*cluster.spec["ps"], *cluster.spec["worker"]]]
    ours = dict(zip(theirs, [f"localhost:{port}" for port in ports]))

    def here(text: str) -> str:
        for readme, address in ours.items():
            text = text.replace(readme, address)
        return text

    serve = [block for block in blocks("sh") if block.startswith("dtfzmq serve")]
    assert len(serve) == 3
    tasks = [cluster.run(f"shell{i}", command(here(text))) for i, text in enumerate(serve)]
    for task in tasks:
        task.wait_printed("ready at")
    (program,) = blocks("python")
    done = subprocess.run([sys.executable, "-c", here(program)], capture_output=True, text=True, timeout=30, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    says = re.search(r"It prints `([^`]*)`", README)
    assert says and " ".join(done.stdout.split()) == says[1]
    for verb, expected in (("status", "up"), ("shutdown", "is ending")):
        (text,) = [block for block in blocks("sh") if block.startswith(f"dtfzmq {verb}")]
        done = subprocess.run(command(here(text)), capture_output=True, text=True, timeout=30, cwd=ROOT)
        assert done.returncode == 0, done.stdout + done.stderr
        assert done.stdout.count(expected) >= 3, done.stdout
    assert [task.wait(3.0) for task in tasks] == [0, 0, 0]


def test_the_cluster_in_one_command() -> None:
    (text,) = [block for block in blocks("sh") if block.startswith("dtfzmq run")]
    done = subprocess.run(command(text), capture_output=True, text=True, timeout=50, cwd=ROOT)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "global step" in done.stdout


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_and_files_are_there(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    for link in re.findall(r"\]\(([^)#]+)\)", text):
        if "://" not in link:
            assert (page.parent / link).exists(), link
    for path in re.findall(r"`((?:[\w.-]+/)+[\w.-]+\.(?:py|md|json|gz))`", text):
        if "sklearn" not in path:
            assert (ROOT / path).exists() or (ROOT / "dtfzmq" / path).exists(), path
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for target in re.findall(r"\bmake ([a-z]+)`", text):
        assert re.search(rf"^{target}:", makefile, re.M), target


def test_names_in_the_architecture_page_are_there() -> None:
    """`file.py: name` and `file.py: Class.name` in docs/architecture.md are definitions of that file."""
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    named = re.findall(r"`([\w/]+\.py): ([\w., ]+)`", text)
    assert len(named) >= 20
    for path, names in named:
        defined = definitions(ROOT / "dtfzmq" / path)
        for name in re.split(r",\s*", names):
            assert name in defined, f"{path} defines no {name}"


def definitions(path: Path) -> set[str]:
    """Names of functions, classes and methods of a file."""
    found: set[str] = set()
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            found.add(node.name)
        if isinstance(node, ast.ClassDef):
            found |= {f"{node.name}.{inner.name}" for inner in node.body if isinstance(inner, ast.FunctionDef)}
    return found
