"""``tf.spectral``: public names alone."""

from dtfzmq.ops.signal import dct, idct
from dtfzmq.ops.spectral import (
    fft,
    fft2d,
    fft3d,
    ifft,
    ifft2d,
    ifft3d,
    irfft,
    irfft2d,
    irfft3d,
    rfft,
    rfft2d,
    rfft3d,
)
