"""In-Network Aggregation Lab: `run`, `load`, `compare`, `experiments`, `Scheme` and `Experiment` for notebooks and scripts, and
`Asynchronous` for scripts that `inalab launch` runs.

The folders are the repository's, which stand at its top level.

Mininet is a package of Debian, in no index: where Python does not find it by itself, as in a virtual environment, it is found
where Debian has it.
"""

import importlib
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, PathFinder
from typing import Any

DEBIAN = "/usr/lib/python3/dist-packages"


class _DebiansMininet:
    """The last of Python's finders, which knows one package."""

    @staticmethod
    def find_spec(name: str, path: Sequence[str] | None = None, target: object = None) -> ModuleSpec | None:
        """See importlib.abc.MetaPathFinder."""
        return PathFinder.find_spec(name, [DEBIAN]) if name == "mininet" else None


sys.meta_path.append(_DebiansMininet)


def __getattr__(name: str) -> Any:
    """What inalab.testbed.interface has, once it is used: it imports PyTorch. `experiments` is the package, which can be called."""
    if name == "experiments":
        return importlib.import_module("inalab.experiments")
    if name == "Asynchronous":
        return importlib.import_module("inalab.hosts.asynchronous").Asynchronous
    interface = importlib.import_module("inalab.testbed.interface")
    if name not in interface.__all__:
        raise AttributeError(f"module 'inalab' has no attribute {name!r}")
    return getattr(interface, name)
