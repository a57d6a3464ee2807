// Ethernet / IPv4 / UDP / ATP / vector. Whatever else comes is forwarded as far as it was understood.
#ifndef PARSER_P4
#define PARSER_P4
#include "headers.p4"
#include "metadata.p4"

parser AtpParser(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    state start {
        packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.ethertype) {
            ETHERTYPE_IPV4: parse_ipv4;
            default: accept;
        }
    }

    state parse_ipv4 {
        packet.extract(hdr.ipv4);
        // no options, no fragment
        transition select(hdr.ipv4.version, hdr.ipv4.ihl, hdr.ipv4.flags, hdr.ipv4.fragment, hdr.ipv4.protocol) {
            (4, 5, 0 &&& 1, 0, PROTOCOL_UDP): parse_udp;
            default: accept;
        }
    }

    state parse_udp {
        packet.extract(hdr.udp);
        transition select(hdr.udp.dst) {
            UDP_PORT_ATP: parse_atp;
            default: accept;
        }
    }

    state parse_atp {
        packet.extract(hdr.atp);
        transition select(hdr.atp.kind) {
            KIND_GRADIENT: parse_vector;
            KIND_RAW: parse_vector;
            KIND_RESULT: parse_vector;
            default: accept;
        }
    }

    state parse_vector {
        packet.extract(hdr.vector);
        transition accept;
    }
}

control AtpDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.ethernet);
        packet.emit(hdr.ipv4);
        packet.emit(hdr.udp);
        packet.emit(hdr.atp);
        packet.emit(hdr.vector);
    }
}

// Only ATP's packets are checked and rewritten: other ones keep the bytes they came with.
control AtpVerify(inout headers_t hdr, inout metadata_t meta) {
    apply {
        verify_checksum(hdr.atp.isValid(), IPV4_CHECKED, hdr.ipv4.checksum, HashAlgorithm.csum16);
    }
}

control AtpCompute(inout headers_t hdr, inout metadata_t meta) {
    apply {
        update_checksum(hdr.atp.isValid(), IPV4_CHECKED, hdr.ipv4.checksum, HashAlgorithm.csum16);
    }
}

#endif
