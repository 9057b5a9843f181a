"""Images from the bytes of files and back, through the package Pillow (the extra `image`)."""

from __future__ import annotations

import importlib.util
import io
import math
import sys
from typing import Any

import numpy as np

from dtfzmq.base import dtypes, errors
from dtfzmq.base.shapes import TensorShape
from dtfzmq.graph.convert import convert_to_tensor
from dtfzmq.graph.graph import Operation, Tensor
from dtfzmq.graph.registry import NO_GRAD, Sample, op
from dtfzmq.graph.shape_rules import scalar
from dtfzmq.ops.image_color import convert_image_dtype
from dtfzmq.ops.random import random_uniform
from dtfzmq.ops.raw import raw
from dtfzmq.ops.samples import mat

Array = Any
_MODES = {1: "L", 2: "LA", 3: "RGB", 4: "RGBA"}


def _invalid(text: str) -> errors.InvalidArgumentError:
    return errors.InvalidArgumentError(None, None, text)


def _pillow() -> Any:
    """Pillow's module of images. UnimplementedError, with what to do, where it is not installed."""
    try:
        import PIL.Image
        import PIL.ImageSequence
    except ImportError:
        raise errors.UnimplementedError(
            None, None, f"Image files need the package Pillow where the op runs: {sys.executable} -m pip install Pillow"
        ) from None
    return PIL


def _opened(contents: Array) -> Any:
    data = contents.item() if isinstance(contents, np.ndarray) else contents
    pillow = _pillow()
    try:
        return pillow.Image.open(io.BytesIO(data))
    except (pillow.UnidentifiedImageError, OSError, ValueError):
        raise _invalid(
            f"Unknown image file format, or a file cut short: {len(data)} bytes that start with {data[:8]!r}."
        ) from None


def _pixels(image: Any, channels: int) -> Array:
    """[height, width, channels] of one frame: uint8, or uint16 of files with 16 bits. 0 channels: as in the file."""
    try:
        if image.mode.startswith("I"):  # 16 bits of grey
            grey = np.asarray(image).astype(np.uint16)[:, :, None]
            if channels in (0, 1):
                return grey
            full = [grey] * 3 if channels >= 3 else [grey]
            return np.concatenate([*full, np.full_like(grey, 65535)] if channels in (2, 4) else full, 2)
        if channels:
            return np.asarray(image.convert(_MODES[channels])).reshape(image.height, image.width, channels)
        if image.mode not in _MODES.values():
            clear = image.mode in ("PA", "La", "RGBa") or "transparency" in image.info
            image = image.convert("L" if image.mode in ("1", "F") else "RGBA" if clear else "RGB")
        return np.asarray(image).reshape(image.height, image.width, len(image.getbands()))
    except (OSError, SyntaxError, ValueError) as error:
        raise _invalid(f"Invalid image data: {error}") from None


def _typed(pixels: Array, dtype: Any) -> Array:
    """Pixels in the range of another type."""
    if pixels.dtype == dtype:
        return np.ascontiguousarray(pixels)
    if dtype == np.uint8:
        return (pixels >> 8).astype(np.uint8)
    if dtype == np.uint16:
        return pixels.astype(np.uint16) * np.uint16(257)
    return (pixels / np.float32(np.iinfo(pixels.dtype).max)).astype(dtype)


def _frame(node: Any, env: Any) -> Any:
    """Decode the first frame."""
    channels, to = node.attrs["channels"], node.dtypes[0].np_dtype
    ratio = node.attrs.get("ratio", 1)

    def kernel(contents: Array) -> Array:
        image = _opened(contents)
        if ratio > 1:
            size = math.ceil(image.width / ratio), math.ceil(image.height / ratio)
            image = image.convert("L" if image.mode == "L" else "RGB").resize(size, _pillow().Image.Resampling.BOX)
        return _typed(_pixels(image, channels), to)

    return kernel


def _frames(contents: Array, channels: int, to: Any) -> Array:
    image = _opened(contents)
    each = _pillow().ImageSequence.Iterator(image)
    return np.stack([_typed(_pixels(frame.convert("RGB"), channels or 3), to) for frame in each])


def _any_make(node: Any, env: Any) -> Any:
    channels, to = node.attrs["channels"], node.dtypes[0].np_dtype

    def kernel(contents: Array) -> Array:
        image = _opened(contents)
        if image.format == "GIF" and node.attrs["expand_animations"]:
            return _frames(contents, channels, to)
        return _typed(_pixels(image.convert("RGB") if image.format == "GIF" else image, channels), to)

    return kernel


def encoded(image: Array, **options: Any) -> Array:
    """The file of an image, [height, width, channels], by Pillow, which gets the options."""
    buffer = io.BytesIO()
    pillow = _pillow()
    if image.ndim != 3 or image.shape[2] not in _MODES or not image.size:
        raise _invalid(f"image must be [height, width, 1 to 4 channels] and not empty, not {list(image.shape)}")
    flat = np.ascontiguousarray(image[:, :, 0] if image.shape[2] == 1 else image)
    if image.dtype == np.uint16 and image.shape[2] != 1:
        raise errors.UnimplementedError(None, None, "16-bit images are written with one channel alone.")
    pillow.Image.fromarray(flat).save(buffer, **options)
    return np.array(buffer.getvalue(), object)


def _png_make(node: Any, env: Any) -> Any:
    level = node.attrs["compression"]
    options = {} if level < 0 else {"compress_level": level}
    return lambda image: encoded(image, format="PNG", **options)


def _jpeg_make(node: Any, env: Any) -> Any:
    attrs = node.attrs

    def kernel(image: Array) -> Array:
        _check_channels(image)
        wanted = {"": image.shape[2], "grayscale": 1, "rgb": 3}[attrs["format"]]
        if wanted != image.shape[2]:
            raise _invalid(f"format '{attrs['format']}' expects {wanted} channels, got {image.shape[2]}")
        return encoded(
            image, format="JPEG", quality=attrs["quality"], progressive=attrs["progressive"],
            optimize=attrs["optimize_size"], subsampling=2 if attrs["chroma_downsampling"] else 0,
            dpi=(attrs["x_density"], attrs["y_density"]),
        )  # fmt: skip

    return kernel


def _check_channels(image: Array) -> None:
    if image.ndim != 3 or image.shape[2] not in (1, 3):
        raise _invalid(f"image must have 1 or 3 channels, not shape {list(image.shape)}")


def _jpeg_of_quality(image: Array, quality: Array) -> Array:
    _check_channels(image)
    if not 0 <= quality <= 100:
        raise _invalid(f"quality must be in [0,100], got {int(quality)}")
    return encoded(image, format="JPEG", quality=int(quality), subsampling=2)


def _image_shape(n: Operation) -> list[TensorShape]:
    n.inputs[0].shape.with_rank(0)
    if not 0 <= n.attrs["channels"] <= 4:
        raise ValueError(f"channels must be 0, 1, 2, 3 or 4, not {n.attrs['channels']}")
    return [TensorShape([None, None, n.attrs["channels"] or None])]


def _any_shape(n: Operation) -> list[TensorShape]:
    plain = _image_shape(n)
    return [TensorShape(None)] if n.attrs["expand_animations"] else plain


_BYTES = NO_GRAD("bytes of a file")
_HAS = importlib.util.find_spec("PIL") is not None
#: For samples: what becomes of them where Pillow is not installed.
NO_PILLOW: dict[str, Any] = {} if _HAS else {"fails": errors.UnimplementedError}
_BMP = (  # 2 x 1 pixels of blue and red; rows are padded to 4 bytes
    b"BM>\0\0\0\0\0\0\0006\0\0\0(\0\0\0\2\0\0\0\1\0\0\0\1\0\30\0\0\0\0\0\10\0\0\0" + b"\0" * 16
    + b"\xff\0\0\0\0\xff\0\0"
)  # fmt: skip
_SMALL = np.array(_BMP, object)
_DRAWN = mat(3, 2, 3, lo=0, hi=255, dtype="uint8")

for _name, _attrs in (
    ("DecodeBmp", ""),
    ("DecodePng", ", dtype: type = uint8"),
    (
        "DecodeJpeg",
        ", ratio: int = 1, fancy_upscaling: bool = True, try_recover_truncated: bool = False, "
        "acceptable_fraction: float = 1.0, dct_method: str = ''",
    ),
):
    op(
        _name,
        f"contents: string; channels: int = 0{_attrs} -> image: {'dtype' if 'dtype' in _attrs else 'uint8'}",
        shape=_image_shape, make=_frame, grad=_BYTES, samples=[Sample(_SMALL, **NO_PILLOW)],
    )  # fmt: skip
op(
    "DecodeGif", "contents: string -> image: uint8", shape=lambda n: [TensorShape([None, None, None, 3])],
    kernel=lambda contents: _frames(contents, 3, np.uint8), grad=_BYTES, samples=[Sample(_SMALL, **NO_PILLOW)],
)  # fmt: skip
op(
    "DecodeImage", "contents: string; channels: int = 0, dtype: type = uint8, expand_animations: bool = True -> "
    "image: dtype", shape=_any_shape, make=_any_make, grad=_BYTES,
    samples=[Sample(_SMALL, **NO_PILLOW), Sample(_SMALL, dtype=dtypes.float32, expand_animations=False, **NO_PILLOW)],
)  # fmt: skip
op(
    "EncodePng", "image: R; compression: int = -1 -> contents: string", shape=scalar, make=_png_make, grad=_BYTES,
    samples=[Sample(_DRAWN, **NO_PILLOW)],
)  # fmt: skip
op(
    "EncodeJpeg",
    "image: uint8; format: str = '', quality: int = 95, progressive: bool = False, optimize_size: bool = False, "
    "chroma_downsampling: bool = True, density_unit: str = 'in', x_density: int = 300, y_density: int = 300, "
    "xmp_metadata: str = '' -> contents: string",
    shape=scalar, make=_jpeg_make, grad=_BYTES, samples=[Sample(_DRAWN, **NO_PILLOW)],
)  # fmt: skip
op(
    "EncodeJpegVariableQuality", "images: uint8, quality: int32 -> contents: string", shape=scalar,
    kernel=_jpeg_of_quality, grad=_BYTES, samples=[Sample(_DRAWN, np.int32(50), **NO_PILLOW)],
)  # fmt: skip


def _sizes_make(node: Any, env: Any) -> Any:
    to = node.dtypes[0].np_dtype

    def kernel(contents: Array) -> Array:
        image = _opened(contents)
        return np.array([image.height, image.width, len(image.getbands())], to)

    return kernel


op(
    "ExtractJpegShape", "contents: string; output_type: type = int32 -> image_shape: output_type",
    shape=lambda n: [TensorShape([3])], make=_sizes_make, grad=_BYTES, samples=[Sample(_SMALL, **NO_PILLOW)],
)  # fmt: skip


def _contents(contents: Any) -> Tensor:
    return convert_to_tensor(contents, None if isinstance(contents, Tensor) else dtypes.string, "contents")


def decode_png(contents: Any, channels: int = 0, dtype: Any = dtypes.uint8, name: str | None = None) -> Tensor:
    """A PNG file's pixels [height, width, channels], uint8 or uint16. 0 channels: as many as the file has."""
    if dtypes.as_dtype(dtype) not in (dtypes.uint8, dtypes.uint16):
        raise TypeError(f"decode_png gives uint8 or uint16, not {dtypes.as_dtype(dtype).name}.")
    return raw.DecodePng(_contents(contents), channels=channels or 0, dtype=dtype, name=name)


def decode_jpeg(
    contents: Any, channels: int = 0, ratio: int = 1, fancy_upscaling: bool = True,
    try_recover_truncated: bool = False, acceptable_fraction: float = 1, dct_method: str = "", name: str | None = None,
) -> Tensor:  # fmt: skip
    """A JPEG file's pixels [height, width, channels], uint8, 1/ratio as large (1, 2, 4 or 8)."""
    if ratio not in (1, 2, 4, 8):
        raise ValueError(f"ratio must be 1, 2, 4, or 8, got {ratio}")
    return raw.DecodeJpeg(_contents(contents), channels=channels or 0, ratio=ratio, name=name)


def decode_and_crop_jpeg(
    contents: Any, crop_window: Any, channels: int = 0, ratio: int = 1, fancy_upscaling: bool = True,
    try_recover_truncated: bool = False, acceptable_fraction: float = 1, dct_method: str = "", name: str | None = None,
) -> Tensor:  # fmt: skip
    """The part of decode_jpeg's pixels that crop_window = (y, x, height, width) says."""
    window = convert_to_tensor(crop_window, dtypes.int32, name="crop_window")
    with window.graph.name_scope(name or "decode_and_crop_jpeg"):
        whole = decode_jpeg(contents, channels, ratio)
        begin, size = raw.ConcatV2([window[:2], [0]], 0), raw.ConcatV2([window[2:], [-1]], 0)
        return raw.Slice(whole, begin, size)


def decode_bmp(contents: Any, channels: int = 0, name: str | None = None) -> Tensor:
    """A BMP file's pixels [height, width, channels], uint8."""
    return raw.DecodeBmp(_contents(contents), channels=channels or 0, name=name)


def decode_gif(contents: Any, name: str | None = None) -> Tensor:
    """A GIF file's frames [frames, height, width, 3], uint8."""
    return raw.DecodeGif(_contents(contents), name=name)


def decode_image(
    contents: Any, channels: int | None = None, dtype: Any = dtypes.uint8, name: str | None = None,
    expand_animations: bool = True,
) -> Tensor:  # fmt: skip
    """The pixels of a file of any kind that Pillow reads, in the range of `dtype`.

    A GIF gives [frames, height, width, 3], without `expand_animations` its first frame alone.
    """
    kind = dtypes.as_dtype(dtype)
    direct = kind in (dtypes.uint8, dtypes.uint16, dtypes.float32)
    made = raw.DecodeImage(
        _contents(contents), channels=channels or 0, dtype=kind if direct else dtypes.uint16,
        expand_animations=expand_animations, name=name or "decode_image",
    )  # fmt: skip
    return made if direct else convert_image_dtype(made, kind)


def encode_png(image: Any, compression: int = -1, name: str | None = None) -> Tensor:
    """The bytes of a PNG file of [height, width, 1 to 4 channels], uint8, or uint16 with one channel."""
    image = convert_to_tensor(image, None if isinstance(image, (Tensor, np.ndarray)) else dtypes.uint8, "image")
    if image.dtype.base_dtype not in (dtypes.uint8, dtypes.uint16):
        raise TypeError(f"encode_png takes uint8 or uint16, not {image.dtype.name}.")
    return raw.EncodePng(image, compression=compression, name=name)


def encode_jpeg(
    image: Any, format: str = "", quality: int = 95, progressive: bool = False, optimize_size: bool = False,
    chroma_downsampling: bool = True, density_unit: str = "in", x_density: int = 300, y_density: int = 300,
    xmp_metadata: str = "", name: str | None = None,
) -> Tensor:  # fmt: skip
    """The bytes of a JPEG file of [height, width, 1 or 3 channels], uint8."""
    if format not in ("", "grayscale", "rgb"):
        raise ValueError(f"format must be '', 'grayscale' or 'rgb', not {format!r}.")
    return raw.EncodeJpeg(
        image, format=format, quality=quality, progressive=progressive, optimize_size=optimize_size,
        chroma_downsampling=chroma_downsampling, density_unit=density_unit, x_density=x_density, y_density=y_density,
        xmp_metadata=xmp_metadata, name=name,
    )  # fmt: skip


def extract_jpeg_shape(contents: Any, output_type: Any = dtypes.int32, name: str | None = None) -> Tensor:
    """[height, width, channels] of a JPEG file, without decoding it."""
    return raw.ExtractJpegShape(_contents(contents), output_type=output_type, name=name)


def is_jpeg(contents: Any, name: str | None = None) -> Tensor:
    """Whether the bytes start as a JPEG file does."""
    start = raw.Substr(_contents(contents), np.int32(0), np.int32(3))
    return raw.Equal(start, convert_to_tensor(b"\xff\xd8\xff"), name=name or "is_jpeg")


def random_jpeg_quality(image: Any, min_jpeg_quality: int, max_jpeg_quality: int, seed: int | None = None) -> Tensor:
    """adjust_jpeg_quality by a number from [min_jpeg_quality, max_jpeg_quality), another in each step.

    Raises ValueError unless both lie between 0 and 100 and the first is less.
    """
    if not 0 <= min_jpeg_quality <= 100 or not 0 <= max_jpeg_quality <= 100:
        raise ValueError("jpeg encoding range must be between 0 and 100.")
    if min_jpeg_quality >= max_jpeg_quality:
        raise ValueError("`min_jpeg_quality` must be less than `max_jpeg_quality`.")
    quality = random_uniform([], min_jpeg_quality, max_jpeg_quality, dtype=dtypes.int32, seed=seed)
    return adjust_jpeg_quality(image, quality)


def adjust_jpeg_quality(image: Any, jpeg_quality: Any, dct_method: str = "", name: str | None = None) -> Tensor:
    """The image as it comes back from a JPEG file of that quality (0 to 100)."""
    image = convert_to_tensor(image, name="image")
    with image.graph.name_scope(name or "adjust_jpeg_quality"):
        small = convert_image_dtype(image, dtypes.uint8, saturate=True)
        written = raw.EncodeJpegVariableQuality(small, jpeg_quality)
        back = decode_jpeg(written, channels=image.shape.as_list()[-1], dct_method=dct_method)
        back.set_shape(image.shape)
        return convert_image_dtype(back, image.dtype.base_dtype, saturate=True)


