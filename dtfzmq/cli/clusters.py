"""How a cluster is written on a command line: a file, JSON, or ``ps=host:port,...;worker=...``."""

from __future__ import annotations

import json
import os
from typing import Any

Jobs = dict[str, "list[str] | dict[int, str]"]

_LAST_PORT = 65535
_FORMS = 'give a file, JSON such as {"ps": ["host:2222"]}, or text such as "ps=host:2222;worker=host:2223,host:2224"'


def parse(text: str) -> Jobs:
    """The cluster that `text` describes, in the form ``ClusterSpec`` takes.

    `text` is the path of a file that holds one of the other two forms, JSON (job -> list of addresses, or job ->
    {index: address}; a ``TF_CONFIG`` with a "cluster" entry will do), or jobs as ``job=address,address;job=...``.
    Raises ValueError with the file and the offending part.
    """
    text = text.strip()
    if not text or text.startswith("{") or "=" in text and not os.path.isfile(text):
        return _parsed(text)
    try:
        with open(text, encoding="utf-8") as file:
            return _parsed(file.read().strip())
    except FileNotFoundError:
        raise ValueError(f"There is no file '{text}', and it is no cluster itself; {_FORMS}.") from None
    except OSError as error:
        raise ValueError(f"The cluster's file {text} cannot be read: {error.strerror}.") from None
    except UnicodeDecodeError:
        raise ValueError(f"The cluster's file {text} is not text; {_FORMS}.") from None
    except ValueError as error:
        raise ValueError(f"In {text}: {error}") from None


def _parsed(text: str) -> Jobs:
    jobs = _from_json(text) if text.startswith("{") else _from_text(text)
    if not jobs:
        raise ValueError(f"The cluster is empty; {_FORMS}.")
    _check(jobs)
    return jobs


def _check(jobs: Jobs) -> None:
    """Raise ValueError for what can be no cluster whatever its hosts are."""
    seen: dict[str, str] = {}
    for job, tasks in jobs.items():
        for index, address in tasks.items() if isinstance(tasks, dict) else enumerate(tasks):
            check_port(address)
            one = f"{job}/{index}"
            # Whoever looks for one of two tasks of one address may reach the other. Port 0 is any.
            other = one if address.endswith(":0") else seen.setdefault(address, one)
            if other != one:
                raise ValueError(f"{other} and {one} have the same address, {address}; each task needs its own port.")


def check_port(address: str) -> None:
    """Raise ValueError if the port of an address is a number that no port has."""
    port = address.rpartition(":")[2]
    if port.isdecimal() and int(port) > _LAST_PORT:
        raise ValueError(f"The port of {address} is out of range: it goes from 0 to {_LAST_PORT}.")


def _from_json(text: str) -> Jobs:
    try:
        data: Any = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"The cluster is not valid JSON ({error}); {_FORMS}.") from None
    if isinstance(data.get("cluster"), dict):
        data = data["cluster"]
    jobs: Jobs = {}
    for job, tasks in data.items():
        if isinstance(tasks, list) and all(isinstance(task, str) for task in tasks):
            jobs[job] = tasks
        elif isinstance(tasks, dict) and all(
            index.isdecimal() and isinstance(task, str) for index, task in tasks.items()
        ):
            jobs[job] = {int(index): task for index, task in tasks.items()}
        else:
            raise ValueError(f"Job '{job}' of the cluster is {tasks!r}, not a list of host:port; {_FORMS}.")
    return jobs


def _from_text(text: str) -> Jobs:
    jobs: Jobs = {}
    for part in filter(None, (part.strip() for part in text.split(";"))):
        job, equals, tasks = part.partition("=")
        addresses = [address.strip() for address in tasks.split(",") if address.strip()]
        if not equals or not job.strip() or not addresses:
            raise ValueError(f"Cannot read '{part}' as job=host:port,...; {_FORMS}.")
        if job.strip() in jobs:
            raise ValueError(f"Job '{job.strip()}' is given twice; put its addresses in one list with commas.")
        jobs[job.strip()] = addresses
    return jobs
