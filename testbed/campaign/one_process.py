"""The process in which testbed.campaign.one has trials run: python -m inalab.testbed.campaign.one_process PARENT.

It ends with the PARENT, a pid, that began it, and its trial with it; also while it imports what a trial needs, which takes long.
"""

from __future__ import annotations

import os
import sys

from inalab.topologies import isolation


def main() -> None:
    isolation.die_with_parent()
    if os.getppid() != int(sys.argv[1]):
        return  # it died before
    from inalab.testbed.campaign.one import answer

    answer()


if __name__ == "__main__":
    main()
