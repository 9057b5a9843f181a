"""Regular expressions by RE2 and without it: RE2's answers, bounded time, and the errors of what is not served."""

from __future__ import annotations

import re

import pytest

import dtfzmq as tf
from dtfzmq.base import errors
from dtfzmq.ops import backtracking, patterns
from tests.kit.evaluate import evaluate

TEXTS = [b"axbX", b"", b"c\xc3\xa9d", b"aab\n", b"a\nb", b"xxx"]
# What RegexReplace of TensorFlow 2.21 made of TEXTS: pattern, rewrite, whether everywhere.
ANSWERS = [
    (b"x*", rb"<\0>", True, [b"<>a<x>b<>X<>", b"<>", b"<>c<>\xc3\xa9<>d<>", b"<>a<>a<>b<>\n<>", b"<>a<>\n<>b<>",
                             b"<xxx>"]),
    (b".", b"-", True, [b"----", b"", b"---", b"---\n", b"-\n-", b"---"]),
    (b"b$", b"-", True, [b"axbX", b"", b"c\xc3\xa9d", b"aab\n", b"a\n-", b"xxx"]),
    (b"(?m)a$", b"-", True, [b"axbX", b"", b"c\xc3\xa9d", b"aab\n", b"-\nb", b"xxx"]),
    (b"(?i)X", b"-", False, [b"a-bX", b"", b"c\xc3\xa9d", b"aab\n", b"a\nb", b"-xx"]),
    (b"(a)|(x)", rb"[\1\2]", True, [b"[a][x]bX", b"", b"c\xc3\xa9d", b"[a][a]b\n", b"[a]\nb", b"[x][x][x]"]),
    (b"(a)", rb"\2", True, TEXTS),
    (b"(a)", rb"a\qb", True, TEXTS[:1] + [b"", b"c\xc3\xa9d", b"aab\n", b"a\nb", b"xxx"]),
    (b"(a)", rb"!\q", True, [b"!xbX", b"", b"c\xc3\xa9d", b"!!b\n", b"!\nb", b"xxx"]),
    (b"(a)", rb"!\q", False, TEXTS),
    (b"|a", b"-", True, [b"-a-x-b-X-", b"-", b"-c-\xc3\xa9-d-", b"-a-a-b-\n-", b"-a-\n-b-", b"-x-x-x-"]),
]  # fmt: skip
REFUSED = [b"(", b"(?=a)", rb"(a)\1", b"a{2000}", rb"\Z", b"(?x)a b", b"\xff", b"(?<!a)b",
           b"(?x:a b)", b"(?-x:a)b", rb"(?a:\w)", rb"(?u:\w)", rb"(?a)\w", rb"(?i)(?u)\w", b"(?s:(?ix:a))",
           b"a" * 10_001]  # fmt: skip


@pytest.fixture(params=["re2", "re"])
def engine(request, monkeypatch):
    if request.param == "re":
        monkeypatch.setattr(patterns, "_found", [None])
    else:
        monkeypatch.setattr(patterns, "_found", [pytest.importorskip("re2")])
    return request.param


@pytest.fixture
def backtracks(monkeypatch):
    monkeypatch.setattr(patterns, "_found", [None])


@pytest.mark.parametrize("pattern, rewrite, every, want", ANSWERS)
def test_replaced_as_re2_does(pattern, rewrite, every, want, engine):
    assert patterns.replaced(TEXTS, pattern, rewrite, every) == want


def test_full_matches(engine):
    assert patterns.full_matches([b"ab", b"ab\n", b"abc", b"\xc3\xa9b"], b".b$") == [True, False, False, True]
    assert patterns.full_matches([b"aab", b"b", b""], b"a*b?") == [True, True, True]


@pytest.mark.parametrize("pattern", REFUSED)
def test_what_re2_refuses_is_refused(pattern, engine):
    with pytest.raises(errors.InvalidArgumentError, match="Invalid pattern: .*, error: "):
        patterns.replaced([b"ab"], pattern, b"", True)


# Each takes a backtracking engine longer than anybody waits.
ENDLESS = [
    (b"(a+)+$", b"a" * 40 + b"b"), (b"(a|a)*$", b"a" * 40 + b"b"), (b"(a|ab|b)*c", b"ab" * 40),
    (b"(a?){60}a{60}", b"a" * 60), (b"a?" * 40 + b"a" * 40, b"a" * 40), (b"(a|b|ab)*(c|$)d", b"ab" * 40),
    (b"((a*)*)*b", b"a" * 40), (b"(|a|b)*c", b"ab" * 40), (b"(?i)(ab|AB)*$", b"aB" * 40 + b"-"),
    (b"(\\wa|\\da)*$", b"1a" * 60 + b"-"), (b"([ab]d|[bc]d)*$", b"bd" * 60 + b"-"), (b"(.|\\n|a)*-$", b"a" * 60),
    (b"(a{0,9}){9}" * 9 + b"b", b"a" * 90), (b".*.*.*.*.*.*.*b", b"a" * 400), (b"(a|a)" * 60 + b"b", b"a" * 80),
    (b"\\s+$", b" " * 100000 + b"a"), (b"(x+x+)+y", b"x" * 50), (b"(a|(?:aa)|aaa?)+$", b"a" * 60 + b"b"),
]  # fmt: skip


@pytest.mark.parametrize("pattern, text", ENDLESS)
def test_what_could_keep_the_interpreter_for_ever_is_left_to_re2(pattern, text, backtracks):
    with pytest.raises(errors.UnimplementedError, match="-m pip install google-re2"):
        patterns.replaced([text], pattern, b"", True)


@pytest.mark.parametrize("pattern, text", ENDLESS)
def test_re2_takes_no_time_for_these(pattern, text, monkeypatch):
    monkeypatch.setattr(patterns, "_found", [pytest.importorskip("re2")])
    assert patterns.full_matches([text], pattern) in ([False], [True])


@pytest.mark.parametrize(
    "pattern, text",
    [
        (rb"\s+", b" " * 100000), (rb"[^,]*,", b"a," * 1000), (rb"(\w+)@(\w+)\.com", b"me@there.com " * 100),
        (rb"(ab|cd)+-", b"abcd" * 200 + b"-"), (rb"^\s*(.*?)\s*$", b" words " * 5),
        (rb"\d{1,3}(,\d{3})*", b"1,234,567"), (rb"(http|ftp)s?://[^ ]+", b"see http://a.b/c and ftp://d " * 50),
        (rb"(?:a|b)*c", b"ab" * 2000 + b"c"),
    ],
)  # fmt: skip
def test_usual_patterns_need_no_re2(pattern, text, backtracks):
    want = re.sub(pattern, b"<>", text)
    assert want != text
    assert patterns.replaced([text], pattern, b"<>", True) == [want]


@pytest.mark.parametrize("pattern", [b"[[:alpha:]]", rb"\pL", rb"a\z"])
def test_what_re2_alone_knows_says_what_to_install(pattern, backtracks):
    with pytest.raises(errors.InvalidArgumentError, match=r"RE2 knows more. Install .*-m pip install google-re2"):
        patterns.replaced([b"a"], pattern, b"", True)


@pytest.mark.parametrize("whole", [True, False])
def test_steps_grow_with_the_choices(whole):
    steps = {p: backtracking.compile_safe(p, whole).steps(999, whole) for p in ("abc", "a+b", "a*a*b", "^a*a*b")}
    assert steps["abc"] < steps["a+b"] * (2 if whole else 1) and steps["a+b"] < steps["a*a*b"]
    assert steps["^a*a*b"] <= steps["a*a*b"]


def test_patterns_may_be_long(engine):
    assert patterns.full_matches([b"a" * 10_000], b"a" * 10_000) == [True]
    with pytest.raises(errors.InvalidArgumentError, match="a{40}..., error: pattern too large: 10001 bytes"):
        patterns.full_matches([b"a"], b"a" * 10_001)


def test_a_nest_is_looked_at_once(monkeypatch):
    """Else the time to compile a pattern grows with the square of its depth."""
    looked, real = [], backtracking._characters

    def look(op, value):
        looked.append(op)
        return real(op, value)

    monkeypatch.setattr(backtracking, "_characters", look)
    pattern, depth = "a", 40
    for _ in range(depth):
        pattern = f"(?:{pattern}|bc)?"
    backtracking.compile_safe(pattern, True)
    assert len(looked) <= 10 * depth


def test_pattern_and_rewrite_are_scalars():
    with tf.Graph().as_default():
        for args in (["a", "b"], "c"), ("a", ["b", "c"]):
            with pytest.raises(errors.InvalidArgumentError, match=r"must be scalar, but received \[2\]"):
                evaluate(tf.regex_replace("aXb", *args))
        with pytest.raises(errors.InvalidArgumentError, match=r"Pattern must be scalar"):
            evaluate(tf.strings.regex_full_match("a", ["b"]))
        assert evaluate(tf.regex_replace([["aXb"]], "X", "-")).tolist() == [[b"a-b"]]
