"""`dtfzmq serve`: one task of a cluster as a daemon."""

from __future__ import annotations

import argparse
import contextlib
import logging
import os
import re
import signal
import sys
from typing import Any

from dtfzmq.base import errors
from dtfzmq.cli import clusters
from dtfzmq.client.config import ConfigProto
from dtfzmq.cluster.server import Server
from dtfzmq.cluster.spec import ClusterSpec


def add_parser(verbs: Any) -> None:
    """Add this verb to the command's parser."""
    parser = verbs.add_parser(
        "serve",
        help="run one task of a cluster until it is told to end",
        description="Runs one task of a cluster. Ends with code 0 on SIGTERM and on `dtfzmq shutdown`.",
    )
    parser.add_argument("--cluster", required=True, help='a file, JSON, or "ps=host:port,...;worker=host:port,..."')
    parser.add_argument("--job", help="name of this task's job; may be left out if there is only one")
    parser.add_argument("--task", type=int, help="index of this task; may be left out if its job has only one")
    parser.add_argument("--bind", metavar="ADDR", help="host, or host:port, to bind instead of the cluster's address")
    parser.add_argument("--devices", default="", help="devices of this task, e.g. CPU:2")
    parser.add_argument("--port-file", metavar="FILE", help="write the bound host:port there once it is bound")
    parser.add_argument("--quiet", action="store_true", help="log warnings and errors only")
    parser.set_defaults(call=serve)


def parse_devices(text: str) -> dict[str, int]:
    """``CPU:2,GPU:1`` as {"CPU": 2, "GPU": 1}. Raises ValueError for anything else."""
    counts: dict[str, int] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        found = re.fullmatch(r"([A-Za-z_]\w*):(\d+)", part)
        if not found:
            raise ValueError(f"Cannot read '{part}' of --devices; write a type and a count, for example CPU:2.")
        counts[found[1].upper()] = int(found[2])
    return counts


def serve(arguments: argparse.Namespace) -> int:
    """Start the server, say so on stdout, and stay until it is told to end."""
    logging.basicConfig(
        level=logging.WARNING if arguments.quiet else logging.INFO,
        format="%(asctime)s %(levelname).1s %(message)s",
        stream=sys.stderr,
    )
    server = Server(
        ClusterSpec(clusters.parse(arguments.cluster)),
        job_name=arguments.job,
        task_index=arguments.task,
        config=ConfigProto(device_count=parse_devices(arguments.devices)),
        bind_address=arguments.bind,
    )
    # From before anybody knows of it, and to the end of the process, since it may be told twice.
    signal.signal(signal.SIGTERM, lambda number, frame: server.leave())
    try:
        if arguments.port_file:
            write_whole(arguments.port_file, server.target.split("://", 1)[1] + "\n")
        print(f"{server.task} ready at {server.target} (pid {os.getpid()})", flush=True)
        server.join()
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # Python's end puts handlers back to killing
    finally:
        server.stop()
    return 0


def write_whole(path: str, text: str) -> None:
    """Write a file so that a reader sees nothing or all of it. InvalidArgumentError where that cannot be."""
    draft = f"{path}.{os.getpid()}"
    try:
        with open(draft, "w", encoding="utf-8") as file:
            file.write(text)
        os.replace(draft, path)
    except OSError as error:
        with contextlib.suppress(OSError):
            os.unlink(draft)
        raise errors.InvalidArgumentError(
            None, None, f"'{path}' cannot be written: {error.strerror}. Name a file, in a folder that is there."
        ) from None
