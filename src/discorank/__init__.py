"""discorank chooses the best of several candidate texts with document-level and discourse metrics.

    >>> import discorank
    >>> discorank.decode(["a cat sat", "the cat sat", "a dog"], utility="chrf").text
    'the cat sat'

The public names stand in ``__init__.pyi``. Each is imported when it is first used, so that ``import discorank`` loads
neither numpy nor torch.
"""

import lazy_loader

__version__ = "0.1.0"

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
