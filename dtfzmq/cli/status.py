"""`dtfzmq status`: every task of a cluster, up or down, and what it is doing."""

from __future__ import annotations

from collections.abc import Container, Iterator
from typing import Any

from dtfzmq.base import clock, errors, names
from dtfzmq.cli.ask import as_target, ask, seconds
from dtfzmq.wire import messages

Report = dict[str, Any]


def add_parser(verbs: Any) -> None:
    """Add this verb to the command's parser."""
    parser = verbs.add_parser(
        "status",
        help="show the tasks of a cluster",
        description="Shows every task of the cluster that a server belongs to. Exit code 0 if all of them are up.",
    )
    parser.add_argument("target", metavar="TARGET", help="host:port or zmq://host:port of any of its servers")
    parser.add_argument("--timeout", type=seconds, default=1.5, help="seconds after which a silent task is down (1.5)")
    parser.add_argument("--steps", action="store_true", help="show each running step and the tasks it waits for")
    parser.set_defaults(call=lambda arguments: show(as_target(arguments.target), arguments.timeout, arguments.steps))


def show(target: str, timeout: float, steps: bool = False, ended: Container[str] = ()) -> int:
    """Print the account of each task of the cluster of `target`; 1 if one is down, or another is in its place.

    Tasks in `ended` are known to be gone, and not asked.
    """
    begin = clock.now()
    (first,) = ask([target], messages.Status(), timeout)
    if isinstance(first, errors.OpError):
        print(f"{target}  down  {type(first).__name__}: {first.message}")
        return 1
    tasks = cluster_of(first.report)
    others = [name for name in tasks if name != first.report["task"] and name not in ended]
    left = max(0.5, timeout - (clock.now() - begin))
    answers = dict(zip(others, ask([as_target(tasks[name]) for name in others], messages.Status(), left)))
    answers[first.report["task"]] = first
    for name, address in tasks.items():
        if name not in answers:
            print(f"{name:<32} ended {address}")
            continue
        for line in lines(name, address, answers[name], steps):
            print(line)
    return int(len(answers) < len(tasks) or not all(is_up(name, answer) for name, answer in answers.items()))


def is_up(name: str, answer: Any) -> bool:
    """Whether the task itself answered."""
    return not isinstance(answer, errors.OpError) and answer.report["task"] == name


def cluster_of(report: Report) -> dict[str, str]:
    """Full name of each task -> its address."""
    return {
        names.task_name(job, int(index)): address
        for job, tasks in sorted(report["cluster"].items())
        for index, address in sorted(tasks.items(), key=lambda pair: int(pair[0]))
    }


def lines(name: str, address: str, answer: Any, steps: bool) -> Iterator[str]:
    """What is printed of one task."""
    if isinstance(answer, errors.OpError):
        yield f"{name:<32} down  {address}  {type(answer).__name__}: {answer.message}"
        return
    report = answer.report
    if not is_up(name, answer):
        found = f"{report['task']} answers there (pid {report['pid']}); end it, or correct the cluster of one of them"
        yield f"{name:<32} down  {address}  {found}"
        return
    yield f"{name:<32} up    {address}  pid {report['pid']}  for {report['uptime']:.0f} s, {size(report['memory'])}"
    yield f"  devices   {'  '.join(report['devices'])}"
    yield f"  sessions  {len(report['sessions'])} with this master"
    for session in report["sessions"]:
        yield f"    {session['handle']}  of {session['client']}, {session['running']} steps running"
        for step in session["steps"] if steps else ():
            yield f"      step {step['step']}  for {step['age']:.1f} s, waits for {', '.join(step['waits_for'])}"
    done, running = report["steps"]["done"], report["steps"]["running"]
    yield f"  steps     {done} done and {running} running as master, {report['parts_run']} parts of steps run here"
    yield f"  moved     sent {size(report['sent'])}, received {size(report['received'])}"
    for link in report["links"]:
        moved = f"sent {size(link['sent'])}, received {size(link['received'])}"
        yield f"  link      {link['peer']}  {link['state']}  {moved}"


def size(nbytes: float) -> str:
    """Bytes for people, in a binary unit."""
    units = ["B", "KiB", "MiB", "GiB"]
    while nbytes >= 1024 and len(units) > 1:
        nbytes /= 1024
        del units[0]
    return f"{nbytes:.0f} {units[0]}" if nbytes >= 100 or units[0] == "B" else f"{nbytes:.1f} {units[0]}"
