"""One short file per experiment. `inalab.experiments()` lists them."""

import sys
from types import ModuleType


class _Experiments(ModuleType):
    """This package, which can be called."""

    def __call__(self) -> dict[str, str]:
        """What each experiment shows, by its name."""
        from inalab.testbed.plan import experiment

        return {name: experiment.summary(experiment.load(name)) for name in experiment.names()}


sys.modules[__name__].__class__ = _Experiments
