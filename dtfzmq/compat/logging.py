"""``tf.logging``: TensorFlow 1's logging functions over the logger ``dtfzmq``."""

from __future__ import annotations

import collections as _collections
import itertools as _itertools
import logging as _logging
import sys as _sys
from typing import Any

DEBUG = _logging.DEBUG
INFO = _logging.INFO
WARN = _logging.WARNING
ERROR = _logging.ERROR
FATAL = _logging.CRITICAL

_logger = _logging.getLogger("dtfzmq")

debug = _logger.debug
info = _logger.info
warn = warning = _logger.warning
error = _logger.error
fatal = _logger.critical


def get_verbosity() -> int:
    """The level from which messages are shown."""
    return _logger.getEffectiveLevel()


def set_verbosity(verbosity: int) -> None:
    """Show messages of `verbosity` and above, on stderr if the program configured no handler."""
    _logger.setLevel(verbosity)
    if not _logger.handlers and not _logging.getLogger().handlers:
        _logger.addHandler(_logging.StreamHandler())


def log(level: int, text: str, *args: Any) -> None:
    """Log `text % args` at `level`."""
    _logger.log(level, text, *args)


def vlog(level: int, msg: str, *args: Any) -> None:
    """Log `msg % args` at `level`, under TensorFlow's other name."""
    _logger.log(level, msg, *args)


TaskLevelStatusMessage = error

# By place of the call in the program: how often it came by.
_passed: dict[tuple[str, int], Any] = _collections.defaultdict(_itertools.count)


def _times() -> int:
    """How often the caller's caller was here before."""
    frame = _sys._getframe(2)
    return next(_passed[frame.f_code.co_filename, frame.f_lineno])


def log_every_n(level: int, msg: str, n: int, *args: Any) -> None:
    """Log `msg % args` the first time and every `n`-th time that this line of the program comes by."""
    log_if(level, msg, _times() % n == 0, *args)


def log_first_n(level: int, msg: str, n: int, *args: Any) -> None:
    """Log `msg % args` the first `n` times that this line of the program comes by."""
    log_if(level, msg, _times() < n, *args)


def log_if(level: int, msg: str, condition: Any, *args: Any) -> None:
    """Log `msg % args` if `condition` is true."""
    if condition:
        _logger.log(level, msg, *args)


def flush() -> None:
    """Have the handlers write what they hold."""
    for handler in [*_logger.handlers, *_logging.getLogger().handlers]:
        handler.flush()
