// ATP and SwitchML in one switch: jobs of either on one network. Each has memory of its own, and its stages as in its own program;
// what they share are the links, losses, and what forwards everything else.
#include <core.p4>
#include <v1model.p4>
#include "include/atp/headers.p4"
#include "include/atp/metadata.p4"
#include "include/switchml/headers.p4"
#include "include/switchml/metadata.p4"

struct headers_t {
    ethernet_t ethernet;
    arp_t arp;
    ipv4_t ipv4;
    ipv4_options_t options;
    udp_t udp;
    // ATP
    atp_t atp;
    largest_t largest;
    // SwitchML
    switchml_t switchml;
    status_t status;
    part_t part;
    // either
    tag_t tag;
    vector_t vector;
}

struct metadata_t {
    atp_metadata_t atp;
    switchml_metadata_t switchml;
}

#include "include/loss.p4"
#include "include/source_guard.p4"
#include "include/forwarder.p4"
#include "include/ecn.p4"
#include "include/atp/pipeline.p4"
#include "include/switchml/pipeline.p4"

parser SharedParser(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
#define PROTOCOLS PROTOCOL_STATE(UDP_PORT_ATP, parse_atp) PROTOCOL_STATE(UDP_PORT_SWITCHML, parse_switchml)
#include "include/udp_states.p4"
#include "include/atp/states.p4"
#include "include/switchml/states.p4"
}

control SharedDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.ethernet);
        packet.emit(hdr.arp);
        packet.emit(hdr.ipv4);
        packet.emit(hdr.options);
        packet.emit(hdr.udp);
        packet.emit(hdr.atp);
        packet.emit(hdr.switchml);
        packet.emit(hdr.status);
        packet.emit(hdr.tag);
        packet.emit(hdr.largest);
        packet.emit(hdr.vector);
        packet.emit(hdr.part);
    }
}

// Only their packets are checked and rewritten: other ones keep the bytes they came with.
control SharedVerify(inout headers_t hdr, inout metadata_t meta) {
    apply {
        verify_checksum(hdr.atp.isValid() || hdr.switchml.isValid(), IPV4_CHECKED, hdr.ipv4.checksum, HashAlgorithm.csum16);
    }
}

control SharedCompute(inout headers_t hdr, inout metadata_t meta) {
    apply {
        update_checksum(hdr.atp.isValid() || hdr.switchml.isValid(), IPV4_CHECKED, hdr.ipv4.checksum, HashAlgorithm.csum16);
    }
}

control SharedIngress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    Loss() loss_in;
    SourceGuard() source_guard;
    Forwarder() forwarder;
    Atp() atp;
    SwitchML() switchml;

    apply {
        bit<1> lost;
        bit<1> passes = 0;
        loss_in.apply(standard.ingress_port, lost);
        if (lost == 1) {
            mark_to_drop(standard);
        } else if (IS_ATP) {
            atp.apply(hdr, meta.atp, standard, passes);
        } else {
            passes = 1;
            if (IS_SWITCHML) {
                switchml.apply(hdr, meta.switchml, standard, passes);
            }
            if (passes == 1) {
                source_guard.apply(hdr, standard, passes);
            }
        }
        if (passes == 1) {
            forwarder.apply(hdr, standard);
        }
    }
}

control SharedEgress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    AtpDeparture() atp;
    SwitchMLDeparture() switchml;
    Ecn() ecn;
    Loss() loss_out;

    apply {
        bit<1> lost;
        if (hdr.switchml.isValid() && meta.switchml.passes_by == 0) {
            switchml.apply(hdr, meta.switchml, standard);
        } else if (standard.egress_rid != 0 && standard.egress_port == standard.ingress_port) {
            mark_to_drop(standard);  // a flooded packet does not go back where it came from
        } else if (hdr.atp.isValid()) {
            atp.apply(hdr, standard);
        }
        ecn.apply(hdr, standard);
        loss_out.apply(standard.egress_port, lost);
        if (lost == 1) {
            mark_to_drop(standard);
        }
    }
}

V1Switch(SharedParser(), SharedVerify(), SharedIngress(), SharedEgress(), SharedCompute(), SharedDeparser()) main;
