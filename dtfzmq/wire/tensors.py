"""One tensor on the wire: a descriptor ``[dtype name, shape, bytes]`` and raw little-endian bytes in C order.

The third entry is the number of bytes, which stand elsewhere, or of a small tensor the bytes themselves.

A string tensor's bytes are ``n + 1`` offsets (64-bit) and then the data, so that it too is one buffer. Numeric arrays
of any order, stride, byte order or alignment are legal input; what comes out is native, aligned, writeable and owned.
"""

from __future__ import annotations

import math
import sys
from typing import Any

import numpy as np
import numpy.typing as npt

from dtfzmq.base import dtypes, errors
from dtfzmq.wire.buffers import Bytes, aligned
from dtfzmq.wire.message import WireError

Array = npt.NDArray[Any]
Descriptor = list[Any]

# numpy before 2 stops at 32 dimensions.
_MAX_DIMENSIONS = 32
# A small array from malloc is aligned for every element type; only above this is the 64-byte alignment worth its cost.
_PLAIN_LIMIT = 1024
_NAMES: dict[np.dtype[Any], str] = {}
_NUMPY: dict[str, np.dtype[Any]] = {}
_OFFSET = np.dtype("<u8")
_SWAP = sys.byteorder != "little"

for _type in dtypes.all_types():
    if _type.is_numpy_compatible:
        _NUMPY[_type.name] = _type.np_dtype
        _NAMES[_type.np_dtype] = _type.name


def normal(value: Any) -> Array:
    """`value` as a native array of a type that can travel; the same object where it is one already.

    Masked arrays, structured and other foreign types raise TypeError; text becomes UTF-8 bytes.
    """
    array = value if type(value) is np.ndarray else _plain_array(value)
    dtype = array.dtype
    if dtype in _NAMES:
        return array.astype(dtype.newbyteorder("=")) if dtype.byteorder == ">" else array
    if dtype.kind in "SU":
        return array.astype(object)
    if not dtype.isnative:
        native = array.astype(dtype.newbyteorder("="))
        if native.dtype in _NAMES:
            return native
    raise TypeError(f"An array of type {dtype} cannot travel; its elements have no TensorFlow type.")


def _plain_array(value: Any) -> Array:
    # Where there is such an array its module was imported. To import it takes time, and a descriptor.
    if isinstance(value, getattr(sys.modules.get("numpy.ma"), "MaskedArray", ())):
        raise TypeError("A masked array cannot travel, since its mask would be lost; fill it first.")
    return np.asarray(value)


def encode(array: Array) -> tuple[Descriptor, bytes]:
    """Descriptor and a private copy of the bytes of a normal array."""
    if array.dtype.hasobject:
        data = _string_bytes(array)
        return ["string", list(array.shape), len(data)], data
    data = (array.byteswap() if _SWAP else array).tobytes()
    return [_NAMES[array.dtype], list(array.shape), len(data)], data


def flat_bytes(array: Array) -> tuple[Descriptor, Bytes]:
    """Descriptor and the bytes of a large normal array, without a copy where its memory is in C order."""
    if array.dtype.hasobject:
        data = np.frombuffer(_string_bytes(array), np.uint8)
        return ["string", list(array.shape), data.size], data
    whole = array.byteswap() if _SWAP else array
    flat = np.ascontiguousarray(whole).reshape(-1).view(np.uint8)
    return [_NAMES[array.dtype], list(array.shape), flat.size], flat


def _string_bytes(array: Array) -> bytes:
    items = [_item_bytes(item) for item in array.ravel().tolist()]
    offsets = np.zeros(len(items) + 1, _OFFSET)
    np.cumsum(np.fromiter(map(len, items), np.int64, len(items)), out=offsets[1:].view(np.int64))
    return offsets.tobytes() + b"".join(items)


def _item_bytes(item: Any) -> bytes:
    if type(item) is bytes:
        return item
    if isinstance(item, str):
        return item.encode()
    if isinstance(item, (bytes, bytearray)):
        return bytes(item)
    raise TypeError(f"A string tensor holds bytes or text, not {type(item).__name__}.")


def measure(descriptor: Any, limit: int) -> tuple[str, tuple[int, ...], int]:
    """The parts of a descriptor, proven consistent before any memory is reserved.

    Raises WireError if it is malformed or above `limit` bytes, UnimplementedError if its type is not to be had here.
    """
    if type(descriptor) is not list or len(descriptor) < 3:
        raise WireError("a tensor's descriptor is malformed")
    name, shape, nbytes = descriptor[:3]
    if type(name) is not str or type(shape) is not list or type(nbytes) is not int:
        raise WireError("a tensor's descriptor is malformed")
    if len(shape) > _MAX_DIMENSIONS:
        raise WireError(f"a tensor of {len(shape)} dimensions is beyond the {_MAX_DIMENSIONS} that are possible")
    for size in shape:
        if type(size) is not int or size < 0 or size >= 1 << 62:
            raise WireError("a tensor's shape is malformed")
    if nbytes < 0 or nbytes > limit:
        raise WireError(f"a tensor of {nbytes} bytes is above the limit of {limit}")
    dtype = _NUMPY.get(name)
    count = math.prod(shape)
    if name == "string":
        if nbytes < 8 * (count + 1):
            raise WireError(f"{nbytes} bytes are too few for {count} strings")
    elif dtype is None:
        if name == "bfloat16":
            raise errors.UnimplementedError(None, None, "A bfloat16 tensor came; install the package ml_dtypes here.")
        raise WireError(f"{name!r:.60} is not an element type")
    elif count * dtype.itemsize != nbytes:
        raise WireError(f"a {name} tensor of shape {shape} does not take {nbytes} bytes")
    if count == 0 and math.prod(max(1, s) for s in shape) >= 1 << 60:
        raise WireError("a tensor's shape is beyond what an array can have")
    return name, tuple(shape), nbytes


def decode(descriptor: Any, data: Any, start: int, limit: int) -> tuple[Array, int]:
    """The array described, copied out of `data` at `start`, and where the next one begins. Raises as `measure` does."""
    name, shape, nbytes = measure(descriptor, limit)
    end = start + nbytes
    if end > len(data):
        raise WireError("a tensor's bytes are missing")
    if name == "string":
        return _strings(shape, data[start:end]), end
    dtype = _NUMPY[name]
    if nbytes == 0:
        return np.empty(shape, dtype), end
    source = np.frombuffer(data, dtype, nbytes // dtype.itemsize, start)
    if nbytes <= _PLAIN_LIMIT:
        array = source.copy()
    else:
        array = aligned(nbytes).view(dtype)
        array[...] = source
    return _finish(array, name).reshape(shape), end


def within(descriptor: Descriptor, limit: int) -> Array:
    """The array of a descriptor of three entries that holds its bytes. Raises as `measure` does."""
    data: bytes = descriptor[2]
    name, shape, nbytes = measure([*descriptor[:2], len(data)], limit)
    if name == "string":
        return _strings(shape, data)
    dtype = _NUMPY[name]
    return _finish(np.ndarray(shape, dtype, data).copy(), name) if nbytes else np.empty(shape, dtype)


def adopt(name: str, shape: tuple[int, ...], memory: Bytes) -> Array:
    """The array whose bytes were received into `memory`; it takes the memory over. Arguments come from `measure`.

    Raises WireError if strings in it are malformed.
    """
    if name == "string":
        return _strings(shape, memory.tobytes())
    return _finish(memory.view(_NUMPY[name]), name).reshape(shape)


def _finish(array: Array, name: str) -> Array:
    if name == "bool":  # any other byte than 0 and 1 is undefined behaviour in numpy
        np.not_equal(array.view(np.uint8), 0, out=array)
    return array.byteswap(inplace=True) if _SWAP else array


def _strings(shape: tuple[int, ...], data: Any) -> Array:
    count = math.prod(shape)
    blob = bytes(data)
    offsets = np.frombuffer(blob, _OFFSET, count + 1).tolist()
    base = 8 * (count + 1)
    room = len(blob) - base
    if offsets[0] != 0 or offsets[-1] != room or any(a > b for a, b in zip(offsets, offsets[1:])):
        raise WireError("the offsets of a string tensor are malformed")
    array = np.empty(count, object)
    array[:] = [blob[base + a : base + b] for a, b in zip(offsets, offsets[1:])]
    return array.reshape(shape)
