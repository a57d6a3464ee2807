// What a stage does with the values that a switch holds: a pool's cell, or an aggregator.
#ifndef OPERATION_P4
#define OPERATION_P4

enum bit<3> operation_t {
    NONE = 0,
    STORE = 1,    // the packet's value replaces the one held
    COMBINE = 2,  // both are combined (sum, maximum), in what is held and in the packet
    READ = 3,     // the value held replaces the packet's
    EXCHANGE = 4  // they change places; vectors alone (ESA)
}

#endif
