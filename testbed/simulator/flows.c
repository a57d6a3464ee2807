/* Max–min fair rates of flows, by progressive filling: the links that are full first decide their flows' rates (Bertsekas and
   Gallager, Data Networks, section 6.5.2). */
#include "flows.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

#define ALIKE 1e-9 /* a share of what a link has: what rounding may add */

/* Give the flows that cross a full link their rates; how many are left, which are the first of `unfixed` then, or -1 where one has no
   share of its links. What these load links with is summed up anew, because differences are not exact. */
static int64_t fix(SharedLink *links, int64_t *unfixed, int64_t count, double level, const double *weights, const int64_t *first,
                   const int64_t *crossed, double *rates) {
    int64_t kept = 0;
    for (int64_t i = 0; i < count; i++) {
        int64_t f = unfixed[i];
        bool crosses = false;
        for (int64_t j = first[f]; j < first[f + 1]; j++)
            crosses |= links[crossed[j]].full;
        if (crosses) {
            rates[f] = level * weights[f];
            if (!(rates[f] > 0))
                return -1;
        } else
            unfixed[kept++] = f;
        for (int64_t j = first[f]; j < first[f + 1]; j++) {
            SharedLink *link = &links[crossed[j]];
            if (crosses) {
                link->left = fmax(link->left - rates[f], 0);
                link->users--;
            } else
                link->loaded += weights[f];
        }
    }
    return kept;
}

/* `first` is where each flow's links begin in `crossed`. -1 where a flow has no share of its links. */
int64_t flows_share(SharedLink *links, int64_t count, int64_t flows, const double *weights, const int64_t *first,
                    const int64_t *crossed, double *rates) {
    int64_t *unfixed = malloc((flows + 1) * sizeof *unfixed), left = flows;
    for (int64_t i = 0; i < count; i++) {
        links[i].left = links[i].capacity;
        links[i].loaded = 0;
        links[i].users = 0;
    }
    for (int64_t f = 0; f < flows; f++) {
        unfixed[f] = f;
        for (int64_t j = first[f]; j < first[f + 1]; j++) {
            links[crossed[j]].users++;
            links[crossed[j]].loaded += weights[f];
        }
    }
    while (left > 0) {
        double level = INFINITY;
        for (int64_t i = 0; i < count; i++)
            if (links[i].users)
                level = fmin(level, links[i].left / links[i].loaded);
        if (!(level < INFINITY)) { /* what is left has no links, or no weight */
            left = -1;
            break;
        }
        for (int64_t i = 0; i < count; i++) {
            links[i].full = links[i].users > 0 && links[i].left <= level * links[i].loaded * (1 + ALIKE);
            links[i].loaded = 0;
        }
        left = fix(links, unfixed, left, level, weights, first, crossed, rates);
    }
    free(unfixed);
    return left;
}
