/* Results that a server has sent and that have not left its host: a query about one of these has its answer on the way.

   At a low rate the queue of the server's link takes longer than any worker waits. If every query were answered with another copy, and
   those left before what is new, the link would soon carry nothing else. */
#include "inside.h"

#define NO_ONE -1

void departures_init(Departures *d, int64_t rows, int32_t racks, int32_t to_all, const Member *members) {
    *d = (Departures){.racks = racks, .to_all = to_all, .rows = rows, .members = members};
    d->goal = malloc(rows * sizeof *d->goal);
    d->leaves = calloc(rows, sizeof *d->leaves);
    for (int64_t row = 0; row < rows; row++)
        d->goal[row] = NO_ONE;
}

void departures_free(Departures *d) {
    free(d->goal);
    free(d->leaves);
}

/* So many packets are sent, each of which takes so many seconds on the link. What is urgent leaves before everything else. */
void departures_occupied(Departures *d, int64_t count, bool urgent, double seconds, double now) {
    if (urgent)
        d->idle_urgent = fmax(d->idle_urgent, now) + count * seconds;
    d->idle = fmax(d->idle, now) + count * seconds;
}

/* The result of this row is sent to a peer. */
void departures_sent(Departures *d, int64_t row, int32_t peer, bool urgent, double seconds, double now) {
    departures_occupied(d, 1, urgent, seconds, now);
    d->goal[row] = peer;
    d->leaves[row] = urgent ? d->idle_urgent : d->idle;
}

static int64_t rack_of(const Departures *d, int64_t peer) { return peer < d->racks ? peer : d->members[peer - d->racks].rack; }

/* Peers (`worker` of `wanted`) ask for rows: the rows of which no copy to them waits here, once each, and whom the copies go to. Where
   two ask, of a rack, the copy goes to the rack; else to all. */
int64_t departures_lacking(const Departures *d, const Asked *wanted, int64_t count, double now, Asked *lacking) {
    int64_t *to = malloc(d->rows * sizeof *to), n = 0;
    for (int64_t row = 0; row < d->rows; row++)
        to[row] = NO_ONE;
    for (int64_t i = 0; i < count; i++) {
        int64_t row = wanted[i].row, peer = wanted[i].worker, had = to[row];
        if (had == NO_ONE && d->leaves[row] > now)
            had = d->goal[row];
        if (had == NO_ONE)
            to[row] = peer;
        else if (had != d->to_all && had != peer && had != rack_of(d, peer))
            to[row] = rack_of(d, had) == rack_of(d, peer) ? rack_of(d, peer) : d->to_all;
    }
    for (int64_t row = 0; row < d->rows; row++)
        if (to[row] != NO_ONE)
            lacking[n++] = (Asked){row, to[row]};
    free(to);
    return n;
}
