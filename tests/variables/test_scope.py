"""get_variable and variable_scope: names, reuse, defaults, partitions. No session is needed."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from dtfzmq.base import dtypes
from dtfzmq.graph.convert import convert_to_tensor
from dtfzmq.graph.graph import Graph, get_default_graph
from dtfzmq.graph.keys import GraphKeys
from dtfzmq.graph.scopes import get_collection, name_scope
from dtfzmq.ops import families  # noqa: F401  # declares every op
from dtfzmq.ops import math as math_ops
from dtfzmq.variables.initializers import Constant, Ones, Zeros
from dtfzmq.variables.partitions import fixed_size_partitioner, variable_axis_size_partitioner
from dtfzmq.variables.scope import (
    get_local_variable,
    get_variable,
    get_variable_scope,
    no_regularizer,
    variable_creator_scope,
    variable_op_scope,
    variable_scope,
)
from dtfzmq.variables.store import AUTO_REUSE


@pytest.fixture(autouse=True)
def graph() -> Iterator[Graph]:
    with Graph().as_default() as made:
        yield made


def test_names_follow_variable_scopes_and_not_name_scopes() -> None:
    with variable_scope("foo"):
        with name_scope("bar"):
            v = get_variable("v", [1])
            x = math_ops.add(1.0, v)
    assert v.name == "foo/v:0"
    assert x.op.name == "foo/bar/Add"


def test_constants_of_python_values_are_named_inside_their_operation() -> None:
    x = math_ops.add(get_variable("v", [1]), 1.0, name="y")
    assert (x.op.name, x.op.inputs[1].op.name) == ("y", "y/y")


def test_nested_scopes_and_the_scope_object() -> None:
    with variable_scope("a") as a, variable_scope("b") as b:
        v = get_variable("v", [2])
    assert (a.name, b.name, v.op.name) == ("a", "a/b", "a/b/v")
    assert b.original_name_scope == "a/b/"
    assert get_variable_scope().name == ""


def test_entering_again_by_name_and_by_object_keeps_variable_names() -> None:
    with variable_scope("foo") as scope:
        v = get_variable("v", [1])
        first = math_ops.add(v, 1.0, name="first")
    with variable_scope("foo", reuse=True):
        assert get_variable("v", [1]) is v
        assert math_ops.add(v, 1.0, name="second").op.name == "foo_1/second"
    with variable_scope(scope, reuse=True) as again:
        assert get_variable("v") is v
        assert again.name == "foo"
        assert again.original_name_scope == "foo/"
    with variable_scope("other"), variable_scope(scope, reuse=True):
        assert get_variable("v") is v
        assert math_ops.add(v, 1.0, name="third").op.name == "other/foo/third"
    assert first.op.name == "foo/first"


def test_a_name_made_twice_is_an_error_unless_it_may_be_reused() -> None:
    v = get_variable("v", [1])
    with pytest.raises(ValueError, match="Variable v already exists, disallowed"):
        get_variable("v", [1])
    get_variable_scope().reuse_variables()
    assert get_variable("v", [1]) is v
    with pytest.raises(ValueError, match="Variable w does not exist"):
        get_variable("w", [1])


def test_auto_reuse_makes_then_finds() -> None:
    with variable_scope("s", reuse=AUTO_REUSE):
        v = get_variable("v", [1])
    with variable_scope("s", reuse=AUTO_REUSE):
        assert get_variable("v", [1]) is v
        with variable_scope("t"):
            inner = get_variable("v", [1])
            assert get_variable("v", [1]) is inner


def test_reuse_is_inherited_and_false_does_not_undo_it() -> None:
    with variable_scope("s"):
        v = get_variable("v", [1])
    with variable_scope("s", reuse=True), variable_scope("", reuse=False) as inner:
        assert inner.reuse is True
    assert v.op.name == "s/v"


def test_sharing_checks_shape_and_dtype() -> None:
    with variable_scope("s", reuse=AUTO_REUSE):
        get_variable("v", [2, 3])
        with pytest.raises(ValueError, match=r"specified shape \(2, 4\) and found shape \(2, 3\)"):
            get_variable("v", [2, 4])
        with pytest.raises(ValueError, match="specified dtype int32 and found dtype float32_ref"):
            get_variable("v", [2, 3], dtype=dtypes.int32)


def test_default_names_are_unique_among_siblings() -> None:
    names = []
    for _ in range(2):
        with variable_scope(None, default_name="layer") as scope:
            names.append(scope.name)
            with variable_scope(None, default_name="inner") as inner:
                names.append(inner.name)
    assert names == ["layer", "layer/inner", "layer_1", "layer_1/inner"]
    with pytest.raises(ValueError, match="reuse=True cannot be used without a name_or_scope"):
        variable_scope(None, default_name="layer", reuse=True)
    with pytest.raises(TypeError, match="name_or_scope is required"):
        variable_scope(None)


def test_default_names_start_again_in_a_scope_that_is_entered_again() -> None:
    found = []
    for reuse in (None, True):
        with variable_scope("outer", reuse=reuse), variable_scope(None, default_name="layer"):
            found.append(get_variable("w", [1]))
    assert found[0] is found[1]


def test_initializers_as_instance_class_function_and_value() -> None:
    values = [Ones(), Ones, lambda shape, dtype, partition_info=None: convert_to_tensor(np.ones(shape, "float32"))]
    for number, initializer in enumerate(values):
        v = get_variable(f"v{number}", [2, 2], initializer=initializer)
        assert v.get_shape().as_list() == [2, 2]
        assert v.op.name == f"v{number}"
    c = get_variable("c", initializer=[1.0, 2.0])
    assert c.get_shape().as_list() == [2]
    n = get_variable("n", initializer=lambda: convert_to_tensor(np.arange(3)), dtype=dtypes.int64)
    assert n.dtype is dtypes.int64.ref
    with pytest.raises(ValueError, match="If initializer is a constant, do not specify shape"):
        get_variable("d", [2], initializer=[1.0, 2.0])
    with pytest.raises(ValueError, match="Initializer type 'int32' and explicit dtype"):
        get_variable("e", dtype=dtypes.float32, initializer=np.int32(1))
    with pytest.raises(ValueError, match="must be fully defined"):
        get_variable("f", [None, 2])
    with pytest.raises(ValueError, match="must be fully defined"):
        get_variable("g")


def test_defaults_of_a_scope_and_their_override() -> None:
    with variable_scope("s", initializer=Constant(3.0), dtype=dtypes.float64, regularizer=lambda v: math_ops.add(v, v)):
        v = get_variable("v", [])
        get_variable("w", [], dtype=dtypes.float32, regularizer=no_regularizer)
    assert v.dtype is dtypes.float64.ref
    assert v.initial_value.op.type == "Const"
    assert [t.op.name for t in get_collection(GraphKeys.REGULARIZATION_LOSSES)] == ["s/v/Regularizer/Add"]


def test_integers_start_at_zero_and_floats_at_random() -> None:
    assert get_variable("i", [3], dtype=dtypes.int32).initial_value.op.type == "Const"
    assert get_variable("f", [3]).initial_value.op.type != "Const"


def test_custom_getters_nest_inner_first() -> None:
    seen = []

    def outer(getter: Any, name: str, *args: Any, **kwargs: Any) -> Any:
        seen.append(("outer", name))
        return getter(name, *args, **kwargs)

    def inner(getter: Any, name: str, *args: Any, **kwargs: Any) -> Any:
        seen.append(("inner", name))
        return getter(name + "_renamed", *args, **kwargs)

    with variable_scope("s", custom_getter=outer), variable_scope("t", custom_getter=inner):
        v = get_variable("v", [1])
    assert seen == [("inner", "s/t/v"), ("outer", "s/t/v_renamed")]
    assert v.op.name == "s/t/v_renamed"


def test_variable_creators_wrap_the_making() -> None:
    def frozen(next_creator: Any, **settings: Any) -> Any:
        settings["trainable"] = False
        return next_creator(**settings)

    with variable_creator_scope(frozen):
        get_variable("v", [1])
    get_variable("w", [1])
    assert [v.op.name for v in get_collection(GraphKeys.TRAINABLE_VARIABLES)] == ["w"]


def test_collections_of_a_scope() -> None:
    with variable_scope("s") as scope:
        v = get_variable("v", [1])
    get_variable("sv", [1])
    local = get_local_variable("l", [1], initializer=Zeros())
    assert scope.global_variables() == [v]
    assert get_collection(GraphKeys.LOCAL_VARIABLES) == [local]
    assert local not in get_collection(GraphKeys.GLOBAL_VARIABLES)
    assert local not in get_collection(GraphKeys.TRAINABLE_VARIABLES)


def test_the_old_spelling() -> None:
    with variable_op_scope([], "s", reuse=None) as scope:
        assert scope.name == "s"


def test_partitions_cut_one_dimension_as_evenly_as_it_goes() -> None:
    with variable_scope("s", partitioner=fixed_size_partitioner(3)):
        whole = get_variable("v", [10, 4], initializer=Zeros())
    assert [p.op.name for p in whole] == ["s/v/part_0", "s/v/part_1", "s/v/part_2"]
    assert [p.get_shape().as_list() for p in whole] == [[4, 4], [3, 4], [3, 4]]
    assert [p._get_save_slice_info().spec for p in whole] == ["10 4 0,4:0,4", "10 4 4,3:0,4", "10 4 7,3:0,4"]
    assert convert_to_tensor(whole).get_shape().as_list() == [10, 4]
    with variable_scope("s", reuse=True):
        assert get_variable("v", [10, 4]) is whole
    with pytest.raises(ValueError, match="partitioned version of the variable was found"):
        with variable_scope("s"):
            get_variable("v", [10, 4])
    with pytest.raises(ValueError, match="into at most as many parts"):
        get_variable("w", [2, 4], partitioner=fixed_size_partitioner(3))


def test_a_partitioned_value_is_cut_like_the_variable() -> None:
    whole = get_variable("v", initializer=np.arange(6, dtype="float32"), partitioner=fixed_size_partitioner(2))
    assert [p.get_shape().as_list() for p in whole] == [[3], [3]]


def test_parts_by_size() -> None:
    partition = variable_axis_size_partitioner(64)
    whole = get_variable("v", [10, 4], partitioner=partition, initializer=Zeros())
    assert len(whole) == 3


def test_bad_arguments() -> None:
    with pytest.raises(ValueError, match="reuse parameter must be True or False or None"):
        variable_scope("s", reuse="yes")  # type: ignore[arg-type]  # on purpose
    with pytest.raises(TypeError, match="must be a string or VariableScope"):
        variable_scope(3)  # type: ignore[arg-type]  # on purpose


def test_a_variable_scope_holds_in_its_thread_alone():
    graph = get_default_graph()
    got: list[Any] = []

    def work():
        with graph.as_default():
            got.append((get_variable_scope().name, get_variable("theirs", [1]).name))
            with variable_scope(None, "layer") as scope:
                got.append(scope.name)

    with variable_scope("ours", reuse=None):
        with variable_scope(None, "layer"):
            thread = threading.Thread(target=work)
            thread.start()
            thread.join(20)
        assert get_variable("mine", [1]).name == "ours/mine:0"
    assert got == [("", "theirs:0"), "layer"]
    with variable_scope("ours", reuse=True):
        assert get_variable("mine", [1]).name == "ours/mine:0"
