"""``tf.flags``: command-line flags, defined anywhere and read as attributes of ``FLAGS``.

They are parsed from ``sys.argv`` when one is first read, or by ``tf.app.run``; what is not known then is left alone.
``FLAGS(argv)`` parses strictly. Source: TensorFlow 1's ``tf.app.flags``, that is ``absl.flags``.
"""

from __future__ import annotations

import difflib
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any


class Error(Exception):
    """The base of all errors of flags."""


class DuplicateFlagError(Error):
    """A flag is defined by two modules."""


class IllegalFlagValueError(Error):
    """A value does not suit its flag."""


class UnrecognizedFlagError(Error):
    """There is no such flag."""


class UnparsedFlagAccessError(Error):
    """A flag was read where the command line could not be parsed."""


ValidationError = IllegalFlagValueError


class Flag:
    """One flag: `value` now, `default`, `present` (how often the command line had it)."""

    def __init__(self, name: str, parse: Callable[[Any], Any], default: Any, help: str | None, kind: str) -> None:
        self.name = name
        self.help = help
        self.kind = kind
        self.module = ""
        self.short_name: str | None = None
        self.present = 0
        self.using_default_value = True
        self._parse = parse
        self.default = None if default is None else self.parsed(default)
        self.value: Any = self.default

    @property
    def boolean(self) -> bool:
        """True if it takes no value of its own."""
        return self.kind == "bool"

    def parsed(self, text: Any) -> Any:
        """The value that `text` means. Raises IllegalFlagValueError."""
        try:
            return self._parse(text)
        except (TypeError, ValueError) as error:
            raise IllegalFlagValueError(f"flag --{self.name}={text}: {error}") from None

    def given(self, text: Any) -> None:
        """Take a value from the command line."""
        value = self.parsed(text)
        if self.kind.startswith("multi") and self.present:
            value = list(self.value) + value
        self.value = value
        self.present += 1
        self.using_default_value = False

    def reset(self) -> None:
        """Forget what the command line said."""
        if self.present:
            self.value, self.present, self.using_default_value = self.default, 0, True


_PROTECTED = {
    "_table", "_parsed", "_argv", "_checks",
}  # fmt: skip


class FlagValues:
    """All flags by name: ``FLAGS.name``, ``FLAGS["name"]`` (the Flag), ``"name" in FLAGS``, iteration over names."""

    def __init__(self) -> None:
        self._table: dict[str, Flag] = {}
        self._parsed = False
        self._checks: list[tuple[tuple[str, ...], Callable[[dict[str, Any]], Any], str]] = []

    def __call__(self, argv: Sequence[str], known_only: bool = False) -> list[str]:
        """Parse ``argv[1:]``; the program's name and what is no flag. Raises Error for what is wrong in it.

        Flags may stand before and behind other arguments; parsing ends at ``--``. With `known_only` unknown flags and
        ``--`` are among what is returned.
        """
        if isinstance(argv, str) or not argv:
            raise TypeError("argv should be a tuple/list of strings, not bytes or string, and not empty.")
        for flag in self._table.values():
            flag.reset()
        rest = self._walk(list(argv)[1:], known_only)
        self._parsed = True
        self._check()
        return [argv[0], *rest]

    def _walk(self, args: list[str], known_only: bool) -> list[str]:
        left: list[str] = []
        i = 0
        while i < len(args):
            arg = args[i]
            i += 1
            if arg == "--":
                return left + args[i - 1 if known_only else i :]
            if not arg.startswith("-") or arg == "-":
                left.append(arg)
                continue
            name, equals, text = arg.lstrip("-").partition("=")
            flag = self._table.get(name)
            if flag is None and name.startswith("no"):
                negated = self._table.get(name[2:])
                if negated is not None and negated.boolean:
                    if equals:
                        raise IllegalFlagValueError(f"flag --{name}={text}: a negated flag takes no value")
                    negated.given(False)
                    continue
            if flag is None:
                if not known_only:
                    near = difflib.get_close_matches(name, self._table, 1)
                    hint = f" Did you mean: {near[0]} ?" if near else ""
                    raise UnrecognizedFlagError(f"Unknown command line flag '{name}'.{hint}")
                left.append(arg)
                continue
            if flag.boolean:
                flag.given(text if equals else True)
            elif equals:
                flag.given(text)
            elif i < len(args):
                flag.given(args[i])
                i += 1
            else:
                raise Error(f"Missing value for flag {arg}")
        return left

    def _check(self, name: str | None = None) -> None:
        for names, checker, message in self._checks:
            if name is None or name in names:
                values = {n: self._table[n].value for n in names}
                if not checker(values):
                    shown = ", ".join(f"flag --{n}={v}" for n, v in values.items())
                    raise IllegalFlagValueError(f"{shown}: {message}")

    def _defined(self, flag: Flag, module: str) -> None:
        known = self._table.get(flag.name)
        if known is not None and known.module != module:
            raise DuplicateFlagError(
                f"The flag '{flag.name}' is defined twice. First from {known.module}, Second from {module}."
            )
        flag.module = module
        self._table[flag.name] = flag
        if flag.short_name:
            self._table[flag.short_name] = flag
        self._parsed = False  # the command line may have a value for it

    def _ready(self) -> None:
        if not self._parsed:
            self._parse_flags()

    def _parse_flags(self, args: Sequence[str] | None = None) -> bool:
        """Parse ``sys.argv`` (or `args`, without a program's name) for what is known. TensorFlow's name before 1.5."""
        for flag in self._table.values():
            flag.reset()
        self._walk(list(sys.argv[1:] if args is None else args), True)
        self._parsed = True
        return True

    def __getattr__(self, name: str) -> Any:
        if name == "__flags":  # FLAGS.__flags of programs for TensorFlow before 1.5
            return self.flag_values_dict()
        flag = self.__dict__.get("_table", {}).get(name)
        if flag is None:
            raise AttributeError(name)
        self._ready()
        return flag.value

    def __setattr__(self, name: str, value: Any) -> None:
        if name in _PROTECTED:
            object.__setattr__(self, name, value)
            return
        flag = self._table.get(name)
        if flag is None:
            raise AttributeError(f"There is no flag '{name}'; define it first.")
        self._ready()
        flag.value = value
        flag.using_default_value = False
        self._check(name)

    def __getitem__(self, name: str) -> Flag:
        return self._table[name]

    def __contains__(self, name: object) -> bool:
        return name in self._table

    def __iter__(self) -> Iterator[str]:
        return iter(list(self._table))

    def __len__(self) -> int:
        return len(self._table)

    def __dir__(self) -> list[str]:
        return sorted([*super().__dir__(), *self._table])

    def flag_values_dict(self) -> dict[str, Any]:
        """All names and values."""
        self._ready()
        return {name: flag.value for name, flag in self._table.items()}

    def is_parsed(self) -> bool:
        """True once a command line was parsed."""
        return self._parsed

    def mark_as_parsed(self) -> None:
        """Take the values as they are."""
        self._parsed = True

    def unparse_flags(self) -> None:
        """Parse again when a flag is read."""
        self._parsed = False

    def set_default(self, name: str, value: Any) -> None:
        """Change a flag's default, and its value unless it was given. Raises UnrecognizedFlagError."""
        if name not in self._table:
            raise UnrecognizedFlagError(f"Unknown command line flag '{name}'.")
        flag = self._table[name]
        flag.default = None if value is None else flag.parsed(value)
        if flag.using_default_value:
            flag.value = flag.default

    def main_module_help(self) -> str:
        """One paragraph per flag."""
        lines = []
        for name, flag in sorted(self._table.items()):
            if name != flag.short_name:
                stem = f"--[no]{name}" if flag.boolean else f"--{name}"
                lines += [f"  {stem}: {flag.help or ''}", f"    (default: {flag.default!r})"]
        return "\n".join(lines)

    get_help = main_module_help


FLAGS = FlagValues()


def _boolean(value: Any) -> bool:
    text = str(value).lower()
    if text in ("true", "t", "1"):
        return True
    if text in ("false", "f", "0"):
        return False
    raise ValueError("Non-boolean argument to boolean flag")


def _integer(value: Any) -> int:
    if isinstance(value, str):
        text = value.strip()
        base = {"0x": 16, "0o": 8}.get(text.lstrip("+-")[:2].lower(), 10)
        return int(text, base)
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise TypeError(f"Expect argument to be a string or int, found {type(value)}")
    return int(value)


def _float(value: Any) -> float:
    if isinstance(value, (str, float)) or (hasattr(value, "__float__") and not isinstance(value, bool)):
        return float(value)
    raise TypeError(f"Expect argument to be a string, int, or float, found {type(value)}")


def _text(value: Any) -> str:
    if isinstance(value, bytes):
        return value.decode()
    if not isinstance(value, str):
        raise TypeError(f"flag value must be a string, found {type(value)}")
    return value


def _listed(value: Any) -> list[str]:
    if isinstance(value, (list, tuple)):
        return list(value)
    return [part.strip() for part in _text(value).split(",")] if value else []


def _spaced(value: Any) -> list[str]:
    return list(value) if isinstance(value, (list, tuple)) else _text(value).split()


def _define(
    name: str, parse: Callable[[Any], Any], default: Any, help: str | None, kind: str, values: FlagValues | None,
    options: dict[str, Any],
) -> None:  # fmt: skip
    flag = Flag(name, parse, default, help, kind)
    flag.short_name = options.get("short_name")
    (FLAGS if values is None else values)._defined(flag, sys._getframe(2).f_globals.get("__name__", "?"))


def DEFINE_string(name: str, default: Any, help: str | None = None, flag_values: Any = None, **options: Any) -> None:
    """A flag of text."""
    _define(name, _text, default, help, "string", flag_values, options)


def DEFINE_integer(name: str, default: Any, help: str | None = None, lower_bound: int | None = None,
                   upper_bound: int | None = None, flag_values: Any = None, **options: Any) -> None:  # fmt: skip
    """A flag that is a whole number, within bounds if they are given."""
    _define(name, _bounded(_integer, lower_bound, upper_bound), default, help, "integer", flag_values, options)


def DEFINE_float(name: str, default: Any, help: str | None = None, lower_bound: float | None = None,
                 upper_bound: float | None = None, flag_values: Any = None, **options: Any) -> None:  # fmt: skip
    """A flag that is a number, within bounds if they are given."""
    _define(name, _bounded(_float, lower_bound, upper_bound), default, help, "float", flag_values, options)


def _bounded(parse: Callable[[Any], Any], low: Any, high: Any) -> Callable[[Any], Any]:
    def parsed(value: Any) -> Any:
        number = parse(value)
        if (low is not None and number < low) or (high is not None and number > high):
            raise ValueError(f"{value} is not in the range [{low}, {high}]")
        return number

    return parsed


def DEFINE_boolean(name: str, default: Any, help: str | None = None, flag_values: Any = None, **options: Any) -> None:
    """A flag that is on or off: ``--name``, ``--noname``, ``--name=true``."""
    _define(name, _boolean, default, help, "bool", flag_values, options)


DEFINE_bool = DEFINE_boolean


def DEFINE_enum(name: str, default: Any, enum_values: Sequence[str], help: str | None = None, flag_values: Any = None,
                case_sensitive: bool = True, **options: Any) -> None:  # fmt: skip
    """A flag that is one of some texts."""

    def parse(value: Any) -> str:
        for allowed in enum_values:
            if value == allowed or not case_sensitive and str(value).lower() == allowed.lower():
                return allowed
        raise ValueError(f"value should be one of <{'|'.join(enum_values)}>")

    _define(name, parse, default, help, "enum", flag_values, options)


def DEFINE_list(name: str, default: Any, help: str | None = None, flag_values: Any = None, **options: Any) -> None:
    """A flag that is a list of texts, separated by commas."""
    _define(name, _listed, default, help, "list", flag_values, options)


def DEFINE_spaceseplist(name: str, default: Any, help: str | None = None, flag_values: Any = None,
                        **options: Any) -> None:  # fmt: skip
    """A flag that is a list of texts, separated by blanks."""
    _define(name, _spaced, default, help, "list", flag_values, options)


def _multi(parse: Callable[[Any], Any]) -> Callable[[Any], list[Any]]:
    return lambda value: [parse(v) for v in value] if isinstance(value, (list, tuple)) else [parse(value)]


def DEFINE_multi_string(name: str, default: Any, help: str | None = None, flag_values: Any = None,
                        **options: Any) -> None:  # fmt: skip
    """A flag that may be given several times; the list of its texts."""
    _define(name, _multi(_text), default, help, "multi", flag_values, options)


def DEFINE_multi_integer(name: str, default: Any, help: str | None = None, flag_values: Any = None,
                         **options: Any) -> None:  # fmt: skip
    """A flag that may be given several times; the list of its numbers."""
    _define(name, _multi(_integer), default, help, "multi", flag_values, options)


def DEFINE_multi_float(name: str, default: Any, help: str | None = None, flag_values: Any = None,
                       **options: Any) -> None:  # fmt: skip
    """A flag that may be given several times; the list of its numbers."""
    _define(name, _multi(_float), default, help, "multi", flag_values, options)


def DEFINE_alias(name: str, original_name: str, flag_values: Any = None, module_name: str | None = None) -> None:
    """Another name of a flag."""
    values = FLAGS if flag_values is None else flag_values
    if original_name not in values:
        raise UnrecognizedFlagError(f"Unknown command line flag '{original_name}'.")
    values._table[name] = values._table[original_name]


def register_multi_flags_validator(
    flag_names: Sequence[str],
    multi_flags_checker: Callable[[dict[str, Any]], Any],
    message: str = "Flags validation failed",
    flag_values: Any = None,
) -> None:
    """Check several flags together when they are parsed or set: `multi_flags_checker(values by name)`."""
    values = FLAGS if flag_values is None else flag_values
    for name in flag_names:
        if name not in values:
            raise AttributeError(f"Flag {name} is not defined, so that nothing can be asked of it.")
    values._checks.append((tuple(flag_names), multi_flags_checker, message))


def register_validator(flag_name: str, checker: Callable[[Any], Any], message: str = "Flag validation failed",
                       flag_values: Any = None) -> None:  # fmt: skip
    """Check a flag when it is parsed or set: `checker(value)` says if it may be so."""
    register_multi_flags_validator([flag_name], lambda found: checker(found[flag_name]), message, flag_values)


def mark_flag_as_required(flag_name: str, flag_values: Any = None) -> None:
    """`tf.app.run` and ``FLAGS(argv)`` refuse a command line that leaves it None."""
    text = f"Flag --{flag_name} must have a value other than None."
    register_validator(flag_name, lambda value: value is not None, text, flag_values)


def mark_flags_as_required(flag_names: Sequence[str], flag_values: Any = None) -> None:
    """mark_flag_as_required for each."""
    for name in flag_names:
        mark_flag_as_required(name, flag_values)


def set_default(flag_holder: str, value: Any) -> None:
    """Change the default of a flag."""
    FLAGS.set_default(flag_holder, value)
