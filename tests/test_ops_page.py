"""docs/ops.md says what the declarations and public names are."""

from __future__ import annotations

import re

from docs import differs, generate
from dtfzmq.graph import opdef


def test_the_page_is_what_the_declarations_say() -> None:
    assert generate.PAGE.read_text(encoding="utf-8") == generate.page(), "run `make docs` and commit what changed"


def test_every_op_and_every_function_is_listed() -> None:
    text = generate.page()
    rows = re.findall(r"^\| `(\w+)` \|", text, re.M)
    assert {d.name for d in opdef.library_ops()} <= set(rows)
    for name in ("`map_fn`", "`nn.conv2d`", "`reduce_sum`, `math.reduce_sum`", "`TensorArray`"):
        assert f"| {name}" in text


def test_what_is_said_of_ops_is_said_of_ops_that_are_there() -> None:
    assert [name for name in differs.OWN if opdef.find(name) is None] == []
    public = {name for _, called in generate.doors().values() for name in called}
    assert [n for n in differs.DIFFERS if opdef.find(n) is None and n not in public] == []


def test_what_contrib_holds_is_listed() -> None:
    assert {"get_global_step", "list_variables", "assign_from_checkpoint_fn"} <= set(generate.of_contrib("framework"))
    assert {"xavier_initializer", "linear", "flatten"} <= set(generate.of_contrib("layers"))
    assert generate.of_contrib("seq2seq") == ["sequence_loss"]
