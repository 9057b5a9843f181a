"""`dtfzmq shutdown`: end a server from anywhere."""

from __future__ import annotations

import argparse
from typing import Any

from dtfzmq.base import errors
from dtfzmq.cli.ask import as_target, ask, seconds
from dtfzmq.wire import messages


def add_parser(verbs: Any) -> None:
    """Add this verb to the command's parser."""
    parser = verbs.add_parser(
        "shutdown",
        help="end a server",
        description="Ends a server, unless sessions of others are open there. It then exits with code 0.",
    )
    parser.add_argument("target", nargs="+", metavar="TARGET", help="host:port or zmq://host:port")
    parser.add_argument("--force", action="store_true", help="end it though others' sessions are open")
    parser.add_argument("--timeout", type=seconds, default=5.0, help="seconds to wait for an answer (5)")
    parser.set_defaults(call=shutdown)


def shutdown(arguments: argparse.Namespace) -> int:
    """Ask every target to end; 1 if one refuses or does not answer."""
    targets = [as_target(text) for text in arguments.target]
    code = 0
    for target, answer in zip(targets, ask(targets, messages.Shutdown(arguments.force), arguments.timeout)):
        if isinstance(answer, errors.OpError):
            code = 1
            print(f"{target}: {type(answer).__name__}: {answer.message}")
        else:
            print(f"{target} is ending")
    return code
