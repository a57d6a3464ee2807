"""Why a trial has no result."""


class TrialError(RuntimeError):
    """A trial ended without a result; str() says why."""
