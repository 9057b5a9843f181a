"""``tf.app``: start a program's ``main`` as TensorFlow 1 did."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

from dtfzmq.compat import flags


def run(main: Callable[[list[str]], Any] | None = None, argv: Sequence[str] | None = None) -> None:
    """Parse the flags of `argv` (``sys.argv``), call ``main(rest)`` and exit with what it returns.

    Without `main` it is the main module's. Flags that nobody defined are among `rest`. A wrong flag ends the program
    with a message and exit code 1; so does ``--help``, with the list of flags.
    """
    entry = main if main is not None else sys.modules["__main__"].main
    given = list(sys.argv if argv is None else argv) or [""]
    if any(a in ("--help", "-help", "--helpshort", "--helpfull") for a in given[1:]) and "help" not in flags.FLAGS:
        doc = sys.modules["__main__"].__doc__ or f"USAGE: {given[0]} [flags]"
        sys.stdout.write(f"{doc.strip()}\n\nflags:\n{flags.FLAGS.main_module_help()}\n")
        sys.exit(1)
    try:
        rest = flags.FLAGS(given, known_only=True)
    except flags.Error as error:
        sys.stderr.write(f"FATAL Flags parsing error: {error}\nPass --helpshort or --helpfull to see help on flags.\n")
        sys.exit(1)
    sys.exit(entry(rest))
