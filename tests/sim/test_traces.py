"""What LINKS says happens, as text: each file has commands, a line ``----``, and every message that followed.

``pytest tests/sim --rewrite`` writes the second part anew; commit a changed trace only if you can say why it changed.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from dtfzmq.wire import segments
from tests.kit.simtrace import Trace

FOLDER = Path(__file__).parent / "traces"
FILES = sorted(FOLDER.glob("*.txt"))


def test_there_are_traces() -> None:
    assert len(FILES) >= 12


@pytest.mark.parametrize("path", FILES, ids=[p.stem for p in FILES])
def test_trace(path: Path, request: pytest.FixtureRequest) -> None:
    commands, _, expected = path.read_text().partition("----\n")
    if "\nshared " in commands and not segments.supported():
        pytest.skip("there are no segments on this system")
    found = Trace(commands).text()
    if request.config.getoption("--rewrite"):
        path.write_text(f"{commands}----\n{found}")
    else:
        assert found == expected
