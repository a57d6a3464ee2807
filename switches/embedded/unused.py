"""What a program declares and never uses is checked like everything else; no C is kept of it."""

from __future__ import annotations

from switches.embedded import syntax as s
from switches.embedded.errors import UnsupportedError
from switches.embedded.parsers import Parsers
from switches.embedded.scope import ActionSymbol, DeclarationSymbol, InstanceSymbol, Scope, TableSymbol, Value
from switches.embedded.types import PacketType


class Unused(Parsers):
    """Translates what nothing has used, for its errors alone."""

    def __init__(self) -> None:
        super().__init__()
        self.local_symbols: list[tuple[str, ActionSymbol | TableSymbol]] = []  # with the block that they stand in

    def declare_locals(
        self, nodes: list[s.Declaration], scope: Scope, path: tuple[str, ...]
    ) -> list[tuple[s.Variable, s.Expression | None]]:
        start = super().declare_locals(nodes, scope, path)
        found = [symbol for symbol in scope.names.values() if isinstance(symbol, (ActionSymbol, TableSymbol))]
        self.local_symbols += [(self.role, symbol) for symbol in found]
        return start

    def check_unused(self) -> None:
        """Raise CompileError for what is wrong in unused declarations. What is only unsupported may stand there."""
        outputs = [self.types, self.globals, self.functions, self.registers, self.counters, self.table_names]
        lengths = [len(output) for output in outputs]
        for symbol in list(self.top.names.values()):
            if isinstance(symbol, DeclarationSymbol):
                self._tolerate(self._check, symbol)
        for role, local in self.local_symbols:  # grows meanwhile, by what unused controls declare
            self.role = role
            self._tolerate(self._check_local, local)
        for output, length in zip(outputs, lengths, strict=True):
            del output[length:]

    def _tolerate(self, check, symbol) -> None:  # type: ignore[no-untyped-def]
        lines = self.lines
        try:
            check(symbol)
        except UnsupportedError:
            self.in_progress.clear()
        self.lines, self.depth = lines, 1
        self.parser_fail, self.in_action = None, False

    def _check(self, symbol: DeclarationSymbol) -> None:
        node = symbol.node
        if isinstance(node, s.Function):
            self.function_name(symbol)
        elif isinstance(node, s.Action):
            self.action_function(self.top_action(symbol))
        elif not node.constructor and not any(instance.node is node for instance in self.bound):
            self.role = ""
            scope = Scope(symbol.scope)
            values = []
            for parameter in node.parameters:
                type_ = self.resolve(parameter.type, symbol.scope)
                text = "packet" if isinstance(type_, PacketType) else self.static_variable("unused", type_)
                values.append(Value(text, type_, None, True))
            self.instance_function(InstanceSymbol(node, scope, (node.name,), []), values, node.position)

    def _check_local(self, symbol: ActionSymbol | TableSymbol) -> None:
        if isinstance(symbol, TableSymbol):
            self.apply_table(symbol)
        else:
            self.action_function(symbol)
