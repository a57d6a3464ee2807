"""Real BMv2: simple_switch with programs compiled by p4c, launched through P4-utils."""
