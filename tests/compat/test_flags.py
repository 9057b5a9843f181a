"""Flags as TensorFlow 1's programs use them."""

from __future__ import annotations

import sys

import pytest

from dtfzmq.compat import app, flags


@pytest.fixture(autouse=True)
def fresh(monkeypatch):
    values = flags.FlagValues()
    monkeypatch.setattr(flags, "FLAGS", values)
    flags.DEFINE_string("job_name", None, "the job")
    flags.DEFINE_integer("task", 0, "the task", lower_bound=0)
    flags.DEFINE_float("lr", 1, "the rate")
    flags.DEFINE_boolean("sync", True, "wait")
    flags.DEFINE_enum("mode", "train", ["train", "eval"], "what")
    flags.DEFINE_list("hosts", "a:1, b:2", "hosts")
    flags.DEFINE_multi_integer("step", None, "steps")
    return values


def test_defaults_and_laziness(fresh, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["prog", "--lr=0.5", "--nosync", "--task", "0x10", "--other=3"])
    assert not fresh.is_parsed()
    assert (fresh.lr, fresh.sync, fresh.task, fresh.job_name, fresh.hosts) == (0.5, False, 16, None, ["a:1", "b:2"])
    flags.DEFINE_string("other", "x", "defined after the first read")
    assert fresh.other == "3"
    assert fresh["lr"].present == 1 and fresh["lr"].default == 1.0
    assert "lr" in fresh and "nothing" not in fresh
    assert fresh._parse_flags() and fresh.flag_values_dict()["mode"] == "train"


@pytest.mark.parametrize(
    "text, value",
    [("--sync", True), ("--nosync", False), ("--sync=True", True), ("--sync=false", False), ("-sync=0", False)],
)
def test_forms_of_booleans(fresh, text, value):
    assert fresh(["prog", text, "left"]) == ["prog", "left"]
    assert fresh.sync is value


def test_what_is_left(fresh):
    assert fresh(["prog", "--task=1", "here", "-", "--task=2"]) == ["prog", "here", "-"]
    assert fresh.task == 2
    assert fresh(["prog", "--", "--task=2"]) == ["prog", "--task=2"]
    assert fresh.task == 0
    rest = fresh(["prog", "--new", "7", "--step=1", "--step", "2", "--", "--step=3"], known_only=True)
    assert rest == ["prog", "--new", "7", "--", "--step=3"]
    assert fresh.step == [1, 2]


@pytest.mark.parametrize(
    "args, error, text",
    [
        (["--tsk=1"], flags.UnrecognizedFlagError, "Unknown command line flag 'tsk'. Did you mean: task"),
        (["--task=x"], flags.IllegalFlagValueError, "flag --task=x"),
        (["--task=-1"], flags.IllegalFlagValueError, "not in the range"),
        (["--mode=play"], flags.IllegalFlagValueError, "one of <train|eval>".replace("|", r"\|")),
        (["--sync=maybe"], flags.IllegalFlagValueError, "Non-boolean"),
        (["--nosync=1"], flags.IllegalFlagValueError, "takes no value"),
        (["--task"], flags.Error, "Missing value"),
    ],
)
def test_errors(fresh, args, error, text):
    with pytest.raises(error, match=text):
        fresh(["prog", *args])


def test_setting_and_validators(fresh):
    fresh(["prog"])
    fresh.task = 7
    assert fresh.task == 7
    with pytest.raises(AttributeError):
        fresh.nothing = 1
    with pytest.raises(AttributeError):
        _ = fresh.nothing
    flags.mark_flag_as_required("job_name")
    with pytest.raises(flags.IllegalFlagValueError, match="must have a value other than None"):
        fresh(["prog"])
    assert fresh(["prog", "--job_name=ps"]) == ["prog"]
    flags.register_validator("lr", lambda v: v > 0, "must be positive")
    with pytest.raises(flags.IllegalFlagValueError, match="must be positive"):
        fresh.lr = -1.0
    flags.set_default("lr", 2)
    assert fresh["lr"].default == 2.0
    flags.DEFINE_alias("rate", "lr")
    assert fresh(["prog", "--rate=3", "--job_name=ps"]) and fresh.lr == 3.0


def test_a_flag_of_two_modules():
    other = {"__name__": "other", "flags": flags}
    code = "flags.DEFINE_string('job_name', '', '')"
    with pytest.raises(flags.DuplicateFlagError, match="defined twice. First from .*test_flags, Second from other"):
        _define_in(other, code)


def _define_in(namespace, code):
    exec(code, namespace)


def test_run(capsys, monkeypatch):
    seen = []
    with pytest.raises(SystemExit) as end:
        app.run(lambda argv: seen.append((argv, flags.FLAGS.task)), ["prog", "--task=3", "rest"])
    assert end.value.code is None and seen == [(["prog", "rest"], 3)]
    with pytest.raises(SystemExit) as end:
        app.run(lambda argv: 5, ["prog", "--task=x"])
    assert end.value.code == 1 and "FATAL Flags parsing error" in capsys.readouterr().err
    with pytest.raises(SystemExit) as end:
        app.run(lambda argv: 5, ["prog", "--help"])
    assert end.value.code == 1 and "--[no]sync: wait" in capsys.readouterr().out
    with pytest.raises(SystemExit) as end:
        app.run(lambda argv: 5, ["prog"])
    assert end.value.code == 5
