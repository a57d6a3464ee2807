// The words of commands: names, and numbers of any width.
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

// a number's base, whose prefix is passed over
static unsigned base_of(const char **text) {
    static const struct { char letter; unsigned base; } prefixes[] = {{'x', 16}, {'b', 2}, {'o', 8}};
    for (unsigned i = 0; (*text)[0] == '0' && i < sizeof prefixes / sizeof *prefixes; i++)
        if (tolower((unsigned char)(*text)[1]) == prefixes[i].letter) return *text += 2, prefixes[i].base;
    return 10;
}

// decimal, 0x…, 0b… or 0o… of any width, aa:bb:cc:dd:ee:ff for 48 bits, an IPv4 address for 32, an IPv6 address for 128
bool parse_number(const char *text, unsigned width, uint8_t *bytes) {
    unsigned size = (width + 7) / 8;
    memset(bytes, 0, size);
    if (width == 32 && strchr(text, '.')) return inet_pton(AF_INET, text, bytes) == 1;
    if (width == 48 && strchr(text, ':')) return parse_bytes(text, 6, ':', bytes);
    if (width == 128 && strchr(text, ':')) return inet_pton(AF_INET6, text, bytes) == 1;
    unsigned base = base_of(&text);
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

int find_name(const char *what, const char *given, const char *(*name)(unsigned), const char *(*also)(unsigned), struct reply *reply) {
    unsigned offered = 0;
    int found = -1;
    for (unsigned i = 0; name(i); i++)
        if (!strcmp(name(i), given)) return (int)i;
    for (unsigned i = 0; name(i); i++) {
        if (!name_matches(name(i), given)) continue;
        if (found >= 0) return fail(reply, "%s is ambiguous: %s or %s", given, name((unsigned)found), name(i)), -1;
        found = (int)i;
    }
    if (found >= 0) return found;
    fail(reply, "there is no %s %s", what, given);
    for (unsigned i = 0; name(i); i++) offer(reply, offered++, name(i));
    for (unsigned i = 0; also && also(i); i++) offer(reply, offered++, also(i));
    return -1;
}

bool parse_cell(const char *text, uint32_t size, uint64_t *cell) { return size && parse_uint(text, size - 1, cell); }

void say_number(struct reply *reply, const uint8_t *bytes, unsigned size) {
    uint8_t rest[MAX_NUMBER];
    char digits[MAX_NUMBER * 3 + 1], *first = digits + sizeof digits - 1;
    bool more = true;
    memcpy(rest, bytes, size);
    *first = '\0';
    while (more) {  // by ten, again and again
        unsigned remainder = 0;
        more = false;
        for (unsigned i = 0; i < size; i++) {
            unsigned v = remainder << 8 | rest[i];
            rest[i] = (uint8_t)(v / 10);
            remainder = v % 10;
            more |= rest[i] != 0;
        }
        *--first = (char)('0' + remainder);
    }
    say(reply, "%s", first);
}
