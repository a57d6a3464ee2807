// Text that grows, for answers to commands.
#include "runtime.h"
#include <stdarg.h>
#include <stdlib.h>

static void append(struct reply *reply, const char *format, va_list arguments) {
    va_list again;
    va_copy(again, arguments);
    int n = vsnprintf(NULL, 0, format, again);
    va_end(again);
    if (n < 0) return;
    if (reply->length + (size_t)n + 1 > reply->room) {
        reply->room = 2 * (reply->length + (size_t)n + 1);
        reply->text = realloc(reply->text, reply->room);
        if (!reply->text) abort();
    }
    vsnprintf(reply->text + reply->length, (size_t)n + 1, format, arguments);
    reply->length += (size_t)n;
}

void say(struct reply *reply, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    append(reply, format, arguments);
    va_end(arguments);
}

void offer(struct reply *reply, unsigned number, const char *name) {
    if (number < MOST_OFFERED) say(reply, "%s%s", number ? ", " : ": choose one of ", name);
    if (number == MOST_OFFERED) say(reply, ", ...");
}

void fail(struct reply *reply, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    append(reply, format, arguments);
    va_end(arguments);
    reply->failed = true;
}
