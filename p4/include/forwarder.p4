// Everything that is not aggregated: Ethernet forwarding by destination, broadcast to all other ports.
// A program includes this behind its headers_t, which has an `ethernet` and a `udp`.
#ifndef FORWARDER_P4
#define FORWARDER_P4
#include "sizes.p4"
#include "paths.p4"

control Forwarder(inout headers_t hdr, inout standard_metadata_t standard) {
    counter(1, CounterType.packets) unknown;  // unicast to nobody we know
    Paths() paths;
    bit<16> ways;

    action forward(port_t port) {
        standard.egress_spec = port;
    }

    // by one of so many ports, of which this is the first
    action multipath(port_t first, bit<16> ports) {
        standard.egress_spec = first;
        ways = ports;
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
        actions = { forward; multipath; flood; drop_unknown; }
        size = 256;
        default_action = drop_unknown();
    }

    apply {
        bit<16> way;
        ways = 1;
        if (hdr.ethernet.isValid()) {
            stations.apply();
            if (ways > 1) {
                paths.apply(hdr, ways, way);
                standard.egress_spec = standard.egress_spec + (port_t)way;
            }
        } else {
            mark_to_drop(standard);
        }
    }
}

#endif
