// Numbers of more than 64 bits: big-endian bytes in a struct. The unused bits of the first byte are zero, of signed numbers, too.
#ifndef WIDE_H
#define WIDE_H

static inline void wide_trim(uint8_t *b, unsigned width) {
    if (width % 8) b[0] &= (uint8_t)(0xff >> (8 - width % 8));
}

// --- from and to bits on the wire, and other widths

static inline void load_wide(uint8_t *to, const uint8_t *p, unsigned offset, unsigned width) {
    memset(to, 0, (width + 7) / 8);
    unsigned spare = (8 - width % 8) % 8;
    for (unsigned i = 0; i < width; i++)
        if (p[(offset + i) / 8] >> (7 - (offset + i) % 8) & 1) to[(spare + i) / 8] |= (uint8_t)(0x80 >> (spare + i) % 8);
}
static inline void store_wide(uint8_t *p, unsigned offset, unsigned width, const uint8_t *from) {
    unsigned spare = (8 - width % 8) % 8;
    for (unsigned i = 0; i < width; i++) store_bits(p, offset + i, 1, from[(spare + i) / 8] >> (7 - (spare + i) % 8) & 1);
}
static inline uint64_t wide_slice(const uint8_t *b, unsigned size, unsigned high, unsigned low) {
    return load_bits(b, size * 8 - 1 - high, high - low + 1);
}
// the low bytes of a number; what is above them is `fill`
static inline void wide_resize(uint8_t *to, unsigned to_size, const uint8_t *from, unsigned from_size, uint8_t fill) {
    unsigned kept = to_size < from_size ? to_size : from_size;
    memset(to, fill, to_size - kept);
    memcpy(to + to_size - kept, from + from_size - kept, kept);
}
static inline bool wide_negative(const uint8_t *b, unsigned width) { return b[0] >> (width - 1) % 8 & 1; }
static inline void wide_extend(uint8_t *b, unsigned from_size, unsigned size, unsigned width) {  // the sign, through its first byte
    if (width % 8) b[size - from_size] |= (uint8_t)(0xff << width % 8);
}

// --- operators

static inline void wide_and(uint8_t *r, const uint8_t *x, const uint8_t *y, unsigned size) {
    for (unsigned i = 0; i < size; i++) r[i] = x[i] & y[i];
}
static inline void wide_or(uint8_t *r, const uint8_t *x, const uint8_t *y, unsigned size) {
    for (unsigned i = 0; i < size; i++) r[i] = x[i] | y[i];
}
static inline void wide_xor(uint8_t *r, const uint8_t *x, const uint8_t *y, unsigned size) {
    for (unsigned i = 0; i < size; i++) r[i] = x[i] ^ y[i];
}
static inline void wide_add(uint8_t *r, const uint8_t *x, const uint8_t *y, unsigned size) {
    for (unsigned i = size, carry = 0; i-- > 0; carry >>= 8) r[i] = (uint8_t)(carry += (unsigned)x[i] + y[i]);
}
static inline void wide_subtract(uint8_t *r, const uint8_t *x, const uint8_t *y, unsigned size) {
    for (unsigned i = size, carry = 1; i-- > 0; carry >>= 8) r[i] = (uint8_t)(carry += (unsigned)x[i] + (uint8_t)~y[i]);
}
static inline void wide_multiply(uint8_t *r, const uint8_t *x, const uint8_t *y, unsigned size) {
    memset(r, 0, size);
    for (unsigned i = 0; i < size; i++)  // bytes from the lowest
        for (unsigned j = 0, carry = 0; i + j < size; j++, carry >>= 8)
            r[size - 1 - i - j] = (uint8_t)(carry += r[size - 1 - i - j] + (unsigned)x[size - 1 - i] * y[size - 1 - j]);
}
static inline void wide_shift_left(uint8_t *r, const uint8_t *x, uint64_t by, unsigned size) {
    unsigned bytes = by / 8 < size ? (unsigned)(by / 8) : size, bits = by % 8;
    for (unsigned i = 0; i < size; i++) {
        unsigned v = i + bytes < size ? (unsigned)x[i + bytes] << bits : 0;
        if (bits && i + bytes + 1 < size) v |= x[i + bytes + 1] >> (8 - bits);
        r[i] = (uint8_t)v;
    }
}
// zeros come in from the left, or ones where `negative`
static inline void wide_shift_right(uint8_t *r, const uint8_t *x, uint64_t by, unsigned size, unsigned width, bool negative) {
    unsigned bytes = by / 8 < size ? (unsigned)(by / 8) : size, bits = by % 8;
    uint8_t fill = negative ? 0xff : 0, first = negative && width % 8 ? x[0] | (uint8_t)(0xff << width % 8) : x[0];
    for (unsigned i = size; i-- > 0;) {
        uint8_t low = i < bytes ? fill : i == bytes ? first : x[i - bytes];
        uint8_t above = i < bytes + 1 ? fill : i == bytes + 1 ? first : x[i - bytes - 1];
        r[i] = (uint8_t)(bits ? low >> bits | above << (8 - bits) : low);
    }
}
static inline bool wide_below(const uint8_t *x, const uint8_t *y, unsigned size, unsigned width, bool is_signed) {
    if (is_signed && wide_negative(x, width) != wide_negative(y, width)) return wide_negative(x, width);
    return memcmp(x, y, size) < 0;
}
// the largest or smallest number of a type
static inline void wide_limit(uint8_t *r, unsigned size, unsigned width, bool is_signed, bool least) {
    memset(r, least ? 0 : 0xff, size);
    if (is_signed) r[0] = (uint8_t)(r[0] ^ 1u << (width - 1) % 8);
    wide_trim(r, width);
}
static inline void wide_saturate(uint8_t *r, const uint8_t *x, const uint8_t *y, unsigned size, unsigned width, bool is_signed, bool minus) {
    bool a = wide_negative(x, width), b = wide_negative(y, width), below = memcmp(x, y, size) < 0;
    if (minus) wide_subtract(r, x, y, size);
    else wide_add(r, x, y, size);
    bool carried = !minus && (width % 8 ? r[0] >> width % 8 & 1 : memcmp(r, x, size) < 0);
    wide_trim(r, width);
    if (!is_signed && minus && below) memset(r, 0, size);
    else if (!is_signed && carried) wide_limit(r, size, width, false, false);
    else if (is_signed && (minus ? a != b : a == b) && wide_negative(r, width) != a) wide_limit(r, size, width, true, a);
}

// --- as values

#define LOAD_WIDE(type, p, offset, width) ({ type w$; load_wide(w$.b, p, offset, width); w$; })
#define WIDE_FROM(type, v) ({ type w$; memset(&w$, 0, sizeof w$); store64(w$.b + sizeof w$ - 8, v); w$; })
#define WIDE_CONVERT(type, v, to) ({ const __auto_type v$ = (v); type w$; wide_resize(w$.b, sizeof w$, v$.b, sizeof v$, 0); wide_trim(w$.b, to); w$; })
#define WIDE_EXTEND(type, v, from, to) ({                                              \
    const __auto_type v$ = (v); type w$; bool n$ = wide_negative(v$.b, from);                \
    wide_resize(w$.b, sizeof w$, v$.b, sizeof v$, n$ ? 0xff : 0);                        \
    if (n$) wide_extend(w$.b, sizeof v$, sizeof w$, from);                               \
    wide_trim(w$.b, to); w$; })
#define WIDE_FROM_SIGNED(type, v, to) ({ int64_t v$ = (v); type w$; memset(&w$, v$ < 0 ? 0xff : 0, sizeof w$); store64(w$.b + sizeof w$ - 8, (uint64_t)v$); wide_trim(w$.b, to); w$; })
// __auto_type names an operand once: the text of a nested expression would grow with every level
#define WIDE_LIKE(v) __typeof__(({ __auto_type like$ = v; like$; }))
#define WIDE_OPERATOR(name, x, y, width) ({ const __auto_type x$ = (x); const __auto_type y$ = (y); WIDE_LIKE(x$) r$; wide_##name(r$.b, x$.b, y$.b, sizeof r$); wide_trim(r$.b, width); r$; })
#define WIDE_SATURATE(x, y, width, is_signed, minus) ({ const __auto_type x$ = (x); const __auto_type y$ = (y); WIDE_LIKE(x$) r$; wide_saturate(r$.b, x$.b, y$.b, sizeof r$, width, is_signed, minus); r$; })
#define WIDE_SHIFT_LEFT(x, by, width) ({ const __auto_type x$ = (x); WIDE_LIKE(x$) r$; wide_shift_left(r$.b, x$.b, by, sizeof r$); wide_trim(r$.b, width); r$; })
#define WIDE_SHIFT_RIGHT(x, by, width, is_signed) ({ const __auto_type x$ = (x); WIDE_LIKE(x$) r$; wide_shift_right(r$.b, x$.b, by, sizeof r$, width, is_signed && wide_negative(x$.b, width)); wide_trim(r$.b, width); r$; })
#define WIDE_BELOW(x, y, width, is_signed) ({ const __auto_type x$ = (x); const __auto_type y$ = (y); wide_below(x$.b, y$.b, sizeof x$, width, is_signed); })
#define WIDE_AMOUNT(v) ({ const __auto_type v$ = (v); uint64_t n$ = UINT32_MAX; bool far$ = false; for (unsigned i$ = 0; i$ + 4 < sizeof v$; i$++) far$ |= v$.b[i$] != 0; far$ ? n$ : load32(v$.b + sizeof v$ - 4); })
#define wide_differ(x, y) ({ const __auto_type x$ = (x); const __auto_type y$ = (y); memcmp(&x$, &y$, sizeof x$) != 0; })

#endif
