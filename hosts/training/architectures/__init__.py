"""What published models compute and communicate, layer by layer; one file for each family, found by name in `catalog`."""
