"""Updates of a model that one host holds: the model, its server, and workers that send updates and fetch the model."""
