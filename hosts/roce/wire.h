/* RoCEv2 as bytes: what a UDP datagram of port 4791 has (InfiniBand Architecture Specification 1.4, chapter 9). Numbers are
   big-endian. */
#pragma once

#include <stdint.h>

enum roce_port { ROCE_PORT = 4791 };
enum roce_identification { OWN_IDENTIFICATION = 0 }; /* of the IPv4 packets that these ends send; others may send any */

enum roce_opcode {
    RC_SEND_FIRST = 0x00,
    RC_SEND_MIDDLE,
    RC_SEND_LAST,
    RC_SEND_LAST_IMMEDIATE,
    RC_SEND_ONLY,
    RC_SEND_ONLY_IMMEDIATE,
    RC_WRITE_FIRST,
    RC_WRITE_MIDDLE,
    RC_WRITE_LAST,
    RC_WRITE_LAST_IMMEDIATE,
    RC_WRITE_ONLY,
    RC_WRITE_ONLY_IMMEDIATE,
    RC_ACKNOWLEDGE = 0x11,
    UC_WRITE_FIRST = 0x26,
    UC_WRITE_MIDDLE = 0x27,
    UC_WRITE_LAST_IMMEDIATE = 0x29,
    UC_WRITE_ONLY_IMMEDIATE = 0x2b,
    CONGESTION_NOTIFICATION = 0x81, /* annex A17.9.3 */
};

/* The first byte of an acknowledgment's word (tables 46 to 48); messages that have come whole are in the three others. */
enum roce_syndrome {
    POSITIVE = 0x1f, /* without credits */
    NOT_READY = 0x20, /* and a code of the time to wait */
    NEGATIVE_SEQUENCE = 0x60,
    NEGATIVE_REQUEST,
    NEGATIVE_ACCESS,
    NEGATIVE_OPERATION,
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
