"""RoCEv2: RDMA over UDP, by queue pairs between two ends."""
