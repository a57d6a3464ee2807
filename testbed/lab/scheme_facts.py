"""What a student's scheme says of itself, as JSON: python -m inalab.testbed.lab.scheme_facts FILE WORKERS ELEMENTS, confined."""

from __future__ import annotations

import json
import sys

from inalab.schemes import registry
from inalab.testbed.plan.settings import TrialSettings, make_settings, named_scheme


def main() -> None:
    name, workers, elements = named_scheme(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    settings = make_settings(TrialSettings, {"scheme": name, "racks": 1, "workers": workers})
    settings.check()
    plan, scheme = settings.plan(), registry.find(name)
    own = scheme.Settings()
    facts = {
        "name": scheme.name,
        "label": scheme.look.label,
        "bound": float(scheme.bound(plan, own, elements)),
        "framing": float(scheme.framing(own, elements)),
        "rate": min(plan.rates(plan.hosts)),
    }
    print(json.dumps(facts))


if __name__ == "__main__":
    main()
