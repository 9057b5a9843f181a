"""Which patterns Python's ``re``, which backtracks, may serve, and how many steps it takes for them at most.

Refused is what can take a number of steps that grows exponentially: choices (repeats of a variable number, alternatives
that begin alike) inside a repeat; and what RE2 does not know, as references to groups. What remains is polynomial, with
an exponent that `steps` knows.
"""

from __future__ import annotations

import dataclasses
import importlib
import math
import re
import sys
from typing import Any

_LAYOUT = ("re._parser", "re._compiler") if sys.version_info >= (3, 11) else ("sre_parse", "sre_compile")
_parser: Any = importlib.import_module(_LAYOUT[0])
_compiler: Any = importlib.import_module(_LAYOUT[1])

_CHARACTERS = (_parser.LITERAL, _parser.NOT_LITERAL, _parser.ANY, _parser.IN)
_REPEATS = (_parser.MAX_REPEAT, _parser.MIN_REPEAT)
_LARGEST = 1000  # repeat, as RE2's
_FLAGS = re.IGNORECASE | re.MULTILINE | re.DOTALL  # of RE2, by the same letters
_ENCODING = re.compile(r"(?:\(\?[ims]+\))*\(\?[a-z]*[au]")
# Sets of characters are bits: 0 to 127 the characters of ASCII, 128 all others.
_OTHERS = 128
_ALL = (1 << _OTHERS + 1) - 1


class TooManySteps(Exception):
    """The pattern, or it with texts of this length, could keep the interpreter for very long."""


class NotRE2(Exception):
    """The pattern has what RE2 does not know."""


@dataclasses.dataclass(frozen=True)
class Backtracking:
    """A pattern of ``re`` with what bounds its steps."""

    compiled: Any
    anchored: bool
    choices: tuple[tuple[float, bool], ...]  # how many ways each can go, and whether several of them go on

    def steps(self, length: int, whole: bool) -> float:
        """No fewer than it takes for a text of `length` characters, matched as a whole or searched."""
        ways, scan = 1.0, 1.0
        for count, several in self.choices:
            if several:
                ways *= min(count, length + 1)
            else:
                scan = max(scan, min(count, length + 1))
        return length + ways * scan * (1 if whole or self.anchored else length + 1)


def compile_safe(pattern: str, whole: bool) -> Backtracking:
    """Compile a pattern; `$` is the end of the text alone. Raises re.error, NotRE2, TooManySteps."""
    if _ENCODING.match(pattern):
        raise NotRE2("flags a and u are not known")
    tree = _parser.parse(pattern, re.ASCII)
    _check_flags(tree.state.flags & ~re.ASCII)
    _settle(tree, tree.state.flags)
    choices = _Choices()
    choices.walk(tree, 0, whole)
    begins = len(tree) > 0 and tree[0] == (_parser.AT, _parser.AT_BEGINNING) and not tree.state.flags & re.MULTILINE
    return Backtracking(_compiler.compile(tree, re.ASCII), begins, tuple(choices.found))


def _check_flags(flags: int) -> None:
    if flags & ~_FLAGS:
        raise NotRE2("flags other than i, m and s are not known")


def _settle(tree: Any, flags: int) -> None:
    """Refuse what RE2 does not have; outside of lines, the end is that of the text, not before a last newline."""
    for i, (op, value) in enumerate(tree):
        if op is _parser.AT:
            if value is _parser.AT_END_STRING:
                raise NotRE2(r"invalid escape sequence: \Z")
            if value is _parser.AT_END and not flags & re.MULTILINE:
                tree[i] = (op, _parser.AT_END_STRING)
        elif op is _parser.SUBPATTERN:
            _check_flags(value[1] | value[2])
            _settle(value[3], (flags | value[1]) & ~value[2])
        elif op is _parser.BRANCH:
            for part in value[1]:
                _settle(part, flags)
        elif op in _REPEATS:
            low, high, body = value
            if low > _LARGEST or (high is not _parser.MAXREPEAT and high > _LARGEST):
                raise NotRE2("invalid repetition size")
            _settle(body, flags)
        elif op not in _CHARACTERS:
            raise NotRE2(f"there are no operators as {str(op).lower()}")


class _Choices:
    """The choices of one pattern, and with what its nodes begin, each of which is worked out once."""

    def __init__(self) -> None:
        self.found: list[tuple[float, bool]] = []
        self._begins: dict[int, tuple[int, bool]] = {}  # by the id of a node's value; the tree keeps them alive

    def walk(self, items: Any, mask: int, fails: bool) -> tuple[int, bool]:
        """Enter the choices of a sequence before what begins with a character of `mask` and may fail.

        Returns the mask of the sequence with what follows, and whether both together may fail.
        """
        for op, value in reversed(list(items)):
            if op is _parser.SUBPATTERN:
                mask, fails = self.walk(value[3], mask, fails)
                continue
            begin, empty = self._begin(op, value)
            optional = False
            if op in _REPEATS:
                low, high, body = value
                optional = low == 0
                if high > 1:
                    self._refuse_choices(body)
                else:
                    self.walk(body, mask, fails)
                if low != high and fails:
                    count = math.inf if high is _parser.MAXREPEAT else float(high - low + 1)
                    self.found.append((count, bool(begin & mask) or self._first(body)[1]))
            elif op is _parser.BRANCH:
                for part in value[1]:
                    self.walk(part, mask, fails)
                if fails and self._overlap(value[1]):
                    self.found.append((float(len(value[1])), True))
            mask = begin | mask if empty else begin
            fails = fails or not optional
        return mask, fails

    def _refuse_choices(self, items: Any) -> None:
        """Raise TooManySteps for a choice inside a repeat."""
        for op, value in items:
            if op is _parser.SUBPATTERN:
                self._refuse_choices(value[3])
            elif op in _REPEATS:
                if value[0] != value[1]:
                    raise TooManySteps("it has a repeat inside a repeat")
                self._refuse_choices(value[2])
            elif op is _parser.BRANCH:
                if self._overlap(value[1]):
                    raise TooManySteps("it has alternatives that begin alike inside a repeat")
                for part in value[1]:
                    self._refuse_choices(part)

    def _overlap(self, parts: Any) -> bool:
        seen = 0
        for part in parts:
            mask, empty = self._first(part)
            if empty or mask & seen:
                return True
            seen |= mask
        return False

    def _first(self, items: Any) -> tuple[int, bool]:
        """With which characters a sequence can begin, at least; whether it can be empty."""
        mask = 0
        for op, value in items:
            begin, empty = self._begin(op, value)
            mask |= begin
            if not empty:
                return mask, False
        return mask, True

    def _begin(self, op: Any, value: Any) -> tuple[int, bool]:
        """`_first` of one node."""
        if op is _parser.AT:
            return 0, True
        if op in _CHARACTERS:
            return _characters(op, value), False
        known = self._begins.get(id(value))
        if known is not None:
            return known
        if op is _parser.SUBPATTERN:
            begin, empty = self._first(value[3])
        elif op is _parser.BRANCH:
            firsts = [self._first(part) for part in value[1]]
            begin, empty = 0, any(e for _, e in firsts)
            for m, _ in firsts:
                begin |= m
        else:
            begin, empty = self._first(value[2])
            empty = empty or value[0] == 0
        self._begins[id(value)] = begin, empty
        return begin, empty


def _bits(low: int, high: int) -> int:
    """The characters from `low` to `high` in both cases, whatever the flags."""
    mask = 1 << _OTHERS if high >= _OTHERS else 0
    for code in range(low, min(high, _OTHERS - 1) + 1):
        mask |= 1 << code | 1 << ord(chr(code).swapcase())
    return mask


def _characters(op: Any, value: Any) -> int:
    if op is _parser.LITERAL:
        return _bits(value, value)
    if op is _parser.NOT_LITERAL:
        return _ALL & ~(_bits(value, value) & _CASELESS)
    if op is not _parser.IN:
        return _ALL
    mask = 0
    for kind, item in value:
        if kind is _parser.NEGATE:
            continue
        if kind is _parser.LITERAL:
            mask |= _bits(item, item)
        elif kind is _parser.RANGE:
            mask |= _bits(*item)
        else:
            mask |= _CATEGORIES.get(item, _ALL)
    # What is in both cases here is, where case counts, in one alone; so the rest is taken without letters left out.
    return _ALL & ~(mask & _CASELESS) if value[0][0] is _parser.NEGATE else mask


def _where(text: str) -> int:
    fits = re.compile(text, re.ASCII)
    return sum(1 << code for code in range(_OTHERS) if fits.match(chr(code)))


_CASELESS = _where("[^a-zA-Z]")
_CATEGORIES = {
    _parser.CATEGORY_DIGIT: _where(r"\d"), _parser.CATEGORY_NOT_DIGIT: _ALL & ~_where(r"\d"),
    _parser.CATEGORY_SPACE: _where(r"\s"), _parser.CATEGORY_NOT_SPACE: _ALL & ~_where(r"\s"),
    _parser.CATEGORY_WORD: _where(r"\w"), _parser.CATEGORY_NOT_WORD: _ALL & ~_where(r"\w"),
}  # fmt: skip
