// All headers of a packet, where ATP is alone in the program.
#ifndef PACKET_P4
#define PACKET_P4
#include "headers.p4"

struct headers_t {
    ethernet_t ethernet;
    arp_t arp;
    ipv4_t ipv4;
    ipv4_options_t options;
    udp_t udp;
    atp_t atp;
    tag_t tag;
    largest_t largest;
    vector_t vector;
}

#endif
