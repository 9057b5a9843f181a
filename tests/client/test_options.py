"""Options of a configuration that a session can give, and those that are its server's."""

from __future__ import annotations

import logging
import re
import subprocess
import sys

import pytest

import dtfzmq as tf
from dtfzmq.client.options import PER_SERVER, WITHOUT_EFFECT
from tests.kit.cluster import ROOT


def warnings_of(caplog: pytest.LogCaptureFixture, target: str, config: tf.ConfigProto) -> list[str]:
    """What a session logs until its second run is over."""
    caplog.clear()
    with caplog.at_level(logging.WARNING, "dtfzmq"), tf.Graph().as_default(), tf.Session(target, config=config) as sess:
        one = tf.constant(1)
        assert sess.run(one) == sess.run(one) == 1
    return [record.getMessage() for record in caplog.records]


def test_options_of_a_server_given_to_its_session_are_named_once(caplog: pytest.LogCaptureFixture) -> None:
    server = tf.train.Server.create_local_server()
    try:
        theirs = tf.ConfigProto(
            intra_op_parallelism_threads=1, inter_op_parallelism_threads=1, use_per_session_threads=True,
            device_count={"CPU": 2}, allow_soft_placement=True,
        )  # fmt: skip
        theirs.gpu_options.allow_growth = True
        (text,) = warnings_of(caplog, server.target, theirs)
        for name in PER_SERVER:
            assert f"{name}=..." in text, name
        for name in WITHOUT_EFFECT:
            assert name in text and f"{name}=..." not in text, name
        assert server.target in text and "tf.train.Server(..., config=...)" in text
        assert "allow_soft_placement" not in text
        (text,) = warnings_of(caplog, server.target, tf.ConfigProto(gpu_options=tf.GPUOptions(allow_growth=True)))
        assert "gpu_options: there are no GPUs" in text and "tf.train.Server" not in text
        assert warnings_of(caplog, "", tf.ConfigProto(device_count={"CPU": 2})) == []
    finally:
        server.stop()


def test_options_of_a_session_and_defaults_are_no_reason_to_warn(caplog: pytest.LogCaptureFixture) -> None:
    server = tf.train.Server.create_local_server()
    try:
        ours = tf.ConfigProto(
            allow_soft_placement=True, operation_timeout_in_ms=20_000, device_filters=["/job:local"],
            isolate_session_state=True, intra_op_parallelism_threads=0, gpu_options=tf.GPUOptions(allow_growth=False),
        )  # fmt: skip
        assert warnings_of(caplog, server.target, ours) == []
    finally:
        server.stop()


def test_the_page_of_differences_tells_every_option_of_a_server() -> None:
    page = (ROOT / "docs" / "differences.md").read_text(encoding="utf-8")
    section = re.search(r"^## Options of servers and of sessions$(.*?)^## ", page, re.M | re.S)
    assert section is not None
    named = set(re.findall(r"`([a-z_.]+)`", section[1]))
    assert set(tf.ConfigProto.FIELDS) <= {name.partition(".")[0] for name in named}


@pytest.mark.slow
def test_a_private_session_sets_the_threads_of_kernels() -> None:
    program = (
        "import dtfzmq as tf; from dtfzmq.ops import parallel\n"
        "tf.Session(config=tf.ConfigProto(intra_op_parallelism_threads=3)); print(parallel._helpers.count)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=30, cwd=ROOT)
    assert done.stdout.strip() == "3", done.stderr
