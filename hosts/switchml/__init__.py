"""SwitchML (NSDI '21): its worker, its packet, and the loops over its slots."""
