"""`make docs`: redraw the kept runs, write the pages of the reference, and fill in all numbers."""

from __future__ import annotations

import sys

from inalab.testbed.document import kept, numbers, reference
from inalab.testbed.record.runs import ResultsError


def main() -> None:
    """Everything in docs/ that the code or a record says."""
    try:
        kept.redraw()
        reference.main()
        changed = [path.name for path in numbers.PAGES if numbers.fill(path)]
    except ResultsError as error:
        sys.exit(f"inalab: {error}")
    print(f"numbers changed in {', '.join(changed) or 'no page'}")


if __name__ == "__main__":
    main()
