"""Layers, cells, loops and metrics against TensorFlow's own answers: values, gradients, names, shapes, collections."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dtfzmq as tf
from tests.layers import answers, models

RECORD = json.loads((Path(__file__).parent / "data" / "answers.json").read_text())


def close(got: Any, want: Any, what: str) -> None:
    assert len(got) == len(want), what
    for i, (a, b) in enumerate(zip(got, want)):
        assert np.shape(a) == np.shape(b), f"{what} {i}"
        np.testing.assert_allclose(a, b, rtol=2e-4, atol=2e-5, err_msg=f"{what} {i}")


@pytest.mark.parametrize("name", sorted(RECORD["models"]))
def test_model(name: str) -> None:
    got, want = answers.answer(tf, models.MODELS[name]), RECORD["models"][name]
    for key in ("variables", "trained", "losses", "updates"):
        assert got[key] == want[key], key
    for found, known in zip(got["static_shapes"], want["static_shapes"], strict=True):  # more may be known here
        assert known == [None if n is None else m for m, n in zip(found, known, strict=True)]
    for key in ("outputs", "gradients", "after"):
        close(got[key], want[key], key)


@pytest.mark.parametrize("name", sorted(RECORD["metrics"]))
def test_metric(name: str) -> None:
    got, want = answers.metric_answer(tf, models.METRICS[name]), RECORD["metrics"][name]
    assert got["variables"] == want["variables"]
    for a, b in zip(got["updates"], want["updates"]):
        close(a, b, "update")
    close(got["values"], want["values"], "value")


def test_every_model_is_recorded() -> None:
    assert set(RECORD["models"]) == set(models.MODELS)
    assert set(RECORD["metrics"]) == set(models.METRICS)
