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
    ("body", "place"),
    [
        (["RunStep", "h", "0", 1, []], "RunStep[2]"),
        (["RunStep", "h", 0, 1], "RunStep"),
        (["RunStep", "h", 0, 1, [["float32", [2], 8, 1, 2]]], "RunStep[4][0]"),
        (["RunStep", "h", 0, 1, [["float33", [2], 8]]], "RunStep[4][0]"),
        (["RegisterGraph", "s", [["n", "NoOp", [], [], "", None]], [], 0, 0], "RegisterGraph[2][0]"),
        (["RegisterGraph", "s", [["n", "NoOp", [0, 0], [], "", None, []]], [], 0, 0], "RegisterGraph[2][0][2]"),
        (
            ["RegisterGraph", "s", [["n", "Placeholder", [], [], "", {"dtype": "x"}, ["float32"]]], [], 0, 0],
            "RegisterGraph[2][0][5]",
        ),
        (["CancelStep", 1, {"code": 99, "text": ""}], "CancelStep[2].code"),
    ],
)
def test_what_does_not_fit_is_refused_with_its_place(checker: Checker, body: list[object], place: str) -> None:
    assert checker.problem(body).startswith(place)


def test_what_fits_is_let_through(checker: Checker) -> None:
    assert checker.problem(["RunStep", "h", 0, 1, [None, ["float32", [2], 8]]]) == ""
    assert checker.problem(["RunStep", "h", 0, 1, [], [["x:0"], ["y:0"], []], 1.5, 3, "a later version's field"]) == ""
    assert checker.problem(["RegisterGraph", "s", [["n", "NoOp", [], [], "", None, []]], [], 0, 0]) == ""
