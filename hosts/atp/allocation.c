/* Which aggregator a chunk asks for: a hash of the job, its place in the window, and the number of the attempt.

   Chunk q has place q mod w in a window of w chunks, and a place keeps its aggregator until the server hands back another, which
   reaches every worker with the result of the chunk before. Two places of a job have the same only where the table is small. */
#include "inside.h"

/* An index into a table of so many aggregators: the finalizer of MurmurHash3 over job, place and attempt. */
int64_t atp_aggregator(int64_t job, int64_t place, int64_t attempt, int64_t aggregators) {
    uint32_t h = place + (uint32_t)(job + 1) * 0x9E3779B1u + (uint32_t)attempt * 0x85EBCA77u;
    h = (h ^ h >> 16) * 0x85EBCA6Bu;
    h = (h ^ h >> 13) * 0xC2B2AE35u;
    return (h ^ h >> 16) % aggregators;
}

/* A place's next aggregator, another than `taken`; `attempt` is the first to try, and becomes the one that gave it. `held` counts the
   job's places by aggregator: one that none has is preferred. */
int64_t following(int64_t job, int64_t place, int64_t *attempt, int64_t taken, const int64_t *held, int64_t aggregators) {
    int64_t found = taken, first = *attempt;
    for (int64_t tried = first; tried < first + MOST_ATTEMPTS; tried++) {
        int64_t index = atp_aggregator(job, place, tried, aggregators);
        *attempt = tried;
        if (index == taken)
            continue;
        found = index;
        if (!held[index])
            break;
    }
    return found;
}

/* The first aggregator of each place and the attempt that gave it, and the count of places by aggregator. */
void atp_beginning(int64_t job, int64_t window, int64_t aggregators, int64_t *index, int64_t *attempts, int64_t *held) {
    memset(held, 0, aggregators * sizeof *held);
    for (int64_t place = 0; place < window; place++) {
        attempts[place] = 0;
        index[place] = following(job, place, &attempts[place], -1, held, aggregators);
        held[index[place]]++;
    }
}
