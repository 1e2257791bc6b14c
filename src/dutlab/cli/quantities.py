"""Types of options that are quantities. They use the parsers and the error messages of dutlab.units."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from dutlab.units import UnitError, parse_amount, parse_bit_rate, parse_byte_rate, parse_duration, parse_share


class Quantity(click.ParamType[float]):
    """Type of an option that is parsed by a function of dutlab.units."""

    def __init__(self, name: str, parse: Callable[[str], float]) -> None:
        self.name, self._parse = name, parse

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:  # noqa: ANN401 - click's signature
        if isinstance(value, (int, float)):
            return float(value)
        try:
            return self._parse(value)
        except UnitError as error:
            self.fail(str(error), param, ctx)


BIT_RATE = Quantity("rate", parse_bit_rate)
BYTE_RATE = Quantity("bytes/s", parse_byte_rate)
AMOUNT = Quantity("number", parse_amount)
DURATION = Quantity("duration", parse_duration)
SHARE = Quantity("percent", parse_share)
