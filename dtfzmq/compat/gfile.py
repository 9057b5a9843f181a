"""``tf.gfile``: files and folders by TensorFlow 1's names and errors. Paths may start with ``file://``."""

from __future__ import annotations

import contextlib
import glob as _glob
import os
import shutil
from collections.abc import Iterator
from typing import IO, Any

from dtfzmq.base import errors, tfrecords

_MODES = ("r", "w", "a", "r+", "w+", "a+")


def _path(path: Any) -> str:
    return tfrecords.local(tfrecords.path_of(path))


@contextlib.contextmanager
def _translated(path: str) -> Iterator[None]:
    """Errors of the system as TensorFlow's."""
    try:
        yield
    except FileNotFoundError:
        raise errors.NotFoundError(None, None, f"{path}; No such file or directory") from None
    except FileExistsError:
        raise errors.AlreadyExistsError(None, None, f"{path}; File exists") from None
    except PermissionError as error:
        raise errors.PermissionDeniedError(None, None, f"{path}; {error.strerror or error}") from None
    except (IsADirectoryError, NotADirectoryError) as error:
        raise errors.FailedPreconditionError(None, None, f"{path}; {error.strerror}") from None
    except OSError as error:
        raise errors.UnknownError(None, None, f"{path}; {error.strerror or error}") from None


class FileStatistics:
    """What `Stat` says: `length` in bytes, `mtime_nsec`, `is_directory`."""

    def __init__(self, length: int, mtime_nsec: int, is_directory: bool) -> None:
        self.length = length
        self.mtime_nsec = mtime_nsec
        self.is_directory = is_directory

    def __repr__(self) -> str:
        return f"<FileStatistics length={self.length} is_directory={self.is_directory}>"


class GFile:
    """A file, opened when it is first used. Text in UTF-8 unless the mode has a ``b``.

    Raises NotFoundError, PermissionDeniedError, ... of ``tf.errors``, at first use.
    """

    def __init__(self, name: Any, mode: str = "r") -> None:
        if mode.replace("b", "") not in _MODES:
            raise errors.InvalidArgumentError(None, None, "mode is not 'r' or 'w' or 'a' or 'r+' or 'w+' or 'a+'")
        self._name = name
        self._mode = mode
        self._file: IO[Any] | None = None

    @property
    def name(self) -> Any:
        """The path as given."""
        return self._name

    @property
    def mode(self) -> str:
        """The mode as given."""
        return self._mode

    def _open(self) -> IO[Any]:
        if self._file is None:
            path = _path(self._name)
            with _translated(path):
                if "b" in self._mode:
                    self._file = open(path, self._mode)  # noqa: SIM115  # closed by close()
                else:
                    self._file = open(path, self._mode, encoding="utf-8", newline="")  # noqa: SIM115  # as above
        return self._file

    def _readable(self) -> IO[Any]:
        if self._mode[0] != "r" and "+" not in self._mode:
            raise errors.PermissionDeniedError(None, None, "File isn't open for reading")
        return self._open()

    def read(self, n: int = -1) -> Any:
        """The next `n` characters or bytes; all that is left by default."""
        return self._readable().read(n)

    def readline(self) -> Any:
        """The next line with its end; empty at the end of the file."""
        return self._readable().readline()

    def readlines(self) -> list[Any]:
        """The lines that are left."""
        return self._readable().readlines()

    def write(self, file_content: Any) -> None:
        """Append to what was written."""
        if self._mode[0] == "r" and "+" not in self._mode:
            raise errors.PermissionDeniedError(None, None, "File isn't open for writing")
        file = self._open()
        if isinstance(file_content, bytes) and "b" not in self._mode:
            file_content = file_content.decode()
        elif isinstance(file_content, str) and "b" in self._mode:
            file_content = file_content.encode()
        file.write(file_content)

    def seek(self, offset: int | None = None, whence: int = 0, position: int | None = None) -> None:
        """Go to a place in the file."""
        place = position if offset is None else offset
        if place is None:
            raise TypeError("seek(): offset argument required")
        self._open().seek(place, whence)

    def tell(self) -> int:
        """The place in the file."""
        return self._open().tell()

    def size(self) -> int:
        """The file's length in bytes."""
        if self._file is not None and self._file.writable():
            self._file.flush()
        return Stat(self._name).length

    def flush(self) -> None:
        """Give what was written to the system."""
        if self._file is not None:
            self._file.flush()

    def close(self) -> None:
        """Close it. A file opened to be written exists afterwards."""
        if self._mode[0] != "r":
            self._open()
        if self._file is not None:
            self._file.close()
            self._file = None

    def seekable(self) -> bool:
        """True."""
        return True

    def __iter__(self) -> GFile:
        return self

    def __next__(self) -> Any:
        line = self.readline()
        if not line:
            raise StopIteration
        return line

    def __enter__(self) -> GFile:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


Open = GFile
FastGFile = GFile


def Exists(filename: Any) -> bool:
    """True if there is a file or folder of that name."""
    return os.path.exists(_path(filename))


def IsDirectory(dirname: Any) -> bool:
    """True of a folder."""
    return os.path.isdir(_path(dirname))


def ListDirectory(dirname: Any) -> list[str]:
    """Names in a folder. NotFoundError if there is no such folder."""
    path = _path(dirname)
    if not os.path.isdir(path):
        raise errors.NotFoundError(None, None, f"Could not find directory {path}")
    return os.listdir(path)


def MakeDirs(dirname: Any) -> None:
    """Make a folder and those it lies in; it may exist."""
    with _translated(_path(dirname)):
        os.makedirs(_path(dirname), exist_ok=True)


def MkDir(dirname: Any) -> None:
    """Make a folder in an existing one; it may exist."""
    with _translated(_path(dirname)):
        if not os.path.isdir(_path(dirname)):
            os.mkdir(_path(dirname))


def Remove(filename: Any) -> None:
    """Delete a file."""
    path = _path(filename)
    if os.path.isdir(path):
        raise errors.FailedPreconditionError(None, None, f"{path}; Is a directory")
    with _translated(path):
        os.remove(path)


def DeleteRecursively(dirname: Any) -> None:
    """Delete a folder and all in it, or a file."""
    path = _path(dirname)
    if not os.path.lexists(path):
        raise errors.NotFoundError(None, None, f"{path} not found")
    with _translated(path):
        if os.path.isdir(path) and not os.path.islink(path):
            shutil.rmtree(path)
        else:
            os.remove(path)


def _free(path: str, overwrite: bool) -> None:
    if not overwrite and os.path.exists(path):
        raise errors.AlreadyExistsError(None, None, "file already exists")


def Copy(oldpath: Any, newpath: Any, overwrite: bool = False) -> None:
    """Copy a file. AlreadyExistsError unless it may `overwrite`."""
    source, target = _path(oldpath), _path(newpath)
    _free(target, overwrite)
    with _translated(source):
        shutil.copyfile(source, target)


def Rename(oldname: Any, newname: Any, overwrite: bool = False) -> None:
    """Rename or move a file. AlreadyExistsError unless it may `overwrite`."""
    source, target = _path(oldname), _path(newname)
    _free(target, overwrite)
    with _translated(source):
        os.replace(source, target)


def Glob(filename: Any) -> list[str]:
    """Paths that match a pattern, or one of a list of patterns."""
    patterns = filename if isinstance(filename, (list, tuple)) else [filename]
    return [found for pattern in patterns for found in sorted(_glob.glob(_path(pattern)))]


def Stat(filename: Any) -> FileStatistics:
    """Length, time and kind of a file or folder. NotFoundError if there is none."""
    path = _path(filename)
    with _translated(path):
        found = os.stat(path)
    return FileStatistics(found.st_size, found.st_mtime_ns, os.path.isdir(path))


def Walk(top: Any, in_order: bool = True) -> Iterator[tuple[str, list[str], list[str]]]:
    """(folder, folders in it, files in it) for `top` and all below; a folder before what is in it if `in_order`."""
    yield from os.walk(_path(top), topdown=in_order)
