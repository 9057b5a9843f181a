"""Plain records that behave like TF1's configuration messages: known fields, defaults, nested records on demand."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any, ClassVar

from dtfzmq.base.names import article


class Record:
    """Base of records whose fields are listed in `FIELDS`: name -> default, or a Record class for a nested record.

    Fields hold their default until assigned; `list` and `dict` defaults are copied per record. A nested record is made
    on first reading, so `config.gpu_options.allow_growth = True` works. Unknown names are refused as TF1 refuses them:
    ValueError in the constructor, AttributeError on assignment.
    """

    FIELDS: ClassVar[dict[str, Any]] = {}
    __slots__ = ("_set",)

    def __init__(self, **fields: Any) -> None:
        object.__setattr__(self, "_set", {})
        for name, value in fields.items():
            default = self._default(name)
            if value is None:
                continue
            if isinstance(default, type):
                if isinstance(value, dict):
                    value = default(**value)
                elif not isinstance(value, default):
                    raise TypeError(
                        f"Field '{name}' of {type(self).__name__} takes {article(default.__name__)}, "
                        f"not {type(value).__name__}."
                    )
                self._set[name] = copy.deepcopy(value)
            elif isinstance(default, list):
                if isinstance(value, (str, bytes)):
                    raise TypeError(f"Field '{name}' of {type(self).__name__} takes a list, not {value!r}.")
                self._set[name] = list(value)
            elif isinstance(default, dict):
                self._set[name] = dict(value)
            else:
                self._set[name] = self._checked(name, default, value)

    def _default(self, name: str) -> Any:
        try:
            return self.FIELDS[name]
        except KeyError:
            raise ValueError(f'Protocol message {type(self).__name__} has no "{name}" field.') from None

    def _checked(self, name: str, default: Any, value: Any) -> Any:
        kind = type(default)
        if kind is bool and not isinstance(value, bool):
            if value in (0, 1):
                return bool(value)
        elif kind is int and hasattr(value, "__index__"):
            return int(value)
        elif kind is float and isinstance(value, (int, float)) or kind is float and hasattr(value, "__float__"):
            return float(value)
        elif kind is str and isinstance(value, bytes):
            return value.decode("utf-8")
        elif default is None or isinstance(value, kind):
            return value
        raise TypeError(
            f"{value!r} has type {type(value).__name__}, but field '{name}' of {type(self).__name__} "
            f"takes {kind.__name__}."
        )

    def __getattr__(self, name: str) -> Any:
        try:
            return self._set[name]
        except KeyError:
            pass
        if name.startswith("__") or name not in self.FIELDS:
            raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")
        default = self.FIELDS[name]
        if isinstance(default, type):
            made: Any = default()
        elif isinstance(default, (list, dict)):
            made = type(default)()
        else:
            return default
        self._set[name] = made
        return made

    def __setattr__(self, name: str, value: Any) -> None:
        if name not in self.FIELDS:
            raise AttributeError(f'Assignment not allowed (no field "{name}" in protocol message object).')
        default = self.FIELDS[name]
        if isinstance(default, (type, list, dict)):
            raise AttributeError(
                f'Assignment not allowed to message, map, or repeated field "{name}" in protocol message object.'
            )
        self._set[name] = self._checked(name, default, value)

    def HasField(self, name: str) -> bool:
        """Whether `name` was assigned, or is a nested record in which something was."""
        default = self._default(name)
        value = self._set.get(name)
        if isinstance(default, type):
            return isinstance(value, Record) and bool(value.to_plain())
        return value is not None

    def ClearField(self, name: str) -> None:
        """Give `name` its default again."""
        self._default(name)
        self._set.pop(name, None)

    def CopyFrom(self, other: Record) -> None:
        """Take over every field of `other`, a record of the same class."""
        self._same(other)
        object.__setattr__(self, "_set", copy.deepcopy(other._set))

    def MergeFrom(self, other: Record) -> None:
        """Take over the fields that `other` has set; lists are appended, nested records and maps merged."""
        self._same(other)
        for name, value in other._set.items():
            default = self.FIELDS[name]
            if isinstance(default, type):
                getattr(self, name).MergeFrom(value)
            elif isinstance(default, list):
                getattr(self, name).extend(value)
            elif isinstance(default, dict):
                getattr(self, name).update(value)
            else:
                self._set[name] = value

    def _same(self, other: Record) -> None:
        if type(other) is not type(self):
            raise TypeError(f"Parameter must be instance of {type(self).__name__}, not {type(other).__name__}.")

    def to_plain(self) -> dict[str, Any]:
        """The fields that were set, as dicts, lists and scalars; the form in which a record travels."""
        plain: dict[str, Any] = {}
        for name, value in self._set.items():
            if isinstance(value, Record):
                value = value.to_plain()
                if not value:
                    continue
            elif isinstance(value, list):
                if not value:
                    continue
                value = [v.to_plain() if isinstance(v, Record) else v for v in value]
            elif isinstance(value, dict):
                if not value:
                    continue
                value = {k: v.to_plain() if isinstance(v, Record) else v for k, v in value.items()}
            plain[name] = value
        return plain

    def ListFields(self) -> Iterator[tuple[str, Any]]:
        """(name, value) of the fields that were set, in the order of FIELDS."""
        for name in self.FIELDS:
            if name in self._set and self.HasField(name):
                yield name, self._set[name]

    def __deepcopy__(self, memo: dict[int, Any]) -> Record:
        twin = type(self)()
        object.__setattr__(twin, "_set", copy.deepcopy(self._set, memo))
        return twin

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Record) or type(other) is not type(self):
            return NotImplemented
        return self.to_plain() == other.to_plain()

    __hash__ = None  # type: ignore[assignment]  # records are mutable

    def __dir__(self) -> list[str]:
        return sorted(set(super().__dir__()) | set(self.FIELDS))

    def __repr__(self) -> str:
        fields = ", ".join(f"{k}={v!r}" for k, v in self.ListFields())
        return f"{type(self).__name__}({fields})"
