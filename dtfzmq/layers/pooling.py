"""Pooling layers: the largest or the mean of each window, over one to three axes of space."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from dtfzmq.base.shapes import TensorShape, as_shape
from dtfzmq.graph.convert import convert_to_tensor
from dtfzmq.graph.graph import Tensor
from dtfzmq.layers import naming
from dtfzmq.layers.base import InputSpec, Layer
from dtfzmq.layers.convolutional import output_size
from dtfzmq.ops import array
from dtfzmq.ops import pooling as pooling_ops


class Pooling(Layer):
    """`pool_size` windows, `strides` apart (None: side by side), over `rank` axes of space."""

    def __init__(
        self, rank: int, functions: tuple[Callable[..., Tensor], Callable[..., Tensor]], pool_size: Any,
        strides: Any = None, padding: str = "valid", data_format: str = "channels_last", name: str | None = None,
        **kwargs: Any,
    ) -> None:  # fmt: skip
        super().__init__(name=name, **kwargs)
        self.rank = rank
        self.pool_size = naming.sizes(pool_size, rank, "pool_size")
        self.strides = naming.sizes(self.pool_size if strides is None else strides, rank, "strides")
        self.padding = naming.padding(padding)
        self.data_format = data_format
        self._first = naming.channels(data_format)
        self._pool = functions[rank == 3]
        self.input_spec = InputSpec(ndim=rank + 2)

    def call(self, inputs: Any) -> Tensor:
        """See Layer."""
        x = convert_to_tensor(inputs)
        size, step, axis = self.pool_size, self.strides, 3 if self._first else 2
        if self.rank == 1:  # 2-D pooling of one column
            x, size, step = array.expand_dims(x, axis), (*size, 1), (*step, 1)
        spread = (lambda v: [1, 1, *v]) if self._first else (lambda v: [1, *v, 1])
        layout = naming.layout(max(self.rank, 2), self._first)
        out = self._pool(x, spread(size), spread(step), self.padding.upper(), data_format=layout)
        return array.squeeze(out, [axis]) if self.rank == 1 else out

    def compute_output_shape(self, input_shape: Any) -> TensorShape:
        """See Layer."""
        known = as_shape(input_shape).as_list()
        space = known[2:] if self._first else known[1:-1]
        sizes = [output_size(n, k, s, self.padding) for n, k, s in zip(space, self.pool_size, self.strides)]
        return TensorShape([*known[:2], *sizes] if self._first else [known[0], *sizes, known[-1]])


_MAX = pooling_ops.max_pool, pooling_ops.max_pool3d
_AVERAGE = pooling_ops.avg_pool, pooling_ops.avg_pool3d


class MaxPooling1D(Pooling):
    """The largest of each window of [batch, length, channels]."""

    def __init__(self, pool_size: Any, strides: Any = None, *args: Any, **kwargs: Any) -> None:
        super().__init__(1, _MAX, pool_size, strides, *args, **kwargs)


class MaxPooling2D(Pooling):
    """The largest of each window of [batch, height, width, channels]."""

    def __init__(self, pool_size: Any, strides: Any = None, *args: Any, **kwargs: Any) -> None:
        super().__init__(2, _MAX, pool_size, strides, *args, **kwargs)


class MaxPooling3D(Pooling):
    """The largest of each window of [batch, depth, height, width, channels]."""

    def __init__(self, pool_size: Any, strides: Any = None, *args: Any, **kwargs: Any) -> None:
        super().__init__(3, _MAX, pool_size, strides, *args, **kwargs)


class AveragePooling1D(Pooling):
    """The mean of each window of [batch, length, channels]."""

    def __init__(self, pool_size: Any, strides: Any = None, *args: Any, **kwargs: Any) -> None:
        super().__init__(1, _AVERAGE, pool_size, strides, *args, **kwargs)


class AveragePooling2D(Pooling):
    """The mean of each window of [batch, height, width, channels]."""

    def __init__(self, pool_size: Any, strides: Any = None, *args: Any, **kwargs: Any) -> None:
        super().__init__(2, _AVERAGE, pool_size, strides, *args, **kwargs)


class AveragePooling3D(Pooling):
    """The mean of each window of [batch, depth, height, width, channels]."""

    def __init__(self, pool_size: Any, strides: Any = None, *args: Any, **kwargs: Any) -> None:
        super().__init__(3, _AVERAGE, pool_size, strides, *args, **kwargs)


class _Function(Protocol):
    """A layer that is used once."""

    def __call__(
        self, inputs: Any, pool_size: Any, strides: Any, padding: str = "valid", data_format: str = "channels_last",
        name: str | None = None,
    ) -> Tensor: ...  # fmt: skip


def _function(name: str, kind: type[Pooling]) -> _Function:
    def pool(
        inputs: Any, pool_size: Any, strides: Any, padding: str = "valid", data_format: str = "channels_last",
        name: str | None = None,
    ) -> Tensor:  # fmt: skip
        made: Tensor = kind(pool_size, strides, padding, data_format, name)(inputs)  # type: ignore[arg-type]  # a subclass knows its rank
        return made

    pool.__name__ = pool.__qualname__ = name
    pool.__doc__ = f"One `{kind.__name__}` layer on `inputs`."
    return pool


max_pooling1d = _function("max_pooling1d", MaxPooling1D)
max_pooling2d = _function("max_pooling2d", MaxPooling2D)
max_pooling3d = _function("max_pooling3d", MaxPooling3D)
average_pooling1d = _function("average_pooling1d", AveragePooling1D)
average_pooling2d = _function("average_pooling2d", AveragePooling2D)
average_pooling3d = _function("average_pooling3d", AveragePooling3D)
