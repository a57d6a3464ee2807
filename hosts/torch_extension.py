"""What PyTorch loads when it is imported (entry point `torch.backends`): the name of the backend `ina`.

The backend itself is imported when a group is made. Imported here, it would be half there in a program that imports it before
torch.
"""

from __future__ import annotations

from typing import Any


def register() -> None:
    """Make the backend known to torch.distributed."""
    import torch.distributed as dist

    if "ina" not in dist.Backend.backend_list:
        dist.Backend.register_backend("ina", _create, extended_api=True, devices=["cpu"])
        from inalab.hosts.torch_functions import extend

        extend()


def _create(*given: Any) -> Any:
    from inalab.hosts.torch_backend import create

    return create(*given)
