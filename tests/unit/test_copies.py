"""What all-gathers and broadcasts of scripts become: words, whatever the tensor, and the tensor again."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from inalab.hosts.copies import COPY, carried

WIDE = torch.arange(24).view(4, 6)
TENSORS = {
    "words": torch.randn(5), "bytes": torch.arange(7, dtype=torch.uint8), "halves": torch.randn(3).half(),
    "one": torch.ones(1, 1).t(), "0-d": torch.tensor(3.5), "bool": torch.tensor([True, False, True]),
    "complex": torch.randn(3, dtype=torch.complex64), "conjugate": torch.randn(3, dtype=torch.complex64).conj(),
    "negative": torch.randn(3, dtype=torch.complex64).conj().imag, "strided": WIDE[:, ::2], "transposed": WIDE.t(),
    "expanded": torch.randn(3, 1).expand(3, 4), "long": torch.arange(3), "odd place": torch.arange(9, dtype=torch.uint8)[1:6],
    "one of two": torch.randn(2, 2)[:1, :1],
}  # fmt: skip


@pytest.mark.parametrize("name", TENSORS)
def test_a_tensor_comes_as_it_is_from_each_worker(name: str) -> None:
    tensor = TENSORS[name]
    words = COPY.given(COPY.values(tensor))
    assert words.dtype == np.int32 and words.ndim == 1 and 4 * words.size - tensor.nbytes in range(4)
    for times in (1, 3):
        found = COPY.total(np.tile(words, times), tensor)
        assert found.shape == (times, *tensor.shape) and found.dtype == tensor.dtype
        assert all(torch.equal(one, tensor) for one in found)


def test_what_is_empty_is_so_on_all() -> None:
    tensor = torch.ones(2, 0)
    words = COPY.given(COPY.values(tensor))
    assert words.size == 0 and COPY.total(words, tensor).numel() == 0 and carried(tensor)


def test_what_needs_no_copy_is_lent() -> None:
    tensor = torch.randn(6)
    assert COPY.given(COPY.values(tensor)).ctypes.data == tensor.data_ptr()
    words = COPY.values(torch.arange(9, dtype=torch.uint8)[1:5])  # at no multiple of four
    assert words.data_ptr() % 4 == 0


@pytest.mark.parametrize("tensor", [torch.ones(3).to_sparse(), torch.ones(3, device="meta")])
def test_what_has_no_dense_bytes_is_gloos(tensor: torch.Tensor) -> None:
    assert not carried(tensor) and carried(torch.ones(1))
