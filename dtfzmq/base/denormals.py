"""Floats too small to be normal count as zero while kernels run, as in TensorFlow's threads.

Processors compute with them a hundred times slower than with other numbers: a chain of products that decays towards
zero spends most of its time there (measured: 1,000 ops on [64, 64] took 3.4 ms, and 1.2 ms with this).
"""

from __future__ import annotations

import ctypes
import platform
from typing import Any

import numpy as np

_LIBRARY = "libm.so.6"
# By machine: words of glibc's fenv_t, the word with the control bits, and the bits. x86: flush to zero, and denormals
# are zeros; ARM: FZ.
_LAYOUTS = {"x86_64": (8, 7, 0x8040), "aarch64": (2, 0, 1 << 24)}

State = tuple[Any, int]


class _Control:
    """The thread's floating-point environment, through the C library."""

    def __init__(self, words: int, word: int, bits: int) -> None:
        # PyDLL: these calls take less than letting go of the interpreter lock does.
        library = ctypes.PyDLL(_LIBRARY)
        self.get, self.set = library.fegetenv, library.fesetenv
        self.environment = ctypes.c_uint32 * words
        self.word = word
        self.bits = bits

    def works(self) -> bool:
        tiny = np.array([1e-40], np.float32)
        state = self.flush()
        if state is None:
            return True
        flushed = np.multiply(tiny, tiny.dtype.type(1))
        self.restore(state)
        return not flushed.view(np.uint32)[0] and bool(np.multiply(tiny, tiny.dtype.type(1)).view(np.uint32)[0])

    def flush(self) -> State | None:
        saved = self.environment()
        self.get(saved)
        control = saved[self.word]
        if control & self.bits == self.bits:
            return None
        saved[self.word] = control | self.bits
        self.set(saved)
        return saved, control

    def restore(self, state: State) -> None:
        saved, control = state
        saved[self.word] = control
        self.set(saved)


def _find() -> _Control | None:
    layout = _LAYOUTS.get(platform.machine())
    # What numpy works out about its types when first asked must be worked out with denormals.
    for kind in (np.float16, np.float32, np.float64, np.longdouble):
        np.finfo(kind)
    try:
        control = _Control(*layout) if layout is not None else None
    except (OSError, AttributeError):
        return None
    return control if control is not None and control.works() else None


_control = _find()


def flush() -> State | None:
    """Denormals are zeros on this thread from now on; give what this returns to `restore`, on the same thread.

    Where the processor or C library is not known here, nothing happens.
    """
    return None if _control is None else _control.flush()


def restore(state: State | None) -> None:
    """End what `flush` began; None, the state of a thread that flushed already, changes nothing."""
    if state is not None and _control is not None:
        _control.restore(state)


def supported() -> bool:
    """True if `flush` does something on this machine."""
    return _control is not None
