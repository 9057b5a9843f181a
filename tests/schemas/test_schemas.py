"""The schemas are what the declarations say, and what a cluster says fits them."""

from __future__ import annotations

import pytest

from schemas import generate
from tests.kit.captures import Checker

DOCUMENTS = generate.documents()


@pytest.fixture(scope="module")
def checker() -> Checker:
    return Checker(DOCUMENTS)


def test_the_files_are_what_the_declarations_say() -> None:
    assert generate.outdated() == [], "run `make schemas` and commit what changed"


def test_each_schema_is_one(checker: Checker) -> None:
    checker.check_schemas()


@pytest.mark.parametrize(
    ("body", "path"),
    [
        (["RunStep", "h", "0", 1, []], "call"),
        (["RunStep", "h", 0, 1], "too short"),
        (["RunStep", "h", 0, 1, [["float32", [2], 8, 1, 2]]], "too long"),
        (["RunStep", "h", 0, 1, [["float33", [2], 8]]], "float33"),
        (["RegisterGraph", "s", [["n", "NoOp", [], [], "", None]], [], 0, 0], "too short"),
        (["RegisterGraph", "s", [["n", "NoOp", [0, 0], [], "", None, []]], [], 0, 0], "too long"),
        (["RegisterGraph", "s", [["n", "Placeholder", [], [], "", {"dtype": "x"}, ["float32"]]], [], 0, 0], "'x'"),
        (["CancelStep", 1, {"code": 99, "text": ""}], "99"),
    ],
)
def test_what_does_not_fit_is_refused(checker: Checker, body: list[object], path: str) -> None:
    assert path in checker.problem(body) or path in checker.problem(body).replace("is too", "too")
    assert checker.problem(body)


def test_what_fits_is_let_through(checker: Checker) -> None:
    assert checker.problem(["RunStep", "h", 0, 1, [None, ["float32", [2], 8]]]) == ""
    assert checker.problem(["RunStep", "h", 0, 1, [], [["x:0"], ["y:0"], []], 1.5, 3, "a later version's field"]) == ""
    assert checker.problem(["RegisterGraph", "s", [["n", "NoOp", [], [], "", None, []]], [], 0, 0]) == ""
