// Meters: two rates and three colours (RFC 2698), as BMv2's meters.cpp has them.
#include "runtime.h"
#include <math.h>
#include <stdlib.h>

uint32_t meter_execute(struct meter *meter, bool bytes) {
    if (!meter->configured) return 0;
    uint64_t now_us = pipeline_now() / 1000, input = bytes ? arrived_length : 1;
    for (unsigned i = METER_RATES; i-- > 0;) {  // the highest rate first
        struct meter_rate *rate = &meter->rates[i];
        uint64_t since_start = (uint64_t)((double)now_us * rate->per_us), tokens = rate->tokens + (since_start - rate->counted);
        rate->counted = since_start;
        rate->tokens = tokens < rate->burst ? tokens : rate->burst;
        if (rate->tokens < input) return i + 1;
        rate->tokens -= input;
    }
    return 0;
}

// --- commands

const char *meter_name(unsigned i) { return program_meters[i].name; }

// the meter of a cell, or of an entry of a table with direct meters
static struct meter *find_meter(char **argv, struct reply *reply) {
    struct entry *e = NULL;
    uint64_t cell;
    if (direct_meter(argv, &e, reply)) return e ? &e->meter : NULL;
    int i = find_name("meter", argv[1], meter_name, direct_meter_name, reply);
    if (i < 0) return NULL;
    const struct meter_array *a = &program_meters[i];
    if (!parse_cell(argv[2], a->size, &cell))
        return fail(reply, "%s is not a cell of %s, which has %u", argv[2], a->name, a->size), NULL;
    return &a->cells[cell];
}

// RATE:BURST, in units a microsecond and units
static bool parse_rate(const char *text, struct meter_rate *rate) {
    char *end;
    *rate = (struct meter_rate){.per_us = strtod(text, &end)};
    if (end == text || *end != ':' || !isfinite(rate->per_us) || rate->per_us < 0 || rate->per_us > 1e6) return false;
    if (!parse_uint(end + 1, UINT32_MAX, &rate->burst)) return false;
    rate->tokens = rate->burst;
    return true;
}

static bool parse_meter(char **words, struct meter *meter, struct reply *reply) {
    for (unsigned i = 0; i < METER_RATES; i++) {
        if (!parse_rate(words[i], &meter->rates[i]))
            return fail(reply, "%s is not a rate: RATE:BURST is needed, in units a microsecond and units", words[i]), false;
        if (i && meter->rates[i].per_us < meter->rates[i - 1].per_us) return fail(reply, "the second rate is below the first"), false;
    }
    meter->configured = true;
    return true;
}

static void set_rates(int argc, char **argv, struct reply *reply) {
    (void)argc;
    struct meter made, *meter = find_meter(argv, reply);
    if (meter && parse_meter(argv + 3, &made, reply)) *meter = made;
}

static void set_all(int argc, char **argv, struct reply *reply) {
    (void)argc;
    struct meter made;
    if (!parse_meter(argv + 2, &made, reply) || direct_meter_set_all(argv, &made)) return;
    int i = find_name("meter", argv[1], meter_name, direct_meter_name, reply);
    if (i < 0) return;
    for (uint32_t cell = 0; cell < program_meters[i].size; cell++) program_meters[i].cells[cell] = made;
}

static void get_rates(int argc, char **argv, struct reply *reply) {
    (void)argc;
    const struct meter *meter = find_meter(argv, reply);
    if (!meter || !meter->configured) return;
    for (unsigned i = 0; i < METER_RATES; i++)
        say(reply, "%u: info rate = %.15g, burst size = %llu\n", i, meter->rates[i].per_us, (unsigned long long)meter->rates[i].burst);
}

void meters_reset(void) {
    for (const struct meter_array *m = program_meters; m->name; m++) memset(m->cells, 0, sizeof *m->cells * m->size);
}

const struct command meter_commands[] = {
    {"meter_set_rates", 5, 5, set_rates, "METER CELL RATE:BURST RATE:BURST"},
    {"meter_array_set_rates", 4, 4, set_all, "METER RATE:BURST RATE:BURST"},
    {"meter_get_rates", 3, 3, get_rates, "METER CELL"},
    {0},
};
