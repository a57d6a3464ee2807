"""What is wrong where the parser could not go on, said as its author would see it."""

from __future__ import annotations

import re

from lark import Lark, Token, UnexpectedCharacters, UnexpectedInput, UnexpectedToken

from .advice import declared_nowhere, keyword
from .errors import CompileError, Position
from .preprocess import Source

BRACKETED = re.compile(r"//[^\n]*|/\*.*?\*/|\"(?:[^\"\\]|\\.)*\"", re.S)  # comments and strings
ONLY = {"SEMICOLON": "';'", "RPAR": "')'", "RBRACE": "'}'", "LBRACE": "'{'"}
NAMES = {"IDENT", "TYPE"}
REACH = 12  # tokens before an error, among which may be the word that made the parser take another way
TYPED = ("BIT", "INT", "VARBIT", "BOOL", "TYPE", "IDENT")  # what may stand behind the < of an undeclared type


def explained(error: UnexpectedInput, source: Source, parser: Lark) -> CompileError:
    position = source.position(error.line, error.column)
    if isinstance(error, UnexpectedCharacters) and error.char == '"':
        return CompileError(_string_of_lines(source) or position, "this string is never closed in its line")
    if isinstance(error, UnexpectedCharacters):
        return CompileError(position, f"a character that P4 does not have: {error.char!r}")
    if not isinstance(error, UnexpectedToken):
        return CompileError(position, "syntax error")
    before = _before(error.token, source, parser)
    if (opened := _open_comment(source)) is not None:
        return CompileError(opened, "this comment is never closed")
    strings = [t for t in [*before, error.token] if t.type == "STRING" and "\n" in t]
    if strings and strings[-1].end_line == (error.token.end_line if error.token is strings[-1] else error.token.line):
        return CompileError(_position(source, strings[-1]), "this string is never closed in its line; a syntax error follows")
    accepts = error.accepts - ({"SEMICOLON"} if before[-1:] == ["}"] else set())  # it is hardly what was meant
    if before and "SEMICOLON" in accepts and error.token.line != before[-1].end_line:
        return CompileError(source.position(before[-1].end_line, before[-1].end_column), "expected ';'")
    if error.token.type == "$END":
        return CompileError(position, "syntax error: the program ends too early")
    if error.token == "}" and "APPLY" in accepts:
        return CompileError(position, "expected apply { … }, which every control has")
    if error.accepts <= NAMES and error.token.type not in NAMES and re.fullmatch(r"[a-z_]+", error.token):
        return CompileError(position, f"{error.token} is a keyword of P4: choose another name")
    if (misspelt := _misspelt(error.token, before, parser, source)) is not None:
        word, meant = misspelt
        return CompileError(_position(source, word), f"syntax error at {str(word)!r}: did you mean {meant}?")
    if (unknown := _undeclared_type(error, before)) is not None:
        types = [str(t) for t in parser.lex(source.text) if t.type == "TYPE"]
        return CompileError(_position(source, unknown), declared_nowhere(str(unknown), types))
    wanted = [shown for name, shown in ONLY.items() if name in accepts]
    return CompileError(position, f"syntax error at {str(error.token)!r}" + (f", expected {wanted[0]}" if len(wanted) == 1 else ""))


def _open_comment(source: Source) -> Position | None:
    """Where a comment begins that does not end."""
    blank = BRACKETED.sub(lambda match: re.sub(r"[^\n]", " ", match[0]), source.text)
    at = blank.find("/*")
    return None if at < 0 else source.position(blank.count("\n", 0, at) + 1, at - blank.rfind("\n", 0, at))


def _string_of_lines(source: Source) -> Position | None:
    """Where the first string of several lines begins: its end may be what is missing."""
    for match in BRACKETED.finditer(source.text):
        if match[0].startswith('"') and "\n" in match[0]:
            at = match.start()
            return source.position(source.text.count("\n", 0, at) + 1, at - source.text.rfind("\n", 0, at))
    return None


def _position(source: Source, token: Token) -> Position:
    return source.position(token.line, token.column)


def _before(token: Token, source: Source, parser: Lark) -> list[Token]:
    """The tokens ahead of one."""
    tokens = list(parser.lex(source.text))
    if token.type == "$END":
        return tokens
    return [t for t in tokens if (t.start_pos or 0) < (token.start_pos or 0)]


def _misspelt(token: Token, before: list[Token], parser: Lark, source: Source) -> tuple[Token, str] | None:
    """A word at or just before the error that is nearly a keyword, and no name that the program uses; and the keyword."""
    words = [t for t in [*before[-REACH:], token] if t.type in ("IDENT", "ACTION")]
    names = [str(t) for t in parser.lex(source.text) if t.type == "IDENT"]
    for word in reversed(words):
        meant = "actions" if word == "action" and word is token else keyword(str(word))
        if meant is not None and names.count(str(word)) <= 1:
            return word, meant
    return None


def _undeclared_type(error: UnexpectedToken, before: list[Token]) -> Token | None:
    """The name that stands where only a type can, or that could only be followed as it is if it were one."""
    token: Token = error.token
    if token.type == "IDENT" and "TYPE" in error.accepts and "IDENT" not in error.accepts:
        return token
    if token.type == "IDENT" and before[-1:] and before[-1].type == "IDENT":
        return before[-1]
    if before[-1:] and before[-1].type == "IDENT" and token == "<" and before[-2:-1] != ["."]:
        return before[-1]
    if len(before) > 1 and before[-1] == "<" and token.type in TYPED and before[-2].type == "IDENT" and before[-3:-2] != ["."]:
        return before[-2]
    match before[-4:]:
        case [Token(value="<"), Token(type="IDENT") as name, Token(value=">"), Token(value="(")]:
            return name
    return None
