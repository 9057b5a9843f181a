from __future__ import annotations

import json
from pathlib import Path

import pytest

from dtfzmq.cli import clusters, serve

JOBS = {"ps": ["a:1"], "worker": ["b:2", "c:3"]}


@pytest.mark.parametrize(
    "text",
    [
        "ps=a:1;worker=b:2,c:3",
        " ps = a:1 ; worker = b:2 , c:3 ; ",
        json.dumps(JOBS),
        json.dumps({"cluster": JOBS, "task": {"type": "ps", "index": 0}}),
    ],
)
def test_every_form_gives_the_same_cluster(text: str, tmp_path: Path) -> None:
    assert clusters.parse(text) == JOBS
    file = tmp_path / "cluster.txt"
    file.write_text(text + "\n")
    assert clusters.parse(str(file)) == JOBS


def test_a_sparse_job() -> None:
    assert clusters.parse('{"worker": {"1": "h:5"}}') == {"worker": {1: "h:5"}}


def test_a_port_of_any_number_may_be_that_of_several_tasks() -> None:
    assert clusters.parse("ps=a:0;worker=a:0,a:0") == {"ps": ["a:0"], "worker": ["a:0", "a:0"]}
    assert clusters.parse("ps=a:65535") == {"ps": ["a:65535"]}


def test_an_ipv6_address() -> None:
    assert clusters.parse("ps=[::1]:2222") == {"ps": ["[::1]:2222"]}


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("", "empty"),
        ("ps", "'ps'"),
        ("ps=", "'ps='"),
        ("=a:1", "'=a:1'"),
        ("ps=a:1;ps=b:2", "'ps' is given twice"),
        ("{", "not valid JSON"),
        ('{"ps": "a:1"}', "'ps'"),
        ('{"ps": [1]}', "'ps'"),
        ("/no/such/file.json", "There is no file '/no/such/file.json'"),
        ("/", "cannot be read: Is a directory"),
        ("ps=a:99999", "The port of a:99999 is out of range: it goes from 0 to 65535"),
        ('{"ps": {"3": "a:65536"}}', "The port of a:65536 is out of range"),
        ("ps=a:1;worker=b:1,a:1", "ps/0 and worker/1 have the same address, a:1"),
    ],
)
def test_what_cannot_be_read_is_named(text: str, part: str) -> None:
    with pytest.raises(ValueError, match=part):
        clusters.parse(text)


@pytest.mark.parametrize(
    ("data", "part"),
    [
        (b"\x80\xff\x00", "is not text"),
        (b"{", "not valid JSON"),
        (b"ps", "'ps'"),
        (b'{"a":' * 100_000, "not valid JSON"),
    ],
)
def test_a_file_that_cannot_be_read_is_named(data: bytes, part: str, tmp_path: Path) -> None:
    file = tmp_path / "cluster.json"
    file.write_bytes(data)
    with pytest.raises(ValueError, match=f"(?s)cluster.json.*{part}") as caught:
        clusters.parse(str(file))
    assert not isinstance(caught.value, UnicodeDecodeError)


def test_devices() -> None:
    assert serve.parse_devices("") == {}
    assert serve.parse_devices("CPU:2") == {"CPU": 2}
    assert serve.parse_devices("cpu:2, gpu:1") == {"CPU": 2, "GPU": 1}
    with pytest.raises(ValueError, match="'CPU'"):
        serve.parse_devices("CPU")
