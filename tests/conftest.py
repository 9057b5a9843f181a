"""Options and fixtures of the whole suite."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from dtfzmq.plan import verify
from tests.kit import clean
from tests.kit.cluster import Cluster

verify.switch(True)


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("dtfzmq")
    group.addoption("--seeds", type=int, default=20, help="how many seeds the simulated cluster runs (20)")
    group.addoption("--seed", type=int, default=None, help="replay this one seed of the simulated cluster")
    group.addoption("--rewrite", action="store_true", help="write golden traces anew instead of comparing with them")


COUNTED = pytest.StashKey[dict[str, str]]()


@pytest.fixture
def tell(request: pytest.FixtureRequest) -> Callable[[Mapping[str, int]], None]:
    """Shows what a seeded test counted (faults of each kind, outcomes) at the end of the whole run."""
    counted = request.config.stash.setdefault(COUNTED, {})

    def show(counts: Mapping[str, int]) -> None:
        counted[request.node.nodeid] = ", ".join(f"{what}: {counts[what]}" for what in sorted(counts))

    return show


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    counted = config.stash.get(COUNTED, {})
    if counted:
        terminalreporter.section("counted by the seeds")
        for test, line in counted.items():
            terminalreporter.write_line(f"{test}\n    {line}")


@pytest.fixture(autouse=True)
def nothing_left_behind(request: pytest.FixtureRequest) -> Iterator[None]:
    """Fail a test that leaves a thread, a child process, a socket or a shared memory segment, showing what stayed."""
    before = clean.take()
    yield
    found = clean.leftovers(before)
    if found:
        pytest.fail(f"{request.node.nodeid} left behind:\n" + "\n".join(found), pytrace=False)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
    report: Any = yield
    if report.failed:
        for cluster in getattr(item, "_clusters", ()):
            report.sections.extend(cluster.sections())
    return report


@pytest.fixture
def processes(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[..., Cluster]]:
    """Makes clusters of real processes: ``cluster = processes({"ps": 1, "worker": 2})``; ended with the test.

    Their logs are shown if the test fails.
    """
    made: list[Cluster] = []
    request.node._clusters = made

    def make(jobs: Mapping[str, int], **options: Any) -> Cluster:
        cluster = Cluster(jobs, tmp_path / f"cluster{len(made)}", **options)
        made.append(cluster)
        return cluster

    yield make
    for cluster in made:
        cluster.close()


@pytest.fixture(autouse=True)
def _log_level(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger="dtfzmq")
