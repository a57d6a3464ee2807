// Two ports joined: what comes in at 0 leaves at 1, and the other way round. Frames to 02:00:00:00:00:c1 are cloned, too.
#define PROBE_FIELDS bit<8> unused;
#define OWN_PARSER
#include "frame.p4"
parser Parse(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    state start {
        packet.extract(hdr.ethernet);
        transition accept;
    }
}
NO_EGRESS
control Work(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    apply {
        standard.egress_spec = standard.ingress_port ^ 1;
        if (hdr.ethernet.dst == 0x0200000000c1) { clone(CloneType.I2E, 100); }
    }
}
PACKAGE
