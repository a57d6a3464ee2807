"""A stream of chunks that results acknowledge: chunks in flight, retransmission, datagrams, quantization."""
