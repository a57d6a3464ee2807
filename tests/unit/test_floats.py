"""Sums of floats that leave the numbers."""

from __future__ import annotations

import warnings

import numpy as np

from inalab.hosts.tcp.parts import Parts


def test_a_sum_that_is_no_number_is_made_without_a_word() -> None:
    """A warning would show lines of ours to whoever runs a script."""
    largest = np.finfo(np.float32).max
    parts = Parts()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        parts.take(0, np.array([np.inf, largest, -0.0, 1.0], np.float32))
        parts.take(1, np.array([-np.inf, largest, -0.0, 2.0], np.float32))
    assert parts.total is not None
    np.testing.assert_array_equal(parts.total, np.array([np.nan, np.inf, -0.0, 3.0], np.float32))
    assert np.signbit(parts.total[2])
