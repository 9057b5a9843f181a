"""What a test left behind: threads, child processes, sockets, shared memory."""

from __future__ import annotations

import gc
import os
import sys
import threading
import time
import traceback
from dataclasses import dataclass
from types import FrameType

# How long ends of things that were closed may take: libzmq closes sockets on a thread of its own.
_GRACE_S = 3.0


@dataclass(frozen=True)
class Snapshot:
    """What existed at one moment."""

    threads: frozenset[threading.Thread]
    children: frozenset[int]
    sockets: frozenset[str]
    segments: frozenset[str]


def take() -> Snapshot:
    """What exists now in this process."""
    return Snapshot(frozenset(threading.enumerate()), _children(), _sockets(), _segments())


def leftovers(before: Snapshot) -> list[str]:
    """What exists now and did not in `before`, in words, with threads' stacks; waits a while for ends under way."""
    end = time.monotonic() + _GRACE_S
    pause = 0.002
    while True:
        found = _compare(before, take())
        if not found:
            return []
        gc.collect()  # an object that was dropped in a cycle closes what it holds
        if time.monotonic() >= end:
            return found
        time.sleep(pause)
        pause = min(pause * 2, 0.1)


def _compare(before: Snapshot, now: Snapshot) -> list[str]:
    found = []
    frames = sys._current_frames()
    for thread in now.threads - before.threads:
        frame = frames.get(thread.ident or 0)
        if frame is None or _is_idle_pool_thread(frame) or _is_of_pyzmq(frame):
            continue
        found.append(f"thread {thread.name}:\n{''.join(traceback.format_stack(frame))}")
    found += [f"child process {pid}: {_command_line(pid)}" for pid in sorted(now.children - before.children)]
    found += [f"socket {name}" for name in sorted(now.sockets - before.sockets)]
    found += [f"shared memory {name}" for name in sorted(now.segments - before.segments)]
    return found


def _is_idle_pool_thread(frame: FrameType | None) -> bool:
    """True of a pool's thread that waits for work: pools keep threads for a while, on purpose."""
    inner = ""
    while frame is not None:
        name = frame.f_code.co_name
        if name == "_serve" and frame.f_code.co_filename.endswith(os.path.join("base", "threads.py")):
            return inner == "wait"
        inner = name
        frame = frame.f_back
    return False


def _is_of_pyzmq(frame: FrameType) -> bool:
    """True of the thread that pyzmq starts at the first send without a copy, for the life of the process."""
    ending = os.path.join("zmq", "utils", "garbage.py")
    return any(f.f_code.co_filename.endswith(ending) for f, _ in traceback.walk_stack(frame))


def _children() -> frozenset[int]:
    mine = os.getpid()
    found = set()
    for entry in _listing("/proc"):
        if entry.isdecimal():
            try:
                with open(f"/proc/{entry}/stat", encoding="ascii", errors="replace") as file:
                    parent = int(file.read().rpartition(")")[2].split()[1])
            except (OSError, ValueError, IndexError):
                continue
            # Python's own tracker of shared memory starts at first use and stays for the life of the process.
            if parent == mine and "multiprocessing.resource_tracker" not in _command_line(int(entry)):
                found.add(int(entry))
    return frozenset(found)


def _sockets() -> frozenset[str]:
    """Descriptors of this process that are sockets, by inode, with what is known of TCP ones."""
    known = _tcp()
    found = set()
    for entry in _listing("/proc/self/fd"):
        try:
            target = os.readlink(f"/proc/self/fd/{entry}")
        except OSError:
            continue
        if target.startswith("socket:["):
            inode = target[8:-1]
            found.add(f"{inode} {known.get(inode, 'not TCP')}")
    # A connection's state changes while it ends; its inode alone tells whether it is the same one.
    return frozenset(name.split(" state ")[0] for name in found)


def _tcp() -> dict[str, str]:
    known = {}
    for table in ("/proc/self/net/tcp", "/proc/self/net/tcp6"):
        try:
            with open(table, encoding="ascii") as file:
                rows = file.read().splitlines()[1:]
        except OSError:
            continue
        for row in rows:
            parts = row.split()
            ports = [int(end.rpartition(":")[2], 16) for end in parts[1:3]]
            known[parts[9]] = f"TCP port {ports[0]} to {ports[1]} state {parts[3]}"
    return known


def _segments() -> frozenset[str]:
    """Segments in /dev/shm with a name that Python or this package gives."""
    found = set()
    for entry in _listing("/dev/shm"):
        if entry.startswith(("dtfzmq", "psm_")):
            found.add(entry)
    return frozenset(found)


def _command_line(pid: int) -> str:
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            return file.read().replace(b"\0", b" ").decode(errors="replace").strip() or "(ended, not waited for)"
    except OSError:
        return "(gone)"


def _listing(folder: str) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []
