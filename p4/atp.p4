// ATP (Lao et al., NSDI '21): best-effort aggregation for many jobs and racks. Aggregators are allocated packet by packet,
// by the hash that a worker puts into it; what finds none, or comes too late, is added at the parameter server.
//
// A packet passes: loss of its link, then ATP's stages (include/atp/pipeline.p4). Everything that is not ATP's is forwarded, if it
// comes from whom it says.
#include <core.p4>
#include <v1model.p4>
#include "include/atp/packet.p4"
#include "include/atp/parser.p4"
#include "include/loss.p4"
#include "include/source_guard.p4"
#include "include/forwarder.p4"
#include "include/ecn.p4"
#include "include/atp/pipeline.p4"

control AtpIngress(inout headers_t hdr, inout atp_metadata_t meta, inout standard_metadata_t standard) {
    Loss() loss_in;
    SourceGuard() source_guard;
    Forwarder() forwarder;
    Atp() atp;

    apply {
        bit<1> lost;
        bit<1> passes = 1;
        loss_in.apply(standard.ingress_port, lost);
        if (lost == 1) {
            passes = 0;
            mark_to_drop(standard);
        } else if (IS_ATP) {
            atp.apply(hdr, meta, standard, passes);
        } else {
            source_guard.apply(hdr, standard, passes);
        }
        if (passes == 1) {
            forwarder.apply(hdr, standard);
        }
    }
}

control AtpEgress(inout headers_t hdr, inout atp_metadata_t meta, inout standard_metadata_t standard) {
    AtpDeparture() atp;
    Ecn() ecn;
    Loss() loss_out;

    apply {
        bit<1> lost;
        if (standard.egress_rid != 0 && standard.egress_port == standard.ingress_port) {
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

V1Switch(AtpParser(), AtpVerify(), AtpIngress(), AtpEgress(), AtpCompute(), AtpDeparser()) main;
