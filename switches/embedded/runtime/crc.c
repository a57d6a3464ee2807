// Hashes whose parameters commands set: crc16_custom and crc32_custom, as BMv2's calculations.cpp computes them.
#include "runtime.h"
#include <stdlib.h>

static uint32_t reflected(uint32_t v, unsigned width) {
    uint32_t r = 0;
    for (unsigned i = 0; i < width; i++, v >>= 1) r = r << 1 | (v & 1);
    return r;
}

static uint32_t ones(const struct crc *crc) { return UINT32_MAX >> (32 - crc->width); }

static void fill_table(struct crc *crc) {
    uint32_t top = UINT32_C(1) << (crc->width - 1), all = ones(crc);
    for (uint32_t i = 0; i < 256; i++) {
        uint32_t remainder = i << (crc->width - 8);
        for (int bit = 0; bit < 8; bit++) remainder = (remainder & top ? remainder << 1 ^ crc->polynomial : remainder << 1) & all;
        crc->table[i] = remainder;
    }
    crc->ready = true;
}

uint64_t hash_custom(struct crc *crc, const uint8_t *data, size_t length) {
    uint32_t remainder = crc->initial, all = ones(crc);
    if (!crc->ready) fill_table(crc);
    for (size_t i = 0; i < length; i++) {
        uint32_t byte = crc->reflect_data ? reflected(data[i], 8) : data[i];
        remainder = (crc->table[byte ^ remainder >> (crc->width - 8)] ^ remainder << 8) & all;
    }
    return (crc->reflect_remainder ? reflected(remainder, crc->width) : remainder) ^ crc->final;
}

// --- commands

static const char *crc_name(unsigned i) { return program_crcs[i] ? program_crcs[i]->name : NULL; }

static bool parse_hex(const char *text, unsigned width, uint32_t *value) {
    char *end;
    unsigned long long v = strtoull(text, &end, 16);  // as runtime_CLI: with or without 0x
    if (*text == '-' || end == text || *end || v >> width) return false;
    *value = (uint32_t)v;
    return true;
}

static bool parse_bool(const char *text, bool *value) {
    *value = !strcmp(text, "True") || !strcmp(text, "true") || !strcmp(text, "1");
    return *value || !strcmp(text, "False") || !strcmp(text, "false") || !strcmp(text, "0");
}

static void set_parameters(unsigned width, char **argv, struct reply *reply) {
    int i = find_name("custom hash", argv[1], crc_name, NULL, reply);
    if (i < 0) return;
    struct crc *crc = program_crcs[i];
    if (crc->width != width) return fail(reply, "%s is a crc%u_custom", crc->name, crc->width);
    uint32_t *numbers[] = {&crc->polynomial, &crc->initial, &crc->final};
    bool *flags[] = {&crc->reflect_data, &crc->reflect_remainder};
    struct crc before = *crc;
    for (unsigned n = 0; n < 5 && !reply->failed; n++)
        if (n < 3 ? !parse_hex(argv[2 + n], width, numbers[n]) : !parse_bool(argv[2 + n], flags[n - 3]))
            fail(reply, n < 3 ? "%s is not a hexadecimal number of %u bits" : "%s is neither true nor false", argv[2 + n], width);
    if (reply->failed) *crc = before;
    else fill_table(crc);
}

static void set_crc16(int argc, char **argv, struct reply *reply) { (void)argc, set_parameters(16, argv, reply); }
static void set_crc32(int argc, char **argv, struct reply *reply) { (void)argc, set_parameters(32, argv, reply); }

const struct command crc_commands[] = {
    {"set_crc16_parameters", 7, 7, set_crc16, "HASH POLYNOMIAL INITIAL FINAL_XOR REFLECT_DATA REFLECT_REMAINDER"},
    {"set_crc32_parameters", 7, 7, set_crc32, "HASH POLYNOMIAL INITIAL FINAL_XOR REFLECT_DATA REFLECT_REMAINDER"},
    {0},
};
