"""The `dtfzmq` command: one parser, one module for each verb."""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Sequence

from dtfzmq.base import errors
from dtfzmq.cli import run, serve, shutdown, status


def parser() -> argparse.ArgumentParser:
    """The parser of all verbs; each verb sets `call`, a function of the parsed arguments that returns an exit code."""
    top = argparse.ArgumentParser(prog="dtfzmq", description="Daemons and tools of the dtfzmq runtime.")
    verbs = top.add_subparsers(dest="verb", required=True, metavar="serve|run|status|shutdown")
    for module in (serve, run, status, shutdown):
        module.add_parser(verbs)
    return top


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code: 0 well, 1 an error that is printed, 2 bad usage, 130 Ctrl-C."""
    arguments = parser().parse_args(argv)
    try:
        code: int = arguments.call(arguments)
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    except BrokenPipeError:
        return 1
    except (errors.OpError, OSError, ValueError, TypeError, RuntimeError) as error:
        print(f"dtfzmq {arguments.verb}: {type(error).__name__}: {error}", file=sys.stderr)
        return 1
    return code
