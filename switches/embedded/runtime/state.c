// Registers and counters as the control plane reads and writes them.
#include "runtime.h"

static const char *register_name(unsigned i) { return program_registers[i].name; }
const char *counter_name(unsigned i) { return program_counters[i].name; }

static const struct register_array *find_register(const char *name, struct reply *reply) {
    int i = find_name("register", name, register_name, NULL, reply);
    return i < 0 ? NULL : &program_registers[i];
}

static const struct counter_array *find_counter(const char *name, struct reply *reply) {
    int i = find_name("counter", name, counter_name, direct_counter_name, reply);
    return i < 0 ? NULL : &program_counters[i];
}

// a cell as a number of (width + 7) / 8 bytes, the first the highest
static void read_cell(const struct register_array *r, uint32_t i, uint8_t *bytes) {
    const uint8_t *cell = (const uint8_t *)r->base + r->stride * i;
    unsigned size = (r->width + 7) / 8;
    for (unsigned b = 0; b < size; b++) bytes[b] = r->width > 64 ? cell[b] : cell[size - 1 - b];  // little-endian machine
    if (r->width % 8) bytes[0] &= (uint8_t)((1u << r->width % 8) - 1);
}

static void write_cell(const struct register_array *r, uint32_t i, const uint8_t *bytes) {
    uint8_t *cell = (uint8_t *)r->base + r->stride * i;
    unsigned size = (r->width + 7) / 8, top = (r->width - 1) % 8;
    if (r->width > 64) {
        memcpy(cell, bytes, size);
        return;
    }
    bool negative = r->is_signed && bytes[0] >> top & 1;
    memset(cell, negative ? 0xff : 0, r->bytes);
    for (unsigned b = 0; b < size; b++) cell[b] = bytes[size - 1 - b];
    if (negative) cell[size - 1] |= (uint8_t)(0xffu << top);
}

static void say_cell(const struct register_array *r, uint32_t i, struct reply *reply) {
    uint8_t bytes[MAX_NUMBER];
    read_cell(r, i, bytes);
    say_number(reply, bytes, (r->width + 7) / 8);
}

// -1 … for as many bits as a register has; false if it does not fit
static bool parse_negative(const char *text, unsigned width, uint8_t *bytes) {
    if (*text != '-' || !parse_number(text + 1, width, bytes)) return false;
    unsigned size = (width + 7) / 8, carry = 1;
    for (unsigned b = size; b-- > 0;) {
        unsigned v = (uint8_t)~bytes[b] + carry;
        bytes[b] = (uint8_t)v;
        carry = v >> 8;
    }
    bool fits = carry || bytes[0] >> (width - 1) % 8 & 1;  // zero, or at least minus half the range
    if (width % 8) bytes[0] &= (uint8_t)((1u << width % 8) - 1);
    return fits;
}

static void register_read(int argc, char **argv, struct reply *reply) {
    const struct register_array *r = find_register(argv[1], reply);
    uint64_t cell;
    if (!r) return;
    if (argc == 2) {
        say(reply, "%s=", argv[1]);
        for (uint32_t i = 0; i < r->size; i++) say(reply, i ? ", " : " "), say_cell(r, i, reply);
    } else if (!parse_cell(argv[2], r->size, &cell)) {
        return fail(reply, "%s is not a cell of %s, which has %u", argv[2], r->name, r->size);
    } else {
        say(reply, "%s[%s]= ", argv[1], argv[2]);
        say_cell(r, (uint32_t)cell, reply);
    }
    say(reply, "\n");
}

static void write_cells(const struct register_array *r, uint64_t first, uint64_t end, const char *value, struct reply *reply) {
    uint8_t bytes[MAX_NUMBER];
    if (!parse_negative(value, r->width, bytes) && !parse_number(value, r->width, bytes))
        return fail(reply, "%s does not fit in the %u bits of %s", value, r->width, r->name);
    for (uint64_t cell = first; cell < end; cell++) write_cell(r, (uint32_t)cell, bytes);
}

static void register_write(int argc, char **argv, struct reply *reply) {
    (void)argc;
    const struct register_array *r = find_register(argv[1], reply);
    uint64_t cell;
    if (!r) return;
    if (!parse_cell(argv[2], r->size, &cell)) return fail(reply, "%s is not a cell of %s, which has %u", argv[2], r->name, r->size);
    write_cells(r, cell, cell + 1, argv[3], reply);
}

static void register_write_range(int argc, char **argv, struct reply *reply) {
    (void)argc;
    const struct register_array *r = find_register(argv[1], reply);
    uint64_t first, end;
    if (!r) return;
    if (!parse_uint(argv[3], r->size, &end) || !parse_uint(argv[2], end, &first))
        return fail(reply, "%s to %s is not a range of cells of %s, which has %u", argv[2], argv[3], r->name, r->size);
    write_cells(r, first, end, argv[4], reply);
}

static void clear(const struct register_array *r) {
    static const uint8_t zero[MAX_NUMBER];
    for (uint32_t i = 0; i < r->size; i++) write_cell(r, i, zero);
}

static void register_reset(int argc, char **argv, struct reply *reply) {
    (void)argc;
    const struct register_array *r = find_register(argv[1], reply);
    if (r) clear(r);
}

static void say_count(struct reply *reply, char **argv, const struct count *count) {
    say(reply, "%s[%s]= BmCounterValue(packets=%llu, bytes=%llu)\n", argv[1], argv[2], (unsigned long long)count->packets,
        (unsigned long long)count->bytes);
}

static void counter_read(int argc, char **argv, struct reply *reply) {
    (void)argc;
    struct count *direct = NULL;
    if (direct_counter(argv, &direct, reply)) {
        if (direct) say_count(reply, argv, direct);
        return;
    }
    const struct counter_array *c = find_counter(argv[1], reply);
    uint64_t i;
    if (!c) return;
    if (!parse_cell(argv[2], c->size, &i)) return fail(reply, "%s is not a cell of %s, which has %u", argv[2], c->name, c->size);
    say_count(reply, argv, &c->cells[i]);
}

static void counter_write(int argc, char **argv, struct reply *reply) {
    (void)argc;
    struct count written, *cell = NULL;
    if (!direct_counter(argv, &cell, reply)) {
        const struct counter_array *c = find_counter(argv[1], reply);
        uint64_t i;
        if (!c) return;
        if (!parse_cell(argv[2], c->size, &i)) return fail(reply, "%s is not a cell of %s, which has %u", argv[2], c->name, c->size);
        cell = &c->cells[i];
    }
    if (!cell) return;
    if (!parse_uint(argv[3], UINT64_MAX, &written.packets)) return fail(reply, "%s is not a number of packets", argv[3]);
    if (!parse_uint(argv[4], UINT64_MAX, &written.bytes)) return fail(reply, "%s is not a number of bytes", argv[4]);
    *cell = written;
}

static void counter_reset(int argc, char **argv, struct reply *reply) {
    (void)argc;
    if (direct_counter_reset(argv)) return;
    const struct counter_array *c = find_counter(argv[1], reply);
    if (c) memset(c->cells, 0, sizeof *c->cells * c->size);
}

void state_reset(void) {
    for (const struct register_array *r = program_registers; r->name; r++)
        clear(r);
    for (const struct counter_array *c = program_counters; c->name; c++) memset(c->cells, 0, sizeof *c->cells * c->size);
}

// kind, name, whose entries have it, and in brackets what more there is to know
static void show_resources(int argc, char **argv, struct reply *reply) {
    (void)argc, (void)argv;
    for (struct table *const *t = program_tables; *t; t++) say(reply, "table %s [%u entries%s]\n", (*t)->name, (*t)->size, (*t)->ages ? ", age" : "");
    for (const struct register_array *r = program_registers; r->name; r++) say(reply, "register %s [%u bits, %u cells]\n", r->name, r->width, r->size);
    for (const struct counter_array *c = program_counters; c->name; c++) say(reply, "counter %s [%u cells]\n", c->name, c->size);
    for (struct table *const *t = program_tables; *t; t++)
        if ((*t)->counter_name) say(reply, "counter %s of %s\n", (*t)->counter_name, (*t)->name);
    for (const struct meter_array *m = program_meters; m->name; m++) say(reply, "meter %s [%u cells, %s]\n", m->name, m->size, m->bytes ? "bytes" : "packets");
    for (struct table *const *t = program_tables; *t; t++)
        if ((*t)->meter_name) say(reply, "meter %s of %s [%s]\n", (*t)->meter_name, (*t)->name, (*t)->meter_bytes ? "bytes" : "packets");
    for (struct action_profile *const *p = program_action_profiles; *p; p++) say(reply, "action_profile %s%s\n", (*p)->name, (*p)->selects ? " [groups]" : "");
    for (struct value_set *const *set = program_value_sets; *set; set++) say(reply, "value_set %s [%u bits]\n", (*set)->name, (*set)->width);
    for (struct crc *const *hash = program_crcs; *hash; hash++) say(reply, "hash %s [%u bits]\n", (*hash)->name, (*hash)->width);
    for (const struct digest_list *d = program_digests; d->name; d++) say(reply, "digest %s [%s]\n", d->name, d->fields);
}

const struct command state_commands[] = {
    {"show_resources", 1, 1, show_resources, ""},
    {"register_read", 2, 3, register_read, "REGISTER [CELL]"},
    {"register_write", 4, 4, register_write, "REGISTER CELL VALUE"},
    {"register_write_range", 5, 5, register_write_range, "REGISTER FIRST END VALUE"},
    {"register_reset", 2, 2, register_reset, "REGISTER"},
    {"counter_read", 3, 3, counter_read, "COUNTER CELL"},
    {"counter_write", 5, 5, counter_write, "COUNTER CELL PACKETS BYTES"},
    {"counter_reset", 2, 2, counter_reset, "COUNTER"},
    {0},
};
