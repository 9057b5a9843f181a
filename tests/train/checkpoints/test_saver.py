"""`Saver` and what stands around it, through the public API."""

from __future__ import annotations

import logging
import os
import resource
import shutil
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dtfzmq as tf
from tests.kit.cluster import Cluster
from tests.train.checkpoints.test_bundle import PARTS, RECORDED, VALUES


@pytest.fixture(autouse=True)
def in_own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def two(first: float = 1.0) -> tuple[Any, Any]:
    v = tf.get_variable("v", initializer=[first, 2.0])
    return v, tf.get_variable("sub/n", initializer=np.int64(7), trainable=False)


def restored(path: str, make: Callable[[], Any], **options: Any) -> list[Any]:
    """Values of the variables of a graph of its own after nothing but `restore`."""
    with tf.Graph().as_default(), tf.Session() as sess:
        made = make()
        saver = tf.train.Saver(**options)
        tf.get_default_graph().finalize()
        saver.restore(sess, path)
        return [np.asarray(value).tolist() for value in sess.run(list(made))]


def test_save_and_restore() -> None:
    with tf.Graph().as_default(), tf.Session() as sess:
        v, n = two()
        saver = tf.train.Saver()
        tf.get_default_graph().finalize()
        with pytest.raises(tf.errors.FailedPreconditionError, match="v"):
            saver.save(sess, "dir/model")
        sess.run([v.initializer, n.initializer])
        assert saver.save(sess, "dir/model") == "dir/model"
        assert saver.save(sess, Path("dir/model"), global_step=3) == "dir/model-3"
        v.load([5.0, 6.0], sess)
        assert saver.save(sess, "dir/model", n) == "dir/model-7"
        assert saver.last_checkpoints == ["dir/model", "dir/model-3", "dir/model-7"]
        saver.restore(sess, "dir/model")
        assert sess.run(v).tolist() == [1, 2]
    assert sorted(os.listdir("dir")) == sorted(
        ["checkpoint"]
        + [f"model{step}.{kind}" for step in ("", "-3", "-7") for kind in ("index", "data-00000-of-00001")]
    )
    assert tf.train.latest_checkpoint("dir") == "dir/model-7"
    assert restored("dir/model-7", two) == [[5, 6], 7] and restored("dir/model-3", two) == [[1, 2], 7]
    text = Path("dir/checkpoint").read_text()
    assert text.startswith('model_checkpoint_path: "model-7"\nall_model_checkpoint_paths: "model"\n')


def test_variables_that_begin_with_one_tensor_get_values_of_their_own() -> None:
    with tf.Graph().as_default(), tf.Session() as sess:
        zeros = tf.zeros([2])
        a, b = tf.Variable(zeros), tf.get_variable("b", initializer=zeros)
        c = tf.Variable(a.initial_value)
        loose = tf.Variable(tf.ones([2]), validate_shape=False)
        sess.run(tf.global_variables_initializer())
        for i, variable in enumerate((a, b, c)):
            variable.load([i, i], sess)
        sess.run(tf.assign(loose, [1.0, 2.0, 3.0], validate_shape=False))
        saver = tf.train.Saver()
        saver.save(sess, "x")
        sess.run(tf.global_variables_initializer())
        saver.restore(sess, "x")
        assert [value.tolist() for value in sess.run([a, b, c, loose])] == [[0, 0], [1, 1], [2, 2], [1, 2, 3]]


def test_a_full_disk_leaves_nothing_and_says_so_once() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    with tf.Graph().as_default(), tf.Session() as sess:
        v = tf.Variable(np.zeros(20_000))
        sess.run(v.initializer)
        saver = tf.train.Saver()
        saver.save(sess, "d/old")
        before = sorted(os.listdir("d"))
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, hard))
        try:
            with pytest.raises(OSError, match="File too large") as caught:
                saver.save(sess, "d/new")
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        assert caught.value.__context__ is None
        assert sorted(os.listdir("d")) == before and tf.train.latest_checkpoint("d") == "d/old"


def test_a_checkpoint_of_tensorflow() -> None:
    def make() -> list[Any]:
        blank = {n: np.full_like(v, b"" if v.dtype == object else 0) for n, v in VALUES.items() if n != "p/w"}
        made = [tf.Variable(value, name=name) for name, value in blank.items()]
        with tf.variable_scope("p", partitioner=tf.fixed_size_partitioner(7)):
            return [*made, tf.get_variable("w", [200, 2], initializer=tf.zeros_initializer())]

    with tf.Graph().as_default(), tf.Session() as sess:
        *variables, parted = make()
        tf.train.Saver().restore(sess, RECORDED)
        for variable, value in zip(sess.run(variables), (v for name, v in VALUES.items() if name != "p/w")):
            assert np.array_equal(np.asarray(variable), value)
        assert (sess.run(parted.as_tensor()) == VALUES["p/w"]).all()
        with tf.variable_scope("p", reuse=False):
            whole = tf.Variable(np.zeros([200, 2], np.float32), name="whole")
        tf.train.Saver({"p/w": whole}).restore(sess, RECORDED)
        assert (sess.run(whole) == VALUES["p/w"]).all() and len(PARTS) == 3


def test_names_lists_and_partitions() -> None:
    with tf.Graph().as_default(), tf.Session() as sess:
        v, n = two()
        with tf.variable_scope("p", partitioner=tf.fixed_size_partitioner(2)):
            w = tf.get_variable("w", initializer=tf.constant(np.arange(5.0)))
        sess.run(tf.global_variables_initializer())
        tf.train.Saver({"other": v, "whole": w}).save(sess, "x")
        assert tf.train.list_variables("x") == [("other", [2]), ("whole", [5])]
        assert tf.train.load_variable("x", "whole").tolist() == [0, 1, 2, 3, 4]
        tf.train.Saver([v, w]).save(sess, "y")
        assert [name for name, _ in tf.train.list_variables("y")] == ["p/w", "v"]
        for var_list, error, text in [
            ([], ValueError, "No variables to save"),
            ([v, v], ValueError, "two variables have the same name: v"),
            ({"a": v, "b": v}, ValueError, "restored with two names: b"),
            ({"a": v, "b": v + 1}, TypeError, "Variable to save is not a Variable"),
            (3, TypeError, "should be passed in a dict or a list"),
        ]:
            with pytest.raises(error, match=text):
                tf.train.Saver(var_list)
        whole = tf.Variable(1.0, name="p/w")
        for several in ([w, n, whole], [whole, w]):
            with pytest.raises(ValueError, match="same name: p/w"):
                tf.train.Saver(several)


def test_graphs_that_do_not_fit_are_told_before_anything_changes() -> None:
    with tf.Graph().as_default(), tf.Session() as sess:
        two()
        sess.run(tf.global_variables_initializer())
        tf.train.Saver().save(sess, "x")
    with tf.Graph().as_default(), tf.Session() as sess:
        v = tf.get_variable("v", initializer=[3.0, 4.0])
        sess.run(v.initializer)
        late = tf.Variable([1.0], name="zz")
        for variables, error, text in [
            ([v, late], tf.errors.NotFoundError, "Key zz not found in checkpoint x"),
            ({"v": late}, tf.errors.InvalidArgumentError, r"v is of shape \(1,\) here, and \[2\] in the checkpoint"),
            ({"sub/n": v}, tf.errors.InvalidArgumentError, "sub/n is float32 here, and int64 in the checkpoint"),
        ]:
            with pytest.raises(error, match=text):
                tf.train.Saver(variables).restore(sess, "x")
        with pytest.raises(ValueError, match=f"not a valid checkpoint: y. There is no file {os.getcwd()}/y.index"):
            tf.train.Saver().restore(sess, "y")
        with pytest.raises(ValueError, match="Can't load save_path when it is None"):
            tf.train.Saver().restore(sess, None)
        assert sess.run(v).tolist() == [3, 4]
        flat = tf.Variable([[0.0], [0.0]])
        tf.train.Saver({"v": flat}, reshape=True).restore(sess, "x")
        assert sess.run(flat).tolist() == [[1], [2]]


def test_old_ones_go_and_some_stay() -> None:
    with tf.Graph().as_default(), tf.Session() as sess:
        two()
        sess.run(tf.global_variables_initializer())
        saver = tf.train.Saver(max_to_keep=2, pad_step_number=True)
        for step in range(4):
            saver.save(sess, "m/x", step)
        assert [os.path.basename(p) for p in saver.last_checkpoints] == ["x-00000002", "x-00000003"]
        assert sorted(os.listdir("m"))[1::2] == ["x-00000002.data-00000-of-00001", "x-00000003.data-00000-of-00001"]
        # A program that begins again goes on where the last one was.
        again = tf.train.Saver(max_to_keep=2)
        found = tf.train.get_checkpoint_state("m")
        assert found is not None and found.model_checkpoint_path == "m/x-00000003"
        again.recover_last_checkpoints(found.all_model_checkpoint_paths)
        again.save(sess, "m/x", 9)
        assert again.last_checkpoints == ["m/x-00000003", "m/x-9"]
        kept = tf.train.Saver(max_to_keep=1, keep_checkpoint_every_n_hours=0)
        everything = tf.train.Saver(max_to_keep=0)
        for step in range(3):
            kept.save(sess, "k/x", step)
            everything.save(sess, "e/x", step)
        assert len(os.listdir("k")) == len(os.listdir("e")) == 7
        assert not tf.train.Saver(max_to_keep=None).last_checkpoints


def test_what_a_folder_holds(caplog: pytest.LogCaptureFixture) -> None:
    assert tf.train.get_checkpoint_state("none") is None and tf.train.latest_checkpoint("none") is None
    with tf.Graph().as_default(), tf.Session() as sess:
        two()
        sess.run(tf.global_variables_initializer())
        saver = tf.train.Saver(save_relative_paths=True)
        saver.save(sess, os.path.abspath("a/x"), 1)
        saver.save(sess, "a/x", 2, latest_filename="best")
        saver.save(sess, "a/y", write_state=False)
        with pytest.raises(ValueError, match="must not contain path components"):
            saver.save(sess, "a/z", latest_filename="b/c")
        for arguments in (["a/checkpoint"], ["a/best", None, "best"]):
            with pytest.raises(ValueError, match="'latest_filename' collides with 'save_path'"):
                saver.save(sess, *arguments)
        with pytest.raises(ValueError, match="Parent directory of /proc/none/x doesn't exist"):
            saver.save(sess, "/proc/none/x")
        with pytest.raises(ValueError, match="a/ is a folder"):
            saver.save(sess, "a/")
        with pytest.raises(ValueError, match="Parent directory of a/y.index/z doesn't exist"):
            saver.save(sess, "a/y.index/z")
        with pytest.raises(TypeError, match="'sess' must be a Session"):
            saver.save(None, "a/x")  # type: ignore[arg-type]  # as people write it
    assert tf.train.latest_checkpoint("a") == "a/x-1" and tf.train.latest_checkpoint("a", "best") == "a/x-2"
    shutil.move("a", "moved folder")
    assert tf.train.latest_checkpoint("moved folder") == "moved folder/x-1"
    assert tf.train.checkpoint_exists("moved folder/x-1") and not tf.train.checkpoint_exists("moved folder/x")
    assert len(tf.train.get_checkpoint_mtimes(["moved folder/x-1", "moved folder/x"])) == 1
    reader = tf.train.load_checkpoint("moved folder")
    assert reader.get_variable_to_shape_map() == {"sub/n": [], "v": [2]}
    assert reader.get_variable_to_dtype_map() == {"sub/n": tf.int64, "v": tf.float32}
    assert reader.has_tensor("v") and not reader.has_tensor("w") and reader.get_tensor("v").tolist() == [1, 2]
    tf.train.remove_checkpoint("moved folder/x-1")
    with caplog.at_level(logging.ERROR):
        assert tf.train.latest_checkpoint("moved folder") is None
    assert "Couldn't match files for checkpoint moved folder/x-1" in caplog.text
    state = Path("moved folder/checkpoint")
    state.write_text("what is this\n")
    assert tf.train.latest_checkpoint("moved folder") is None
    state.write_text("# by hand\nmodel_checkpoint_path: 'x-2'  # the best\n")
    assert tf.train.latest_checkpoint("moved folder") == "moved folder/x-2"
    state.write_text("")
    with pytest.raises(ValueError, match="Invalid checkpoint state loaded from moved folder"):
        tf.train.latest_checkpoint("moved folder")
    state.unlink()
    with pytest.raises(ValueError, match="Couldn't find 'checkpoint' file"):
        tf.train.load_checkpoint("moved folder")


@pytest.mark.parametrize("path", ['say "so"\\', "tab\tand\nline", "ünï", "a b"])
def test_any_path_stands_in_the_state(path: str) -> None:
    os.makedirs("d")
    tf.train.update_checkpoint_state("d", f"d/{path}", [f"d/{path}"])
    found = tf.train.get_checkpoint_state("d")
    assert found is not None and found.model_checkpoint_path == f"d/{path}"
    assert found.all_model_checkpoint_paths == [f"d/{path}"]


def test_large_variables_come_and_go_in_several_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dtfzmq.train.checkpoints.saver._AT_ONCE", 100)
    with tf.Graph().as_default(), tf.Session() as sess:
        made = [tf.Variable(np.full(10, i), name=f"v{i}") for i in range(5)]
        sess.run(tf.global_variables_initializer())
        saver = tf.train.Saver()
        runs: list[Any] = []
        run = sess.run

        def counted(*args: Any) -> Any:
            runs.append(args)
            return run(*args)

        monkeypatch.setattr(sess, "run", counted)
        saver.save(sess, "x")
        saver.restore(sess, "x")
        assert len(runs) == 2 * 5
        assert [value[0] for value in run(made)] == list(range(5))


SCRIPT = """
    import sys
    import numpy as np
    import dtfzmq as tf
    with tf.device(tf.train.replica_device_setter(int(sys.argv[2]))):
        made = [tf.get_variable(f"v{i}", initializer=tf.fill([1000], float(i))) for i in range(4)]
    saver = tf.train.Saver()
    latest = tf.train.latest_checkpoint(sys.argv[4])
    with tf.Session(sys.argv[1]) as sess:
        if latest is None:
            sess.run(tf.global_variables_initializer())
        else:
            saver.restore(sess, latest)
        assert [value[0] for value in sess.run(made)] == [0, 1, 2, 3]
        print("values are there", flush=True)
        for step in range(int(sys.argv[3])):
            saver.save(sess, sys.argv[4] + "/model", step % 3)
            print("saved", step, flush=True)
"""


@pytest.mark.slow
def test_only_the_client_needs_a_file_system(processes: Callable[..., Cluster], tmp_path: Path) -> None:
    """Tasks have folders of their own, and another number of them restores; a client is killed while it saves."""
    script = tmp_path / "train.py"
    script.write_text(textwrap.dedent(SCRIPT))
    for ps in (2, 1):
        cluster = processes({"ps": ps, "worker": 1})
        cluster.start_all()
        client = cluster.script(script, cluster.target("worker"), str(ps), "1000000", str(tmp_path / "ckpt"))
        client.wait_printed("saved 4")
        client.kill()
        assert tf.train.latest_checkpoint("ckpt")
        again = cluster.script(script, cluster.target("worker"), str(ps), "0", str(tmp_path / "ckpt"))
        assert again.wait() == 0
        cluster.close()
