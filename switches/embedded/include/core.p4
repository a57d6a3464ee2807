// The core library of P4_16 (spec, section 15): what every architecture shares.
#ifndef _CORE_P4_  // as p4c has it: programs ask for it
#define _CORE_P4_

error {
    NoError,
    PacketTooShort,
    NoMatch,
    StackOutOfBounds,
    HeaderTooShort,
    ParserTimeout,
    ParserInvalidArgument
}

match_kind { exact, ternary, lpm }

extern packet_in {
    void extract<T>(out T header_);
    void extract<T>(out T header_, in bit<32> bits_of_varbit);
    T lookahead<T>();
    void advance(in bit<32> bits);
    bit<32> length();
}

extern packet_out {
    void emit<T>(in T data);
}

extern void verify(in bool condition, in error failure);
extern bool static_assert(bool condition, string message);
extern bool static_assert(bool condition);

action NoAction() {}

#endif
