// Injected loss on one direction of the links of a switch, decided by a hash of (seed, packet number) alone, so that
// the same seed loses the same packets again. The seed stands for (experiment, link, direction): the control plane
// derives it (hosts know nothing of it). Settable while packets flow, by register_write:
//   mode[port]   0: lose nothing and number nothing; 1: on
//   seed[port]
//   good[port], bad[port]      probability of loss in the good and the bad state, times 2^32
//   enter[port], leave[port]   Gilbert–Elliott: probability of going bad, of going good, times 2^32, before each packet
// Bernoulli loss is `enter` 0: the state stays good.
#ifndef LOSS_P4
#define LOSS_P4
#include "sizes.p4"

// The finalizer of MurmurHash3: every bit of x changes half of the result's.
bit<32> mix(in bit<32> x) {
    bit<32> h = x;
    h = (h ^ (h >> 16)) * 0x85ebca6b;
    h = (h ^ (h >> 13)) * 0xc2b2ae35;
    return h ^ (h >> 16);
}

control Loss(in port_t link, out bit<1> lost) {
    register<bit<1>>(MAX_PORTS) mode;
    register<bit<32>>(MAX_PORTS) seed;
    register<bit<32>>(MAX_PORTS) good;
    register<bit<32>>(MAX_PORTS) bad;
    register<bit<32>>(MAX_PORTS) enter;
    register<bit<32>>(MAX_PORTS) leave;
    register<bit<1>>(MAX_PORTS) state;    // 1: bad
    register<bit<32>>(MAX_PORTS) number;  // of the next packet
    counter(MAX_PORTS, CounterType.packets) passed;
    counter(MAX_PORTS, CounterType.packets) dropped;

    apply {
        bit<32> port = (bit<32>)link;
        bit<1> on = 0;
        lost = 0;
        if (port < MAX_PORTS) {
            mode.read(on, port);
        }
        if (on == 1) {
            bit<32> s;
            bit<32> n;
            bit<32> threshold;
            bit<1> is_bad;
            seed.read(s, port);
            number.read(n, port);
            number.write(port, n + 1);

            bit<32> draw = mix(s ^ mix(n));
            state.read(is_bad, port);
            if (is_bad == 1) {
                leave.read(threshold, port);
            } else {
                enter.read(threshold, port);
            }
            if (mix(draw ^ 0x5bd1e995) < threshold) {
                is_bad = is_bad ^ 1;
                state.write(port, is_bad);
            }

            if (is_bad == 1) {
                bad.read(threshold, port);
            } else {
                good.read(threshold, port);
            }
            if (draw < threshold) {
                lost = 1;
                dropped.count(port);
            } else {
                passed.count(port);
            }
        }
    }
}

#endif
