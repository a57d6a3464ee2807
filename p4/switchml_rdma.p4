// SwitchML with its in-switch RDMA: workers write messages of several packets to the switch, whose pool has a slot for each packet, and
// the switch writes the sums into their memory. Between the two ends, everything is as over UDP (switchml.p4).
#include <core.p4>
#include <v1model.p4>
#include "include/switchml/packet.p4"
#include "include/switchml/roce_parser.p4"
#include "include/loss.p4"
#include "include/source_guard.p4"
#include "include/forwarder.p4"
#include "include/ecn.p4"
#include "include/switchml/roce_pipeline.p4"

control SwitchMLIngress(inout headers_t hdr, inout switchml_metadata_t meta, inout standard_metadata_t standard) {
    Loss() loss_in;
    SourceGuard() source_guard;
    Forwarder() forwarder;
    RoceSwitchML() switchml;
    bit<1> own;

    action is_own() {
        own = 1;
    }

    table addresses {
        key = { hdr.ipv4.dst : exact; }
        actions = { is_own; NoAction; }
        size = 1;
        default_action = NoAction();
    }

    apply {
        bit<1> lost;
        bit<1> passes = 0;
        own = 0;
        loss_in.apply(standard.ingress_port, lost);
        if (hdr.udp.isValid() && hdr.udp.dst == UDP_PORT_ROCE) {
            addresses.apply();
        }
        if (lost == 1) {
            mark_to_drop(standard);
        } else if (own == 1) {
            switchml.apply(hdr, meta, standard);
        } else {
            source_guard.apply(hdr, standard, passes);
        }
        if (passes == 1) {
            forwarder.apply(hdr, standard);
        }
    }
}

control SwitchMLEgress(inout headers_t hdr, inout switchml_metadata_t meta, inout standard_metadata_t standard) {
    RoceSender() roce_sender;
    Ecn() ecn;
    Loss() loss_out;

    apply {
        bit<1> lost;
        if (meta.admitted == 1) {
            roce_sender.apply(hdr, meta, standard);
        } else if (standard.egress_rid != 0 && standard.egress_port == standard.ingress_port) {
            mark_to_drop(standard);  // a flooded packet does not go back where it came from
        }
        ecn.apply(hdr, standard);
        loss_out.apply(standard.egress_port, lost);
        if (lost == 1) {
            mark_to_drop(standard);
        }
    }
}

V1Switch(RoceParser(), RoceVerify(), SwitchMLIngress(), SwitchMLEgress(), RoceCompute(), RoceDeparser()) main;
