"""In-Network Aggregation Lab. The folders are the repository's, which stand at its top level.

Mininet is a package of Debian, in no index: where Python does not find it by itself, as in a virtual environment, it is found
where Debian has it.
"""

import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, PathFinder

DEBIAN = "/usr/lib/python3/dist-packages"


class _DebiansMininet:
    """The last of Python's finders, which knows one package."""

    @staticmethod
    def find_spec(name: str, path: Sequence[str] | None = None, target: object = None) -> ModuleSpec | None:
        """See importlib.abc.MetaPathFinder."""
        return PathFinder.find_spec(name, [DEBIAN]) if name == "mininet" else None


sys.meta_path.append(_DebiansMininet)
