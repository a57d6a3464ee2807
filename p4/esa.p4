// ESA (Wang et al., 2022): ATP with aggregators that an urgent packet takes from a less urgent chunk (include/esa/preemption.p4).
#define ESA
#include "atp.p4"
