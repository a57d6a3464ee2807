"""Networks that are computed, not run: how long a sum takes on as many hosts, and links as fast, as nobody has here."""
