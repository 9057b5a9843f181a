"""Producers: queues that a runner fills with names, numbers or slices, once or epoch after epoch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dtfzmq.base import dtypes
from dtfzmq.graph.convert import convert_to_tensor
from dtfzmq.graph.graph import Tensor
from dtfzmq.graph.keys import GraphKeys
from dtfzmq.graph.scopes import control_dependencies, name_scope
from dtfzmq.ops import array, checks, constants, files, random, slicing, summarize
from dtfzmq.ops.cast import cast
from dtfzmq.ops.data_flow import FIFOQueue, QueueBase
from dtfzmq.train.queue_runner import QueueRunner, add_queue_runner
from dtfzmq.variables.variable import Variable


def match_filenames_once(pattern: Any, name: str | None = None) -> Variable:
    """A local variable with the names of the files that match a pattern, as its initializer finds them."""
    with name_scope(name, "matching_filenames") as scope:
        return Variable(
            name=scope, initial_value=files.matching_files(pattern), trainable=False, validate_shape=False,
            collections=[GraphKeys.LOCAL_VARIABLES],
        )  # fmt: skip


def limit_epochs(tensor: Any, num_epochs: int | None = None, name: str | None = None) -> Any:
    """The tensor `num_epochs` times, then OutOfRangeError; without a limit the tensor itself.

    The count is a local variable: run tf.local_variables_initializer. Raises ValueError for a number below 1.
    """
    if num_epochs is None:
        return tensor
    if num_epochs <= 0:
        raise ValueError(f"num_epochs must be > 0 not {num_epochs}.")
    with name_scope(name, "limit_epochs") as scope:
        zero = constants.constant(0, dtype=dtypes.int64)
        epochs = Variable(zero, name="epochs", trainable=False, collections=[GraphKeys.LOCAL_VARIABLES])
        with control_dependencies([epochs.count_up_to(num_epochs)]):
            return constants.identity(tensor, name=scope)


def input_producer(
    input_tensor: Any, element_shape: Any = None, num_epochs: int | None = None, shuffle: bool = True,
    seed: int | None = None, capacity: int = 32, shared_name: str | None = None, summary_name: str | None = None,
    name: str | None = None, cancel_op: Any = None,
) -> QueueBase:  # fmt: skip
    """A queue of the rows of a tensor, again and again or `num_epochs` times, each time in another order.

    It is filled by a queue runner, which tf.train.start_queue_runners starts. Raises ValueError if the shape of a row
    is not known.
    """
    with name_scope(name, "input_producer"):
        rows = convert_to_tensor(input_tensor, name="input_tensor")
        shape = rows.get_shape()[1:].merge_with(element_shape)
        if not shape.is_fully_defined():
            raise ValueError(
                "Either `input_tensor` must have a fully defined shape or `element_shape` must be specified"
            )
        if shuffle:
            rows = random.random_shuffle(rows, seed=seed)
        rows = limit_epochs(rows, num_epochs)
        queue = FIFOQueue(
            capacity, [rows.dtype.base_dtype], [shape], shared_name=shared_name, name=name or "FIFOQueueV2"
        )
        add_queue_runner(QueueRunner(queue, [queue.enqueue_many([rows])], cancel_op=cancel_op))
        if summary_name is not None:
            summarize.scalar(summary_name, cast(queue.size(), dtypes.float32) * (1.0 / capacity))
        return queue


def string_input_producer(
    string_tensor: Any, num_epochs: int | None = None, shuffle: bool = True, seed: int | None = None,
    capacity: int = 32, shared_name: str | None = None, name: str | None = None, cancel_op: Any = None,
) -> QueueBase:  # fmt: skip
    """A queue of texts, as the names of files for a reader. For the rest see input_producer.

    Raises ValueError for an empty list; one that is found to be empty later is an InvalidArgumentError of the runner.
    """
    refused = "string_input_producer requires a non-null input tensor"
    if string_tensor is None or not isinstance(string_tensor, (Tensor, Variable)) and not len(string_tensor):
        raise ValueError(refused)
    with name_scope(name, "input_producer") as scope:
        texts = convert_to_tensor(string_tensor, dtype=dtypes.string)
        with control_dependencies([checks.Assert(array.size(texts) > 0, [refused])]):
            texts = constants.identity(texts)
        return input_producer(
            texts, [], num_epochs, shuffle, seed, capacity, shared_name, f"fraction_of_{capacity}_full", scope,
            cancel_op,
        )  # fmt: skip


def range_input_producer(
    limit: Any, num_epochs: int | None = None, shuffle: bool = True, seed: int | None = None, capacity: int = 32,
    shared_name: str | None = None, name: str | None = None,
) -> QueueBase:  # fmt: skip
    """A queue of the numbers from 0 up to `limit`. For the rest see input_producer."""
    with name_scope(name, "input_producer") as scope:
        return input_producer(
            constants.range(limit), [], num_epochs, shuffle, seed, capacity, shared_name,
            f"fraction_of_{capacity}_full", scope,
        )  # fmt: skip


def slice_input_producer(
    tensor_list: Sequence[Any], num_epochs: int | None = None, shuffle: bool = True, seed: int | None = None,
    capacity: int = 32, shared_name: str | None = None, name: str | None = None,
) -> list[Tensor]:  # fmt: skip
    """A row of each tensor, of the same number, which comes from a queue of numbers: the next one in each step."""
    with name_scope(name, "input_producer"):
        tensors = [convert_to_tensor(tensor) for tensor in tensor_list]
        if not tensors:
            raise ValueError("Expected at least one tensor in slice_input_producer().")
        rows = array.shape(tensors[0])[0]
        queue = range_input_producer(rows, num_epochs, shuffle, seed, capacity, shared_name)
        index = queue.dequeue()
        return [slicing.gather(tensor, index) for tensor in tensors]
