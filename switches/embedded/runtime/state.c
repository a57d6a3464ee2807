// Registers and counters as the control plane reads and writes them, and numbers as it writes them.
#include "runtime.h"
#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <stdlib.h>

// full names match whole, or by any suffix that starts behind a dot: "Ingress.pool.seen" is also "seen"
bool name_matches(const char *full, const char *given) {
    size_t n = strlen(full), m = strlen(given);
    if (m > n || strcmp(full + n - m, given) != 0) return false;
    return m == n || full[n - m - 1] == '.';
}

bool parse_uint(const char *text, uint64_t most, uint64_t *value) {
    char *end;
    if (!isdigit((unsigned char)*text)) return false;
    errno = 0;
    *value = strtoull(text, &end, 0);
    return !errno && !*end && *value <= most;
}

static bool parse_bytes(const char *text, unsigned count, char separator, uint8_t *bytes) {
    for (unsigned i = 0; i < count; i++) {
        char *end;
        unsigned long v = strtoul(text, &end, 16);
        if (end == text || end - text > 2 || v > 255 || *end != (i + 1 < count ? separator : '\0')) return false;
        bytes[i] = (uint8_t)v;
        text = end + 1;
    }
    return true;
}

// decimal or 0x… of any width, aa:bb:cc:dd:ee:ff for 48 bits, an IPv4 address for 32, an IPv6 address for 128
bool parse_number(const char *text, unsigned width, uint8_t *bytes) {
    unsigned size = (width + 7) / 8;
    memset(bytes, 0, size);
    if (width == 32 && strchr(text, '.')) return inet_pton(AF_INET, text, bytes) == 1;
    if (width == 48 && strchr(text, ':')) return parse_bytes(text, 6, ':', bytes);
    if (width == 128 && strchr(text, ':')) return inet_pton(AF_INET6, text, bytes) == 1;
    unsigned base = 10;
    if (text[0] == '0' && (text[1] == 'x' || text[1] == 'X')) base = 16, text += 2;
    if (!*text) return false;
    for (; *text; text++) {
        unsigned digit = (unsigned)(isdigit((unsigned char)*text) ? *text - '0' : tolower((unsigned char)*text) - 'a' + 10);
        if (!isxdigit((unsigned char)*text) || digit >= base) return false;
        unsigned carry = digit;
        for (unsigned i = size; i-- > 0;) {
            unsigned v = bytes[i] * base + carry;
            bytes[i] = (uint8_t)v;
            carry = v >> 8;
        }
        if (carry) return false;
    }
    return width % 8 == 0 || bytes[0] >> width % 8 == 0;
}

static const struct register_array *find_register(const char *name, struct reply *reply) {
    const struct register_array *found = NULL;
    for (const struct register_array *r = program_registers; r->name; r++) {
        if (!strcmp(r->name, name)) return r;
        if (name_matches(r->name, name)) {
            if (found) return fail(reply, "%s is ambiguous: %s or %s", name, found->name, r->name), NULL;
            found = r;
        }
    }
    if (found) return found;
    fail(reply, "there is no register %s", name);
    for (unsigned i = 0; program_registers[i].name; i++) offer(reply, i, program_registers[i].name);
    return NULL;
}

static const struct counter_array *find_counter(const char *name, struct reply *reply) {
    const struct counter_array *found = NULL;
    for (const struct counter_array *c = program_counters; c->name; c++) {
        if (!strcmp(c->name, name)) return c;
        if (name_matches(c->name, name)) {
            if (found) return fail(reply, "%s is ambiguous: %s or %s", name, found->name, c->name), NULL;
            found = c;
        }
    }
    if (found) return found;
    fail(reply, "there is no counter %s", name);
    for (unsigned i = 0; program_counters[i].name; i++) offer(reply, i, program_counters[i].name);
    return NULL;
}

static bool parse_cell(const char *text, uint32_t size, uint64_t *cell) { return size && parse_uint(text, size - 1, cell); }

static uint64_t read_cell(const struct register_array *r, uint32_t i) {
    uint64_t v = 0;
    memcpy(&v, (char *)r->base + r->stride * i, r->bytes);  // little-endian machine
    return r->width < 64 ? v & ((UINT64_C(1) << r->width) - 1) : v;
}

static void write_cell(const struct register_array *r, uint32_t i, uint64_t v) {
    if (r->width < 64) v &= (UINT64_C(1) << r->width) - 1;
    if (r->is_signed && r->width < 64 && v >> (r->width - 1)) v |= ~UINT64_C(0) << r->width;
    memcpy((char *)r->base + r->stride * i, &v, r->bytes);
}

static void register_read(int argc, char **argv, struct reply *reply) {
    const struct register_array *r = find_register(argv[1], reply);
    uint64_t i;
    if (!r) return;
    if (argc == 2) {
        say(reply, "%s=", argv[1]);
        for (i = 0; i < r->size; i++) say(reply, "%s%llu", i ? ", " : " ", (unsigned long long)read_cell(r, (uint32_t)i));
        say(reply, "\n");
    } else if (!parse_cell(argv[2], r->size, &i)) {
        fail(reply, "%s is not a cell of %s, which has %u", argv[2], r->name, r->size);
    } else {
        say(reply, "%s[%s]= %llu\n", argv[1], argv[2], (unsigned long long)read_cell(r, (uint32_t)i));
    }
}

static void register_write(char **argv, struct reply *reply) {
    const struct register_array *r = find_register(argv[1], reply);
    uint64_t i, v;
    uint8_t bytes[8];
    if (!r) return;
    if (!parse_cell(argv[2], r->size, &i)) {
        fail(reply, "%s is not a cell of %s, which has %u", argv[2], r->name, r->size);
    } else if (argv[3][0] == '-' && parse_uint(argv[3] + 1, UINT64_C(1) << (r->width - 1), &v)) {
        write_cell(r, (uint32_t)i, -v);
    } else if (!parse_number(argv[3], r->width, bytes)) {
        fail(reply, "%s does not fit in the %u bits of %s", argv[3], r->width, r->name);
    } else {
        v = 0;
        for (unsigned b = 0; b < (r->width + 7) / 8; b++) v = v << 8 | bytes[b];
        write_cell(r, (uint32_t)i, v);
    }
}

static void counter_read(char **argv, struct reply *reply) {
    const struct counter_array *c = find_counter(argv[1], reply);
    uint64_t i;
    if (!c) return;
    if (!parse_cell(argv[2], c->size, &i)) return fail(reply, "%s is not a cell of %s, which has %u", argv[2], c->name, c->size);
    say(reply, "%s[%s]= BmCounterValue(packets=%llu, bytes=%llu)\n", argv[1], argv[2],
        (unsigned long long)c->cells[i].packets, (unsigned long long)c->cells[i].bytes);
}

void state_reset(void) {
    for (const struct register_array *r = program_registers; r->name; r++)
        for (uint32_t i = 0; i < r->size; i++) write_cell(r, i, 0);
    for (const struct counter_array *c = program_counters; c->name; c++) memset(c->cells, 0, sizeof *c->cells * c->size);
}

bool state_command(int argc, char **argv, struct reply *reply) {
    const char *name = argv[0];
    if (!strcmp(name, "register_read") && (argc == 2 || argc == 3)) {
        register_read(argc, argv, reply);
    } else if (!strcmp(name, "register_write") && argc == 4) {
        register_write(argv, reply);
    } else if (!strcmp(name, "register_reset") && argc == 2) {
        const struct register_array *r = find_register(argv[1], reply);
        for (uint32_t i = 0; r && i < r->size; i++) write_cell(r, i, 0);
    } else if (!strcmp(name, "counter_read") && argc == 3) {
        counter_read(argv, reply);
    } else if (!strcmp(name, "counter_reset") && argc == 2) {
        const struct counter_array *c = find_counter(argv[1], reply);
        if (c) memset(c->cells, 0, sizeof *c->cells * c->size);
    } else {
        return false;
    }
    return true;
}
