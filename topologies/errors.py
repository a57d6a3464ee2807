"""What can go wrong with a network."""


class NetworkError(RuntimeError):
    """The network could not be built as asked; str() says what failed."""
