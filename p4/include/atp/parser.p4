// Ethernet / IPv4 / UDP / ATP / vector. Whatever else comes is forwarded as far as it was understood.
#ifndef PARSER_P4
#define PARSER_P4
#include "headers.p4"
#include "metadata.p4"

parser AtpParser(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
#define UDP_PORT_PROTOCOL UDP_PORT_ATP
#include "../udp_states.p4"

    state parse_protocol {
        packet.extract(hdr.atp);
        transition select(hdr.atp.kind, hdr.udp.length) {
            (kind_t.GRADIENT, BYTES_UDP + BYTES_BARE): parse_bare;
            (kind_t.RESULT, BYTES_UDP + BYTES_BARE): parse_bare;
            (kind_t.GRADIENT, _): parse_vector;
            (kind_t.RAW, _): parse_vector;
            (kind_t.RESULT, _): parse_vector;
            default: accept;
        }
    }

    state parse_bare {
        packet.extract(hdr.tag);
        packet.extract(hdr.largest);
        transition accept;
    }

    state parse_vector {
        packet.extract(hdr.vector);
        transition accept;
    }
}

control AtpDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.ethernet);
        packet.emit(hdr.arp);
        packet.emit(hdr.ipv4);
        packet.emit(hdr.options);
        packet.emit(hdr.udp);
        packet.emit(hdr.atp);
        packet.emit(hdr.tag);
        packet.emit(hdr.largest);
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
