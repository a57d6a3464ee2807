"""Networks that are computed, not run: how long a sum takes on more hosts, or faster links, than a machine can run."""
