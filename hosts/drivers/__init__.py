"""What runs protocol cores: over sockets in real time, or in virtual time. No driver knows a protocol, and no core its driver."""
