"""What can go wrong with the local model. Each message is one line, fit to be shown to a person."""

from __future__ import annotations


class LocalModelError(Exception):
    """Base of the three below: the local model cannot be used, and the message says what to do."""


class LocalExtraError(LocalModelError):
    """llama.cpp's server is not installed."""

    def __init__(self) -> None:
        super().__init__(
            "the local model needs an extra: pip install 'roundtable[local]' "
            "(from a checkout: pip install '.[local]')"
        )


class WeightsError(LocalModelError):
    """The model's weights are neither kept here nor could they be fetched."""


class LocalServerError(LocalModelError):
    """llama.cpp's server did not come up, or kept ending."""
