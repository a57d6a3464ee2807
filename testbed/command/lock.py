"""`make lock`: the exact versions of what the environment has, first what runs experiments, then what the extras add."""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib.metadata import distribution, distributions
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

BUILD = ("setuptools", "uv")  # what installs inalab and the others
LISTS = {
    Path("requirements.lock"): "Exact versions of everything that experiments run with",
    Path("requirements-extras.lock"): "Exact versions of what the extras need besides",
}


def required(name: str, found: set[str]) -> set[str]:
    """A distribution and those that it requires on this machine, directly or not; added to `found`."""
    if name not in found:
        found.add(name)
        for requirement in map(Requirement, distribution(name).requires or []):
            if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
                required(canonicalize_name(requirement.name), found)
    return found


def installed() -> Iterator[tuple[str, str]]:
    """Canonical names and lines of a list, without builds' local versions, of all distributions but inalab and pip."""
    for each in distributions():
        name = canonicalize_name(each.metadata["Name"])
        if name not in ("inalab", "pip", "mininet"):
            yield name, f"{each.metadata['Name']}=={re.sub(r'[+].*', '', each.version)}"


def main() -> None:
    """Write both lists into the working folder."""
    runs = set.union(*(required(name, set()) for name in ("inalab", *BUILD)))
    lines = dict(sorted(installed()))
    for path, what in LISTS.items():
        of_path = [line for name, line in lines.items() if (name in runs) == (path.name == "requirements.lock")]
        path.write_text("\n".join([f"# {what}; made by `make lock`.", *of_path]) + "\n")


if __name__ == "__main__":
    main()
