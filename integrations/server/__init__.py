"""Candidates from servers that speak OpenAI's protocol: vLLM, TGI, llama.cpp, transformers serve and others.

Scores from servers are metrics: `score-server` and `score-server-qe`, in `score_server`.

rankings = server.generate("http://localhost:8000/v1", texts, utility="chrf", model="m", num_candidates=16)
"""

from .generator import ServerGenerator, generate
from .prompt_logprobs import ServerScorer
from .settings import Connection, ServerSettings

__all__ = ["Connection", "ServerGenerator", "ServerScorer", "ServerSettings", "generate"]
