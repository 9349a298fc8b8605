"""Options: Protobuf's own are set, custom ones stay uninterpreted for printing."""

from __future__ import annotations

from typing import Any

from google.protobuf.descriptor_pb2 import UninterpretedOption

from ottla.registry.schemas.protobuf.words import Words

# Maximum nesting of braces in an option's value.
_MAX_NESTING = 50


class OptionReader:
    def __init__(self, words: Words) -> None:
        self._words = words

    def statement(self, options: Any) -> None:
        """Parse the rest after the word `option`."""
        self.assignment(options)
        self._words.expect(";")

    def assignment(self, options: Any) -> None:
        words = self._words
        option = UninterpretedOption()
        while True:
            if words.take("("):
                option.name.add(name_part=words.type_name(), is_extension=True)
                words.expect(")")
            else:
                option.name.add(name_part=words.name(), is_extension=False)
            if not words.take("."):
                break
        words.expect("=")
        self._value(option)
        if not self._set(options, option):
            options.uninterpreted_option.append(option)

    def _value(self, option: UninterpretedOption) -> None:
        words = self._words
        if words.kind() == "text":
            option.string_value = words.string()
        elif words.at("{"):
            option.aggregate_value = self._aggregate()
        elif words.kind() == "name":
            option.identifier_value = words.next().text
        else:
            negative = words.take("-")
            words.take("+")
            if words.kind() == "name":
                option.double_value = float(("-" if negative else "") + words.name())
            elif words.kind() == "int":
                value = words.number()
                if negative:
                    option.negative_int_value = max(-value, -(2**63))
                elif value < 2**64:
                    option.positive_int_value = value
                else:
                    option.double_value = float(value)
            elif words.kind() == "float":
                option.double_value = float(words.next().text) * (-1 if negative else 1)
            else:
                raise words.error(f"expected the value of an option, not {words.shown()}")

    def _aggregate(self) -> str:
        words = self._words
        words.expect("{")
        parts: list[str] = []
        depth = 1
        while True:
            if words.at_end():
                raise words.error("the value of an option is not closed")
            token = words.next()
            if token.kind == "sign" and token.text in "{<[":
                depth += 1
                if depth > _MAX_NESTING:
                    raise words.error(f"the value of an option is nested deeper than {_MAX_NESTING} levels")
            elif token.kind == "sign" and token.text in "}>]":
                depth -= 1
                if not depth:
                    return " ".join(parts)
            if parts and parts[-1] == "-":
                parts[-1] += token.text
            else:
                parts.append(token.text)

    def _set(self, options: Any, option: UninterpretedOption) -> bool:
        """Set an option defined by Protobuf itself. Return False for others."""
        if len(option.name) != 1 or option.name[0].is_extension:
            return False
        name = option.name[0].name_part
        known = options.DESCRIPTOR.fields_by_name.get(name)
        if known is None:
            raise self._words.error(f"unknown option {name}: options of your own have parentheses")
        if known.is_repeated or known.message_type is not None:
            return False
        if options.HasField(name):
            raise self._words.error(f"the option {name} is set twice")
        try:
            setattr(options, name, self._plain(known, option))
        except (TypeError, ValueError, KeyError):
            raise self._words.error(f"the value of option {name} is of the wrong type") from None
        return True

    def _plain(self, known: Any, option: UninterpretedOption) -> Any:
        if known.enum_type is not None:
            return known.enum_type.values_by_name[option.identifier_value].number
        if known.type == known.TYPE_BOOL:
            return {"true": True, "false": False}[option.identifier_value]
        if known.type == known.TYPE_STRING:
            if not option.HasField("string_value"):
                raise TypeError
            return option.string_value.decode("utf-8")
        raise TypeError
