"""Candidates from servers that speak OpenAI's protocol: vLLM, TGI, llama.cpp, transformers serve and others.

rankings = server.generate("http://localhost:8000/v1", texts, utility="chrf", model="m", num_candidates=16)
"""

from .choosing import generate
from .generator import ServerGenerator
from .settings import Connection, ServerSettings

__all__ = ["Connection", "ServerGenerator", "ServerSettings", "generate"]
