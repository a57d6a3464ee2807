// The core library of P4_16 (spec, section 15): what every architecture shares.
// The embedded switch knows packet_in, packet_out and NoAction by name.
#ifndef CORE_P4
#define CORE_P4

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

action NoAction() {}

#endif
