"""``tf.image``: public names alone."""

from dtfzmq.ops.patches import extract_image_patches, extract_patches
from dtfzmq.ops.resize import (
    ResizeMethod,
    resize_area,
    resize_bicubic,
    resize_bilinear,
    resize_images,
    resize_nearest_neighbor,
)
from dtfzmq.ops.resize import resize_images as resize
