"""Images: sizes, cuts, turns, colours, measures and files."""

from __future__ import annotations

import io
import sys
from typing import Any

import numpy as np
import PIL.Image
import pytest

from dtfzmq.base import dtypes, errors
from dtfzmq.graph.convert import convert_to_tensor
from dtfzmq.graph.graph import Graph
from dtfzmq.ops import boxes, image, image_color, image_files, image_measures, patches, resize
from dtfzmq.ops.constants import constant, placeholder
from dtfzmq.ops.gradients import gradients
from tests.kit.evaluate import Env, evaluate

RNG = np.random.default_rng(10)
RAMP = np.arange(12, dtype=np.float32).reshape(1, 3, 4, 1)


def _run(make, *arrays):
    with Graph().as_default():
        made = make(*(convert_to_tensor(a) for a in arrays))
        value = evaluate(made)
        assert made.shape.is_compatible_with(value.shape)
        return value


@pytest.mark.parametrize(
    "method, corners, want",  # TensorFlow's answers
    [
        (resize.resize_bilinear, False, [[0, 4 / 3, 8 / 3], [6, 22 / 3, 26 / 3]]),
        (resize.resize_bilinear, True, [[0, 1.5, 3], [8, 9.5, 11]]),
        (resize.resize_nearest_neighbor, False, [[0, 1, 2], [4, 5, 6]]),
        (resize.resize_nearest_neighbor, True, [[0, 2, 3], [8, 10, 11]]),
        (resize.resize_area, False, [[19 / 12, 34 / 12, 49 / 12], [83 / 12, 98 / 12, 113 / 12]]),
    ],
)
def test_resized_grids(method, corners, want):
    got = _run(lambda x: method(x, [2, 3], align_corners=corners), RAMP)
    assert got.dtype == np.float32
    np.testing.assert_allclose(got[0, :, :, 0], want, rtol=1e-5)


@pytest.mark.parametrize("law", [resize.nearest_taps, resize.bilinear_taps, resize.bicubic_taps])
@pytest.mark.parametrize("corners, centers", [(False, False), (True, False), (False, True)])
@pytest.mark.parametrize("size, out", [(5, 5), (5, 9), (9, 4), (1, 3), (4, 1)])
def test_taps_are_inside_and_sum_to_one(law, corners, centers, size, out):
    which, weights = law(size, out, corners, centers)
    assert which.min() >= 0
    assert which.max() < size
    np.testing.assert_allclose(weights.sum(1), 1, rtol=1e-5)
    if size == out and not (centers and law is resize.nearest_taps):
        np.testing.assert_allclose(resize.matrix_of((which, weights), size, float), np.eye(size), atol=1e-6)


@pytest.mark.parametrize("method", [resize.resize_bilinear, resize.resize_bicubic, resize.resize_nearest_neighbor])
@pytest.mark.parametrize("options", [{}, {"align_corners": True}, {"half_pixel_centers": True}])
def test_resizing_is_linear_and_its_derivative_the_transpose(method, options):
    value, g = RNG.standard_normal((2, 5, 4, 3)).astype("f"), RNG.standard_normal((2, 3, 7, 3)).astype("f")
    with Graph().as_default():
        x, seed = convert_to_tensor(value), convert_to_tensor(g)
        y = method(x, [3, 7], **options)
        (back,) = gradients(y, [x], [seed])
        (forth,) = gradients(back, [seed], [x])
        ys, backs, forths = evaluate([y, back, forth])
        np.testing.assert_allclose(np.sum(ys * g), np.sum(backs * value), rtol=1e-3)
        np.testing.assert_allclose(forths, ys, rtol=1e-4, atol=1e-5)


def test_resize_images_keeps_what_it_can():
    small = RNG.integers(0, 255, (3, 4, 3)).astype(np.uint8)
    with Graph().as_default():
        x = convert_to_tensor(small)
        assert resize.resize_images(x, [3, 4]).dtype is dtypes.uint8
        assert resize.resize_images(x, [6, 4]).dtype is dtypes.float32
        assert resize.resize_images(x, [6, 4], resize.ResizeMethod.NEAREST_NEIGHBOR).dtype is dtypes.uint8
        assert resize.resize_images(x, [9, 100], preserve_aspect_ratio=True).shape.as_list() == [9, 12, 3]
        unknown = placeholder("float32", [None, None, 3])
        assert resize.resize_images(unknown, [9, 7]).shape.as_list() == [9, 7, 3]
        fitted = resize.resize_images(unknown, [9, 100], preserve_aspect_ratio=True)
        assert evaluate(fitted, {unknown: small}).shape == (9, 12, 3)
        for bad, text in (((x, [3]), "1-D Tensor of 2"), ((x[0], [3, 3]), "3 or 4 dim"), ((x, [3, 3], 9), "not impl")):
            with pytest.raises(ValueError, match=text):
                resize.resize_images(*bad)
        y = resize.resize_bilinear(placeholder("float32"), [0, 3])
        with pytest.raises(errors.InvalidArgumentError, match="must be positive"):
            evaluate(y, {y.op.inputs[0]: np.zeros((1, 2, 2, 1))})


@pytest.mark.parametrize("batch", [(), (2,)])
@pytest.mark.parametrize("known", [True, False])
def test_cuts_and_turns(batch, known):
    value = RNG.standard_normal((*batch, 5, 7, 3)).astype("f")
    down, right = len(batch), len(batch) + 1
    crop = np.index_exp[..., 1:4, 2:6, :]
    padded = np.zeros((*batch, 8, 10, 3), "f")
    padded[..., 1:6, 2:9, :] = value
    middle = value[..., 1:4, 1:6, :]
    both = np.zeros((*batch, 9, 3, 3), "f")
    both[..., 2:7, :, :] = value[..., 2:5, :]
    pairs = [
        (lambda x: image.crop_to_bounding_box(x, 1, 2, 3, 4), value[crop]),
        (lambda x: image.pad_to_bounding_box(x, 1, 2, 8, 10), padded),
        (lambda x: image.central_crop(x, 0.6), middle),
        (lambda x: image.resize_image_with_crop_or_pad(x, 9, 3), both),
        (image.flip_left_right, np.flip(value, right)),
        (image.flip_up_down, np.flip(value, down)),
        (image.transpose_image, np.swapaxes(value, down, right)),
        *((lambda x, k=k: image.rot90(x, k), np.rot90(value, k, (down, right))) for k in range(-1, 4)),
        (lambda x: image.rot90(x, constant(3)), np.rot90(value, 3, (down, right))),
    ]
    with Graph().as_default():
        x = placeholder("float32", value.shape if known else [None] * len(value.shape))
        made = [make(x) for make, _ in pairs]
        for t, got, (_, want) in zip(made, evaluate(made, {x: value}), pairs):
            np.testing.assert_array_equal(got, want, err_msg=str(t))
            assert t.shape.is_compatible_with(want.shape)


@pytest.mark.parametrize(
    "make, text",
    [
        (lambda x: image.crop_to_bounding_box(x, 0, 0, 6, 2), "height must be >= target"),
        (lambda x: image.crop_to_bounding_box(x, -1, 0, 2, 2), "offset_height must be >= 0"),
        (lambda x: image.pad_to_bounding_box(x, 0, 0, 2, 9), "height must be <= target"),
        (lambda x: image.central_crop(x, 0.0), "within"),
        (lambda x: image.flip_up_down(x[0]), "3 or 4 dimensions"),
        (lambda x: image_color.rgb_to_hsv(x[:, :, :2]), "must be 3 but is 2"),
        (lambda x: image_color.grayscale_to_rgb(x), "size 1, not 3"),
        (lambda x: image_color.random_hue(x, 0.7), "max_delta"),
        (lambda x: image_color.random_contrast(x, 2, 1), "upper must be > lower"),
        (lambda x: image_color.adjust_gamma(x, -1), "non-negative"),
        (lambda x: image_measures.image_gradients(x), "4D"),
        (lambda x: image_measures.psnr(x, x[:2], 1), "incompatible"),
    ],
)
def test_what_does_not_fit_is_refused(make, text):
    with Graph().as_default():
        with pytest.raises(ValueError, match=text):
            make(convert_to_tensor(np.zeros((5, 4, 3), "f")))


def test_random_flips_flip_half_of_the_images():
    with Graph().as_default() as graph:
        graph.seed = 4
        many = np.tile(np.arange(3.0)[None, None, :, None], (400, 1, 1, 1))
        each = evaluate(image.random_flip_left_right(many))[:, 0, :, 0]
        flipped = (each[:, 0] == 2).mean()
        assert 0.4 < flipped < 0.6
        assert set(map(tuple, each.tolist())) == {(0, 1, 2), (2, 1, 0)}
        one, env = image.random_flip_up_down(many[0].transpose(1, 0, 2)), Env()
        assert {float(evaluate(one, env=env)[0, 0, 0]) for _ in range(40)} == {0, 2}


def test_ranges_of_types():
    whole = np.array([0, 1, 127, 255], np.uint8)
    assert _run(lambda x: image_color.convert_image_dtype(x, "float32"), whole)[-1] == 1
    assert _run(lambda x: image_color.convert_image_dtype(x, "uint16"), whole).tolist() == [0, 256, 32512, 65280]
    assert _run(lambda x: image_color.convert_image_dtype(x, "int8"), whole).tolist() == [0, 0, 63, 127]
    shares = np.array([-0.5, 0.0, 0.5, 1.0, 1.5], np.float32)
    saturated = _run(lambda x: image_color.convert_image_dtype(x, "uint8", saturate=True), shares)
    assert saturated.tolist() == [0, 0, 127, 255, 255]
    for to in ("float32", "uint16"):
        there = _run(lambda x, to=to: image_color.convert_image_dtype(x, to), whole)
        assert _run(lambda x: image_color.convert_image_dtype(x, "uint8"), there).tolist() == whole.tolist()


def test_colours():
    x = RNG.random((4, 5, 3)).astype("f")
    mean = x.mean((0, 1), keepdims=True)
    pairs = [
        (lambda t: image_color.adjust_brightness(t, 0.25), x + 0.25),
        (lambda t: image_color.adjust_contrast(t, 1.5), (x - mean) * 1.5 + mean),
        (lambda t: image_color.adjust_gamma(t, 2, 3), 3 * x**2),
        (lambda t: image_color.hsv_to_rgb(image_color.rgb_to_hsv(t)), x),
        (lambda t: image_color.adjust_hue(image_color.adjust_hue(t, 0.3), -0.3), x),
        (lambda t: image_color.adjust_hue(t, 1 / 3), x[..., [2, 0, 1]]),
        (lambda t: image_color.adjust_saturation(t, 0.0), np.repeat(x.max(-1, keepdims=True), 3, -1)),
        (lambda t: image_color.rgb_to_grayscale(t), x @ np.array([[0.2989], [0.587], [0.114]], np.float32)),
        (lambda t: image_color.grayscale_to_rgb(t[..., :1]), np.repeat(x[..., :1], 3, -1)),
        (lambda t: image_color.yiq_to_rgb(image_color.rgb_to_yiq(t)), x),
        (lambda t: image_color.yuv_to_rgb(image_color.rgb_to_yuv(t)), x),
    ]
    for make, want in pairs:
        np.testing.assert_allclose(_run(make, x), want, atol=1e-4)  # the tables of YIQ have 4 digits
    byte = np.array([[[250, 10, 10]]], np.uint8)
    assert _run(lambda t: image_color.adjust_brightness(t, 0.1), byte).tolist() == [[[255, 35, 35]]]


def test_measures():
    x = RNG.standard_normal((2, 12, 13, 3)).astype("f")
    scaled = _run(image_measures.per_image_standardization, x)
    np.testing.assert_allclose(scaled.mean((1, 2, 3)), 0, atol=1e-6)
    np.testing.assert_allclose(scaled.std((1, 2, 3)), 1, rtol=1e-5)
    assert not _run(image_measures.per_image_standardization, np.ones((4, 4, 1), "f")).any()
    down, right = np.diff(x, axis=1), np.diff(x, axis=2)
    want = np.abs(down).sum((1, 2, 3)) + np.abs(right).sum((1, 2, 3))
    np.testing.assert_allclose(_run(image_measures.total_variation, x), want, rtol=1e-5)
    dy = _run(lambda t: image_measures.image_gradients(t)[0], x)
    np.testing.assert_allclose(dy[:, :-1], down)
    assert not dy[:, -1].any()
    ramp = np.tile(np.arange(6.0)[None, :, None, None], (1, 1, 6, 1))
    edges = _run(image_measures.sobel_edges, ramp)
    assert (edges[0, 1:-1, :, 0, 0] == 8).all()
    assert not edges[..., 1].any()
    shares = RNG.random((2, 24, 24, 3)).astype("f")
    noisy = shares + RNG.standard_normal(shares.shape).astype("f") / 10
    error = ((noisy - shares) ** 2).mean((1, 2, 3))
    got = _run(lambda a, b: image_measures.psnr(a, b, 1.0), shares, noisy)
    np.testing.assert_allclose(got, -10 * np.log10(error), rtol=1e-5)
    for likeness in (image_measures.ssim, lambda a, b, top: image_measures.ssim_multiscale(a, b, top, (0.5, 0.5))):
        np.testing.assert_allclose(_run(lambda a, f=likeness: f(a, a, 1.0), shares), 1, rtol=1e-5)
        assert (_run(lambda a, b, f=likeness: f(a, b, 1.0), shares, noisy) < 0.99).all()


def test_patches_are_windows():
    x = RNG.standard_normal((1, 5, 6, 2))
    got = _run(lambda t: patches.extract_image_patches(t, [1, 2, 3, 1], [1, 2, 1, 1], [1, 1, 2, 1], "VALID"), x)
    np.testing.assert_array_equal(got[0, 1, 1], x[0, 2:4, 1:6:2].reshape(-1))
    w = RNG.standard_normal((2, 2, 2))
    opened = _run(lambda t, f: patches.dilation2d(t, f, [1, 1, 1, 1], [1, 1, 1, 1], "VALID"), x, w)
    np.testing.assert_allclose(opened[0, 1, 2], (x[0, 1:3, 2:4] + w).max((0, 1)))
    closed = _run(lambda t, f: patches.erosion2d(t, f, [1, 1, 1, 1], [1, 1, 1, 1], "VALID"), x, w)
    np.testing.assert_allclose(closed[0, 1, 2], (x[0, 1:3, 2:4] - w[::-1, ::-1]).min((0, 1)))


def _file(array, kind):
    buffer = io.BytesIO()
    frames = [PIL.Image.fromarray(a) for a in (array if kind == "GIF" else [array])]
    more: dict[str, Any] = {"save_all": True, "append_images": frames[1:]} if kind == "GIF" else {}
    frames[0].save(buffer, kind, **more)
    return buffer.getvalue()


def test_files_there_and_back():
    drawn = RNG.integers(0, 256, (4, 5, 4)).astype(np.uint8)
    for count in (1, 2, 3, 4):
        part = drawn[..., :count]
        back = _run(lambda x: image_files.decode_png(image_files.encode_png(x)), part)
        np.testing.assert_array_equal(back, part)
    deep = (drawn[..., :1].astype(np.uint16)) * 250
    back = _run(lambda x: image_files.decode_png(image_files.encode_png(x), dtype="uint16"), deep)
    np.testing.assert_array_equal(back, deep)
    smooth = np.tile(np.arange(16, dtype=np.uint8)[:, None, None] * 10, (1, 16, 3))
    with Graph().as_default():
        contents = image_files.encode_jpeg(smooth, quality=100)
        made = [
            image_files.decode_jpeg(contents), image_files.decode_image(contents, dtype="float32"),
            image_files.extract_jpeg_shape(contents), image_files.is_jpeg(contents),
            image_files.decode_jpeg(contents, channels=1, ratio=2), image_files.adjust_jpeg_quality(smooth, 30),
        ]  # fmt: skip
        whole, shares, sizes, yes, half, poor = evaluate(made)
    assert np.abs(whole.astype(int) - smooth).max() < 4
    np.testing.assert_allclose(shares, whole / np.float32(255))
    assert sizes.tolist() == [16, 16, 3]
    assert yes
    assert half.shape == (8, 8, 1)
    assert poor.shape == smooth.shape


def test_files_of_other_programs():
    drawn = RNG.integers(0, 256, (4, 5, 3)).astype(np.uint8)
    frames = [np.full((4, 5), i * 90, np.uint8) for i in range(3)]
    with Graph().as_default():
        gif = _file(frames, "GIF")
        made = [
            image_files.decode_bmp(_file(drawn, "BMP")),
            image_files.decode_png(_file(drawn, "PNG"), channels=1),
            image_files.decode_image(_file(drawn, "PNG"), channels=4),
            image_files.decode_gif(gif),
            image_files.decode_image(gif),
            image_files.decode_image(gif, expand_animations=False),
        ]
        bmp, grey, clear, moving, same, still = evaluate(made)
    np.testing.assert_array_equal(bmp, drawn)
    np.testing.assert_allclose(grey[..., 0], drawn @ [0.299, 0.587, 0.114], atol=1)
    np.testing.assert_array_equal(clear[..., :3], drawn)
    assert (clear[..., 3] == 255).all()
    assert moving.shape == same.shape == (3, 4, 5, 3)
    assert moving[:, 0, 0, 0].tolist() == [0, 90, 180]
    np.testing.assert_array_equal(still, moving[0])


def test_files_that_are_none():
    with Graph().as_default():
        cut = image_files.decode_png(_file(RNG.integers(0, 256, (40, 50, 3)).astype(np.uint8), "PNG")[:90])
        for made in (image_files.decode_image(b"no image"), cut):
            with pytest.raises(errors.InvalidArgumentError, match="nvalid image data|Unknown image file format"):
                evaluate(made)
        with pytest.raises(errors.InvalidArgumentError, match="1 or 3 channels"):
            evaluate(image_files.encode_jpeg(np.zeros((2, 2, 2), np.uint8)))
        with pytest.raises(ValueError, match="channels must be"):
            image_files.decode_png(b"", channels=7)


def test_without_pillow_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "PIL", None)
    monkeypatch.setitem(sys.modules, "PIL.Image", None)
    with Graph().as_default():
        with pytest.raises(errors.UnimplementedError, match="where the op runs: .*-m pip install Pillow"):
            evaluate(image_files.decode_png(b"\x89PNG"))


def test_best_boxes_do_not_overlap():
    around = np.array([[0, 0, 1, 1], [0, 0.1, 1, 1.1], [0, 2, 1, 3], [1, 3, 0, 2.1], [5, 5, 5, 5]], np.float32)
    scores = np.array([0.5, 0.75, 0.25, 0.9, 0.1], np.float32)
    assert _run(lambda b, s: boxes.non_max_suppression(b, s, 9), around, scores).tolist() == [3, 1, 4]
    assert _run(lambda b, s: boxes.non_max_suppression(b, s, 9, 0.85), around, scores).tolist() == [3, 1, 0, 4]
    assert _run(lambda b, s: boxes.non_max_suppression(b, s, 9, 0.85, 0.5), around, scores).tolist() == [3, 1]
    assert _run(lambda b, s: boxes.non_max_suppression(b, s, 1), around, scores).tolist() == [3]
    own = np.eye(5, dtype=np.float32)
    assert _run(lambda o, s: boxes.non_max_suppression_overlaps(o, s, 2), own, scores).tolist() == [3, 1]
    with Graph().as_default():
        with pytest.raises(errors.InvalidArgumentError, match="iou_threshold must be in"):
            evaluate(boxes.non_max_suppression(around, scores, 1, 2.0))
        with pytest.raises(ValueError):
            boxes.non_max_suppression(around[:, :3], scores, 1)
