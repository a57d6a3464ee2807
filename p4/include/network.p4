// Ethernet, IPv4 and UDP, below every protocol of the hosts.
#ifndef NETWORK_P4
#define NETWORK_P4

typedef bit<48> mac_t;
typedef bit<32> ip4_t;
typedef bit<16> udp_port_t;

const bit<16> ETHERTYPE_IPV4 = 0x0800;
const bit<16> ETHERTYPE_ARP = 0x0806;
const bit<16> ETHERTYPE_VLAN = 0x8100;              // IEEE 802.1Q
const bit<16> ETHERTYPE_SERVICE_VLAN = 0x88a8;      // IEEE 802.1ad
const bit<16> ETHERTYPE_OLD_SERVICE_VLAN = 0x9100;  // what came before it
const bit<8> PROTOCOL_UDP = 17;

header ethernet_t {
    mac_t dst;
    mac_t src;
    bit<16> ethertype;
}

// RFC 826, for Ethernet and IPv4
header arp_t {
    bit<16> hardware;
    bit<16> protocol;
    bit<8> hardware_length;
    bit<8> protocol_length;
    bit<16> operation;
    mac_t sender_mac;
    ip4_t sender_ip;
    mac_t target_mac;
    ip4_t target_ip;
}

header ipv4_t {
    bit<4> version;
    bit<4> ihl;
    bit<8> tos;
    bit<16> length;
    bit<16> identification;
    bit<3> flags;
    bit<13> fragment;
    bit<8> ttl;
    bit<8> protocol;
    bit<16> checksum;
    ip4_t src;
    ip4_t dst;
}

header ipv4_options_t {
    varbit<320> bytes;
}

header udp_t {
    udp_port_t src;
    udp_port_t dst;
    bit<16> length;
    bit<16> checksum;
}

const bit<16> BYTES_ETHERNET = 14;
const bit<16> BYTES_IPV4 = 20;
const bit<16> BYTES_UDP = 8;

#define IPV4_CHECKED { hdr.ipv4.version, hdr.ipv4.ihl, hdr.ipv4.tos, hdr.ipv4.length, hdr.ipv4.identification, \
                       hdr.ipv4.flags, hdr.ipv4.fragment, hdr.ipv4.ttl, hdr.ipv4.protocol, hdr.ipv4.src, hdr.ipv4.dst }

// Whether a parsed datagram is whole: lengths agree with each other and with what arrived (Ethernet may pad).
#define IS_WHOLE (standard.parser_error == error.NoError && standard.checksum_error == 0 \
                  && hdr.ipv4.length == hdr.udp.length + BYTES_IPV4 \
                  && standard.packet_length >= (bit<32>)hdr.ipv4.length + (bit<32>)BYTES_ETHERNET)

#endif
