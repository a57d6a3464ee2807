"""P4Runtime for the embedded switch: P4Info from our compiler, and a server that any P4Runtime client can talk to."""
