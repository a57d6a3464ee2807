/* The invariant CRC of a RoCEv2 packet (InfiniBand Architecture Specification, annex A17.3.3): Ethernet's CRC-32 over eight bytes of
   ones, and everything from the IPv4 header on, where whatever may change on the way counts as ones. */
#include "../stream/inside.h"
#include "core.h"
#include "wire.h"

#define SLICES 8 /* bytes at a time, with a table each (Kounavis and Berry, "Novel table lookup-based algorithms", 2008) */
#define POLYNOMIAL 0xedb88320u /* of Ethernet, reflected */
#define VERSION_AND_LENGTH 0x45 /* of IPv4: 20 bytes */
#define DONT_FRAGMENT 0x4000
#define UDP 17

static uint32_t tables[SLICES][256];

__attribute__((constructor)) static void fill_tables(void) {
    for (uint32_t i = 0; i < 256; i++) {
        uint32_t crc = i;
        for (int bit = 0; bit < 8; bit++)
            crc = crc & 1 ? crc >> 1 ^ POLYNOMIAL : crc >> 1;
        tables[0][i] = crc;
    }
    for (uint32_t i = 0; i < 256; i++)
        for (int slice = 1; slice < SLICES; slice++)
            tables[slice][i] = tables[slice - 1][i] >> 8 ^ tables[0][tables[slice - 1][i] & 0xff];
}

static uint32_t crc32_of(uint32_t crc, const uint8_t *data, int64_t length) {
    for (; length >= SLICES; length -= SLICES, data += SLICES) {
        uint64_t word;
        memcpy(&word, data, sizeof word);
        word ^= crc;
        crc = 0;
        for (int slice = 0; slice < SLICES; slice++)
            crc ^= tables[SLICES - 1 - slice][word >> 8 * slice & 0xff];
    }
    for (; length; length--)
        crc = crc >> 8 ^ tables[0][(crc ^ *data++) & 0xff];
    return crc;
}

/* Of a datagram's payload without its last four bytes, which are for the result. IP's header has no options and forbids fragments.
   Its identification counts. Addresses are in the network's byte order. */
uint32_t roce_icrc(
    uint32_t source, uint32_t destination, uint16_t identification, uint16_t source_port, uint16_t port, const uint8_t *packet,
    int32_t length) {
    struct __attribute__((packed)) {
        uint8_t ones[8], version, tos;
        uint16_t length, identification, fragment;
        uint8_t ttl, protocol;
        uint16_t checksum;
        uint32_t source, destination;
        uint16_t source_port, port, bytes, udp_checksum;
        uint8_t bth[sizeof(RoceBth)];
    } start;
    memset(&start, 0xff, sizeof start);
    start.version = VERSION_AND_LENGTH;
    start.length = big_short(20 + 8 + length);
    start.identification = big_short(identification);
    start.fragment = big_short(DONT_FRAGMENT);
    start.protocol = UDP;
    start.source = source;
    start.destination = destination;
    start.source_port = big_short(source_port);
    start.port = big_short(port);
    start.bytes = big_short(8 + length);
    memcpy(start.bth, packet, sizeof start.bth);
    start.bth[offsetof(RoceBth, queue_pair)] = 0xff; /* the reserved byte */
    uint32_t crc = crc32_of(0xffffffff, (const uint8_t *)&start, sizeof start);
    return ~crc32_of(crc, packet + sizeof(RoceBth), length - (int32_t)sizeof(RoceBth) - ROCE_ICRC_BYTES);
}
