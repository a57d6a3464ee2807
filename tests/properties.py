"""How many examples a property test draws, and from which seed.

Profile `ci`, the default: the same examples in every run. Profile `deep` (`make test-deep`): other ones in each run, and
many more; what fails once is tried again first in the next run. Profile `mutants`: as `ci`, but the first example that fails
is enough, without a search for a smaller one.
"""

from __future__ import annotations

from hypothesis import HealthCheck, Phase, settings

CI, DEEP, MUTANTS = "ci", "deep", "mutants"
USUAL = 100  # of the examples that a test names, in per cent, and examples of a test that names no number
FEW = 25  # in the profile `ci`
DEEPER = 40  # times as many in the profile `deep`


def register_profiles() -> None:
    """Make the profiles known to hypothesis, and load the default; pytest's --hypothesis-profile chooses another.

    Where hypothesis sees that it runs in CI, its own defaults draw the same examples each time: `deep` says that it does not.
    """
    lenient = settings(deadline=None, suppress_health_check=list(HealthCheck))
    settings.register_profile(CI, lenient, max_examples=FEW, derandomize=True, database=None)
    settings.register_profile(MUTANTS, settings.get_profile(CI), phases=[Phase.explicit, Phase.generate])
    settings.register_profile(DEEP, lenient, max_examples=USUAL * DEEPER, derandomize=False, print_blob=True)
    settings.load_profile(CI)


def examples(number: int) -> settings:
    """Draw so many examples, times what the profile draws of a hundred."""
    return settings(max_examples=max(1, number * settings().max_examples // USUAL))
