"""``tf.logging``: TensorFlow 1's logging functions over the logger ``dtfzmq``."""

from __future__ import annotations

import logging as _logging
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
