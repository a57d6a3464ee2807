"""One trial under way: its network, its jobs, what may go wrong with it, and whether it is to be believed."""
