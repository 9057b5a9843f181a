"""docs/ops.md, made from the declarations and the public names: `make docs` writes it, a test holds it against them.

    python -m docs.generate           write the page
    python -m docs.generate --check   exit with 1 if it is not up to date
"""

from __future__ import annotations

import ast
import enum
import inspect
import sys
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dtfzmq
from docs.differs import DIFFERS, FUNCTIONS, OWN
from dtfzmq.base.dtypes import DType
from dtfzmq.graph import opdef

PAGE = Path(__file__).resolve().parent / "ops.md"
OPS = Path(dtfzmq.__file__).resolve().parent / "ops"
Named = dict[str, list[str]]

HEAD = """\
# The op library

Made by `make docs` from the declarations in `dtfzmq/ops/` and from the public names; do not edit it.

- **Kernels** are numpy's. Sums are made in another order than TensorFlow's, so that results agree within rounding.
- **Seeds** give the same sequence on every task and in every run, and TensorFlow's numbers where nothing else is said.
- **Errors** have TensorFlow's classes. Shapes that do not go together raise ValueError while the graph is built.
- **Deprecated spellings** of arguments are accepted where TensorFlow 1 accepted them.
"""


# What modules of tf.contrib import for programs and use as well.
_USED_TOO = {
    "assert_global_step", "bidirectional_dynamic_rnn", "get_global_step", "static_bidirectional_rnn",
    "xavier_initializer",
}  # fmt: skip


def spaces() -> Iterator[tuple[str, Any]]:
    """The root and every public namespace, by the prefix of its names."""
    yield "", dtfzmq
    for name, value in sorted(vars(dtfzmq).items()):
        if isinstance(value, types.ModuleType) and value.__name__.startswith(("dtfzmq.compat.", "dtfzmq.summary")):
            yield f"{name}.", value


def doors() -> dict[int, tuple[Any, list[str]]]:
    """Public functions and classes of the op library with all their names, by identity."""
    found: dict[int, tuple[Any, list[str]]] = {}
    for prefix, space in spaces():
        for name, value in sorted(vars(space).items()):
            if name.startswith("_") or not callable(value) or not _is_of_ops(value):
                continue
            found.setdefault(id(value), (value, []))[1].append(prefix + name)
    return found


def _is_of_ops(value: Any) -> bool:
    module = getattr(value, "__module__", None) or ""
    return module.startswith("dtfzmq.ops.") or _op_of(value) is not None


def _op_of(value: Any) -> opdef.OpDef | None:
    """The op of which `value` is the builder itself."""
    definition = opdef.find(getattr(value, "__name__", ""))
    return definition if definition is not None and definition.builder is value else None


def _default(value: Any) -> str:
    if isinstance(value, DType):
        return f"tf.{value.name}"
    if hasattr(value, "item"):
        value = value.item()
    return repr(value) if isinstance(value, (int, float, bool, str, bytes, tuple, list, type(None))) else "..."


def signature(value: Any) -> str:
    """Arguments and defaults of a public function, without annotations."""
    definition = _op_of(value)
    if definition is not None:
        parts = [a.name for a in definition.signature.inputs]
        parts += [a.name if a.required else f"{a.name}={_default(a.default)}" for a in definition.signature.attrs]
        return ", ".join([*parts, "name=None"])
    if isinstance(value, enum.EnumMeta):  # how one is called differs from Python to Python
        return "value"
    out = []
    for p in inspect.signature(value).parameters.values():
        stars = "*" if p.kind is p.VAR_POSITIONAL else "**" if p.kind is p.VAR_KEYWORD else ""
        out.append(f"{stars}{p.name}" + ("" if p.default is p.empty else f"={_default(p.default)}"))
    return ", ".join(out)


def _sentence(value: Any) -> str:
    definition = _op_of(value)
    if definition is not None:
        return f"the op {definition.name}"
    text = " ".join((inspect.getdoc(value) or "").split("\n\n")[0].split())
    return text.partition(". ")[0].rstrip(".")


def _built(node: ast.AST, known: dict[str, set[str]]) -> set[str]:
    """Op types that a piece of source names: ``raw.Type``, or a variable that stands for a builder."""
    found: set[str] = set()
    for part in ast.walk(node):
        if isinstance(part, ast.Attribute) and isinstance(part.value, ast.Name) and part.value.id == "raw":
            found.add(part.attr)
        elif isinstance(part, ast.Name) and part.id in known:
            found |= known[part.id]
        elif isinstance(part, ast.Constant) and isinstance(part.value, str) and opdef.find(part.value) is not None:
            found.add(part.value)
    return {name for name in found if opdef.find(name) is not None}


def _plain(name: str) -> str:
    """A name by which an op and its function are the same: ``ArgMax`` and ``argmax``, ``Any`` and ``reduce_any``."""
    leaf = name.rpartition(".")[2].removeprefix("reduce_").replace("_", "").lower()
    return leaf[:-2] if leaf[-2:] in ("v2", "v3") else leaf


def _of_training(op_type: str) -> list[str]:
    """The optimizer that an update belongs to."""
    stem = op_type.removeprefix("Resource").removeprefix("Sparse")
    name = f"{stem.removeprefix('Apply').removesuffix('V2')}Optimizer"
    return [f"train.{name}"] if stem.startswith("Apply") and hasattr(dtfzmq.train, name) else []


def users() -> Named:
    """Public names by the op types that they stand for: by name, or because their definition names no other."""
    named = [(value, called) for value, called in doors().values() if hasattr(value, "__name__")]
    names = {(value.__module__, value.__name__): called for value, called in named}
    found: Named = {d.name: [*_of_training(d.name), *FUNCTIONS.get(d.name, ())] for d in opdef.library_ops()}
    by_name: Named = {}
    for _, called in named:
        for plain in {_plain(n) for n in called}:
            by_name.setdefault(plain, []).extend(called)
    for op_type in found:
        found[op_type] += by_name.get(_plain(op_type), [])
    for path in sorted(OPS.glob("*.py")):
        module = f"dtfzmq.ops.{path.stem}"
        known: dict[str, set[str]] = {}
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            defined: list[str] = []
            if isinstance(node, ast.Assign):
                defined = [t.id for t in node.targets if isinstance(t, ast.Name)]
                if not isinstance(node.value, ast.Call):
                    continue
                builds = _built(node.value, known)
                if isinstance(node.value.func, ast.Name) and node.value.func.id == "op":
                    first = node.value.args[0]
                    literal = isinstance(first, ast.Constant) and isinstance(first.value, str)
                    builds = {str(ast.literal_eval(first))} if literal else set()
            elif isinstance(node, ast.FunctionDef):
                defined, builds = [node.name], _built(node, known)
            else:
                continue
            for name in defined:
                if name.startswith("_"):
                    known[name] = builds
                if len(builds) == 1:
                    found[next(iter(builds))].extend(names.get((module, name), ()))
    for value, called in doors().values():
        definition = _op_of(value)
        if definition is not None:
            found[definition.name].extend(called)
    return found


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def _gradient(definition: opdef.OpDef) -> str:
    return "yes" if callable(definition.grad) else f"no: {definition.grad.reason}"


def page() -> str:
    """The whole page."""
    used = users()
    lines = [HEAD]
    declared = opdef.library_ops()
    lines += [
        f"## {len(declared)} ops", "",
        "The type is TensorFlow 1's unless the last column says *own*. Beside it the functions that stand for it; "
        "others are made of several ops.", "",
        "| op | TF1 functions | signature | gradient | what differs |", "|---|---|---|---|---|",
    ]  # fmt: skip
    for d in declared:
        own = f"own: {OWN[d.name]}" if d.name in OWN else ""
        notes = ". ".join(part for part in (own, DIFFERS.get(d.name, "")) if part)
        through = ", ".join(f"`{n}`" for n in sorted(set(used.get(d.name, ()))))
        cells = (f"`{d.name}`", through, f"`{' '.join(d.signature.text.split())}`", _gradient(d), notes)
        lines.append("| " + " | ".join(map(_cell, cells)) + " |")
    listed = sorted((sorted(called, key=lambda n: (n.count("."), n)), value) for value, called in doors().values())
    lines += [
        "", f"## {len(listed)} functions and classes", "",
        "| TF1 names | arguments | what it gives | what differs |", "|---|---|---|---|",
    ]  # fmt: skip
    for called, value in listed:
        notes = next((DIFFERS[n] for n in called if n in DIFFERS), "")
        row = ", ".join(f"`{n}`" for n in called), f"`{signature(value)}`", _sentence(value), notes
        lines.append("| " + " | ".join(map(_cell, row)) + " |")
    lines += ["", "## tf.contrib", "", "| module | names |", "|---|---|"]
    for module in sorted(dtfzmq.contrib.__all__):
        lines.append(f"| `contrib.{module}` | {', '.join(f'`{n}`' for n in of_contrib(module))} |")
    return "\n".join(lines) + "\n"


def of_contrib(module: str) -> list[str]:
    """What a program may take from a module of tf.contrib: what it defines, and imports for others than itself."""
    space = getattr(dtfzmq.contrib, module)
    body = ast.parse(inspect.getsource(space)).body
    defined = {node.name for node in body if isinstance(node, (ast.FunctionDef, ast.ClassDef))}
    code = [node for node in body if not isinstance(node, ast.Assign) or not isinstance(node.value, ast.Name)]
    used = {part.id for node in code for part in ast.walk(node) if isinstance(part, ast.Name)}
    taken = {a.asname or a.name for node in body if isinstance(node, ast.ImportFrom) for a in node.names}
    helpers = (taken & used | {"annotations", "scaled"}) - _USED_TOO
    return sorted(
        name for name, value in vars(space).items()
        if (name in defined or name not in helpers) and not name.startswith("_") and callable(value)
    )  # fmt: skip


def main() -> int:
    """Write or check the page."""
    text = page()
    current = PAGE.read_text(encoding="utf-8") if PAGE.exists() else ""
    if "--check" in sys.argv[1:]:
        if text != current:
            sys.stderr.write("docs/ops.md is not up to date: run `make docs`\n")
        return int(text != current)
    PAGE.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
