"""The token filter: tells types from other names, type brackets from comparisons, and keywords from names, as the specification's
lexer must (appendix G)."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from lark import Token

from .text import is_identifier

TAKES_ANGLES = {"bit", "int", "varbit", "tuple", "value_set"}
OPENS_ARGUMENTS = TAKES_ANGLES - {"value_set"} | {"bool", "error", "_"}  # beside types: what begins a list of type arguments


def _declares_type(before: str, after: list[str]) -> bool:
    """True if a `type` between these tokens begins `type TYPE NAME;`."""
    return before in ("", ";", "{", "}", ")") and bool(after) and is_identifier(after[0]) and after[1:2] != ["="]


def _begins_loop(before: str, after: list[str]) -> bool:
    return before in (";", "{", "}", ")", ":", "else") and after[:1] == ["("]


def _stands_alone(before: str, after: list[str]) -> bool:
    return before in (";", "{", "}", ")", ":", "else") and after[:1] == [";"]


# keywords that are names elsewhere, and how to tell: by the token before and the three behind
SOFT_KEYWORDS: dict[str, Callable[[str, list[str]], bool]] = {
    "apply": lambda before, after: before != "." and after[:1] == ["{"],
    "state": lambda before, after: before != "." and after[1:2] == ["{"] and is_identifier(after[0]),
    "key": lambda before, after: after[:2] == ["=", "{"],
    "actions": lambda before, after: after[:2] == ["=", "{"],
    "entries": lambda before, after: after[:2] == ["=", "{"],
    "type": _declares_type,
    "priority": lambda before, after: after[:1] == ["="] and after[2:3] == [":"],
    "for": _begins_loop,
    "break": _stands_alone,
    "continue": _stands_alone,
}

# words that begin something the grammar lacks
LACKING = {"abstract": "abstract methods"}


class LackingFeatureError(Exception):
    """A token that begins a feature which the embedded switch has not."""

    def __init__(self, token: Token, feature: str) -> None:
        super().__init__(feature)
        self.token = token
        self.feature = feature


class TokenFilter:
    """Between lark's lexer and its parser."""

    always_accept = ()

    def process(self, stream: Iterator[Token]) -> Iterator[Token]:
        tokens = list(stream)
        texts = [str(token) for token in tokens]
        types, parameters = _declared_types(tokens, texts), _type_parameters(tokens, texts)
        nesting: list[str] = []
        previous = ""
        for i, (token, text) in enumerate(zip(tokens, texts, strict=True)):
            if text in LACKING and previous != ".":
                raise LackingFeatureError(token, LACKING[text])
            known = types | parameters[i] if i in parameters else types
            if text in SOFT_KEYWORDS and not SOFT_KEYWORDS[text](previous, texts[i + 1 : i + 4]):
                token = Token.new_borrow_pos("IDENT", text, token)
            elif token.type == "IDENT" and text in known:
                if texts[i + 1 : i + 2] == ["<"]:
                    is_type = _is_bracket(known, parameters, tokens, texts, i + 1)
                else:
                    is_type = _stands_as_type(previous, texts[i + 1 : i + 2], nesting)
                token = Token.new_borrow_pos("TYPE", text, token) if is_type else token
            elif text in ("(", "[", "{"):
                nesting.append(text)
            elif text in (")", "]", "}") and nesting:
                nesting.pop()
            elif text == "<" and _is_bracket(known, parameters, tokens, texts, i):
                nesting.append("<")
                token = Token.new_borrow_pos("LANGLE", text, token)
            elif text in (">", ">>") and nesting[-len(text) :] == ["<"] * len(text):
                for _ in text:
                    nesting.pop()
                    yield Token.new_borrow_pos("RANGLE", ">", token)
                previous = text
                continue
            previous = text
            yield token


OPERATORS = {
    *("=", "+", "-", "*", "/", "%", "&", "|", "^", "~", "!", "?", ":", "==", "!=", "<=", ">=", "&&", "||", "++", "<<", ">>"),
    *("|+|", "|-|", "&&&", "..", "return"),
}


def _stands_as_type(before: str, after: list[str], nesting: list[str]) -> bool:
    """Whether a name of a type stands where a type may. A variable of that name may hide it, and stands elsewhere."""
    match after:
        case [")"]:
            return before == "("  # a cast
        case ["["]:
            return before not in OPERATORS
        case [("," | ">" | ">>")]:
            return nesting[-1:] == ["<"]
        case [("(" | "." | "{")]:
            return True
    return bool(after) and is_identifier(after[0])


def _is_bracket(types: set[str], parameters: dict[int, frozenset[str]], tokens: list[Token], texts: list[str], at: int) -> bool:
    """Whether a `<` opens type parameters or type arguments. A field or variable may have the name of a type (counter < 5)."""
    before, after = texts[at - 1] if at else "", texts[at + 1] if at + 1 < len(texts) else ""
    if before in TAKES_ANGLES:
        return True
    if before in types and texts[at - 2 : at - 1] != ["."]:
        return after in OPENS_ARGUMENTS or after in types
    declares = at > 0 and tokens[at - 1].type == "IDENT" and after in parameters.get(at, ())
    return declares or _calls_generic(types, texts, at)


def _calls_generic(types: set[str], texts: list[str], at: int) -> bool:
    """True if the `<` at this place opens type arguments of a call: name<…>(…)."""
    first = texts[at + 1] if at + 1 < len(texts) else ""
    if first not in OPENS_ARGUMENTS and first not in types:
        return False
    depth = 0
    for i in range(at, min(at + 64, len(texts))):
        depth += {"<": 1, ">": -1, ">>": -2}.get(texts[i], 0)
        if depth <= 0:
            return texts[i + 1 : i + 2] == ["("]
        if texts[i] in (";", "{", "}", "&&", "||", "=="):
            return False
    return False


# --- which names are types


def _declared_types(tokens: list[Token], texts: list[str]) -> set[str]:
    """Names that some declaration of the program makes a type."""
    found = set()
    for i, text in enumerate(texts):
        behind = texts[i + 1 : i + 4]
        if text in ("header", "struct", "header_union", "parser", "control", "package"):
            found.update(behind[:1])
        elif text == "extern" and len(behind) > 1 and (behind[1] == "{" or _ends_parameters(tokens, texts, i + 2) == "{"):
            found.add(behind[0])
        elif text in ("enum", "typedef") or (text == "type" and _declares_type(texts[i - 1] if i else "", behind)):
            end = "{" if text == "enum" else ";"
            j = next((j for j in range(i, min(i + 40, len(texts))) if texts[j] in (end, "}")), i)
            if texts[j] == end and tokens[j - 1].type == "IDENT":
                found.add(texts[j - 1])
    return found


def _ends_parameters(tokens: list[Token], texts: list[str], at: int) -> str:
    """What follows a list of type parameters that opens here; "" if none does."""
    if texts[at : at + 1] != ["<"]:
        return ""
    end = at + 1
    while end < len(texts) and (tokens[end].type == "IDENT" or texts[end] == ","):
        end += 1
    return texts[end + 1] if texts[end : end + 1] == [">"] and end + 1 < len(texts) else ""


def _type_parameters(tokens: list[Token], texts: list[str]) -> dict[int, frozenset[str]]:
    """By token: the type parameters that are names of types there, which are those of the declarations that it is part of."""
    found: dict[int, frozenset[str]] = {}
    for at, text in enumerate(texts):
        if text != "<" or at == 0 or tokens[at - 1].type != "IDENT" or _ends_parameters(tokens, texts, at) not in ("(", "{"):
            continue
        begin = at - 1
        while begin > 0 and texts[begin - 1] not in (";", "{", "}", "(", "=", ")"):
            begin -= 1
        if begin == at - 1 or texts[begin - 1] in ("(", "="):  # a call
            continue
        names = frozenset(texts[j] for j in range(at + 1, texts.index(">", at)) if tokens[j].type == "IDENT")
        for j in range(begin, _end_of_declaration(texts, at - 1)):
            found[j] = found.get(j, frozenset()) | names
    return found


def _end_of_declaration(texts: list[str], at: int) -> int:
    """Behind the block, or the semicolon, that ends the declaration whose name stands here."""
    depth = 0
    for j in range(at, len(texts)):
        depth += (texts[j] in ("(", "{")) - (texts[j] in (")", "}"))
        if depth == 0 and texts[j] in (";", "}"):
            return j + 1
    return len(texts)
