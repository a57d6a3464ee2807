"""MLfabric (SoCC '20), our reading of it: a scheduler that knows the network orders, drops, aggregates and replicates updates."""
