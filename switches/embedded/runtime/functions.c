// v1model's extern functions: hashes as BMv2's calculations.cpp computes them, random numbers, log and assert.
#include "runtime.h"
#include <stdarg.h>

static uint32_t crc32_table[8][256];  // one for each of eight bytes at a time
static uint16_t crc16_table[256];
static uint64_t random_state;

void functions_init(uint64_t seed) {
    for (uint32_t i = 0; i < 256; i++) {
        uint32_t c32 = i;
        uint16_t c16 = (uint16_t)i;
        for (int bit = 0; bit < 8; bit++) {
            c32 = c32 & 1 ? c32 >> 1 ^ 0xedb88320u : c32 >> 1;
            c16 = (uint16_t)(c16 & 1 ? c16 >> 1 ^ 0xa001u : c16 >> 1);
        }
        crc32_table[0][i] = c32;
        crc16_table[i] = c16;
    }
    for (uint32_t i = 0; i < 256; i++)
        for (int byte = 1; byte < 8; byte++)
            crc32_table[byte][i] = crc32_table[byte - 1][i] >> 8 ^ crc32_table[0][crc32_table[byte - 1][i] & 0xff];
    random_state = seed;
}

uint64_t hash_crc32(const uint8_t *data, size_t length) {
    uint32_t crc = 0xffffffffu;
    size_t i = 0;
    for (; i + 8 <= length; i += 8) {
        uint32_t low = crc ^ (data[i] | data[i + 1] << 8 | data[i + 2] << 16 | (uint32_t)data[i + 3] << 24);
        crc = crc32_table[7][low & 0xff] ^ crc32_table[6][low >> 8 & 0xff] ^ crc32_table[5][low >> 16 & 0xff] ^ crc32_table[4][low >> 24];
        for (int byte = 4; byte < 8; byte++) crc ^= crc32_table[7 - byte][data[i + byte]];
    }
    for (; i < length; i++) crc = crc >> 8 ^ crc32_table[0][(crc ^ data[i]) & 0xff];
    return crc ^ 0xffffffffu;
}

// CRC-16/ARC
uint64_t hash_crc16(const uint8_t *data, size_t length) {
    uint16_t crc = 0;
    for (size_t i = 0; i < length; i++) crc = (uint16_t)(crc >> 8 ^ crc16_table[(crc ^ data[i]) & 0xff]);
    return crc;
}

// RFC 1071
uint64_t hash_csum16(const uint8_t *data, size_t length) {
    uint64_t sum = 0;
    for (size_t i = 0; i + 1 < length; i += 2) sum += load16(data + i);
    if (length % 2) sum += (uint64_t)data[length - 1] << 8;
    while (sum >> 16) sum = (sum & 0xffff) + (sum >> 16);
    return (uint16_t)~sum;
}

uint64_t hash_xor16(const uint8_t *data, size_t length) {
    uint64_t x = 0;
    for (size_t i = 0; i + 1 < length; i += 2) x ^= load16(data + i);
    if (length % 2) x ^= (uint64_t)data[length - 1] << 8;
    return x;
}

uint64_t hash_identity(const uint8_t *data, size_t length) {
    uint64_t value = 0;
    for (size_t i = 0; i < length && i < 8; i++) value = value << 8 | data[i];
    return value;
}

// splitmix64: seeded, and good enough to draw from
static uint64_t random_next(void) {
    uint64_t z = random_state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

uint64_t random_between(uint64_t low, uint64_t high) {
    if (low > high) return low;
    uint64_t span = high - low + 1;
    return span ? low + (uint64_t)((unsigned __int128)random_next() * span >> 64) : random_next();
}

int64_t random_between_signed(int64_t low, int64_t high) {
    return low > high ? low : (int64_t)((uint64_t)low + random_between(0, (uint64_t)high - (uint64_t)low));
}

void assertion_failed(const char *where) { fprintf(stderr, "assertion failed at %s\n", where); }

void log_message(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fputc('\n', stderr);
}
