"""Regular expressions with RE2's syntax and meaning, the one place that compiles and applies them.

RE2 itself serves them where the package google-re2 is installed (the extra ``regex``), in time that grows with the text
alone. Without it Python's ``re`` serves those that cannot keep the interpreter for long (see backtracking); others end
with UnimplementedError. An invalid pattern, or one of more than 10,000 bytes, is InvalidArgumentError with either. Any
thread may call.
"""

from __future__ import annotations

import functools
import importlib
import re
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

from dtfzmq.base import errors
from dtfzmq.ops.backtracking import Backtracking, NotRE2, TooManySteps, compile_safe

_found: list[ModuleType | None] = []
_INSTALL = f"Install google-re2 where the operation runs: {sys.executable} -m pip install google-re2"
_MOST_STEPS = 5e7  # of backtracking for one operation: about a second
# RE2 gives up on what compiles to too much. A limit here, since compiling holds the interpreter with either engine, in
# time that may grow with the square of the pattern.
_MOST_BYTES = 10_000
_POSIX = re.compile(r"\[:\^?[a-z]+:\]")


def _re2() -> ModuleType | None:
    """The module re2, or None without google-re2."""
    if not _found:
        try:
            _found.append(importlib.import_module("re2"))
        except ImportError:
            _found.append(None)
    return _found[0]


def _invalid(pattern: str, error: object, hint: str = "") -> errors.InvalidArgumentError:
    return errors.InvalidArgumentError(None, None, f"Invalid pattern: {pattern}, error: {error}{hint}")


@functools.lru_cache(maxsize=256)
def _linear(module: ModuleType, pattern: bytes) -> Any:
    options = module.Options()
    options.log_errors = False
    try:
        return module.compile(pattern, options)
    except module.error as error:
        text = error.args[0] if error.args else error
        raise _invalid(_shown(pattern), _shown(text) if isinstance(text, bytes) else text) from None


@functools.lru_cache(maxsize=256)
def _backtracking(pattern: bytes, whole: bool) -> Backtracking:
    try:
        text = pattern.decode()
        if _POSIX.search(text):
            raise NotRE2("classes as [:alpha:] are not known")
        return compile_safe(text, whole)
    except UnicodeDecodeError:
        raise _invalid(_shown(pattern), "invalid UTF-8") from None
    except (re.error, NotRE2, RecursionError, OverflowError, ValueError) as error:
        raise _invalid(_shown(pattern), error, f". Python's re read it; RE2 knows more. {_INSTALL}") from None
    except TooManySteps as error:
        raise errors.UnimplementedError(
            None, None, f"Pattern {_shown(pattern)} could take Python's re for ever: {error}. {_INSTALL}"
        ) from None


def _text(s: bytes) -> str:
    return s.decode("utf-8", "surrogateescape")


def _shown(s: bytes) -> str:
    return s.decode("utf-8", "replace")


def _applied(texts: list[bytes], pattern: bytes, whole: bool, fn: Callable[[Any, Any], Any]) -> list[Any]:
    """fn(compiled, text) of each text; both are bytes for RE2 and str for re."""
    if len(pattern) > _MOST_BYTES:
        text = f"pattern too large: {len(pattern)} bytes, and {_MOST_BYTES} are the most"
        raise _invalid(f"{_shown(pattern[:40])}...", text)
    module = _re2()
    if module is not None:
        compiled = _linear(module, pattern)
        return [fn(compiled, s) for s in texts]
    found = _backtracking(pattern, whole)
    words = [_text(s) for s in texts]
    if sum(found.steps(len(w), whole) for w in words) > _MOST_STEPS:
        longest = max(map(len, words))
        raise errors.UnimplementedError(
            None, None,
            f"Pattern {_shown(pattern)} could take Python's re very long with {len(words)} texts of up to {longest} "
            f"characters. {_INSTALL}",
        )  # fmt: skip
    return [fn(found.compiled, w) for w in words]


def full_matches(texts: list[bytes], pattern: bytes) -> list[bool]:
    """Whether each text as a whole matches."""
    return _applied(texts, pattern, True, lambda compiled, text: compiled.fullmatch(text) is not None)


def replaced(texts: list[bytes], pattern: bytes, rewrite: bytes, every: bool) -> list[bytes]:
    """The texts with every match, or the first alone, replaced by `rewrite`, where \\0 to \\9 are the groups.

    As RE2 does: a rewrite that names a group which the pattern lacks changes nothing, and one with another escape ends
    there, or, where the first match alone is replaced, changes nothing.
    """
    parts, ends_well = _parts(rewrite)

    def one(compiled: Any, text: Any) -> bytes:
        plain = isinstance(text, bytes)
        if any(isinstance(p, int) and p > compiled.groups for p in parts) or not (every or ends_well):
            return text if plain else text.encode("utf-8", "surrogateescape")
        own = parts if plain else [_text(p) if isinstance(p, bytes) else p for p in parts]
        pieces = _pieces(compiled, text, own, every)
        return b"".join(pieces) if plain else "".join(pieces).encode("utf-8", "surrogateescape")

    return _applied(texts, pattern, False, one)


def _parts(rewrite: bytes) -> tuple[list[Any], bool]:
    """A rewrite as bytes and numbers of groups; whether it is right to its end."""
    parts: list[Any] = []
    at = 0
    for found in re.finditer(rb"\\(.?)", rewrite, re.DOTALL):
        parts.append(rewrite[at : found.start()])
        if found[1].isdigit():
            parts.append(int(found[1]))
        elif found[1] == b"\\":
            parts.append(b"\\")
        else:
            return parts, False
        at = found.end()
    parts.append(rewrite[at:])
    return parts, True


def _pieces(compiled: Any, text: Any, parts: list[Any], every: bool) -> list[Any]:
    """The text in pieces with its matches rewritten. No empty match begins where the match before it ended."""
    out: list[Any] = []
    at, last = 0, -1
    while at <= len(text):
        match = compiled.search(text, at)
        if match is None:
            break
        begin, end = match.span()
        if begin == end == last:
            step = _width(text, at)
            out.append(text[at : at + step])
            at += step
            continue
        out.append(text[at:begin])
        out.extend((match.group(p) or text[:0]) if isinstance(p, int) else p for p in parts)
        at = last = end
        if not every:
            break
    out.append(text[at:])
    return out


def _width(text: Any, at: int) -> int:
    """How long the character at `at` is: in bytes, one where they are no UTF-8."""
    if isinstance(text, str):
        return 1
    for width in range(1, 5):
        try:
            text[at : at + width].decode()
        except UnicodeDecodeError:
            continue
        return width
    return 1
