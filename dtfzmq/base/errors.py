"""TensorFlow's error classes and codes, and how an error crosses a process border.

Source: the canonical codes of TensorFlow's ``error_codes.proto``.
"""

from __future__ import annotations

import re
import traceback
from typing import Any

# A text of an error that travels has so many characters at most.
_LONGEST = 64 * 1024

OK = 0
CANCELLED = 1
UNKNOWN = 2
INVALID_ARGUMENT = 3
DEADLINE_EXCEEDED = 4
NOT_FOUND = 5
ALREADY_EXISTS = 6
PERMISSION_DENIED = 7
RESOURCE_EXHAUSTED = 8
FAILED_PRECONDITION = 9
ABORTED = 10
OUT_OF_RANGE = 11
UNIMPLEMENTED = 12
INTERNAL = 13
UNAVAILABLE = 14
DATA_LOSS = 15
UNAUTHENTICATED = 16


class OpError(Exception):
    """Base of all errors of a step; ``code`` is TensorFlow's canonical error code.

    ``op`` is the client's Operation that failed (None if unknown), ``node_def`` its definition, ``message`` the text.
    ``origin`` names the task where it arose ("" in this process); ``derived`` is true of an echo, raised since
    something else failed first: aggregation prefers an error that is not derived. ``remote_traceback`` is the text of
    the traceback in the process where it arose.
    """

    code = UNKNOWN

    def __init__(self, node_def: Any = None, op: Any = None, message: str = "", error_code: int | None = None) -> None:
        super().__init__(message)
        self.node_def = node_def
        self.op = op
        self.message = message
        self.error_code = self.code if error_code is None else error_code
        self.node = ""
        self.origin = ""
        self.derived = False
        self.remote_traceback = ""

    def __str__(self) -> str:
        return self.message

    def __reduce__(self) -> tuple[Any, ...]:
        return from_wire, (to_wire(self),)


class CancelledError(OpError):
    """Somebody asked for the end: a closed session, a cancelled step, a closed queue."""

    code = CANCELLED


class UnknownError(OpError):
    """An error of no better class."""

    code = UNKNOWN


class InvalidArgumentError(OpError):
    """The caller's input is wrong whatever the state of the system."""

    code = INVALID_ARGUMENT


class DeadlineExceededError(OpError):
    """The time the caller gave ran out."""

    code = DEADLINE_EXCEEDED


class NotFoundError(OpError):
    """A named thing is not there."""

    code = NOT_FOUND


class AlreadyExistsError(OpError):
    """A thing to be made is there already."""

    code = ALREADY_EXISTS


class PermissionDeniedError(OpError):
    """The caller may not do this."""

    code = PERMISSION_DENIED


class ResourceExhaustedError(OpError):
    """Memory, a budget or another quota is used up."""

    code = RESOURCE_EXHAUSTED


class FailedPreconditionError(OpError):
    """The system is not in the state that the call needs, e.g. an uninitialised variable."""

    code = FAILED_PRECONDITION


class AbortedError(OpError):
    """The step cannot go on, typically since a task was restarted; a new session may succeed."""

    code = ABORTED


class OutOfRangeError(OpError):
    """Past the end, e.g. of a closed queue."""

    code = OUT_OF_RANGE


class UnimplementedError(OpError):
    """Not supported here."""

    code = UNIMPLEMENTED


class InternalError(OpError):
    """An invariant of the runtime is broken: a bug."""

    code = INTERNAL


class UnavailableError(OpError):
    """A task cannot be reached now."""

    code = UNAVAILABLE


class DataLossError(OpError):
    """Data is lost or corrupt beyond recovery."""

    code = DATA_LOSS


class UnauthenticatedError(OpError):
    """The peer has no valid credentials."""

    code = UNAUTHENTICATED


_CLASSES: dict[int, type[OpError]] = {cls.code: cls for cls in OpError.__subclasses__()}


def error_class(code: int) -> type[OpError]:
    """The class of a canonical code; UnknownError for a code that is not one."""
    return _CLASSES.get(code, UnknownError)


def make(code: int, text: str, *, node: str = "", origin: str = "", derived: bool = False) -> OpError:
    """An error of `code`, with where it arose; a node's name is tagged as ``with_node`` does."""
    error = error_class(code)(None, None, text)
    error.origin = origin
    error.derived = derived
    return with_node(error, node) if node else error


def with_node(error: OpError, name: str) -> OpError:
    """The same error with the tag of the failing node; an error that has a tag keeps it. Returns `error`."""
    if not error.node:
        error.node = name
        error.message = f"{error.message}\n\t [[{{{{node {name}}}}}]]"
        error.args = (error.message,)
    return error


def prefixed(error: OpError, prefix: str) -> OpError:
    """The same error with `prefix` before its message. Returns `error`."""
    error.message = prefix + error.message
    error.args = (error.message,)
    return error


_CLASH = re.compile(r"operands could not be broadcast together with shapes \((.*)\)")


def wrap(exc: BaseException, where: str = "") -> OpError:
    """An exception of what runs kernels, or reads what a caller sent: itself if an OpError, else as its kind suggests.

    What a kernel complains of (ValueError, TypeError, IndexError) is the caller's input, so InvalidArgument; a
    MemoryError is ResourceExhausted; KeyboardInterrupt and the like are Cancelled; anything else is Unknown, with its
    traceback kept, since only a bug in a kernel gets there.
    """
    if isinstance(exc, OpError):
        return exc
    if isinstance(exc, MemoryError):
        code = RESOURCE_EXHAUSTED
    elif isinstance(exc, (ValueError, TypeError, IndexError, ArithmeticError)):
        code = INVALID_ARGUMENT
    elif isinstance(exc, Exception):
        code = UNKNOWN
    else:
        code = CANCELLED
    text = str(exc)
    if code in (UNKNOWN, CANCELLED) or not text:
        text = f"{type(exc).__name__}: {text}".removesuffix(": ")
    clash = _CLASH.match(text)
    if clash:  # numpy's words for what TensorFlow calls
        text = "Incompatible shapes: " + " vs. ".join(f"[{s.strip(',')}]" for s in clash.group(1).split(") ("))
    error = make(code, f"{where}: {text}" if where else text)
    error.__cause__ = exc
    error.remote_traceback = "".join(traceback.format_exception(type(exc), exc, exc.__traceback__))
    return error


def internal(exc: BaseException) -> OpError:
    """As `wrap`, but of code in which neither a kernel nor unchecked input can be at fault: Internal, a bug of ours."""
    if isinstance(exc, (OpError, MemoryError)) or not isinstance(exc, Exception):
        return wrap(exc)
    error = make(INTERNAL, f"{type(exc).__name__}: {exc}. This is a bug in dtfzmq; `remote_traceback` has its place.")
    error.__cause__ = exc
    error.remote_traceback = "".join(traceback.format_exception(exc))
    return error


def to_wire(error: OpError) -> dict[str, Any]:
    """Plain data of an error: code, text, node, origin, derived, remote traceback. What is too long is cut."""
    return {
        "code": error.error_code,
        "text": _cut(error.message),
        "node": _cut(error.node),
        "origin": _cut(error.origin),
        "derived": error.derived,
        "traceback": _cut(error.remote_traceback),
    }


def _cut(text: str) -> str:
    """The beginning and the end of a text that is too long to travel."""
    if len(text) <= _LONGEST:
        return text
    return f"{text[: _LONGEST // 2]}\n[... {len(text) - _LONGEST} characters ...]\n{text[-_LONGEST // 2 :]}"


def from_wire(data: dict[str, Any]) -> OpError:
    """The error that `to_wire` described. Fields that are missing or of a wrong type take defaults: never raises."""

    def text(key: str) -> str:
        value = data.get(key, "")
        return value if isinstance(value, str) else repr(value)

    code = data.get("code", UNKNOWN)
    error = error_class(code if isinstance(code, int) else UNKNOWN)(None, None, text("text"))
    error.node = text("node")
    error.origin = text("origin")
    error.derived = bool(data.get("derived", False))
    error.remote_traceback = text("traceback")
    return error
