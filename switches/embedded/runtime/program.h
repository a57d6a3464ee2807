// What a compiled P4 program and the runtime know of each other, and the small pieces that generated code is made of.
#ifndef PROGRAM_H
#define PROGRAM_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define MAX_PACKET 10240        // bytes of the longest packet taken in or sent
#define MAX_PARSER_STEPS 65536  // times that parsing one packet may loop back before it is a ParserTimeout
#define MAX_LOOP_TURNS 65536    // of all loops that a packet goes through in a parser or control; then it leaves them
#define DROP_PORT 511
#define REJECTED UINT32_MAX      // what a parser returns where it neither accepts nor has an error
#define MAX_ACTION_WORDS 64

// v1model's standard metadata, in the order of include/v1model.p4
struct standard_metadata_t {
    uint16_t ingress_port, egress_spec, egress_port;
    uint32_t instance_type, packet_length, enq_timestamp, enq_qdepth, deq_timedelta, deq_qdepth;
    uint64_t ingress_global_timestamp, egress_global_timestamp;
    uint16_t mcast_grp, egress_rid;
    uint8_t checksum_error;
    uint32_t parser_error;
    uint8_t priority;
};

// --- what the program gives to the runtime

extern const char *const program_name;
extern void *const program_phv;  // headers and metadata of the packet being processed
extern const size_t program_phv_size;
extern struct standard_metadata_t *const program_standard;

size_t program_parse(const uint8_t *data, size_t length);  // bytes taken; sets parser_error
void program_ingress(const uint8_t *payload, size_t length);
void program_egress(const uint8_t *payload, size_t length);
void program_compute_checksums(void);
size_t program_deparse(uint8_t *out);
void program_reset_metadata(void);
void program_keep_fields(int list, const void *from);

// --- what the program asks of the runtime while it handles a packet

struct clone_intent { bool asked; uint32_t session; int field_list; };
struct again_intent { bool asked; int field_list; };
extern struct intents {
    struct clone_intent clone;
    struct again_intent resubmit, recirculate;
    uint32_t truncate_to;  // 0: not asked
} intents;

// --- tables

enum match_kind { MATCH_EXACT, MATCH_LPM, MATCH_TERNARY, MATCH_RANGE, MATCH_OPTIONAL };
struct key_field { const char *name; enum match_kind kind; unsigned width; };
struct action_parameter { const char *name; unsigned width; };
struct action_info { const char *name; const struct action_parameter *parameters; unsigned count; };
struct count { uint64_t packets, bytes; };

#define METER_RATES 2
struct meter_rate { double per_us; uint64_t burst, tokens, counted; };  // units: bytes, or packets
struct meter { bool configured; struct meter_rate rates[METER_RATES]; };
uint32_t meter_execute(struct meter *meter, bool bytes);  // the colour: 0 green, 1 yellow, 2 red

// what an entry of a table that an action profile implements refers to
enum reference_kind { TO_NOTHING, TO_MEMBER, TO_GROUP };
struct reference { enum reference_kind kind; uint32_t handle; };

struct entry {
    uint32_t handle, action;
    struct reference to;   // instead of the action, in a table that has an action profile
    int32_t priority;      // lower wins (ternary, range, optional)
    uint32_t prefix;       // longer wins (lpm)
    uint64_t data[MAX_ACTION_WORDS];
    struct count count;
    uint8_t *key, *mask;   // for a range field: its low and high end
    struct entry *next;    // in its hash bucket, or in the order of precedence
    struct meter meter;
    uint64_t timeout_ms, hit_ms;  // of a table whose entries age: 0 is no timeout; when it was last hit, or added
};

struct action_profile {
    const char *name;
    bool selects;  // an action_selector: it has groups
    const struct action_info *actions;
    unsigned action_count;
    // below: the runtime's
    struct member *members;
    struct group *groups;
    uint32_t member_count, group_count;
};

struct table {
    const char *name;
    const struct key_field *keys;
    unsigned key_count, key_bytes;
    const struct action_info *actions;
    unsigned action_count, size;
    bool constant, constant_default, counts, ages;
    const char *counter_name, *meter_name;  // NULL: has none
    bool meter_bytes;                       // its meter counts bytes, not packets
    unsigned first_default;
    uint64_t first_default_data[MAX_ACTION_WORDS];
    struct action_profile *profile;  // NULL: entries have actions
    const unsigned *profile_numbers; // how this table numbers the profile's actions; those that it lacks: action_count
    // below: the runtime's
    unsigned default_action;
    uint64_t default_data[MAX_ACTION_WORDS];
    struct reference default_to;
    struct meter meter; // that new entries begin with
    struct entry **buckets, *ordered;
    unsigned bucket_count, entries;
    uint32_t next_handle;
};
struct outcome { bool hit; unsigned action; };
struct chosen { unsigned action; const uint64_t *data; };

extern struct table *const program_tables[];   // ends with NULL
extern const char *const program_entries[];    // commands that add the program's own; ends with NULL
struct entry *table_lookup(struct table *table, const uint8_t *key);
extern struct action_profile *const program_action_profiles[];  // ends with NULL
// what runs for an entry, or for none (NULL); `hash` selects from a group. The action is action_count where none runs.
struct chosen action_profile_choose(const struct table *table, const struct entry *entry, uint32_t hash);

struct value_set { const char *name; unsigned width; uint32_t size, count; uint8_t *values; };
extern struct value_set *const program_value_sets[];  // ends with NULL
bool value_set_has(const struct value_set *set, const uint8_t *value);

// --- registers, counters and meters

struct register_array { const char *name; void *base; size_t stride; uint32_t size; unsigned width, bytes; bool is_signed; };
struct counter_array { const char *name; struct count *cells; uint32_t size; };
extern const struct register_array program_registers[];  // end with an element without a name
extern const struct counter_array program_counters[];
struct meter_array { const char *name; struct meter *cells; uint32_t size; bool bytes; };
extern const struct meter_array program_meters[];

// --- lengths, as simple_switch keeps them: of the packet as it arrived (counters count that), and with the headers that
// setValid and setInvalid have added and removed since (packet_length at egress)
extern uint32_t arrived_length;
extern int64_t current_length;

static inline void header_set_valid(void *header, size_t size, bool *valid, int64_t bytes) {
    if (*valid) return;
    memset(header, 0, size);
    *valid = true;
    current_length += bytes;
}
static inline void header_set_invalid(void *header, size_t size, bool *valid, int64_t bytes) {
    (void)header, (void)size;
    if (*valid) current_length -= bytes;
    *valid = false;
}

static inline uint32_t cell_index(uint64_t index, uint32_t size) { return index < size ? (uint32_t)index : size; }

static inline void counter_count(struct count *cells, uint32_t size, uint64_t index) {
    if (index < size) {
        cells[index].packets++;
        cells[index].bytes += arrived_length;
    }
}

// --- bits on the wire

static inline uint64_t load8(const uint8_t *p) { return p[0]; }
static inline uint64_t load16(const uint8_t *p) { uint16_t v; memcpy(&v, p, 2); return __builtin_bswap16(v); }
static inline uint64_t load24(const uint8_t *p) { return (uint64_t)p[0] << 16 | load16(p + 1); }
static inline uint64_t load32(const uint8_t *p) { uint32_t v; memcpy(&v, p, 4); return __builtin_bswap32(v); }
static inline uint64_t load40(const uint8_t *p) { return (uint64_t)p[0] << 32 | load32(p + 1); }
static inline uint64_t load48(const uint8_t *p) { return load16(p) << 32 | load32(p + 2); }
static inline uint64_t load56(const uint8_t *p) { return load24(p) << 32 | load32(p + 3); }
static inline uint64_t load64(const uint8_t *p) { uint64_t v; memcpy(&v, p, 8); return __builtin_bswap64(v); }

static inline void store8(uint8_t *p, uint64_t v) { p[0] = (uint8_t)v; }
static inline void store16(uint8_t *p, uint64_t v) { uint16_t b = __builtin_bswap16((uint16_t)v); memcpy(p, &b, 2); }
static inline void store24(uint8_t *p, uint64_t v) { store8(p, v >> 16); store16(p + 1, v); }
static inline void store32(uint8_t *p, uint64_t v) { uint32_t b = __builtin_bswap32((uint32_t)v); memcpy(p, &b, 4); }
static inline void store40(uint8_t *p, uint64_t v) { store8(p, v >> 32); store32(p + 1, v); }
static inline void store48(uint8_t *p, uint64_t v) { store16(p, v >> 32); store32(p + 2, v); }
static inline void store56(uint8_t *p, uint64_t v) { store24(p, v >> 32); store32(p + 3, v); }
static inline void store64(uint8_t *p, uint64_t v) { uint64_t b = __builtin_bswap64(v); memcpy(p, &b, 8); }

// n neighbouring fields of one width; the fields are members of one struct, side by side
#define RUN(bits)                                                                                     \
    static inline void load_run##bits(void *to, const uint8_t *from, size_t n) {                      \
        uint##bits##_t *fields = to;                                                                  \
        for (size_t i = 0; i < n; i++) fields[i] = (uint##bits##_t)load##bits(from + i * (bits / 8)); \
    }                                                                                                 \
    static inline void store_run##bits(uint8_t *to, const void *from, size_t n) {                     \
        const uint##bits##_t *fields = from;                                                          \
        for (size_t i = 0; i < n; i++) store##bits(to + i * (bits / 8), fields[i]);                   \
    }
RUN(8) RUN(16) RUN(32) RUN(64)
#undef RUN

static inline uint64_t load_bits(const uint8_t *p, unsigned offset, unsigned width) {
    uint64_t v = 0;
    for (unsigned i = offset; i < offset + width; i++) v = v << 1 | (p[i / 8] >> (7 - i % 8) & 1);
    return v;
}

static inline void store_bits(uint8_t *p, unsigned offset, unsigned width, uint64_t v) {
    for (unsigned i = 0; i < width; i++) {
        unsigned at = offset + i;
        uint8_t bit = (uint8_t)(0x80 >> at % 8);
        p[at / 8] = (uint8_t)((p[at / 8] & ~bit) | (v >> (width - 1 - i) & 1 ? bit : 0));
    }
}

#include "wide.h"

// one behind the other, for the input of a hash; each returns where the next one begins
static inline unsigned append_bits(uint8_t *p, unsigned offset, unsigned width, uint64_t v) {
    store_bits(p, offset, width, v);
    return offset + width;
}
static inline unsigned append_wide(uint8_t *p, unsigned offset, unsigned width, const uint8_t *from) {
    store_wide(p, offset, width, from);
    return offset + width;
}
static inline unsigned append_bytes(uint8_t *p, unsigned offset, unsigned n, const uint8_t *from) {
    for (unsigned i = 0; i < n; i++) offset = append_bits(p, offset, 8, from[i]);
    return offset;
}

// --- loops

void log_message(const char *format, ...) __attribute__((format(printf, 1, 2)));
static inline bool turns_are_over(unsigned *turns) {
    if (++*turns < MAX_LOOP_TURNS) return false;
    if (*turns == MAX_LOOP_TURNS) log_message("a packet turned in loops %u times, and leaves them", MAX_LOOP_TURNS);
    return true;
}

// --- arithmetic

static inline int32_t sign_extend32(uint32_t v, unsigned width) { return (int32_t)(v << (32 - width)) >> (32 - width); }
static inline int64_t sign_extend64(uint64_t v, unsigned width) { return (int64_t)(v << (64 - width)) >> (64 - width); }
static inline uint32_t shift_left32(uint32_t v, uint64_t n) { return n < 32 ? v << n : 0; }
static inline uint64_t shift_left64(uint64_t v, uint64_t n) { return n < 64 ? v << n : 0; }
static inline uint32_t shift_right32(uint32_t v, uint64_t n) { return n < 32 ? v >> n : 0; }
static inline uint64_t shift_right64(uint64_t v, uint64_t n) { return n < 64 ? v >> n : 0; }
static inline int32_t shift_right_signed32(int32_t v, uint64_t n) { return v >> (n < 31 ? n : 31); }
static inline int64_t shift_right_signed64(int64_t v, uint64_t n) { return v >> (n < 63 ? n : 63); }

static inline uint64_t quotient(uint64_t a, uint64_t b) { return b ? a / b : 0; }
static inline uint64_t remainder_of(uint64_t a, uint64_t b) { return b ? a % b : 0; }

static inline uint64_t saturating_add_unsigned(uint64_t a, uint64_t b, unsigned width) {
    unsigned __int128 most = ((unsigned __int128)1 << width) - 1, sum = (unsigned __int128)a + b;
    return (uint64_t)(sum < most ? sum : most);
}
static inline uint64_t saturating_subtract_unsigned(uint64_t a, uint64_t b, unsigned width) {
    (void)width;
    return a > b ? a - b : 0;
}
static inline int64_t saturate_signed(__int128 v, unsigned width) {
    __int128 most = ((__int128)1 << (width - 1)) - 1;
    return (int64_t)(v > most ? most : v < -most - 1 ? -most - 1 : v);
}
static inline int64_t saturating_add_signed(int64_t a, int64_t b, unsigned width) { return saturate_signed((__int128)a + b, width); }
static inline int64_t saturating_subtract_signed(int64_t a, int64_t b, unsigned width) { return saturate_signed((__int128)a - b, width); }

// --- header stacks; the element behind the last is a spare

static inline uint32_t stack_index(uint64_t index, uint32_t size) { return index < size ? (uint32_t)index : size; }
static inline uint32_t stack_last(uint32_t next, uint32_t size) { return next ? next - 1 : size; }
static inline void stack_push_front(void *elements, size_t bytes, unsigned size, unsigned count, uint32_t *next) {
    memmove((char *)elements + bytes * count, elements, bytes * (size - count));
    memset(elements, 0, bytes * count);
    *next = *next + count < size ? *next + count : size;
}
static inline void stack_pop_front(void *elements, size_t bytes, unsigned size, unsigned count, uint32_t *next) {
    memmove(elements, (char *)elements + bytes * count, bytes * (size - count));
    memset((char *)elements + bytes * (size - count), 0, bytes * count);
    *next = *next > count ? *next - count : 0;
}

// --- v1model's functions

uint64_t hash_crc32(const uint8_t *data, size_t length);
uint64_t hash_crc16(const uint8_t *data, size_t length);
uint64_t hash_csum16(const uint8_t *data, size_t length);
uint64_t hash_xor16(const uint8_t *data, size_t length);
uint64_t hash_identity(const uint8_t *data, size_t length);
struct crc { const char *name; unsigned width; uint32_t polynomial, initial, final; bool reflect_data, reflect_remainder, ready; uint32_t table[256]; };
extern struct crc *const program_crcs[];  // ends with NULL
uint64_t hash_custom(struct crc *crc, const uint8_t *data, size_t length);
static inline uint64_t hash_within(uint64_t hash, uint64_t base, uint64_t most) { return base + hash % (most ? most : 1); }
uint64_t random_between(uint64_t low, uint64_t high);
int64_t random_between_signed(int64_t low, int64_t high);
void assertion_failed(const char *where);
struct digest_list { const char *name, *fields; };  // the fields with their widths
extern const struct digest_list program_digests[];
void digest_begin(const char *name);
void digest_number(const char *field, uint64_t value);
void digest_wide(const char *field, const uint8_t *bytes, unsigned size);
void digest_end(void);

// --- steps, in programs compiled with a trace

struct trace_point { const char *file; uint32_t line; const char *writes; };
extern const struct trace_point program_trace_points[];  // ends with an element without a file
void trace_step(uint32_t point);

#endif
