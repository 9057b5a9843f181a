"""What If and While look like to those who build them, and their run-time side where nothing inside waits.

Layout (attributes `then_branch`, `else_branch`, `cond`, `body` are ``graph.node.Subgraph``)::

    If(pred, *captures; n_results: int) -> outputs of the branch taken
    While(*variables, *captures; n_vars: int, saved: tuple[int, ...]) -> *final values, *lists, count

- Both branches take the captures (``_Arg`` index i is capture i) and return the same number of values. A branch that
has
  nothing to give for an output that only a gradient reads returns a zero-size value.
- `cond` and `body` take the variables, then the captures. `cond` returns one bool scalar, `body` the next values of the
  variables, then the saved values; `saved` are their indices among the body's outputs. The outputs of a While are the
  final values, one variant (a Python list with an entry per iteration, first iteration first) per saved value, and
  the number of iterations as int32.
- A capture of reference type is the variable itself, read where it is used, in each iteration anew. A loop variable
is a value. - Pruning drops outputs that nobody reads, so nothing is saved unless a gradient needs it. - Each
iteration of a While is a frame of its own: ``child_frame`` gives the numbers that complete rendezvous keys.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dtfzmq.base import errors


def truth(value: Any, name: str) -> bool:
    """A predicate's value. Raises InvalidArgumentError unless it is a scalar."""
    if np.ndim(value) != 0:
        raise errors.InvalidArgumentError(
            None, None, f"The predicate of '{name}' must be a scalar, but has shape {np.shape(value)}."
        )
    return bool(value)


def child_frame(frame: int, iteration: int) -> int:
    """The number of the frames that a While makes when it stands in iteration `iteration` of frame `frame`."""
    return (frame << 32) | (iteration + 1)
