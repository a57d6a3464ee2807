// All headers of a packet, where SwitchML is alone in the program.
#ifndef PACKET_P4
#define PACKET_P4
#include "headers.p4"

struct headers_t {
    ethernet_t ethernet;
    arp_t arp;
    ipv4_t ipv4;
    ipv4_options_t options;
    udp_t udp;
    bth_t bth;
    reth_t reth;
    immediate_t immediate;
    switchml_t switchml;
    status_t status;
    tag_t tag;
    vector_t vector;
    part_t part;
    connect_t connect;
    icrc_t icrc;
}

#endif
