"""What all-gathers and broadcasts of scripts become: a tensor's bytes, as whole words that the scheme carries as they are."""

from __future__ import annotations

from typing import Any

import torch
from numpy.typing import NDArray

from inalab.hosts.reductions import lent

WORD = 4  # bytes


class Copy:
    """In place of a Reduction (hosts.reductions), where nothing is summed."""

    divisor = 1

    def values(self, tensor: torch.Tensor) -> torch.Tensor:
        """A tensor's bytes as int32, contiguous; its own memory where that is possible."""
        dense = tensor.detach().resolve_conj().resolve_neg().contiguous()
        octets = dense.as_strided((dense.numel(),), (1,)).view(torch.uint8)  # also where the stride of a single element is another
        if octets.numel() % WORD or octets.data_ptr() % WORD:
            octets = torch.cat([octets, octets.new_zeros(-octets.numel() % WORD)])
        return octets.view(torch.int32)

    def given(self, values: torch.Tensor) -> NDArray[Any]:
        """What the scheme carries."""
        return lent(values)

    def total(self, total: NDArray[Any], tensor: torch.Tensor) -> torch.Tensor:
        """Tensors of this one's shape and dtype that have come, one or more: (number, *shape)."""
        words = -(-tensor.nbytes // WORD)
        if not words:
            return tensor.new_empty(0, *tensor.shape)
        octets = torch.from_numpy(total).view(torch.uint8).reshape(-1, WORD * words)
        return octets[:, : tensor.nbytes].contiguous().view(tensor.dtype).view(-1, *tensor.shape)


COPY = Copy()


def carried(tensor: torch.Tensor) -> bool:
    """Whether the scheme can copy such a tensor."""
    return tensor.layout == torch.strided and tensor.device.type == "cpu" and not tensor.is_quantized
