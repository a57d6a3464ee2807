"""BytePS (OSDI '20): Summation Services on workers' and spare hosts, partitions, priorities and a credit."""
