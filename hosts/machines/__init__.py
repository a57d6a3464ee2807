"""All-reduces of machines with several GPUs: what happens inside a machine, and between machines (BytePS, OSDI '20, section 4)."""
