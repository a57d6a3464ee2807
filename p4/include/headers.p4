// What is on the wire. hosts/wire.py describes the same bytes to the workers; a test holds the two together.
#ifndef HEADERS_P4
#define HEADERS_P4
#include "configuration.p4"
#include "lanes.p4"

typedef bit<48> mac_t;
typedef bit<32> ip4_t;

const bit<16> ETHERTYPE_IPV4 = 0x0800;
const bit<8> PROTOCOL_UDP = 17;

header ethernet_t {
    mac_t dst;
    mac_t src;
    bit<16> ethertype;
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

header udp_t {
    bit<16> src;
    bit<16> dst;
    bit<16> length;
    bit<16> checksum;
}

// What a SwitchML packet is
const bit<8> KIND_UPDATE = 1;  // worker to switch: add this vector
const bit<8> KIND_RESULT = 2;  // switch to worker: the sum over all workers
const bit<8> KIND_QUERY = 3;   // worker to switch: whom has this slot not seen?
const bit<8> KIND_STATUS = 4;  // switch to worker: the bitmap of whom it has

header switchml_t {
    bit<8> job;
    bit<8> worker;
    bit<8> kind;
    bit<8> version;     // which of a slot's two sets
    bit<16> slot;
    bit<8> exponent;    // block exponent of the chunk that this slot carries next
    bit<8> mark;        // update: 1 if it is sent again; result: that of the update that completed it;
                        // status: level of the switch that answers, 0 next to the workers
    chunk_t chunk;
    bitmap_t seen;      // in a status: workers (above level 0: racks) that are in
}

#define LANE(j) bit<32> v##j;
header vector_t {
    LANES(LANE)
}
#undef LANE

const bit<16> BYTES_UDP = 8;
const bit<16> BYTES_SWITCHML = 16;
const bit<16> BYTES_VECTOR = 4 * K;
const bit<16> BYTES_IPV4 = 20;

struct headers_t {
    ethernet_t ethernet;
    ipv4_t ipv4;
    udp_t udp;
    switchml_t switchml;
    vector_t vector;
}

#endif
