"""MLfabric (SoCC '20): updates are ordered, dropped and aggregated by a scheduler that knows the network. Our reading of it."""
