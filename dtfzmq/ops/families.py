"""All op families. Importing this module declares every op of the library."""

from __future__ import annotations

from typing import Any, Final

from dtfzmq.base import dtypes
from dtfzmq.graph import registry
from dtfzmq.graph.opdef import OpDef
from dtfzmq.ops import (
    activations,
    arithmetic,
    array,
    batch_norm,
    bitwise_ops,
    blocks,
    branching,
    broadcasting,
    candidates,
    cast,
    checks,
    clip,
    complex,
    constants,
    control,
    conv,
    conv_layers,
    decompositions,
    diag,
    einsum,
    elementwise,
    flow_grad,
    gradients,
    grouping,
    image,
    image_color,
    image_files,
    image_measures,
    indexed_slices,
    indexing,
    joining,
    linalg,
    list_ops,
    losses,
    math,
    matmul,
    nn,
    normalization,
    operators,
    partitioning,
    patches,
    pooling,
    printing,
    py_func,
    queue_ops,
    random,
    reductions,
    resize,
    sampled_losses,
    segments,
    sendrecv,
    set_ops,
    sets,
    shape_checks,
    shaping,
    slicing,
    sorting,
    sparse,
    sparse_index,
    sparse_reduce,
    special,
    spectral,
    state,
    string_numbers,
    string_split,
    strings,
    training,
)

FAMILIES: Final = (
    constants,
    elementwise,
    arithmetic,
    operators,
    cast,
    broadcasting,
    shaping,
    joining,
    indexing,
    slicing,
    reductions,
    matmul,
    indexed_slices,
    activations,
    nn,
    conv,
    blocks,
    pooling,
    batch_norm,
    normalization,
    patches,
    candidates,
    resize,
    image_color,
    image_files,
    losses,
    random,
    branching,
    flow_grad,
    list_ops,
    sendrecv,
    state,
    training,
    queue_ops,
    complex,
    bitwise_ops,
    diag,
    decompositions,
    special,
    linalg,
    einsum,
    segments,
    partitioning,
    printing,
    checks,
    shape_checks,
    sorting,
    sets,
    strings,
    string_numbers,
    spectral,
    sparse_index,
    sparse,
    sparse_reduce,
    set_ops,
    string_split,
    py_func,
)


def _is_of_state(definition: OpDef) -> bool:
    """True of an op that takes or gives a variable, queue or accumulator."""
    ends = (*definition.signature.inputs, *definition.signature.outputs)
    return any(arg.ref or arg.type is dtypes.resource for arg in ends)


OF_STATE: Final = frozenset(d.name for d in registry.all_ops() if _is_of_state(d))  # state, training, queue_ops
DECLARED: Final = frozenset(d.name for d in registry.all_ops()) - OF_STATE  # of these families and what they import
# What the compiler carries out itself.
WITHOUT_KERNEL: Final = frozenset({"If", "While", "_Arg", "_Retval", "_Send", "_Recv"})
# Lists are no arrays; tests/ops/test_control.py and test_tensor_array.py have these.
WITHOUT_SAMPLES: Final = WITHOUT_KERNEL | {"ListGet", "EmptyList", "ListPack", "ListUnpack"} | set(list_ops.NAMES)


_NAMESPACES: Final[dict[str, tuple[Any, ...]]] = {
    "": (
        constants,
        grouping,
        elementwise,
        math,
        cast,
        array,
        slicing,
        reductions,
        matmul,
        clip,
        random,
        gradients,
        control,
        complex,
        diag,
        special,
        linalg,
        decompositions,
        einsum,
        segments,
        partitioning,
        printing,
        checks,
        shape_checks,
        blocks,
        patches,
        sorting,
        sets,
        strings,
        string_numbers,
        spectral,
        sparse,
        sparse_reduce,
        set_ops,
        string_split,
        py_func,
    ),
    "math": (reductions, math, elementwise, complex, special, segments, sorting, sets),
    "bitwise": (math, bitwise_ops),
    "nn": (nn, conv_layers, pooling, blocks, batch_norm, normalization, patches, candidates, sampled_losses),
    "losses": (losses,),
    "image": (patches, resize, image, image_color, image_files, image_measures, random),
    "linalg": (diag, linalg, decompositions, einsum),
    "debugging": (printing, checks, shape_checks),
    "strings": (strings, string_numbers, string_split),
    "spectral": (spectral,),
    "signal": (spectral,),
    "sparse": (sparse, sparse_reduce),
    "sets": (set_ops,),
}


def public(name: str) -> Any:
    """The function of the op library behind a public dotted name ("nn.relu"), or None if there is none."""
    space, _, leaf = name.rpartition(".")
    for module in _NAMESPACES.get(space, ()):
        found = vars(module).get(leaf)
        if callable(found) and not leaf.startswith("_"):
            return found
    return None
