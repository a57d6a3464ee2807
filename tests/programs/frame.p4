// What the small programs of the tests share: an Ethernet header, a probe header, and a package around their ingress.
// A program defines PROBE_FIELDS, and controls Work and (unless NO_EGRESS) After; EXTRA_HEADERS and EXTRA_STATES extend the parser.
#include <core.p4>
#include <v1model.p4>

header ethernet_t { bit<48> dst; bit<48> src; bit<16> kind; }
header probe_t { PROBE_FIELDS }
#ifndef METADATA_FIELDS
#define METADATA_FIELDS bit<8> unused;
#endif
struct metadata_t { METADATA_FIELDS }
#ifndef EXTRA_HEADERS
#define EXTRA_HEADERS
#endif
#ifndef EXTRA_TYPES
#define EXTRA_TYPES
#endif
EXTRA_TYPES
struct headers_t { ethernet_t ethernet; probe_t probe; EXTRA_HEADERS }

#ifndef OWN_PARSER
parser Parse(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    state start {
        packet.extract(hdr.ethernet);
        packet.extract(hdr.probe);
        transition accept;
    }
}
#endif
#ifndef OWN_CHECKSUMS
control Verify(inout headers_t hdr, inout metadata_t meta) { apply {} }
control Compute(inout headers_t hdr, inout metadata_t meta) { apply {} }
#endif
control Deparse(packet_out packet, in headers_t hdr) { apply { packet.emit(hdr); } }
#define PACKAGE V1Switch(Parse(), Verify(), Work(), After(), Compute(), Deparse()) main;
#define NO_EGRESS control After(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) { apply {} }
