"""Candidate lists from servers that speak OpenAI's protocol: vLLM, TGI, llama.cpp, transformers serve and others.

generator = ServerGenerator(ServerSettings(model="m", num_candidates=16), Connection("http://localhost:8000/v1"))
lists = generator.generate([Prompt("0", "Translate into German: The dog sleeps.")])
"""

from .generator import ServerGenerator
from .settings import Connection, ServerSettings

__all__ = ["Connection", "ServerGenerator", "ServerSettings"]
