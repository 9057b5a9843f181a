"""``tf.test.TestCase``."""

from __future__ import annotations

import contextlib
import re
import unittest
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from dtfzmq.base import dtypes, errors, names
from dtfzmq.client.session import Session
from dtfzmq.graph.convert import as_array
from dtfzmq.graph.graph import Graph, Tensor, get_default_graph, reset_default_graph


class TestCase(unittest.TestCase):
    """unittest's, with a fresh default graph for each test, sessions, and comparisons of arrays."""

    def setUp(self) -> None:
        """Forget what other tests built, and seed numpy's generator and the graph."""
        reset_default_graph()
        get_default_graph().seed = 87654321
        np.random.seed(87654321)

    @contextlib.contextmanager
    def session(self, graph: Graph | None = None, config: Any = None, use_gpu: bool = False,
                force_gpu: bool = False) -> Iterator[Session]:  # fmt: skip
        """A default session on a graph that is the default inside the block."""
        with (graph or get_default_graph()).as_default() as used, Session(graph=used, config=config) as made:
            yield made

    test_session = session
    cached_session = session

    def evaluate(self, tensors: Any) -> Any:
        """The values of tensors, by the default session or one made for it."""
        with self.session() as made:
            return made.run(tensors)

    def _array(self, value: Any) -> Any:
        if isinstance(value, Tensor) or hasattr(value, "_as_graph_element"):
            value = value.eval()
        return as_array(value)

    def assertAllEqual(self, a: Any, b: Any, msg: str | None = None) -> None:
        """Arrays of one shape and equal elements."""
        np.testing.assert_array_equal(self._array(a), self._array(b), msg or "")

    def assertNotAllEqual(self, a: Any, b: Any, msg: str | None = None) -> None:
        """Arrays that differ somewhere."""
        if np.array_equal(self._array(a), self._array(b)):
            raise AssertionError(f"The two values are equal at all elements. {msg or ''}")

    def assertAllClose(self, a: Any, b: Any, rtol: float = 1e-6, atol: float = 1e-6, msg: str | None = None) -> None:
        """Arrays, or structures of them, that are equal within a tolerance."""
        if isinstance(a, dict):
            self.assertEqual(set(a), set(b), msg)
            for key in a:
                self.assertAllClose(a[key], b[key], rtol, atol, msg)
        elif isinstance(a, (list, tuple)) and isinstance(b, (list, tuple)) and len(a) == len(b):
            for x, y in zip(a, b):
                self.assertAllClose(x, y, rtol, atol, msg)
        else:
            np.testing.assert_allclose(self._array(a), self._array(b), rtol, atol, err_msg=msg or "")

    def assertNotAllClose(self, a: Any, b: Any, **options: Any) -> None:
        """Arrays that are not equal within a tolerance."""
        try:
            self.assertAllClose(a, b, **options)
        except AssertionError:
            return
        raise AssertionError("The two values are close at all elements.")

    def assertAllCloseAccordingToType(
        self, a: Any, b: Any, rtol: float = 1e-6, atol: float = 1e-6, float_rtol: float = 1e-6,
        float_atol: float = 1e-6, half_rtol: float = 1e-3, half_atol: float = 1e-3, bfloat16_rtol: float = 1e-2,
        bfloat16_atol: float = 1e-2, msg: str | None = None,
    ) -> None:  # fmt: skip
        """assertAllClose with the tolerance of the less exact of the two types."""
        x, y = self._array(a), self._array(b)
        for name, r, t in (
            ("float32", float_rtol, float_atol), ("complex64", float_rtol, float_atol),
            ("float16", half_rtol, half_atol), ("bfloat16", bfloat16_rtol, bfloat16_atol),
        ):  # fmt: skip
            if name in (x.dtype.name, y.dtype.name):
                rtol, atol = max(rtol, r), max(atol, t)
        if "bfloat16" in (x.dtype.name, y.dtype.name):
            x, y = x.astype(np.float32), y.astype(np.float32)
        self.assertAllClose(x, y, rtol, atol, msg)

    def assertAllGreater(self, a: Any, comparison_target: Any) -> None:
        """Every element is greater."""
        self.assertGreater(np.min(self._array(a)), comparison_target)

    def assertAllLess(self, a: Any, comparison_target: Any) -> None:
        """Every element is less."""
        self.assertLess(np.max(self._array(a)), comparison_target)

    def assertAllGreaterEqual(self, a: Any, comparison_target: Any) -> None:
        """Every element is at least that."""
        self.assertGreaterEqual(np.min(self._array(a)), comparison_target)

    def assertAllLessEqual(self, a: Any, comparison_target: Any) -> None:
        """Every element is at most that."""
        self.assertLessEqual(np.max(self._array(a)), comparison_target)

    def assertAllInRange(self, target: Any, lower_bound: Any, upper_bound: Any, open_lower_bound: bool = False,
                         open_upper_bound: bool = False) -> None:  # fmt: skip
        """Every element lies between the bounds."""
        array = self._array(target)
        low = array > lower_bound if open_lower_bound else array >= lower_bound
        high = array < upper_bound if open_upper_bound else array <= upper_bound
        self.assertTrue(bool(np.all(low & high)), f"{array} is not between {lower_bound} and {upper_bound}")

    def assertAllInSet(self, target: Any, expected_set: Any) -> None:
        """Every element is one of a set."""
        self.assertTrue(bool(np.all(np.isin(self._array(target), list(expected_set)))))

    def assertNear(self, f1: float, f2: float, err: float, msg: str | None = None) -> None:
        """Two numbers differ by at most `err`."""
        self.assertTrue(f1 == f2 or abs(f1 - f2) <= err, f"{f1} != {f2} +/- {err} {msg or ''}")

    def assertArrayNear(self, farray1: Any, farray2: Any, err: float, msg: str | None = None) -> None:
        """Two lists of numbers differ by at most `err` in each."""
        self.assertEqual(len(farray1), len(farray2), msg)
        for a, b in zip(farray1, farray2):
            self.assertNear(float(a), float(b), err, msg)

    def assertNDArrayNear(self, ndarray1: Any, ndarray2: Any, err: float, msg: str | None = None) -> None:
        """The norm of the difference of two arrays is at most `err`."""
        self.assertLess(np.linalg.norm(self._array(ndarray1) - self._array(ndarray2)), err, msg)

    def assertDTypeEqual(self, target: Any, expected_dtype: Any) -> None:
        """An array or tensor is of a type."""
        dtype = target.dtype if isinstance(target, Tensor) else dtypes.of_array(self._array(target))
        self.assertEqual(dtype.base_dtype, dtypes.as_dtype(expected_dtype))

    def assertShapeEqual(self, input_a: Any, input_b: Any, msg: str | None = None) -> None:
        """An array and a tensor (either way round), or two arrays, are of one shape."""
        first, second = (x.shape.as_list() if isinstance(x, Tensor) else list(np.shape(x)) for x in (input_a, input_b))
        self.assertEqual(first, second, msg)

    def assertDeviceEqual(self, device1: Any, device2: Any, msg: str | None = None) -> None:
        """Two device texts mean the same."""
        first, second = (names.parse_device(str(d or "")).text() for d in (device1, device2))
        self.assertEqual(first, second, msg)

    def assertStartsWith(self, actual: str, expected_start: str, msg: str | None = None) -> None:
        """A text begins with another."""
        self.assertTrue(actual.startswith(expected_start), msg or f"{actual!r} does not start with {expected_start!r}")

    @contextlib.contextmanager
    def assertRaisesWithPredicateMatch(
        self, exception_type: Any, expected_err_re_or_predicate: str | Callable[[Any], bool]
    ) -> Iterator[None]:
        """The block raises such an exception; its text (of an OpError with its operation) matches, or the predicate."""
        try:
            yield
        except Exception as error:
            text = f"{error}\n{getattr(error, 'op', None)!r}" if isinstance(error, errors.OpError) else str(error)
            match = expected_err_re_or_predicate
            fits = bool(match(error)) if callable(match) else re.search(match, text) is not None
            if not isinstance(error, exception_type) or not fits:
                raise AssertionError(f"Exception of type {type(error)}: {error}") from error
        else:
            self.fail(f"{exception_type.__name__} not raised")

    def assertRaisesOpError(self, expected_err_re_or_predicate: Any) -> Any:
        """assertRaisesWithPredicateMatch for any error of a step."""
        return self.assertRaisesWithPredicateMatch(errors.OpError, expected_err_re_or_predicate)

    assertItemsEqual = unittest.TestCase.assertCountEqual
