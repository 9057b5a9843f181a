"""Files by TensorFlow 1's names."""

from __future__ import annotations

import pathlib

import pytest

from dtfzmq import compat
from dtfzmq.base import errors
from dtfzmq.compat import gfile


def test_files(tmp_path):
    path = str(tmp_path / "x.txt")
    with gfile.GFile(path, "w") as file:
        file.write("héllo\n")
        file.write("world\n")
    assert gfile.GFile(path).read() == "héllo\nworld\n"
    assert gfile.GFile("file://" + path, "rb").read(3) == b"h\xc3\xa9"
    with gfile.Open(path) as file:
        assert list(file) == ["héllo\n", "world\n"]
    with gfile.FastGFile(path, "a") as file:
        file.write("end")
        assert file.size() == gfile.Stat(path).length == 16
    with gfile.GFile(path) as file:
        assert file.readline() == "héllo\n" and file.tell() == 7
        file.seek(offset=0)
        assert len(file.readlines()) == 3
        with pytest.raises(errors.PermissionDeniedError, match="writing"):
            file.write("a")
    with pytest.raises(errors.PermissionDeniedError, match="reading"):
        gfile.GFile(path, "w").read()
    with pytest.raises(errors.InvalidArgumentError, match="mode is not"):
        gfile.GFile(path, "z")


def test_folders(tmp_path):
    root = str(tmp_path / "root")
    gfile.MakeDirs(root + "/a/b")
    gfile.MakeDirs(root + "/a/b")
    gfile.MkDir(root + "/a")
    with gfile.GFile(root + "/x", "w") as file:
        file.write("x")
    assert sorted(gfile.ListDirectory(root)) == ["a", "x"]
    assert gfile.IsDirectory(root) and not gfile.IsDirectory(root + "/x") and gfile.Exists(root + "/x")
    gfile.Copy(root + "/x", root + "/y")
    with pytest.raises(errors.AlreadyExistsError, match="file already exists"):
        gfile.Copy(root + "/x", root + "/y")
    with pytest.raises(errors.AlreadyExistsError):
        gfile.Rename(root + "/x", root + "/y")
    gfile.Rename(root + "/x", root + "/y", overwrite=True)
    assert gfile.Glob([root + "/*", root + "/no*"]) == [root + "/a", root + "/y"]
    assert [entry[1:] for entry in gfile.Walk(root)] == [(["a"], ["y"]), (["b"], []), ([], [])]
    with pytest.raises(errors.FailedPreconditionError, match="Is a directory"):
        gfile.Remove(root + "/a")
    gfile.Remove(root + "/y")
    gfile.DeleteRecursively(root)
    assert not gfile.Exists(root)


@pytest.mark.parametrize(
    "call",
    [gfile.Remove, gfile.DeleteRecursively, gfile.Stat, gfile.ListDirectory, lambda p: gfile.GFile(p).read(),
     lambda p: gfile.MkDir(p + "/a")],
)  # fmt: skip
def test_what_is_not_there(tmp_path, call):
    with pytest.raises(errors.NotFoundError):
        call(str(tmp_path / "none"))


def test_text_and_bytes():
    assert compat.as_bytes("é") == b"\xc3\xa9" == compat.as_bytes(b"\xc3\xa9")
    assert compat.as_text(b"\xc3\xa9") == "é" == compat.as_str("é")
    assert compat.as_str_any(3) == "3" and compat.path_to_str(pathlib.Path("a")) == "a"
    for convert in (compat.as_bytes, compat.as_text):
        with pytest.raises(TypeError, match="Expected binary or unicode string"):
            convert(3)
