"""SwitchML (NSDI '21): its worker, and its packet."""
