/* RoCEv2 as bytes: what a UDP datagram of port 4791 has (InfiniBand Architecture Specification 1.4, chapter 9). Numbers are
   big-endian. */
#pragma once

#include <stdint.h>

enum roce_opcode {
    UC_WRITE_FIRST = 0x26,
    UC_WRITE_MIDDLE = 0x27,
    UC_WRITE_LAST_IMMEDIATE = 0x29,
    UC_WRITE_ONLY_IMMEDIATE = 0x2b,
};

typedef struct {
    uint8_t opcode;
    uint8_t flags; /* solicited event, migration, two bits of pad count, four of the header's version */
    uint16_t partition;
    uint32_t queue_pair; /* at the destination, behind a byte that is reserved */
    uint32_t psn;        /* packet sequence number, behind a byte whose first bit asks for an acknowledgment */
} RoceBth;

typedef struct {
    uint64_t address;
    uint32_t key, length; /* of the message, in bytes */
} RoceReth;
