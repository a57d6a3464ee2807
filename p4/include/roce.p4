// RoCEv2: what follows a UDP header of port 4791 (InfiniBand Architecture Specification 1.4, chapter 9, and annex A17).
#ifndef ROCE_P4
#define ROCE_P4
#include "network.p4"

#define UDP_PORT_ROCE 4791

typedef bit<24> queue_pair_t;
typedef bit<24> psn_t;      // packet sequence number
typedef bit<64> address_t;
typedef bit<32> key_t;

// The operations of an unreliable connection that are used here
enum bit<8> opcode_t {
    UC_WRITE_FIRST = 0x26,
    UC_WRITE_MIDDLE = 0x27,
    UC_WRITE_LAST_IMMEDIATE = 0x29,
    UC_WRITE_ONLY_IMMEDIATE = 0x2b
}

// base transport header
header bth_t {
    opcode_t opcode;
    bit<1> solicited;
    bit<1> migration;
    bit<2> pad;          // bytes behind the payload
    bit<4> version;      // of the header: 0
    bit<16> partition;
    bit<8> reserved;     // and congestion's marks, which switches on the way may set: the ICRC leaves this byte out
    queue_pair_t queue_pair;  // at the destination
    bit<1> acknowledge;
    bit<7> reserved_too;
    psn_t psn;
}

// RDMA extended transport header, of a message's first packet
header reth_t {
    address_t address;
    key_t key;
    bit<32> length;      // of the message
}

// invariant cyclic redundancy check, behind the payload
header icrc_t {
    bit<32> value;
}

const bit<16> BYTES_BTH = 12;
const bit<16> BYTES_RETH = 16;
const bit<16> BYTES_IMMEDIATE = 4;
const bit<16> BYTES_ICRC = 4;
const bit<16> DEFAULT_PARTITION = 0xffff;

#endif
