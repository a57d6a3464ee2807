// SwitchML (Sapio et al., NSDI '21): streaming aggregation in a pool of slots with a shadow copy, for several jobs and
// for any tree of switches, with loss injected on its links.
//
// A packet passes: loss of its link, then SwitchML's stages (include/switchml/pipeline.p4). Everything else is forwarded, if it comes
// from whom it says.
#include <core.p4>
#include <v1model.p4>
#include "include/switchml/packet.p4"
#include "include/switchml/parser.p4"
#include "include/loss.p4"
#include "include/source_guard.p4"
#include "include/forwarder.p4"
#include "include/ecn.p4"
#include "include/switchml/pipeline.p4"

control SwitchMLIngress(inout headers_t hdr, inout switchml_metadata_t meta, inout standard_metadata_t standard) {
    Loss() loss_in;
    SourceGuard() source_guard;
    Forwarder() forwarder;
    SwitchML() switchml;

    apply {
        bit<1> lost;
        bit<1> passes = 1;
        loss_in.apply(standard.ingress_port, lost);
        if (lost == 1) {
            passes = 0;
            mark_to_drop(standard);
        } else if (IS_SWITCHML) {
            switchml.apply(hdr, meta, standard, passes);
        }
        if (passes == 1) {
            source_guard.apply(hdr, standard, passes);
        }
        if (passes == 1) {
            forwarder.apply(hdr, standard);
        }
    }
}

control SwitchMLEgress(inout headers_t hdr, inout switchml_metadata_t meta, inout standard_metadata_t standard) {
    SwitchMLDeparture() switchml;
    Ecn() ecn;
    Loss() loss_out;

    apply {
        bit<1> lost;
        if (hdr.switchml.isValid() && meta.passes_by == 0) {
            switchml.apply(hdr, meta, standard);
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

V1Switch(SwitchMLParser(), SwitchMLVerify(), SwitchMLIngress(), SwitchMLEgress(), SwitchMLCompute(), SwitchMLDeparser()) main;
