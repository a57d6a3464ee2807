"""What p4c 1.2.4.2 refuses is refused, and what it warns of is warned of, with file, line and column."""

from __future__ import annotations

from pathlib import Path

import pytest

from inalab.switches.embedded.errors import CompileError
from tests.probe import compile_, program

T = "table t {{ key = {{ hdr.probe.a : {kind}; }} actions = {{ {actions} NoAction; }} {more} }}"


def table(kind: str = "exact", actions: str = "", more: str = "", before: str = "") -> dict[str, str]:
    return {"locals_": f"{before} {T.format(kind=kind, actions=actions, more=more)}", "body": "t.apply();"}


def parser(states: str, **parts: str) -> dict[str, str]:
    head = "parser Parse(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard)"
    types = "#define EXTRA_TYPES header label_t { bit<8> v; } header opt_t { bit<8> n; varbit<64> data; }"
    extra = "#define EXTRA_HEADERS label_t[3] labels; opt_t opt;"
    outside = f"{parts.get('outside', '')} {head} {{ {states} }}"
    return {"before": f"#define OWN_PARSER\n{types}\n{extra}", "outside": outside}


LABELS = "#define EXTRA_TYPES header label_t { bit<8> v; }\n#define EXTRA_HEADERS label_t[3] labels;"
X = "action x(bit<8> v) {}"
TAKES = "control Sub(register<bit<8>> r) { apply { r.write(0, 1); } }"
ERRORS: dict[str, tuple[dict[str, str], str]] = {
    # tables and actions
    "apply in an action": ({"locals_": T.format(kind="exact", actions="", more="") + " action y() { t.apply(); }", "body": "y();"}, "cannot be applied in an action"),
    "apply of a control in an action": ({"outside": "control C() { apply {} }", "locals_": "C() c; action y() { c.apply(); }", "body": "y();"}, "cannot be applied in an action"),
    "apply with an argument": ({**table(), "body": "t.apply(1);"}, "takes no arguments"),
    "a table called": ({**table(), "body": "t();"}, "t cannot be called"),
    "action with too many arguments": ({"locals_": X, "body": "x(1, 2);"}, "x takes 1 arguments, and 2 are given"),
    "action with a wrong argument": ({"locals_": X, "body": "x(hdr.probe.b);"}, "this is bit<16>, where bit<8> is needed"),
    "action without a value": ({"locals_": "action y() {}", "body": "hdr.probe.a = y();"}, "this is void"),
    "out argument of another type": ({"locals_": "action y(out bit<8> v) { v = 1; }", "body": "y(hdr.probe.b);"}, "this is bit<16>, where bit<8> is needed"),
    "out argument that is a number": ({"locals_": "action y(out bit<8> v) { v = 1; }", "body": "y(8w1);"}, "cannot be assigned to"),
    "out argument that is a sum": ({"locals_": "action y(out bit<8> v) { v = 1; }", "body": "y(hdr.probe.a + 1);"}, "cannot be assigned to"),
    "no list of actions": ({"locals_": "table t { key = { hdr.probe.a : exact; } }", "body": "t.apply();"}, "lists no actions"),
    "two keys": (table(more="key = { hdr.probe.b : exact; }"), "two lists of key"),
    "two lists of actions": (table(more="actions = { NoAction; }"), "two lists of actions"),
    "two sizes": (table(more="size = 4; size = 5;"), "gives size twice"),
    "a negative size": (table(more="size = -5;"), "a table of -5 entries is not possible"),
    "an enormous size": (table(more="size = 1099511627776;"), "a table of 1099511627776 entries"),
    "two lpm keys": ({"locals_": "table t { key = { hdr.probe.a : lpm; hdr.probe.b : lpm; } actions = { NoAction; } }", "body": "t.apply();"}, "more than one lpm key"),
    "default without its argument": (table(actions="x;", more="default_action = x;", before=X), "x takes 1 arguments, and 0 are given"),
    "default with too many": (table(actions="x;", more="default_action = x(1, 2);", before=X), "x takes 1 arguments, and 2 are given"),
    "default with a wrong argument": (table(actions="x;", more="default_action = x(16w1);", before=X), "this is bit<16>, where bit<8> is needed"),
    "default with other bound arguments": (table(actions="y(hdr.probe.a);", more="default_action = y(hdr.probe.wide[7:0], 1);", before="action y(in bit<8> u, bit<8> v) {}"), "other arguments in the list of actions"),
    "default that is @tableonly": (table(actions="@tableonly x;", more="default_action = x(1);", before=X), "marked @tableonly"),
    "an entry that is @defaultonly": (table(actions="@defaultonly x;", more="const entries = { 1 : x(1); }", before=X), "marked @defaultonly"),
    "an action's direction not bound": (table(actions="y;", before="action y(in bit<8> u) {}"), "must bind the 1 parameters"),
    "too much bound": (table(actions="x(1);", before=X), "must bind the 0 parameters"),
    "directions behind the control plane's": (table(actions="y(hdr.probe.a);", before="action y(bit<8> v, in bit<8> u) {}"), "come last"),
    "an exact entry without a value": (table(more="const entries = { _ : NoAction(); }"), "an exact key needs a value"),
    "a mask on an exact key": (table(more="const entries = { 1 &&& 3 : NoAction(); }"), "&&& does not go with match kind exact"),
    "a mask on a range key": (table("range", more="const entries = { 1 &&& 3 : NoAction(); }"), "&&& does not go with match kind range"),
    "a mask on an optional key": (table("optional", more="const entries = { 1 &&& 3 : NoAction(); }"), "&&& does not go with match kind optional"),
    "a range on a ternary key": (table("ternary", more="const entries = { 1 .. 3 : NoAction(); }"), ".. does not go with match kind ternary"),
    "a mask with holes on an lpm key": (table("lpm", more="const entries = { 0x10 &&& 0x51 : NoAction(); }"), "is no mask for an lpm key"),
    "a mask of low bits on an lpm key": (table("lpm", more="const entries = { 1 &&& 0x0f : NoAction(); }"), "is no mask for an lpm key"),
    "the same entry twice": (table(more="const entries = { 3 : NoAction(); 3 : NoAction(); }"), "two entries of this key"),
    "the same prefix twice": (table("lpm", more="const entries = { 0x30 &&& 0xf0 : NoAction(); 0x31 &&& 0xf0 : NoAction(); }"), "two entries of this key"),
    "an entry of another type": (table(more="const entries = { 16w3 : NoAction(); }"), "this is bit<16>, where bit<8> is needed"),
    "an entry's action without its argument": (table(actions="x;", more="const entries = { 3 : x(); }", before=X), "x takes 1 arguments, and 0 are given"),
    "entries without a key": ({"locals_": "table t { actions = { NoAction; } const entries = { 3 : NoAction(); } }", "body": "t.apply();"}, "has entries, and no key"),
    "priority of a const entry": (table("ternary", more="const entries = { priority = 3: 1 : NoAction(); }"), "const entries have no priorities"),
    "a label twice": ({**table(), "body": "switch (t.apply().action_run) { NoAction: {} NoAction: {} }"}, "a switch label occurs twice"),
    "an unknown label": ({**table(), "body": "switch (t.apply().action_run) { zzz: {} }"}, "this is no action of table t"),
    "switch in an action": ({"locals_": "action y() { switch (hdr.probe.a) { 1: {} } }", "body": "y();"}, "switch cannot stand in an action"),
    # externs
    "mark_to_drop without an argument": ({"body": "mark_to_drop();"}, "mark_to_drop takes 1 arguments, and 0 are given"),
    "mark_to_drop of a field": ({"body": "mark_to_drop(hdr.probe.a);"}, "this is bit<8>, where standard_metadata_t is needed"),
    "mark_to_drop with two": ({"body": "mark_to_drop(standard, standard);"}, "takes 1 arguments, and 2 are given"),
    "isValid with an argument": ({"body": "if (hdr.probe.isValid(1)) {}"}, "isValid takes no arguments"),
    "setValid with an argument": ({"body": "hdr.probe.setValid(1);"}, "setValid takes no arguments"),
    "count without an index": ({"locals_": "counter(4, CounterType.packets) c;", "body": "c.count();"}, "count takes 1 arguments, and 0 are given"),
    "count of 16 bits": ({"locals_": "counter(4, CounterType.packets) c;", "body": "c.count(hdr.probe.b);"}, "this is bit<16>, where bit<32> is needed"),
    "count of a signed number": ({"locals_": "counter(4, CounterType.packets) c;", "body": "c.count(hdr.probe.s);"}, "this is int<8>, where bit<32> is needed"),
    "counter of another enum": ({"locals_": "counter(4, MeterType.packets) c;", "body": "c.count(0);"}, "this is MeterType, where CounterType is needed"),
    "counter of a number": ({"locals_": "counter(4, 5) c;", "body": "c.count(0);"}, "where CounterType is needed"),
    "direct_counter of nothing": ({"locals_": "direct_counter() c;"}, "direct_counter takes 1 arguments, and 0 are given"),
    "register index of 8 bits": ({"locals_": "register<bit<8>>(4) r;", "body": "r.read(hdr.probe.a, hdr.probe.a);"}, "this is bit<8>, where bit<32> is needed"),
    "register read into 16 bits": ({"locals_": "register<bit<8>>(4) r;", "body": "r.read(hdr.probe.b, 0);"}, "this is bit<16>, where bit<8> is needed"),
    "register write of 16 bits": ({"locals_": "register<bit<8>>(4) r;", "body": "r.write(0, hdr.probe.b);"}, "this is bit<16>, where bit<8> is needed"),
    "register read without an index": ({"locals_": "register<bit<8>>(4) r;", "body": "r.read(hdr.probe.a);"}, "read takes 2 arguments, and 1 are given"),
    "random of two types": ({"body": "random(hdr.probe.a, hdr.probe.b, 3);"}, "this is bit<16>, where bit<8> is needed"),
    "random into bool": ({"body": "bool t; random(t, 0, 1);"}, "this is int, where bool is needed"),
    "hash with four arguments": ({"body": "hash(hdr.probe.a, HashAlgorithm.crc16, 8w0, { hdr.probe.b });"}, "hash takes 5 arguments, and 4 are given"),
    "hash of another algorithm": ({"body": "hash(hdr.probe.a, CounterType.packets, 8w0, { hdr.probe.b }, 8w9);"}, "this is CounterType, where HashAlgorithm is needed"),
    "clone with a session of 16 bits": ({"body": "clone(CloneType.I2E, hdr.probe.b);"}, "this is bit<16>, where bit<32> is needed"),
    "clone of the wrong block": ({"body": "clone(CloneType.E2E, 1);"}, "belongs in the egress block"),
    "recirculate in ingress": ({"body": "recirculate_preserving_field_list(1);"}, "belongs in the egress block"),
    "verify_checksum in ingress": ({"body": "verify_checksum(true, { hdr.probe.a }, hdr.probe.b, HashAlgorithm.csum16);"}, "belongs in the verify checksum block"),
    "update_checksum in ingress": ({"body": "update_checksum(true, { hdr.probe.a }, hdr.probe.b, HashAlgorithm.csum16);"}, "belongs in the compute checksum block"),
    "truncate of 16 bits": ({"body": "truncate(hdr.probe.b);"}, "this is bit<16>, where bit<32> is needed"),
    "assert of bits": ({"body": "assert(hdr.probe.a);"}, "this is bit<8>, where bool is needed"),
    "log_msg of a number": ({"body": "log_msg(hdr.probe.a);"}, "this is bit<8>, where string is needed"),
    "log_msg with a value outside a list": ({"body": 'log_msg("{}", hdr.probe.a);'}, "the values of log_msg are a list"),
    "log_msg with values missing": ({"body": 'log_msg("{} {}", { hdr.probe.a });'}, "the message has 2 places, and 1 values"),
    "verify in a control": ({"body": "verify(true, error.NoError);"}, "verify stands in a parser only"),
    # assignments
    "a constant assigned": ({"outside": "const bit<8> K = 1;", "body": "K = 2;"}, "cannot be assigned to"),
    "a slice of a constant assigned": ({"outside": "const bit<8> K = 1;", "body": "K[3:0] = 2;"}, "cannot be assigned to"),
    "an in parameter assigned": ({"locals_": "action y(in bit<8> v) { v = 1; }", "body": "y(hdr.probe.a);"}, "cannot be assigned to"),
    "an action's data assigned": ({"locals_": "action y(bit<8> v) { v = 1; }", "body": "y(hdr.probe.a);"}, "cannot be assigned to"),
    "a function's in parameter assigned": ({"outside": "void f(in bit<8> v) { v = 1; }", "body": "f(hdr.probe.a);"}, "cannot be assigned to"),
    "a parameter without direction assigned": ({"outside": "void f(bit<8> v) { v[3:0] = 1; }", "body": "f(hdr.probe.a);"}, "cannot be assigned to"),
    "a control's in parameter assigned": ({"outside": "control C(in headers_t h) { apply { h.probe.a = 1; } }", "body": "C.apply(hdr);"}, "cannot be assigned to"),
    "setInvalid of an in parameter": ({"outside": "control C(in headers_t h) { apply { h.probe.setInvalid(); } }", "body": "C.apply(hdr);"}, "cannot be assigned to"),
    "an in parameter given as out": ({"outside": "void g(out bit<8> v) { v = 1; } control C(in headers_t h) { apply { g(h.probe.a); } }", "body": "C.apply(hdr);"}, "cannot be assigned to"),
    "a constructor's parameter assigned": ({"outside": "control C()(bit<8> k) { apply { k = 1; } }", "locals_": "C(1) c;", "body": "c.apply();"}, "cannot be assigned to"),
    "push_front of an in parameter": ({"before": LABELS, "outside": "control C(in headers_t h) { apply { h.labels.push_front(1); } }", "body": "C.apply(hdr);"}, "cannot be assigned to"),
    "a header of another type assigned": ({"body": "hdr.probe = hdr.ethernet;"}, "this is ethernet_t, where probe_t is needed"),
    "a list that is too short": ({"body": "hdr.ethernet = { 1, 2 };"}, "has 3 fields, and 2 are given"),
    "a list with other names": ({"body": "hdr.ethernet = { dst = 1, src = 2, zzz = 3 };"}, "the fields of ethernet_t are"),
    # operators
    "slice reversed": ({"body": "hdr.probe.a = (bit<8>)hdr.probe.b[3:7];"}, "[3:7] is not within bit<16>"),
    "slice beyond": ({"body": "hdr.probe.a = hdr.probe.a[8:1];"}, "[8:1] is not within bit<8>"),
    "slice below": ({"body": "hdr.probe.a = (bit<8>)hdr.probe.a[3:-1];"}, "[3:-1] is not within bit<8>"),
    "slice of a variable": ({"body": "hdr.probe.a = (bit<8>)hdr.probe.b[hdr.probe.a:0];"}, "known when compiling"),
    "slice of bool": ({"body": "bool t = true; t = t[0:0];"}, "this is bool"),
    "shift by a negative number": ({"body": "hdr.probe.a = hdr.probe.a << -1;"}, "the amount of a shift is negative"),
    "shift by a signed number": ({"body": "hdr.probe.a = hdr.probe.a << hdr.probe.s;"}, "the amount of a shift must be unsigned"),
    "shift of a number without a width": ({"body": "hdr.probe.a = 1 << hdr.probe.a;"}, "the left side of a shift needs a width"),
    "two widths compared": ({"body": "if (hdr.probe.a == hdr.probe.b) {}"}, "the operands are bit<8> and bit<16>"),
    "two signs compared": ({"body": "if (hdr.probe.a == hdr.probe.s) {}"}, "the operands are bit<8> and int<8>"),
    "bool and bits compared": ({"body": "if (hdr.probe.isValid() == 1w1) {}"}, "the operands are bool and bit<1>"),
    "two enums compared": ({"outside": "enum bit<8> E { A = 1 } enum bit<8> F { A = 1 }", "body": "if (E.A == F.A) {}"}, "the operands are E and F"),
    "bool added": ({"body": "bool t = true; t = t + t;"}, "this is bool"),
    "division by zero": ({"body": "hdr.probe.a = hdr.probe.a / 0;"}, "division by zero"),
    "signed division": ({"body": "hdr.probe.s = hdr.probe.s / 2;"}, "/ is not defined on int<8>"),
    "division of a negative number": ({"body": "hdr.probe.a = (bit<8>)(-5 / 2);"}, "not defined on negative numbers"),
    "& of a negative number": ({"body": "hdr.probe.a = -1 & 255;"}, "not defined on negative numbers"),
    "bits of 8 as bool": ({"body": "bool t = (bool)hdr.probe.a;"}, "cannot be cast to bool"),
    "an error as bits": ({"body": "hdr.probe.a = (bit<8>)error.NoError;"}, "cannot be cast to bit<8>"),
    "?: of two types": ({"body": "hdr.probe.a = true ? hdr.probe.a : hdr.probe.b;"}, "the operands are bit<8> and bit<16>"),
    "bits to an enum": ({"outside": "enum bit<8> E { A = 1 }", "body": "E e = 1;"}, "where E is needed"),
    # parsers and header stacks
    "extract into a struct": (parser("state start { packet.extract(meta); transition accept; }"), "only a header can be extracted"),
    "extract into a field": (parser("state start { packet.extract(hdr.probe.a); transition accept; }"), "only a header can be extracted"),
    "extract of a varbit without length": (parser("state start { packet.extract(hdr.opt); transition accept; }"), "extract needs its length"),
    "extract with a length of nothing": (parser("state start { packet.extract(hdr.probe, 8); transition accept; }"), "has no varbit field"),
    "extract with a length of 8 bits": (parser("state start { packet.extract(hdr.opt, hdr.probe.a); transition accept; }"), "this is bit<8>, where bit<32> is needed"),
    "advance of 8 bits": (parser("state start { packet.advance(hdr.probe.a); transition accept; }"), "this is bit<8>, where bit<32> is needed"),
    "a control applied to two registers": ({"outside": TAKES, "locals_": "register<bit<8>>(4) r; register<bit<8>>(4) q; Sub() sub;", "body": "sub.apply(r); sub.apply(q);"}, "Sub is applied to r and to q: make an instance for each"),
    "a register parameter with a direction": ({"outside": "control Sub(inout register<bit<8>> r) { apply {} }", "locals_": "register<bit<8>>(4) r; Sub() sub;", "body": "sub.apply(r);"}, "parameter r has a direction"),
    "a number for a register": ({"outside": TAKES, "locals_": "Sub() sub;", "body": "sub.apply(hdr.probe.a);"}, "this is bit<8>, where register<bit<8>> is needed"),
    "a register of other numbers": ({"outside": TAKES, "locals_": "register<bit<16>>(4) r; Sub() sub;", "body": "sub.apply(r);"}, "this is register<bit<16>>, where register<bit<8>> is needed"),
    "a register as an action's parameter": ({"locals_": "register<bit<8>>(4) r; action y(register<bit<8>> q) {}", "body": "y(r);"}, "a parameter of type register<bit<8>> is not possible here"),
    "an action that calls itself": ({"locals_": "action y() { y(); }", "body": "y();"}, "action y calls itself"),
    "a string that is never closed": ({"locals_": '@brief("x) ' + T.format(kind="exact", actions="", more=""), "body": "t.apply();"}, "this string is never closed"),
    "a string whose end is missing": ({"locals_": '@brief("x) ' + T.format(kind="exact", actions="", more="") + '\n@brief("y") action y() {}', "body": "t.apply();"}, "probe.p4:7:12: error: this string is never closed in its line"),
    "two strings whose ends are missing": ({"locals_": '@brief("x) action y() {}\n@brief("z; action z() {}'}, "probe.p4:7:12: error: this string is never closed in its line; a syntax error follows"),
    "lookahead of a stack alone": (parser("state start { label_t[2] l; l = packet.lookahead<label_t[2]>(); transition accept; }"), "make a struct of it"),
    "lookahead of a varbit in a struct": (parser("state start { both_t b; b = packet.lookahead<both_t>(); transition accept; }", outside="struct both_t { opt_t opt; bit<8> more; }"), "needs a type with a width"),
    "a case of a select without keys": (parser("state start { transition select() { 1: accept; default: accept; } }"), "select has 0 keys, and this case has 1"),
    "select over another type": (parser("state start { transition select(hdr.probe.a) { 16w1: accept; default: accept; } }"), "this is bit<16>, where bit<8> is needed"),
    "select over another number of keys": (parser("state start { transition select(hdr.probe.a) { (1, 2): accept; default: accept; } }"), "select has 1 keys, and this case has 2"),
    "an unknown state": (parser("state start { transition nowhere; }"), "there is no state nowhere"),
    "no start": (parser("state begin { transition accept; }"), "has no state start"),
    "a state twice": (parser("state start { transition accept; } state start { transition accept; }"), "two states of one name"),
    "a state accept": (parser("state start { transition accept; } state accept { }"), "state accept is built in"),
    "a parser that never accepts": (parser("state start { transition other; } state other { transition start; }"), "never reaches accept"),
    "return in a parser": (parser("state start { return; }"), "cannot stand in a parser"),
    "an action in a parser": (parser("state start { act(); transition accept; }", outside="action act() {}"), "cannot be called in a parser"),
    "verify of bits": (parser("state start { verify(hdr.probe.a, error.NoMatch); transition accept; }"), "this is bit<8>, where bool is needed"),
    "verify without an error": (parser("state start { verify(true, 1); transition accept; }"), "this is int, where error is needed"),
    "last assigned": (parser("state start { packet.extract(hdr.labels.next); hdr.labels.last.v = 1; transition accept; }"), "cannot be assigned to"),
    "push_front in a parser": (parser("state start { hdr.labels.push_front(1); transition accept; }"), "cannot be used in a parser"),
    "next in a control": ({"before": LABELS, "body": "hdr.labels.next.v = 1;"}, "in a parser only"),
    "last in a control": ({"before": LABELS, "body": "hdr.probe.a = hdr.labels.last.v;"}, "in a parser only"),
    "lastIndex in a control": ({"before": LABELS, "body": "hdr.probe.b = (bit<16>)hdr.labels.lastIndex;"}, "in a parser only"),
    "an index beyond": ({"before": LABELS, "body": "hdr.labels[3].v = 1;"}, "index 3 is not within label_t[3]"),
    "push_front of nothing": ({"before": LABELS, "body": "hdr.labels.push_front(0);"}, "takes one positive number"),
    # functions
    "a return that is missing": ({"outside": "bit<8> f(in bit<8> v) { if (v == 1) { return 1; } }", "body": "hdr.probe.a = f(1);"}, "does not return a value on all paths"),
    "no return at all": ({"outside": "bit<8> f(in bit<8> v) { }", "body": "hdr.probe.a = f(1);"}, "does not return a value on all paths"),
    "a value returned from void": ({"outside": "void f() { return 1; }", "body": "f();"}, "nothing can be returned here"),
    "exit in a function": ({"outside": "bit<8> f(in bit<8> v) { exit; return 1; }", "body": "hdr.probe.a = f(1);"}, "exit cannot stand in a function"),
    "a function that calls itself": ({"outside": "bit<8> f(in bit<8> v) { return f(v); }", "body": "hdr.probe.a = f(1);"}, "calls itself"),
    # declarations
    "an action twice": ({"locals_": "action y() {} action y() {}"}, "y is declared twice"),
    "a variable twice": ({"body": "bit<8> v = 1; bit<8> v = 2;"}, "v is declared twice"),
    "a parameter twice": ({"locals_": "action y(bit<8> v, bit<8> v) {}", "body": "y(1, 2);"}, "v is declared twice"),
    "a field twice": ({"outside": "struct S { bit<8> v; bit<8> v; }"}, "field v occurs twice"),
    "an enum's member twice": ({"outside": "enum E { A, A }"}, "E.A is declared twice"),
    "an error twice": ({"outside": "error { X, X }"}, "error X is declared twice"),
    "an error of core.p4": ({"outside": "error { NoError }"}, "error NoError is declared twice"),
    "a match kind of core.p4": ({"outside": "match_kind { exact }"}, "match_kind exact is declared twice"),
    "two tables of one name": ({"locals_": '@name(".t") table t { actions = { NoAction; } } @name(".t") table u { actions = { NoAction; } }', "body": "t.apply(); u.apply();"}, "both are named t"),
    "two registers of one name": ({"locals_": '@name("r") register<bit<8>>(4) q; register<bit<8>>(4) r;'}, "both are named Work.r"),
    "a parameter of type int": ({"locals_": "action y(in int v) {}", "body": "y(1);"}, "a parameter of type int is not possible"),
    "a table applied in an action's argument": ({**table(before="action y(in bool v) {}"), "body": "y(t.apply().hit);"}, "cannot be applied in an action's argument"),
    "two packages": ({"outside": "V1Switch(Parse(), Verify(), Work(), After(), Compute(), Deparse()) main;"}, "two V1Switch(...) packages"),
    "a control instantiated outside": ({"outside": "control C() { apply {} } C() c;"}, "cannot be instantiated outside a control"),
    # what nothing uses
    "an unused function": ({"outside": "bit<8> f(in bit<16> v) { return v; }"}, "this is bit<16>, where bit<8> is needed"),
    "an unused action": ({"locals_": "action y() { hdr.probe.a = hdr.probe.b; }"}, "this is bit<16>, where bit<8> is needed"),
    "an unused table": ({"locals_": "table t { key = { hdr.probe.zz : exact; } actions = { NoAction; } }"}, "has no field zz"),
    "an unused control": ({"outside": "control C(inout headers_t h) { apply { h.probe.zz = 1; } }"}, "has no field zz"),
    "an action of an unused control": ({"outside": "control C(inout headers_t h) { action y() { h.probe.zz = 1; } apply {} }"}, "has no field zz"),
    "an unused parser": ({"outside": "parser P(packet_in p, out headers_t h) { state start { p.extract(h.zz); transition accept; } }"}, "has no field zz"),
}  # fmt: skip
WARNINGS: dict[str, tuple[dict[str, str], str]] = {
    "a port of ten bits": ({"body": "standard.egress_spec = 1024;"}, "1024: value does not fit in 9 bits"),
    "a negative number": ({"body": "hdr.probe.a = -1;"}, "-1: negative value with unsigned type"),
    "a number with a width": ({"body": "hdr.probe.a = 8w300;"}, "300: value does not fit in 8 bits"),
    "a signed number": ({"body": "hdr.probe.s = 128;"}, "128: signed value does not fit in 8 bits"),
    "a signed number with a width": ({"body": "hdr.probe.s = -8s129;"}, "129: signed value does not fit in 8 bits"),
    "a constant": ({"outside": "const bit<8> K = 300;", "body": "hdr.probe.a = K;"}, "300: value does not fit in 8 bits"),
    "a cast": ({"body": "hdr.probe.a = (bit<8>)300;"}, "300: value does not fit in 8 bits"),
    "a cast of a number with a width": ({"body": "hdr.probe.a = (bit<8>)16w300;"}, "300: value does not fit in 8 bits"),
    "a comparison": ({"body": "if (hdr.probe.a == 256) {}"}, "256: value does not fit in 8 bits"),
    "an operand": ({"body": "hdr.probe.a = hdr.probe.a + 256;"}, "256: value does not fit in 8 bits"),
    "a slice": ({"body": "hdr.probe.a[3:0] = 16;"}, "16: value does not fit in 4 bits"),
    "an item of a list": ({"body": "hdr.ethernet = { 1, 2, 65536 };"}, "65536: value does not fit in 16 bits"),
    "an action's argument": ({"locals_": X, "body": "x(300);"}, "300: value does not fit in 8 bits"),
    "a default action's argument": (table(actions="x;", more="default_action = x(256);", before=X), "256: value does not fit in 8 bits"),
    "an entry's argument": (table(actions="x;", more="const entries = { 3 : x(256); }", before=X), "256: value does not fit in 8 bits"),
    "an entry": (table(more="const entries = { 256 : NoAction(); }"), "256: value does not fit in 8 bits"),
    "a register's cell": ({"locals_": "register<bit<8>>(4) r;", "body": "r.write(0, 300);"}, "300: value does not fit in 8 bits"),
    "a session": ({"body": "clone(CloneType.I2E, 0x1ffffffff);"}, "8589934591: value does not fit in 32 bits"),
    "a field list": ({"body": "clone_preserving_field_list(CloneType.I2E, 1, 300);"}, "300: value does not fit in 8 bits"),
    "a constructor's argument": ({"outside": "control C()(bit<8> k) { apply {} }", "locals_": "C(256) c;", "body": "c.apply();"}, "256: value does not fit in 8 bits"),
    "an enum's value": ({"outside": "enum bit<4> E { A = 16 }"}, "16: value does not fit in 4 bits"),
    "a label": ({"body": "switch (hdr.probe.a) { 256: {} default: {} }"}, "256: value does not fit in 8 bits"),
    "a key of select": (parser("state start { transition select(hdr.probe.a) { 256: accept; default: accept; } }"), "256: value does not fit in 8 bits"),
    "a shift of a constant": ({"body": "hdr.probe.a = 8w1 << 7 << 1;"}, "256: value does not fit in 8 bits"),
    "a shift by the width": ({"body": "hdr.probe.a = hdr.probe.a << 8;"}, "shifting value with 8 bits by 8"),
    "a case behind the default": (parser("state start { transition select(hdr.probe.a) { default: accept; 1: accept; } }"), "unreachable case"),
    "a label behind the default": ({**table(), "body": "switch (t.apply().action_run) { default: {} NoAction: {} }"}, "a label follows the default label"),
    "bits outside an entry's mask": (table("lpm", more="const entries = { 0x11 &&& 0xf0 : NoAction(); }"), "bits of 0x11 outside its mask 0xf0 are ignored"),
    "a range that is empty": (table("range", more="const entries = { 5 .. 3 : NoAction(); }"), "this range ends before it starts, and is empty"),
}  # fmt: skip
SILENT: dict[str, dict[str, str]] = {
    "the largest numbers": {"body": "standard.egress_spec = 511; hdr.probe.a = 255; hdr.probe.s = 127; hdr.probe.s = -128; hdr.probe.wide = 0xffffffffffffffffffffffffffffffff;"},
    "arithmetic that wraps": {"body": "hdr.probe.a = 8w200 + 8w100; hdr.probe.a = 8w0 - 8w1; hdr.probe.s = -8s127; hdr.probe.a = ~8w1; hdr.probe.a = -8w1;"},
    "a shift by a signed number that is known": {"body": "hdr.probe.a = hdr.probe.a << 8s1;"},
    "a missing feature that nothing uses": {"outside": "control C(inout headers_t h) { apply { digest(1, { h.probe.a }); } }", "locals_": "action y() { digest(1, { hdr.probe.a }); }"},
    "an index of its own type": {"before": "#define V1MODEL_VERSION 20200408", "locals_": "register<bit<8>, bit<16>>(4) r; counter<bit<16>>(4, CounterType.packets) c;", "body": "r.read(hdr.probe.a, hdr.probe.b); c.count(hdr.probe.b);"},
    "a function named as an extern": {"outside": "bit<8> hash(in bit<8> v) { return v; }", "body": "hdr.probe.a = hash(1); hash(hdr.probe.a, HashAlgorithm.crc16, 8w0, { hdr.probe.b }, 8w9);"},
    "a control that takes a register and is never applied": {"outside": TAKES, "locals_": "Sub() sub;"},
    "annotations of several lines, empty ones and paths": {"locals_": '@brief("a\n\\"b\\" {x} // c\n") @empty("") @none() @path(a.b.c) @list["", "x\ny"] action y() {}', "body": "y();"},
    "field lists by constants": {"before": "const bit<8> LIST = 1; enum bit<8> Lists { kept = 2 }\n#define METADATA_FIELDS @field_list(0x1, LIST, Lists.kept) bit<8> kept;"},
}  # fmt: skip


@pytest.mark.parametrize("name", ERRORS)
def test_errors_of_p4c_are_errors(name: str, tmp_path: Path) -> None:
    parts, message = ERRORS[name]
    with pytest.raises(CompileError) as caught:
        compile_(program(tmp_path, **parts))
    assert message in str(caught.value)
    assert "probe.p4:" in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", WARNINGS)
def test_warnings_of_p4c_are_warnings(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    parts, message = WARNINGS[name]
    compile_(program(tmp_path, **parts))
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 1
    place, _, sentences = lines[0].partition(": warning: ")
    assert sentences == message
    file, line, column = place.rsplit(":", 2)
    assert file.endswith("probe.p4")
    assert int(line) >= 2
    assert int(column) >= 1


@pytest.mark.parametrize("name", SILENT)
def test_what_p4c_takes_is_taken_in_silence(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    compile_(program(tmp_path, **SILENT[name]))
    assert capsys.readouterr().err == ""


def test_a_warning_names_the_column_of_the_number(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = program(tmp_path, "standard.egress_spec = 1024;")
    compile_(path)
    assert "probe.p4:9:32: warning: 1024" in capsys.readouterr().err
