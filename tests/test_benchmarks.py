"""The benchmark runs and its table says what it should; nothing here looks at the clock."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import dtfzmq as tf
from benchmarks import run, session
from tests.kit.cluster import Cluster


def test_the_table_gives_ratios_in_favour_of_the_better() -> None:
    ours = {"step_scalar": {"p50_us": 100.0}, "transfer": {"16 MiB": {"GB_per_s": 3.0}}, "import_s": 0.5}
    theirs = {"step_scalar": {"p50_us": 800.0}, "transfer": {"16 MiB": {"GB_per_s": 1.5}}}
    rows = {line[:38].strip(): line[38:].split() for line in run.table(ours, theirs).splitlines()}
    assert rows["scalar step, client -> remote worker"] == ["us", "100", "800", "8.00x"]
    assert rows["variable ps -> worker, 16 MiB"] == ["GB/s", "3", "1.5", "2.00x"]
    assert rows["import"] == ["s", "0.5"]
    assert len(rows) == 4


def test_each_row_is_measured(processes: Callable[..., Cluster], monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs what measures steps and graphs, each call once, and finds its rows in the results."""

    def once(call: Callable[[], Any], **options: Any) -> dict[str, Any]:
        call()
        return {"p50_us": 1.0, "p99_us": 1.0, "n": 1}

    monkeypatch.setattr(session, "timed", once)
    cluster = processes({"ps": 1, "worker": 1})
    cluster.start_all()
    results = session.latency(tf, cluster.target("worker")) | session.graphs(tf, cluster.target("worker"))
    found = {path for _, _, path, _, _ in run.ROWS if run.figure(results, path) is not None}
    assert len(found) == 12
    for _, _, path, _, _ in run.ROWS:
        assert path in found or path.startswith(("transfer", "feed", "fetch", "train", "import", "idle", "busy")), path
