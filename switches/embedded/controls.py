"""Controls, actions and functions: one C function each, its variables static as one packet is processed at a time."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from switches.embedded import syntax as s
from switches.embedded.errors import CompileError, Position, unsupported
from switches.embedded.scope import (
    ActionSymbol,
    ConstantSymbol,
    DeclarationSymbol,
    ExternSymbol,
    InstanceSymbol,
    Scope,
    Target,
    Value,
    VariableSymbol,
)  # fmt: skip
from switches.embedded.tables import Tables
from switches.embedded.text import c_string
from switches.embedded.types import VOID, Bits, EnumType, Integer, StringType, TupleOf, Type, as_bits, c_name, c_type
from switches.embedded.walk import always_returns, walk

DEEPEST_PATH = 40  # instances within instances
BANK = 4  # registers of one shape in one control that are worth interleaving


class Controls(Tables):
    """Translates controls and what they are made of."""

    def __init__(self) -> None:
        super().__init__()
        self.bound: dict[InstanceSymbol, tuple[str, tuple[str, ...], list[tuple[s.Parameter, Type, str]]]] = {}
        self.emitted_by: dict[str, int] = {}  # bytes that a control's function emits at most
        self.action_functions: dict[ActionSymbol, str] = {}
        self.top_actions: dict[str, ActionSymbol] = {}
        self.function_names: dict[str, tuple[str, list[Type], Type]] = {}
        self.registers: list[str] = []
        self.counters: list[str] = []
        self.in_progress: set[ActionSymbol | str] = set()  # being translated

    # --- applying an instance

    def apply_instance(self, instance: InstanceSymbol, arguments: list[s.Expression], scope: Scope, position: Position) -> None:
        """Emit the application of a control or parser instance to arguments."""
        node = instance.node
        if len(node.parameters) != len(arguments):
            raise CompileError(position, f"{node.name} takes {len(node.parameters)} arguments, and {len(arguments)} are given")
        evaluations: list[Callable[[], Value]] = []
        targets: dict[str, Target] = {}
        for parameter, argument in zip(node.parameters, arguments, strict=True):
            type_ = self.resolve(parameter.type, instance.scope)
            if as_bits(type_) is None:
                value = self.expression(argument, scope)
                if value.type != type_:
                    raise CompileError(argument.position, f"this is {value.type}, where {type_} is needed")
                if parameter.direction in ("out", "inout") and not value.assignable:
                    raise CompileError(argument.position, "this cannot be assigned to")
                if "(" in value.text:
                    raise unsupported(argument.position, "a header or struct chosen at run time as an argument of apply()")
                if parameter.direction == "out":
                    self.clear(value)
            else:
                evaluations.append(partial(self._scalar_argument, parameter, type_, argument, scope, targets))
                continue
            evaluations.append(partial(lambda kept: kept, value))
        values = self.in_order(evaluations)
        self._check_aliasing(node.parameters, values, position)
        c, places = self.instance_function(instance, values, position)
        copies = {id(p): c_variable for p, _, c_variable in places}
        for parameter, value in zip(node.parameters, values, strict=True):
            if id(parameter) in copies and parameter.direction != "out":
                self.emit(f"{copies[id(parameter)]} = {value.text};")
        self.emit(self.application(c, node))
        self.count_emitted(self.emitted_by[c], position)
        for parameter, type_, variable in places:
            if parameter.direction in ("out", "inout"):
                self.store(targets[parameter.name], Value(variable, type_), position)
        self.check_exit()

    def _scalar_argument(
        self, parameter: s.Parameter, type_: Type, argument: s.Expression, scope: Scope, targets: dict[str, Target]
    ) -> Value:
        """The value of an argument that is copied in; `targets` gets where it is copied out to."""
        if parameter.direction not in ("out", "inout"):
            return self.coerce(self.expression(argument, scope), type_, argument.position)
        target = self.target(argument, scope, freeze=True)
        if target.type != type_:
            raise CompileError(argument.position, f"this is {target.type}, where {type_} is needed")
        targets[parameter.name] = target
        return self.read_target(target, argument.position)

    def application(self, c: str, node: s.Control | s.Parser) -> str:
        """The C statement that runs an instance's function."""
        return f"{c}();"

    def _check_aliasing(self, parameters: list[s.Parameter], values: list[Value], position: Position) -> None:
        """Structs go by reference, which equals copy-in, copy-out only while no two arguments overlap."""
        for i, a in enumerate(values):
            for j, b in enumerate(values):
                written = parameters[i].direction in ("out", "inout")
                overlap = (b.text + ".").startswith(a.text + ".") or (a.text + ".").startswith(b.text + ".")
                if i != j and written and overlap and as_bits(a.type) is None and as_bits(b.type) is None:
                    raise unsupported(position, "arguments of apply() that overlap")

    def instance_function(
        self, instance: InstanceSymbol, values: list[Value], position: Position
    ) -> tuple[str, list[tuple[s.Parameter, Type, str]]]:
        """The C function of an instance and the C variables of its scalar parameters, translated at first use."""
        bound = tuple(v.text for v in values if as_bits(v.type) is None)
        if instance in self.bound:
            c, before, places = self.bound[instance]
            if before != bound:
                raise unsupported(position, f"{instance.node.name} applied twice, to different headers or structs")
            return c, places
        c = self.unique("_".join(instance.path))
        scope = Scope(instance.scope)
        places = []
        for parameter, value in zip(instance.node.constructor, instance.arguments, strict=True):
            scope.declare(parameter.name, ConstantSymbol(value), parameter.position)
        for parameter, value in zip(instance.node.parameters, values, strict=True):
            text = value.text
            if as_bits(value.type) is not None:
                text = self.static_variable("_".join((*instance.path, parameter.name)), value.type)
                places.append((parameter, value.type, text))
            symbol = VariableSymbol(text, value.type, parameter.direction in ("out", "inout"))
            scope.declare(parameter.name, symbol, parameter.position)
        self.bound[instance] = (c, bound, places)
        emitted, self.emitted = self.emitted, 0
        self.translate_instance(instance, c, scope)
        self.emitted_by[c], self.emitted = self.emitted, emitted
        return c, places

    def translate_instance(self, instance: InstanceSymbol, c: str, scope: Scope) -> None:
        """Write the C function of a control."""
        node: s.Control = instance.node
        start = self.declare_locals(node.locals, scope, instance.path)
        saved = self.result, self.leave
        self.result, self.leave = VOID, "return;"
        with self.function(f"static void {c}(void)", f"control {node.name} ({node.position})"):
            for variable, initial in start:
                self._start(variable, initial, scope)
            self.block(node.body, scope)
        self.result, self.leave = saved

    def _start(self, variable: s.Variable, initial: s.Expression | None, scope: Scope) -> None:
        name = s.Name(variable.position, variable.name)
        self.clear(self.expression(name, scope))
        if initial is not None:
            self.assign(name, self.expression(initial, scope, self.resolve(variable.type, scope)), scope)

    def static_variable(self, name: str, type_: Type) -> str:
        if isinstance(type_, Bits) and type_.wide:
            self.wide(type_)
        c = self.unique(name)
        self.globals.append(f"static {c_type(type_)} {c};")
        return c

    # --- declarations inside

    def declare_locals(
        self, nodes: list[s.Declaration], scope: Scope, path: tuple[str, ...]
    ) -> list[tuple[s.Variable, s.Expression | None]]:
        """Declare all of a control's or parser's locals; its variables, for their initial values."""
        start = []
        banks = self._banks(nodes, scope, path)
        for node in nodes:
            if isinstance(node, s.Variable):
                type_ = self.resolve(node.type, scope)
                variable = self.static_variable("_".join((*path, node.name)), type_)
                scope.declare(node.name, VariableSymbol(variable, type_), node.position)
                start.append((node, node.initial))
            elif isinstance(node, s.Constant):
                self.declare_constant(node, scope)
            elif isinstance(node, s.Instantiation):
                self.instantiate(node, scope, path, banks.get(node.name))
            elif isinstance(node, s.Action):
                c = self.unique("_".join((*path, node.name)))
                scope.declare(node.name, ActionSymbol(node, scope, c, control_name(node, path)), node.position)
            elif isinstance(node, s.Table):
                self.declare_table(node, scope, path, control_name(node, path))
        return start

    def instantiate(self, node: s.Instantiation, scope: Scope, path: tuple[str, ...], lane: str | None = None) -> None:
        inner = (*path, node.name)
        if node.type == "register":
            self._register(node, scope, path, lane)
        elif node.type in ("counter", "direct_counter"):
            self._counter(node, scope, path)
        elif node.type in ("meter", "direct_meter", "action_profile", "action_selector", "Checksum16"):
            raise unsupported(node.position, node.type)
        else:
            symbol = scope.get(node.type, node.position)
            if not isinstance(symbol, DeclarationSymbol) or not isinstance(symbol.node, (s.Control, s.Parser)):
                raise CompileError(node.position, f"{node.type} cannot be instantiated")
            scope.declare(node.name, self.make_instance(symbol, inner, node.arguments, scope, node.position), node.position)

    def make_instance(
        self, symbol: DeclarationSymbol, path: tuple[str, ...], arguments: list[s.Expression], scope: Scope, position: Position
    ) -> InstanceSymbol:
        node = symbol.node
        if len(path) > DEEPEST_PATH:
            raise CompileError(position, f"{node.name} instantiates itself")
        if len(node.constructor) != len(arguments):
            raise CompileError(position, f"{node.name} is constructed from {len(node.constructor)} arguments")
        values = []
        for parameter, argument in zip(node.constructor, arguments, strict=True):
            value = self.coerce(self.expression(argument, scope), self.resolve(parameter.type, scope), argument.position)
            if value.constant is None:
                raise CompileError(argument.position, "this must be known when compiling")
            values.append(value)
        return InstanceSymbol(node, symbol.scope, path, values)

    def _shape(self, node: s.Instantiation, scope: Scope) -> tuple[Bits, int]:
        """A register's element type and number of cells."""
        if len(node.type_arguments) not in (1, 2) or len(node.arguments) != 1:  # the second is the type of the index
            raise CompileError(node.position, "a register is written register<bit<W>>(cells) name;")
        element = self.resolve(node.type_arguments[0], scope)
        bits = as_bits(element)
        if bits is None or bits.wide or isinstance(element, EnumType):
            raise unsupported(node.position, f"a register of {element}")
        size = self.constant(node.arguments[0], scope)
        if not 0 < size <= 1 << 28:
            raise CompileError(node.position, f"a register of {size} cells is not possible")
        return bits, size

    def _banks(self, nodes: list[s.Declaration], scope: Scope, path: tuple[str, ...]) -> dict[str, str]:
        """Registers of one shape share an array of structs, so that one index touches neighbouring memory."""
        shapes: dict[tuple[Bits, int], list[str]] = {}
        for node in nodes:
            if isinstance(node, s.Instantiation) and node.type == "register":
                shapes.setdefault(self._shape(node, scope), []).append(node.name)
        lanes = {}
        for (element, size), names in shapes.items():
            if len(names) >= BANK:
                bank = self.unique("_".join((*path, "bank")))
                fields = " ".join(f"{element.storage} {c_name(n)};" for n in names)
                self.globals.append(f"static struct {{ {fields} }} {bank}[{size} + 1];")
                lanes.update({name: f"{bank}.{c_name(name)}" for name in names})
        return lanes

    def _register(self, node: s.Instantiation, scope: Scope, path: tuple[str, ...], lane: str | None) -> None:
        element, size = self._shape(node, scope)
        name = control_name(node, path)
        if lane is None:
            c = self.unique("_".join((*path, node.name)))
            self.globals.append(f"static {element.storage} {c}[{size} + 1];")
            base, stride = c, f"sizeof {c}[0]"
        else:
            c = lane
            bank, _, field = lane.partition(".")
            base, stride = f"&{bank}[0].{field}", f"sizeof {bank}[0]"
        self.name_once("register", name, node.position)
        signed = "true" if element.signed else "false"
        self.registers.append(
            f"{{{c_string(name)}, {base}, {stride}, {size}, {element.width}, sizeof({element.storage}), {signed}}}"
        )
        index = self.resolve(node.type_arguments[1], scope) if len(node.type_arguments) == 2 else None
        scope.declare(node.name, ExternSymbol("register", c, element, size, name, node.position, index), node.position)

    def _counter(self, node: s.Instantiation, scope: Scope, path: tuple[str, ...]) -> None:
        name = control_name(node, path)
        self.name_once("counter", name, node.position)
        direct = node.type == "direct_counter"
        c, size = "", 0
        if len(node.arguments) != (1 if direct else 2):
            form = "direct_counter(CounterType.packets)" if direct else "counter(cells, CounterType.packets)"
            raise CompileError(node.position, f"a {node.type} is written {form} name;")
        kind = self.expression(node.arguments[-1], scope).type
        if not isinstance(kind, EnumType) or kind.name != "CounterType":
            raise CompileError(node.arguments[-1].position, f"this is {kind}, where CounterType is needed")
        if not direct:
            size = self.constant(node.arguments[0], scope)
            if not 0 < size <= 1 << 28:
                raise CompileError(node.position, f"a counter of {size} cells is not possible")
            c = self.unique("_".join((*path, node.name)))
            self.globals.append(f"static struct count {c}[{size}];")
            self.counters.append(f"{{{c_string(name)}, {c}, {size}}}")
        index = self.resolve(node.type_arguments[0], scope) if node.type_arguments else None
        scope.declare(node.name, ExternSymbol(node.type, c, None, size, name, node.position, index), node.position)

    # --- actions and functions

    def top_action(self, symbol: DeclarationSymbol) -> ActionSymbol:
        name = symbol.node.name
        if name not in self.top_actions:
            self.top_actions[name] = ActionSymbol(symbol.node, symbol.scope, self.unique(name), control_name(symbol.node, ()))
        return self.top_actions[name]

    def action_function(self, action: ActionSymbol) -> str:
        """The C function of an action, translated at first use."""
        if action in self.in_progress:
            raise CompileError(action.node.position, f"action {action.node.name} calls itself")
        if action not in self.action_functions:
            self.action_functions[action] = action.c
            self.in_progress.add(action)
            types = [self.resolve(p.type, action.scope) for p in action.node.parameters]
            self._body_function(action.c, action.node, types, VOID, action.scope, f"action {action.control_name}")
            self.in_progress.discard(action)
        return action.c

    def call_action(self, action: ActionSymbol, arguments: list[s.Expression], scope: Scope, position: Position) -> None:
        for inner in walk(arguments):
            if isinstance(inner, s.Call) and self.table_of(inner, scope):
                raise CompileError(inner.position, "a table cannot be applied in an action's argument")
        types = [self.resolve(p.type, action.scope) for p in action.node.parameters]
        passed, after = self.bind(action.node.parameters, types, arguments, scope, position)
        self.emit(f"{self.action_function(action)}({', '.join(passed)});")
        for line in after:
            self.emit(line)

    def function_name(self, symbol: DeclarationSymbol) -> tuple[str, list[Type], Type]:
        node: s.Function = symbol.node
        if node.name in self.in_progress:
            raise CompileError(node.position, f"function {node.name} calls itself")
        if node.name not in self.function_names:
            types = [self.resolve(p.type, symbol.scope) for p in node.parameters]
            result = self.resolve(node.result, symbol.scope)
            if result != VOID and as_bits(result) is None:
                raise unsupported(node.position, f"a function that returns {result}")
            made = (self.unique(node.name), types, result)
            self.function_names[node.name] = made
            self.in_progress.add(node.name)
            self._body_function(made[0], node, types, result, symbol.scope, f"function {node.name}")
            self.in_progress.discard(node.name)
        return self.function_names[node.name]

    def _body_function(
        self, c: str, node: s.Action | s.Function, types: list[Type], result: Type, outer: Scope, comment: str
    ) -> None:
        scope = Scope(outer)
        parameters = []
        for parameter, type_ in zip(node.parameters, types, strict=True):
            if isinstance(type_, (Integer, StringType, TupleOf)) or type_ == VOID:
                raise CompileError(parameter.position, f"a parameter of type {type_} is not possible here")
            name = self.unique(parameter.name)
            by_address = parameter.direction in ("out", "inout")
            parameters.append(f"{c_type(type_)} {'*' if by_address else ''}{name}")
            text = f"(*{name})" if by_address else name
            scope.declare(parameter.name, VariableSymbol(text, type_, by_address), parameter.position)
        saved = self.result, self.leave, self.in_action
        self.result, self.leave, self.in_action = result, "return;", isinstance(node, s.Action)
        if isinstance(node, s.Function):
            self._check_function(node, result)
        signature = f"static {c_type(result)} {c}({', '.join(parameters) or 'void'})"
        with self.function(signature, f"{comment} ({node.position})"):
            self.block(node.body, scope)
            if result != VOID:
                self.emit("return 0;")
        self.result, self.leave, self.in_action = saved

    def _check_function(self, node: s.Function, result: Type) -> None:
        if found := next((inner for inner in walk(node.body) if isinstance(inner, s.Exit)), None):
            raise CompileError(found.position, "exit cannot stand in a function")
        if result != VOID and not always_returns(node.body):
            raise CompileError(node.position, f"function {node.name} does not return a value on all paths")


def control_name(node: s.Action | s.Table | s.Instantiation, path: tuple[str, ...]) -> str:
    """What the control plane calls a thing: its @name, or its path from the top-level control."""
    for annotation in node.annotations:
        if annotation.name == "name" and annotation.body:
            given = annotation.text()
            if not given or given.startswith("#") or any(ch.isspace() for ch in given):
                raise CompileError(annotation.position, f"@name({given!r}): a command cannot name this, use a name without spaces")
            return given[1:] if given.startswith(".") else ".".join((*path, given))
    return ".".join((*path, node.name))
