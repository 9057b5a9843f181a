"""What ends a launcher's children when the launcher itself could not: a process of its own, at the end of a pipe.

Run as a script. On its standard input come lines "+GROUP" and "-GROUP", the process groups that run. Where the input
ends, the launcher has ended, however it did: groups that are left get SIGTERM and, where they stay, SIGKILL.
"""

import os
import select
import signal
import sys

# It imports nothing of the package, so that it starts within milliseconds.
_POLL_S = 0.02
_POLLS = 100


def _send(group: int, number: int) -> bool:
    try:
        os.killpg(group, number)
    except (ProcessLookupError, PermissionError):  # on macOS a zombie's group gives the latter
        return False
    return True


def main() -> None:
    """Follow the launcher to its end, and end what it left."""
    groups: dict[int, None] = {}
    for line in sys.stdin:
        group = int(line[1:])
        if line[0] == "+":
            groups[group] = None
        else:
            groups.pop(group, None)
    left = [group for group in groups if _send(group, signal.SIGTERM)]
    for _ in range(_POLLS):
        left = [group for group in left if _send(group, 0)]
        if not left:
            break
        select.select((), (), (), _POLL_S)
    for group in left:
        _send(group, signal.SIGKILL)


if __name__ == "__main__":
    main()
