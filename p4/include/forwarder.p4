// Everything that is not aggregated: Ethernet forwarding by destination, broadcast to all other ports.
// A program includes this behind its headers_t, which has an `ethernet`.
#ifndef FORWARDER_P4
#define FORWARDER_P4
#include "sizes.p4"

control Forwarder(inout headers_t hdr, inout standard_metadata_t standard) {
    counter(1, CounterType.packets) unknown;  // unicast to nobody we know

    action forward(port_t port) {
        standard.egress_spec = port;
    }

    action flood(group_t group) {
        standard.mcast_grp = group;
    }

    action drop_unknown() {
        unknown.count(0);
        mark_to_drop(standard);
    }

    table stations {
        key = { hdr.ethernet.dst : exact; }
        actions = { forward; flood; drop_unknown; }
        size = 256;
        default_action = drop_unknown();
    }

    apply {
        if (hdr.ethernet.isValid()) {
            stations.apply();
        } else {
            mark_to_drop(standard);
        }
    }
}

#endif
