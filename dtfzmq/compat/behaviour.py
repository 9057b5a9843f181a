"""Switches of TensorFlow 2's compat.v1 that programs written for it call first. Graphs are all there is here."""

from __future__ import annotations

from typing import Any


def executing_eagerly() -> bool:
    """False."""
    return False


executing_eagerly_outside_functions = executing_eagerly
resource_variables_enabled = executing_eagerly
control_flow_v2_enabled = executing_eagerly


def disable_eager_execution() -> None:
    """Nothing: there is none."""


disable_v2_behavior = disable_eager_execution
disable_v2_tensorshape = disable_eager_execution
disable_resource_variables = disable_eager_execution
disable_control_flow_v2 = disable_eager_execution
disable_tensor_equality = disable_eager_execution


def enable_resource_variables() -> None:
    """Accepted: variables keep what programs see of them, whichever kind was asked for."""


def enable_eager_execution(config: Any = None, device_policy: Any = None, execution_mode: Any = None) -> None:
    """Raises ValueError: operations are built into graphs and run by sessions."""
    raise ValueError("There is no eager execution here: build a graph and run it in a tf.Session.")


enable_v2_behavior = enable_eager_execution
