/* Which results were lost: each that a server sends to all names the two before it, and they come in the order they left in. Where
   they do not, a result comes that was thought to be lost, and a worker waits for more results from then on (recovery.c).

   A worker whose chunk others overtake does not know what has happened. A packet of the chunk may be lost, or its result; or somebody
   was late with it, and its result is on its way. The last is the most frequent by far where results are lost: whoever has lost one
   is late with the chunk after it. If the server answered a query with the result then, over a link that results fill already, it
   would delay all that are behind, and others would ask. So it answers with a result only those who know from a later one's names
   that theirs was lost, who hear nothing at all, who have sent their part again, or who ask once more.

   The paper has workers send again what seems to be lost, and the server answer each of them. */
#include "inside.h"

/* Have a result name the two before; `before` are the last two, and will be.

   One of which something was sent again overtakes others on its way (server.c): it names none, and is not named. */
void name_before(AtpHeader *result, uint32_t *before) {
    if (result->flags & RESEND) {
        result->bitmap0 = result->bitmap1 = NO_SEQUENCE;
        return;
    }
    result->bitmap0 = big(before[0]);
    result->bitmap1 = big(before[1]);
    before[1] = before[0];
    before[0] = big(result->owner) % SEQUENCES;
}

/* The chunk that a result names, the last one (`field` 0) or the one before that; false if none. */
bool names(const AtpHeader *result, int field, int64_t oldest, int64_t *chunk) {
    uint32_t sequence = big(field ? result->bitmap1 : result->bitmap0);
    if (result->flags & RESEND || sequence == NO_SEQUENCE)
        return false;
    *chunk = nearest(sequence, oldest);
    return *chunk >= 0;
}

void merger_name(Merger *m, int64_t row) { name_before(header(&m->results, row), m->before); }
