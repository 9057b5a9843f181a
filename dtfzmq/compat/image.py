"""``tf.image``: public names alone."""

from dtfzmq.ops.boxes import (
    combined_non_max_suppression,
    non_max_suppression,
    non_max_suppression_overlaps,
    non_max_suppression_padded,
    non_max_suppression_with_scores,
)
from dtfzmq.ops.crops import (
    crop_and_resize,
    draw_bounding_boxes,
    extract_glimpse,
    sample_distorted_bounding_box,
)
from dtfzmq.ops.image import (
    central_crop,
    crop_to_bounding_box,
    flip_left_right,
    flip_up_down,
    pad_to_bounding_box,
    random_flip_left_right,
    random_flip_up_down,
    resize_image_with_crop_or_pad,
    resize_image_with_pad,
    resize_with_crop_or_pad,
    rot90,
    transpose,
    transpose_image,
)
from dtfzmq.ops.image_color import (
    adjust_brightness,
    adjust_contrast,
    adjust_gamma,
    adjust_hue,
    adjust_saturation,
    convert_image_dtype,
    grayscale_to_rgb,
    hsv_to_rgb,
    random_brightness,
    random_contrast,
    random_hue,
    random_saturation,
    rgb_to_grayscale,
    rgb_to_hsv,
    rgb_to_yiq,
    rgb_to_yuv,
    yiq_to_rgb,
    yuv_to_rgb,
)
from dtfzmq.ops.image_files import (
    adjust_jpeg_quality,
    decode_and_crop_jpeg,
    decode_bmp,
    decode_gif,
    decode_image,
    decode_jpeg,
    decode_png,
    encode_jpeg,
    encode_png,
    extract_jpeg_shape,
    is_jpeg,
    random_jpeg_quality,
)
from dtfzmq.ops.image_measures import (
    image_gradients,
    per_image_standardization,
    psnr,
    sobel_edges,
    ssim,
    ssim_multiscale,
    total_variation,
)
from dtfzmq.ops.patches import extract_image_patches, extract_patches
from dtfzmq.ops.random import random_crop
from dtfzmq.ops.resize import (
    ResizeMethod,
    resize_area,
    resize_bicubic,
    resize_bilinear,
    resize_images,
    resize_nearest_neighbor,
)
from dtfzmq.ops.resize import resize_images as resize
