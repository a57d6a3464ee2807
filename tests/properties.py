"""How many examples a property test draws, and from which seed.

Profile `ci`, the default: the same examples in every run. Profile `deep` (`make test-deep`): other ones in each run, and
many more; what fails once is tried again first in the next run. Profile `mutants`: as `ci`, but the first example that fails
is enough, without a search for a smaller one.
"""

from __future__ import annotations

from hypothesis import HealthCheck, Phase, settings

CI, DEEP, MUTANTS = "ci", "deep", "mutants"
USUAL = 100  # examples of a test that names no number
DEEPER = 40  # times as many in the profile `deep`


def register_profiles() -> None:
    """Make the profiles known to hypothesis, and load the default; pytest's --hypothesis-profile chooses another.

    Where hypothesis sees that it runs in CI, its own defaults draw the same examples each time: `deep` says that it does not.
    """
    lenient = settings(deadline=None, suppress_health_check=list(HealthCheck))
    settings.register_profile(CI, lenient, max_examples=USUAL, derandomize=True, database=None)
    settings.register_profile(MUTANTS, settings.get_profile(CI), phases=[Phase.explicit, Phase.generate])
    settings.register_profile(DEEP, lenient, max_examples=USUAL * DEEPER, derandomize=False, print_blob=True)
    settings.load_profile(CI)


def examples(number: int) -> settings:
    """Draw so many examples in the profile `ci`, and as many more in another as that one draws more."""
    return settings(max_examples=number * settings().max_examples // USUAL)
