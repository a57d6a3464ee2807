"""What runs in a host: wire formats, quantization, transports, training, stragglers. Hosts meet switches on the wire only."""
