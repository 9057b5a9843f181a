"""``tf.app``: start a program's ``main`` as TensorFlow 1 did."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any


def run(main: Callable[[list[str]], Any] | None = None, argv: Sequence[str] | None = None) -> None:
    """Call ``main(argv)`` (the main module's ``main`` if none is given) and exit with what it returns."""
    entry = main if main is not None else sys.modules["__main__"].main
    sys.exit(entry(list(sys.argv if argv is None else argv)))
