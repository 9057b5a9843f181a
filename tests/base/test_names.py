"""Device texts in all their spellings."""

from __future__ import annotations

import pytest

from dtfzmq.base import names


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("", ""),
        ("/", ""),
        ("cpu", "/device:CPU:*"),
        ("/cpu:0", "/device:CPU:0"),
        ("/CPU:1", "/device:CPU:1"),
        ("/device:gpu:2", "/device:GPU:2"),
        ("job:worker/task:3/", "/job:worker/task:3"),
        ("/job:ps/replica:0/task:0/cpu:0", "/job:ps/replica:0/task:0/device:CPU:0"),
        ("/task:1", "/task:1"),
        ("/job:ps_0/task:*", "/job:ps_0"),
        ("/device:XLA_CPU:0", "/device:XLA_CPU:0"),
    ],
)
def test_spellings(text: str, canonical: str) -> None:
    assert names.parse_device(text).text() == canonical
    assert names.parse_device(canonical).text() == canonical
    assert names.DeviceSpec.from_string(text).to_string() == canonical


@pytest.mark.parametrize("text", ["/job:", "/task:x", "/nonsense:0", "/cpu:a", "/job:a b", "worker", "/replica:-1"])
def test_malformed_texts_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="Malformed device specification"):
        names.parse_device(text)


def test_inner_fields_win() -> None:
    assert names.merge_devices("/job:ps/task:0", "/job:worker") == "/job:worker/task:0"
    assert names.merge_devices("/job:ps/task:0", "/cpu:1") == "/job:ps/task:0/device:CPU:1"


def test_tasks_of_devices() -> None:
    full = names.device_name(names.task_name("ps", 3), "CPU", 0)
    assert names.is_full_device(full) and not names.is_full_device("/job:ps/task:3")
    assert names.task_of(full) == "/job:ps/replica:0/task:3"
    assert names.job_and_index(full) == ("ps", 3)
    with pytest.raises(ValueError, match="names no task"):
        names.task_of("/cpu:0")


@pytest.mark.parametrize("text", ["an int", "a float", "an Operation", "a uint8", "a Tensor"])
def test_articles(text: str) -> None:
    assert names.article(text.split()[1]) == text
