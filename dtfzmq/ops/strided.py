"""What a strided slice means: TensorFlow's begin, end, strides and five bit masks as a numpy index."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dtfzmq.base import errors


class StridedSpec:
    """The masks of one StridedSlice. Raises InvalidArgumentError (`index`) or ValueError (`static`) for bad bounds."""

    def __init__(self, attrs: dict[str, Any]) -> None:
        self.begin = attrs["begin_mask"]
        self.end = attrs["end_mask"]
        self.ellipsis = attrs["ellipsis_mask"]
        self.new_axis = attrs["new_axis_mask"]
        self.shrink = attrs["shrink_axis_mask"]

    def _entries(self, begin: Any, end: Any, strides: Any) -> list[Any]:
        """One numpy index entry per position: slice, int, None or Ellipsis."""
        if {begin.shape, end.shape, strides.shape} != {(begin.size,)}:
            raise errors.InvalidArgumentError(
                None, None, "Expected begin, end, and strides to be 1D equal size tensors, but got shapes "
                f"{list(begin.shape)}, {list(end.shape)}, and {list(strides.shape)} instead.",
            )  # fmt: skip
        out: list[Any] = []
        for i, (b, e, s) in enumerate(zip(begin.tolist(), end.tolist(), strides.tolist())):
            bit = 1 << i
            if self.ellipsis & bit:
                out.append(Ellipsis)
            elif self.new_axis & bit:
                out.append(None)
            elif self.shrink & bit:
                if s <= 0:
                    raise errors.InvalidArgumentError(None, None, "only stride 1 allowed on non-range indexing.")
                out.append(int(b))
            else:
                if s == 0:
                    raise errors.InvalidArgumentError(None, None, f"strides[{i}] must be non-zero")
                out.append(slice(None if self.begin & bit else b, None if self.end & bit else e, s))
        return out

    def index(self, shape: Sequence[int], begin: Any, end: Any, strides: Any) -> tuple[Any, ...]:
        """The index that cuts this slice out of an array of `shape`."""
        entries = self._entries(begin, end, strides)
        used = sum(1 for e in entries if e is not None and e is not Ellipsis)
        if used > len(shape):
            raise errors.InvalidArgumentError(
                None, None, f"Index out of range using input dim {used - 1}; input has only {len(shape)} dims"
            )
        axis = 0
        for entry in entries:
            if entry is Ellipsis:
                axis = len(shape) - (used - axis)
            elif entry is not None:
                if isinstance(entry, int) and not -shape[axis] <= entry < shape[axis]:
                    raise errors.InvalidArgumentError(
                        None, None, f"slice index {entry} of dimension {axis} out of bounds."
                    )
                axis += 1
        return tuple(entries)

    def static(self, known: Sequence[int | None], begin: Any, end: Any, strides: Any) -> list[int | None]:
        """The sizes of the result from what is known of the input's."""
        try:
            entries = self._entries(begin, end, strides)
        except errors.InvalidArgumentError as error:
            raise ValueError(error.message) from None
        used = sum(1 for e in entries if e is not None and e is not Ellipsis)
        if used > len(known):
            raise ValueError(f"Index out of range using input dim {used - 1}; input has only {len(known)} dims")
        if Ellipsis not in entries:
            entries.append(Ellipsis)
        out: list[int | None] = []
        axis = 0
        for entry in entries:
            if entry is Ellipsis:
                rest = len(known) - used
                out.extend(known[axis : axis + rest])
                axis += rest
                continue
            if entry is None:
                out.append(1)
                continue
            size = known[axis]
            axis += 1
            if isinstance(entry, int):
                if size is not None and not -size <= entry < size:
                    raise ValueError(f"slice index {entry} of dimension {axis - 1} out of bounds.")
            elif size is not None:
                out.append(len(range(*entry.indices(size))))
            else:
                out.append(_unknown_length(entry))
        return out


def _unknown_length(entry: slice) -> int | None:
    """The length of a slice of an axis of unknown size: never known, except that nothing stays nothing."""
    start, stop, step = entry.start, entry.stop, entry.step
    if start is not None and stop is not None and np.sign(stop - start) != np.sign(step) and (start < 0) == (stop < 0):
        return 0
    return None
